"""Memory as those see it who answer from it."""

from typing import Protocol

from threadkeep.capture.transcripts import Sources
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.recall.records import Filters, HitDetail, RecallResult


class MemoryReader(Protocol):
    """What can be asked, and what opens what was found."""

    @property
    def store(self) -> KnowledgeStore:
        """The knowledge file."""

    @property
    def sources(self) -> Sources:
        """The sources, by which the archive is read."""

    def recall(
        self, text: str, filters: Filters = ..., *, limit: int = ..., explain: bool = ...
    ) -> RecallResult:
        """Find what was said, done and seen."""

    def open(self, ref: str, around: int = ...) -> HitDetail:
        """Give the thing behind a hit."""
