"""The chat store of Grida's agent guide as a suite of tests: sessions, messages, parts, streams.

Give a fixture `chat_factory` and write `from threadkeep.testing.chat_suite import *` in a test
module. Each test names the section of the guide's page on persistency that it proves, and says the
clause.
"""

from threadkeep.testing.chat_suite.messages import *
from threadkeep.testing.chat_suite.parts import *
from threadkeep.testing.chat_suite.sessions import *
from threadkeep.testing.chat_suite.streams import *
