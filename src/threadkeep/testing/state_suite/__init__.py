"""The session store of Hermes as a suite of tests: sessions, messages, titles, search.

Give a fixture `state_factory` and write `from threadkeep.testing.state_suite import *` in a test
module. Each test names the section of Hermes's page on session storage (schema version 6) that it
proves, and says the clause. All clauses hold for the original program: what it does not do is none.
"""

from threadkeep.testing.state_suite.messages import *
from threadkeep.testing.state_suite.search import *
from threadkeep.testing.state_suite.sessions import *
from threadkeep.testing.state_suite.titles import *
