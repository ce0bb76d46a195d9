"""The contract of mailboxes, clause by clause: the suite that others run, too."""

from threadkeep.testing.mailbox_suite import *  # noqa: F403
