"""The contract of knowledge stores, clause by clause: the suite that others run, too."""

from threadkeep.testing.knowledge_suite import *  # noqa: F403
