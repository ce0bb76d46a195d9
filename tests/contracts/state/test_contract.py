"""The contract of session stores, clause by clause: the suite that others run, too."""

from threadkeep.testing.state_suite import *  # noqa: F403
