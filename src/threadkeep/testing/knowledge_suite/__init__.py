"""The knowledge file of Hippo as a suite of tests: what was captured, tickets, nodes, health.

Give a fixture `knowledge_factory` and write `from threadkeep.testing.knowledge_suite import *` in a
test module. The contract is a schema that several programs write to, so that these tests write rows
as any of them would and ask nothing of a store but its tables. Each test names the part of Hippo's
schema reference (version 18) that it proves, and says the clause.
"""

from threadkeep.testing.knowledge_suite.captures import *
from threadkeep.testing.knowledge_suite.health import *
from threadkeep.testing.knowledge_suite.nodes import *
from threadkeep.testing.knowledge_suite.tickets import *
