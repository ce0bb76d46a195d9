"""What is asked of memory from outside: each question with plain arguments and their limits."""

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta

from threadkeep.base.clock import now_ms
from threadkeep.base.page import Cursor, Limit, Page, page_before, read_cursor, write_cursor
from threadkeep.base.verbs import Moment, Name, Text, Words, with_limits
from threadkeep.errors import Invalid
from threadkeep.home.opening import answering
from threadkeep.knowledge.memory_documents import MemoryFilter, MemoryPart, MemoryRevision
from threadkeep.knowledge.query import EVERYTHING, Kind, Query
from threadkeep.knowledge.search_scope import NodeChoice
from threadkeep.memory.agent_query import AgentAnswer, AgentMode, of_contract_source
from threadkeep.memory.ask import Answer
from threadkeep.memory.fixed import Fix
from threadkeep.memory.records import HitDetail, RecallResult
from threadkeep.memory.timeline import Moment as Happened

if TYPE_CHECKING:
    from threadkeep.home.stores import Stores

Few = Annotated[int, Meta(ge=1, le=50)]
Near = Annotated[int, Meta(ge=0, le=50)]
Characters = Annotated[int, Meta(ge=200, le=100_000)]
_MOST_SEEN: Final = 2_000  # hits that a question is followed through, page by page

Offset = Annotated[int, Meta(ge=0, le=1_000_000)]


class NoteList(msgspec.Struct, frozen=True):
    """What notes say now."""

    results: list[MemoryPart]
    truncated: bool


class RevisionList(msgspec.Struct, frozen=True):
    """What became of a note, the newest first."""

    results: list[MemoryRevision]
    truncated: bool


