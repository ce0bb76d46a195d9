"""Memory: everything in a knowledge file, asked in plain words and opened at its place."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import msgspec

from threadkeep.base.clock import Clock, now_ms
from threadkeep.base.config import RecallSettings
from threadkeep.errors import Busy, StorageFull
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.records import Readers
from threadkeep.knowledge.search_scope import ANY_NODE, NodeChoice
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.memory.recall import RecallRequest, meant, recall_in
from threadkeep.memory.records import Fold, HitDetail, Meaning, RecallResult

if TYPE_CHECKING:
    from threadkeep.memory.agent_query import AgentAnswer
    from threadkeep.memory.ask import Answer
    from threadkeep.memory.fixed import Fix
    from threadkeep.memory.timeline import Moment
    from threadkeep.sources.records import Source


ANYTHING: Final = Query()
DEFAULTS: Final = RecallSettings()
_MOST_BEHIND: Final = 20_000  # rows that a question indexes itself
_MOST: Final = 100_000  # hits; no question has more candidates


class Memory:
    """The memory of one store; with `meaning` it also finds what says the same in other words."""

    def __init__(
        self,
        store: KnowledgeStore,
        sources: "Mapping[str, Source]",
        settings: RecallSettings = DEFAULTS,
        clock: Clock = now_ms,
        meaning: Meaning | None = None,
        zone: tzinfo = UTC,
        *,
        include_excluded: bool = False,
    ) -> None:
        self.store = store
        self.sources = sources
        self.settings = settings
        self.clock = clock
        self.meaning = meaning
        self.zone = zone
        self.include_excluded = include_excluded  # whatever a question says

    def without_meaning(self) -> "Memory":
        """Return the same memory without comparison by meaning."""
        parts = (self.store, self.sources, self.settings, self.clock)
        return Memory(*parts, zone=self.zone, include_excluded=self.include_excluded)

    def recall(
        self,
        text: str,
        within: Query = ANYTHING,
        *,
        nodes: NodeChoice = ANY_NODE,
        limit: int = 10,
        explain: bool = False,
        newest: bool = False,
        fold: Fold = "text",
    ) -> RecallResult:
        """Find what answers a question best; any text is accepted, `within` restricts the hits.

        What has all words comes first; `newest` orders by time. Without words, the newest is given.
        What says the same is shown once, with a count; with `fold="session"` the best hit of a
        session stands for all of its hits, with "nothing" every hit is shown. `explain` says why
        each hit stands where it does.
        """
        self._catch_up()
        now = self.clock()
        most = min(max(0, limit), _MOST)
        if self.include_excluded:
            nodes = msgspec.structs.replace(nodes, excluded=True)
        about = (explain, self.settings, now, self.zone, newest, fold)
        asked = RecallRequest(text, within, nodes, most, *about)
        compared = meant(self.meaning, text)
        with self.store.read() as tx:
            return recall_in(tx, self.sources, asked, compared)

    def open(self, ref: str, around: int = 3) -> HitDetail:
        """Open a hit in its context, with a number of neighbours on each side."""
        from threadkeep.memory.opened import open_ref  # noqa: PLC0415  (loaded when it is used)

        with self.store.read(lenient=True) as tx:
            return open_ref(tx, self.sources, ref, around)

    def index(self, limit: int | None = None) -> int:
        """Index what is new or has changed, at most `limit` rows; return the number of rows."""
        return self.store.index(limit)

    def _catch_up(self) -> None:
        """Index some of what nobody has captured, such as another program's rows.

        A question does not wait for a writer: what is not indexed yet is found without its
        neighbours, or the next time.
        """
        with suppress(Busy, StorageFull):
            self.store.index(_MOST_BEHIND, budget=0)

    # ------------------------------------------------------------------ what others make of it

    def ask(self, question: str, **options: Any) -> "Answer":
        """Answer a question with quoted passages (see `memory.ask.ask`)."""
        from threadkeep.memory.ask import ask  # noqa: PLC0415

        return ask(self, question, **options)

    def timeline(self, **options: Any) -> "list[Moment]":
        """List what happened, in order (see `memory.timeline.timeline`)."""
        from threadkeep.memory.timeline import timeline  # noqa: PLC0415

        return timeline(self, **options)

    def fixed(self, error: str, **options: Any) -> "list[Fix]":
        """Find how an error was fixed before (see `memory.fixed.fixed`)."""
        from threadkeep.memory.fixed import fixed  # noqa: PLC0415

        return fixed(self, error, **options)

    def similar(self, what: str, **options: Any) -> RecallResult:
        """Find what is similar to a hit or a text (see `memory.context.similar`)."""
        from threadkeep.memory.context import similar  # noqa: PLC0415

        return similar(self, what, **options)

    def agent_query(self, query: str, within: Query = ANYTHING, **options: Any) -> "AgentAnswer":
        """Answer with evidence, freshness and confidence (see `memory.agent_query`)."""
        from threadkeep.memory.agent_query import agent_query  # noqa: PLC0415

        return agent_query(self, query, within, **options)

    def context(self, query: str, **options: Any) -> str:
        """Build a fenced block for a prompt (see `recall.context_block.context`)."""
        from threadkeep.memory.context import context  # noqa: PLC0415

        return context(self, query, **options)

    def close(self) -> None:
        """Release the model, if there is one, and close the store."""
        if self.meaning is not None:
            self.meaning.embedder.close()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# ------------------------------------------------------------------------------
# Memory as those see it who answer from it.


class MemoryReader(Protocol):
    """The verbs that answer questions, and those that open hits."""

    @property
    def store(self) -> KnowledgeStore:
        """The knowledge file."""

    @property
    def sources(self) -> Readers:
        """The sources, by which the archive is read."""

    @property
    def clock(self) -> Clock:
        """The clock."""

    def recall(
        self,
        text: str,
        within: Query = ...,
        *,
        nodes: NodeChoice = ...,
        limit: int = ...,
        explain: bool = ...,
        newest: bool = ...,
        fold: Fold = ...,
    ) -> RecallResult:
        """Find what was said, done and seen."""

    def open(self, ref: str, around: int = ...) -> HitDetail:
        """Return what a hit refers to."""
