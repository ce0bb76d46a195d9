"""The contract of chat stores, clause by clause: the suite that others run, too."""

from threadkeep.testing.chat_suite import *  # noqa: F403
