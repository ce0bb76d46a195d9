"""What the verbs of the knowledge store work with."""

from collections.abc import Callable
from typing import NamedTuple

from threadkeep.base.sqlite import Database
from threadkeep.knowledge.opening import Access


class KnowledgeContext(NamedTuple):
    """The open file, and the clock in epoch milliseconds."""

    db: Database
    access: Access
    clock: Callable[[], int]
