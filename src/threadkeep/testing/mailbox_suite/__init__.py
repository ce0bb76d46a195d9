"""The mailbox of NanoClaw as a suite of tests: mail in, mail out, numbers, acks, state.

Give a fixture `mailbox_factory` and write `from threadkeep.testing.mailbox_suite import *` in a
test module. Each test names the section of NanoClaw's page on the two databases of a session that
it proves, and says the clause.
"""

from threadkeep.testing.mailbox_suite.acks import *
from threadkeep.testing.mailbox_suite.inbound import *
from threadkeep.testing.mailbox_suite.outbound import *
from threadkeep.testing.mailbox_suite.places import *
