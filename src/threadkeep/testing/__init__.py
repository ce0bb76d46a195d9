"""Stores for tests, whatever engine keeps them, and the four contracts as suites of tests.

A factory makes stores of one contract with a clock that only the test moves, and takes them away
when its `with` block ends. `pytest_plugins = ["threadkeep.testing"]`, or
`pytest -p threadkeep.testing`, gives a fixture for each; `chat_suite`, `state_suite`,
`mailbox_suite` and `knowledge_suite` are the contracts. Only these and the plugin load pytest.

PYTEST_DONT_REWRITE: it may be imported before it is a plugin, and asserts nothing.
"""

from threadkeep.testing.clock import NOON, ManualClock
from threadkeep.testing.factories import (
    FACTORIES,
    ChatFactory,
    KnowledgeFactory,
    MailboxFactory,
    MailPair,
    MailroomFactory,
    StateFactory,
    StoreFactory,
    contents,
    place_of,
    raw,
    rows,
)

pytest_plugins = ["threadkeep.testing.plugin"]

__all__ = [
    "FACTORIES",
    "NOON",
    "ChatFactory",
    "KnowledgeFactory",
    "MailPair",
    "MailboxFactory",
    "MailroomFactory",
    "ManualClock",
    "StateFactory",
    "StoreFactory",
    "contents",
    "place_of",
    "raw",
    "rows",
]