@with_limits
class Questions:
    """Memory as it is asked over HTTP, by a remote client and by agents."""

    def __init__(self, stores: "Stores") -> None:
        self._memory = stores.memory()
        self._home = stores.home

    def recall(
        self,
        text: Words,
        within: Query = EVERYTHING,
        *,
        kind: Sequence[Kind] = (),
        category: Name | None = None,
        include_excluded: bool = False,
        limit: Limit = 10,
        explain: bool = False,
        newest: bool = False,
        all_hits: Annotated[
            bool, Meta(description="Every hit, instead of the best of each session.")
        ] = False,
        cursor: Cursor | None = None,
    ) -> RecallResult:
        """Find what answers a question best: messages, commands, visits, runs, what was learned."""
        first = int(read_cursor(cursor, int)[0]) if cursor else 0
        behind = first + limit
        if not 0 <= first <= behind <= _MOST_SEEN:
            raise Invalid(
                f"recall lists at most {_MOST_SEEN:,} hits", hint="try other words, or filters"
            )
        found = self._memory.recall(
            text,
            msgspec.structs.replace(within, kind=tuple(kind)) if kind else within,
            nodes=NodeChoice(category=category, excluded=include_excluded),
            limit=behind + 1,
            explain=explain,
            newest=newest,
            fold="nothing" if all_hits else "session",
        )
        more = write_cursor([behind]) if len(found.hits) > behind else None
        return msgspec.structs.replace(found, hits=found.hits[first:behind], next=more)

    def open(self, ref: Name, around: Near = 3) -> HitDetail:
        """Open a hit in full, with what comes before and after it."""
        memory = self._memory
        return memory.open(ref, around)

    def ask(
        self,
        question: Text,
        *,
        project: Name | None = None,
        limit: Few = 8,
        model: Annotated[
            bool, Meta(description="Let the configured model write the answer, if there is one.")
        ] = False,
        include_excluded: bool = False,
    ) -> Answer:
        """Answer a question with passages quoted from what was recorded."""
        return self._memory.ask(
            question,
            within=_of_project(project),
            nodes=NodeChoice(excluded=include_excluded),
            limit=limit,
            answer_with=answering(self._home, self._memory) if model else None,
            zone=ZoneInfo(self._home.zone),
        )

    def fixed(self, error: Text, *, project: Name | None = None, limit: Few = 10) -> list[Fix]:
        """Find how an error was fixed before; the best evidence first."""
        return self._memory.fixed(error, within=_of_project(project), limit=limit)

    def similar(self, what: Words, *, project: Name | None = None, limit: Few = 10) -> RecallResult:
        """Find what is similar to a hit, named by its ref, or to a text."""
        return self._memory.similar(what, within=_of_project(project), limit=limit)

    def context(
        self,
        about: Text,
        *,
        project: Name | None = None,
        limit: Few = 8,
        max_chars: Characters = 4000,
    ) -> str:
        """Build a fenced block for a prompt from what is remembered; empty if nothing is."""
        memory, within = self._memory, _of_project(project)
        return memory.context(about, within=within, limit=limit, max_chars=max_chars)

    def timeline(
        self,
        *,
        day: Annotated[
            str, Meta(max_length=10, description="One day: 2026-03-01, today or yesterday.")
        ]
        | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        project: Name | None = None,
        limit: Limit = 100,
        cursor: Cursor | None = None,
    ) -> Page[Happened]:
        """List what happened: commands, agents' turns, visits, CI and commits, the latest first."""
        zone = ZoneInfo(self._home.zone)
        if day is not None:
            if since is not None or until is not None:
                msg = "day cannot be combined with since or until"
                raise Invalid(msg, hint="give one of them")
            since, until = _span_of(day, zone)

        def fetch(before: int | None, count: int) -> list[Happened]:
            last = until if before is None else before
            within = msgspec.structs.replace(_of_project(project), since=since, until=last)
            return self._memory.timeline(within=within, zone=zone, limit=count)[::-1]

        def key(one: Happened) -> tuple[int, str]:
            return one.at, f"{one.kind} {one.ref}"

        return page_before(fetch, key, limit, cursor, str)

    def agent_query(
        self,
        query: Text,
        *,
        mode: AgentMode = "known",
        agent: Name | None = None,
        source: Annotated[
            Name, Meta(description="What the nodes rest on, in the words of Hippo's tool.")
        ]
        | None = None,
        since: Moment | None = None,
        project: Name | None = None,
        branch: Name | None = None,
        limit: Limit = 10,
        include_excluded: bool = False,
    ) -> AgentAnswer:
        """Answer with what is known, its evidence, how fresh it is, and how certain."""
        asked = Query(project=_one(project), branch=_one(branch), agent=_one(agent), since=since)
        within, nodes = of_contract_source(asked, source)
        nodes = msgspec.structs.replace(nodes, excluded=include_excluded)
        return self._memory.agent_query(query, within, nodes=nodes, mode=mode, limit=limit)

    def notes(
        self,
        query: Words = "",
        *,
        repository: Words = "",
        category: Words = "",
        logical_path: Words = "",
        document_uuid: Words = "",
        since: Moment | None = None,
        limit: Limit = 20,
        offset: Offset = 0,
        include_non_queryable: bool = False,
        include_source_path: bool = False,
    ) -> NoteList:
        """Return the current text of Claude's notes."""
        asked = MemoryFilter(
            query,
            *(repository, category, logical_path, document_uuid, since, limit, offset),
            unpublished=include_non_queryable,
            paths=include_source_path,
        )
        return NoteList(*self._memory.store.nodes.memories(asked))

    def revisions(
        self,
        *,
        repository: Words = "",
        logical_path: Words = "",
        document_uuid: Words = "",
        limit: Limit = 50,
        include_source_path: bool = False,
    ) -> RevisionList:
        """Return the revisions of one of Claude's notes."""
        asked = MemoryFilter(
            repository=repository,
            logical_path=logical_path,
            document_uuid=document_uuid,
            limit=limit,
            paths=include_source_path,
        )
        return RevisionList(*self._memory.store.nodes.memory_history(asked))


def _one(value: str | None) -> tuple[str, ...]:
    return () if value is None else (value,)


def _of_project(project: str | None) -> Query:
    return Query(project=_one(project))


def _span_of(day: str, zone: ZoneInfo) -> tuple[int, int]:
    today = dt.datetime.fromtimestamp(now_ms() / 1000, zone).date()
    named = {"today": today, "yesterday": today - dt.timedelta(days=1)}
    try:
        date = named.get(day) or dt.date.fromisoformat(day)
        first = dt.datetime.combine(date, dt.time.min, zone)
        after = first + dt.timedelta(days=1)
        return int(first.timestamp() * 1000), int(after.timestamp() * 1000)
    except (ValueError, OverflowError):
        raise Invalid(f"{day!r} is not a day", hint="write 2026-03-01") from None
