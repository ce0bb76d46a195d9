"""Browse: the captured history as surfaces show it, read and never written."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import UTC, timedelta, tzinfo
from typing import Annotated, Any, Final, NamedTuple, Self, TypeVar

import msgspec
from msgspec import Meta

from threadkeep.base.clock import Clock, now_ms
from threadkeep.base.database import Database
from threadkeep.base.page import Cursor, Limit, Page, page_before, page_of
from threadkeep.base.tx import Tx
from threadkeep.base.verbs import LARGEST, Number, RowId, with_limits
from threadkeep.knowledge import session_detail, session_list, usage, views
from threadkeep.knowledge.archived import ArchivedEntries
from threadkeep.knowledge.command_list import CommandRow, StoredVisit
from threadkeep.knowledge.labels import with_labels
from threadkeep.knowledge.lessons import Lesson, list_lessons
from threadkeep.knowledge.prices import tokens_of
from threadkeep.knowledge.query import EVERYTHING, Query, day_of, start_of
from threadkeep.knowledge.records import CapturedSession, Readers
from threadkeep.knowledge.results import (
    BillingBlock,
    EntityRow,
    EntityView,
    Graph,
    NodePage,
    NodeView,
    ProjectRow,
    SessionDetail,
    SessionPage,
    Split,
    Spot,
    Today,
    UsageReport,
    Window,
)
from threadkeep.knowledge.session_list import SessionCounts
from threadkeep.knowledge.session_sql import ListContext, Matches
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.knowledge.transcript import (
    Outline,
    Prompt,
    find_in,
    position_in,
    read_outline,
    read_prompts,
    read_texts,
    read_window,
    span,
)
from threadkeep.knowledge.typed_sql import (
    RowLimit,
    Sql,
    SqlAnswer,
    SqlTable,
    run_sql,
    sql_tables,
)
from threadkeep.knowledge.workflow_runs import RunDetails, RunRow

# ------------------------------------------------------------------------------
# Answers that are remembered: the latest few, for readers in several threads.

_KEPT: Final = 32
_LONG: Final = 0.2  # seconds of work from which on an answer is worth being a little old
_WORTH: Final = 20  # times its work: making it again takes at most a twentieth of one core

T = TypeVar("T")
Seconds = Callable[[], float]
Days = Annotated[int, Meta(ge=0, le=36_500)]
Many = Annotated[int, Meta(ge=1, le=1000)]
_NAMED: Final = "Its name as lists give it (agent:id), an id, or a beginning of one."
CapturedRef = Annotated[str, Meta(description=_NAMED)]


class _Made(NamedTuple):
    value: Any
    version: object
    work: float
    at: float
    weight: int


class AnswerCache:
    """Remembers the latest answers, at most so many, or so much where they have a weight."""

    def __init__(
        self,
        size: int = _KEPT,
        now: Seconds = time.monotonic,
        work: Seconds = time.thread_time,
        *,
        worth: float = _WORTH,  # 0: nothing is ever given after its version is over
        weigh: Callable[[Any], int] = lambda _: 1,
    ) -> None:
        self._size = size
        self._now = now
        self._work = work
        self._worth = worth
        self._weigh = weigh
        self._weight = 0
        self._guard = threading.Lock()
        self._made: dict[Any, _Made] = {}
        self._making: dict[Any, Future[Any]] = {}

    def get(self, key: object, make: Callable[[], T]) -> T:
        """Return what is remembered under a key, or make it."""
        return self.latest(key, None, make)

    def latest(self, key: object, version: object, make: Callable[[], T]) -> T:
        """Return what was made of a version, or make it.

        What took long to make is given for a while after its version is over: where somebody
        writes all the time, it would be made all the time.
        """
        with self._guard:
            found = self._made.pop(key, None)
            if found is not None:
                self._made[key] = found
        if found is not None and (found.version == version or self._is_worth(found)):
            value: T = found.value
            return value
        return self._shared(key, version, make)

    def _shared(self, key: object, version: object, make: Callable[[], T]) -> T:
        """Make an answer, or wait for who makes it already: of two at once, one does the work."""
        mine: Future[T] = Future()
        with self._guard:
            found = self._made.get(key)
            if found is not None and found.version == version:  # made in this very moment
                mine.set_result(found.value)
                return mine.result()
            made: Future[T] = self._making.setdefault((key, version), mine)
        if made is not mine:
            return made.result()
        try:
            began = self._work()
            value = make()
            weight = self._weigh(value)
            self._put(key, _Made(value, version, self._work() - began, self._now(), weight))
            mine.set_result(value)
        except BaseException as error:
            mine.set_exception(error)
            raise
        finally:
            with self._guard:
                del self._making[key, version]
        return value

    def _is_worth(self, found: _Made) -> bool:
        return found.work >= _LONG and self._now() - found.at < found.work * self._worth

    def _put(self, key: object, made: _Made) -> None:
        with self._guard:
            self._drop(key)
            if made.weight > self._size:
                return  # all others would go for it, and it as well
            self._made[key] = made
            self._weight += made.weight
            while self._weight > self._size:
                self._drop(next(iter(self._made)))

    def _drop(self, key: object) -> None:
        gone = self._made.pop(key, None)
        if gone is not None:
            self._weight -= gone.weight


# Entries of a session whose prompts are all read to show one window; of 10,000 that takes 50 ms.
_READ_WHOLE: Final = 2_000
_MOST_TEXT: Final = 16_000_000  # characters of a session that are kept to be searched again
_MOST_NEW: Final = 10_000  # entries that one look at what is new goes through
_SHOWN_TODAY: Final = 20
_ALL: Final = 100_000


@with_limits
class Browse:
    """The read model of all surfaces, over one knowledge store; safe to share between threads."""

    def __init__(
        self,
        store: KnowledgeStore,
        sources: Readers,
        zone: tzinfo = UTC,
        clock: Clock = now_ms,
    ) -> None:
        self.store = store
        self.sources = sources
        self.zone = zone
        self.clock = clock
        self._outlines = AnswerCache(8)
        self._prompts = AnswerCache(8)
        self._texts = AnswerCache(1)
        self._found = AnswerCache(6)  # of a common word up to 200,000 sessions
        self._answers = AnswerCache()

    @property
    def database(self) -> Database:
        """The database, to wait for changes of."""
        return self.store.context.db

    @property
    def notes(self) -> tuple[str, ...]:
        """What cannot be shown of this file, and why; empty if all can."""
        with self._reading() as around:
            if "tk_sessions" in around.tables:
                return ()
        return (f"nothing was captured into {self.database.name} yet",)

    @contextmanager
    def _reading(self) -> Iterator[ListContext]:
        with self.database.read() as tx:
            yield ListContext(tx, tx.tables(), self.sources, self.clock(), self.zone)

    # ------------------------------------------------------------------ lists

    def sessions(
        self, query: Query = EVERYTHING, *, cursor: Cursor | None = None, limit: Limit = 50
    ) -> SessionPage:
        """List the sessions that match a query, the latest first."""
        with self._reading() as around:
            if "tk_sessions" not in around.tables:
                return SessionPage((), None)
            found = self._matches(around, query, deep=cursor is not None)
            return session_list.list_page(around, query, found, cursor, limit)

    def count(self, query: Query = EVERYTHING) -> int | None:
        """Count the sessions that match a query; None if that would take too long."""
        return self._counted(query).sessions

    def facets(self, query: Query = EVERYTHING) -> dict[str, list[tuple[str, int]]]:
        """Count the sessions of a query by agent, project, model and branch."""
        return self._counted(query).facets

    def _counted(self, query: Query) -> SessionCounts:
        changes = self.database.changes()
        with self._reading() as around:
            if "tk_sessions" not in around.tables:
                return SessionCounts(0, {})
            # What is live depends on the time as well.
            moment = around.now // 60_000 if "live" in query.marks else 0
            return self._answers.latest(
                ("counted", query),
                (changes, moment),
                lambda: session_list.count(around, query, self._matches(around, query)),
            )

    def _matches(self, around: ListContext, query: Query, *, deep: bool = False) -> Matches | None:
        """Find the words of a query; `deep` goes through more of what has a common word."""
        if not query.text.strip():
            return None

        def make() -> Matches:
            return session_list.find_matches(
                around.tx, around.tables, query.text, deep=deep, narrow=narrow
            )

        narrow = query != Query(text=query.text)
        return self._found.latest((query.text, deep, narrow), _mark(around.tx), make)

    # ------------------------------------------------------------------ one session

    def session(self, ref: CapturedRef) -> SessionDetail:
        """Return a session by `agent:session_id` or a prefix of its id, with its turns."""
        with self._reading() as around:
            found = session_detail.find(self.store.context, around.tx, around.tables, ref)
            outline = self._outline(around, found)
            prompts = self._prompts_of(around, found, outline)
            return session_detail.read_detail(around, found, outline, prompts)

    def window(
        self,
        ref: CapturedRef,
        *,
        at: str | int | None = None,
        before: Number | None = None,
        after: Annotated[int, Meta(ge=-1, le=LARGEST)] | None = None,
        limit: Many = 100,
    ) -> Window:
        """Return consecutive messages of a session: around a key or position, before or after one.

        Without any of them the session's beginning is given.
        """
        with self._reading() as around:
            found = session_detail.find(self.store.context, around.tx, around.tables, ref)
            outline = self._outline(around, found)
            if isinstance(at, str) and at.isascii() and at.isdigit():
                at = min(int(at), LARGEST)
            place = position_in(outline, found, at)
            part = span(outline.total, place, before, after, limit)
            small = outline.total <= _READ_WHOLE
            prompts = self._prompts_of(around, found, outline) if small else ()
            archive = ArchivedEntries(around.tx, self.sources)
            return with_labels(around.tx, found, read_window(archive, outline, part, prompts))

    def find(self, ref: CapturedRef, words: str, limit: Many = 200) -> list[Spot]:
        """Find words in one session, in its order; accepts any text."""
        with self._reading() as around:
            found = session_detail.find(self.store.context, around.tx, around.tables, ref)
            if not words.split() or limit < 1:
                return []
            outline = self._outline(around, found)
            texts = self._texts_of(around, found, outline)
            return find_in(around.tx, found, outline, texts, words, limit)

    def _texts_of(
        self, around: ListContext, session: CapturedSession, outline: Outline
    ) -> Iterable[str]:
        """Return the texts of a session; who types what to find asks for them at every letter."""

        def make() -> tuple[str, ...] | None:
            texts, size = [], 0
            for text in read_texts(ArchivedEntries(around.tx, self.sources), outline):
                texts.append(text)
                size += len(text)
                if size > _MOST_TEXT:
                    return None
            return tuple(texts)

        kept = self._texts.get(self._version(around, session), make)
        if kept is not None:
            return kept
        return read_texts(ArchivedEntries(around.tx, self.sources), outline)

    def _outline(self, around: ListContext, session: CapturedSession) -> Outline:
        key = self._version(around, session)
        return self._outlines.get(key, lambda: read_outline(around.tx, session))

    def _prompts_of(
        self, around: ListContext, session: CapturedSession, outline: Outline
    ) -> tuple[Prompt, ...]:
        def make() -> tuple[Prompt, ...]:
            archive = ArchivedEntries(around.tx, self.sources)
            return read_prompts(archive, outline, session_detail.PROMPT_WIDTH)

        return self._prompts.get(self._version(around, session), make)

    def _version(self, around: ListContext, session: CapturedSession) -> tuple[object, ...]:
        """Name the state of a session: an entry that comes or changes has a new number."""
        newest = around.tx.value("browse_newest_of", {"session": session.id})
        return session.id, session.entries, session.ended_at, newest

    # ------------------------------------------------------------------ what is new

    def mark(self) -> int:
        """Return the number of the newest entry, for `changed_since`."""
        with self._reading() as around:
            return _mark(around.tx) if "tk_entries" in around.tables else 0

    def changed_since(self, mark: int) -> tuple[int, tuple[str, ...]]:
        """Return the new mark, and the sessions that have newer entries than the old one."""
        with self._reading() as around:
            if "tk_entries" not in around.tables:
                return 0, ()
            rows = around.tx.all("browse_changed", {"mark": mark, "limit": _MOST_NEW})
            return _mark(around.tx), tuple(f"{harness}:{name}" for harness, name in rows)

    # ------------------------------------------------------------------ sums

    def usage(
        self,
        query: Query = EVERYTHING,
        *,
        zone: tzinfo | None = None,
        sessions: bool = False,
        split: Split = "model",
    ) -> UsageReport:
        """Sum up tokens and cost of a query's sessions, including subagents; each on request.

        The sums of a day are by model, or `split` by project or agent.
        """
        changes = self.database.changes()
        within = zone or self.zone
        with self._reading() as around:

            def make() -> UsageReport:
                if "tk_usage" not in around.tables:
                    return usage.report(usage.NOTHING)
                found = self._matches(around, query)
                report = usage.report(usage.read_spent(around, query, found, within), split)
                return usage.with_sessions(report, around, query, found) if sessions else report

            return self._answers.latest(
                ("usage", query, str(within), sessions, split), changes, make
            )

    def activity(self, query: Query = EVERYTHING, days: Days = 365) -> dict[str, int]:
        """Return the tokens of each of the last days that has any."""
        today = day_of(self.clock(), self.zone)
        first = (today - timedelta(days=max(0, days - 1))).isoformat()
        # All days, though some are not asked for: it is what the sums beside it are made of.
        return {day: n for day, n in usage.by_day(self.usage(query)).items() if day >= first}

    def blocks_report(
        self, query: Query = EVERYTHING, now: Number | None = None
    ) -> list[BillingBlock]:
        """Return the five-hour blocks of a query's answers, the oldest first, gaps between them."""
        with self._reading() as around:
            if "tk_usage" not in around.tables:
                return []
            found = self._matches(around, query)
            return usage.read_blocks(around, query, found, around.now if now is None else now)

    def block_now(
        self, query: Query = EVERYTHING, now: Number | None = None
    ) -> BillingBlock | None:
        """Return the current five-hour block, as of this minute; None if there is none."""
        changes = self.database.changes()
        with self._reading() as around:
            if "tk_usage" not in around.tables:
                return None
            moment = around.now if now is None else now

            def make() -> BillingBlock | None:
                found = self._matches(around, query)
                return usage.read_active(around, query, found, moment)

            return self._answers.latest(("block", query), (changes, moment // 60_000), make)

    def today(self, now: Number | None = None) -> Today:
        """Return what happened since midnight, what is live, and what came last."""
        with self._reading() as around:
            moment = around.now if now is None else now
            since = start_of(day_of(moment, self.zone), self.zone)
            return _today(around._replace(now=moment), since)

    # ------------------------------------------------------------------ memory

    def nodes(
        self, query: Query = EVERYTHING, *, cursor: Cursor | None = None, limit: Limit = 50
    ) -> NodePage:
        """List what was learned, the newest first."""
        with self.database.read(lenient=True) as tx:
            return views.list_nodes(tx, query, self.clock(), cursor, limit)

    def node(self, name: int | str) -> NodeView:
        """Return a node by its number or uuid, with its evidence."""
        with self.database.read(lenient=True) as tx:
            archived = "tk_sessions" in tx.tables()
            return views.read_node(tx, name, archived=archived)

    def entities(
        self,
        *,
        text: str = "",
        type: str | None = None,  # noqa: A002  (what the contract calls it)
        limit: Number = 100,
    ) -> list[EntityRow]:
        """List entities, the most often mentioned first."""
        with self.database.read(lenient=True) as tx:
            return views.list_entities(tx, text, type, limit)

    def entity(self, number: RowId) -> EntityView:
        """Return an entity, with its nodes and related entities."""
        with self.database.read(lenient=True) as tx:
            return views.read_entity(tx, number)

    def graph(self, limit: Annotated[int, Meta(ge=1, le=300)] = 150) -> Graph:
        """Return the most often mentioned entities, and the relations between them."""
        with self.database.read(lenient=True) as tx:
            return views.read_graph(tx, limit)

    def lessons(self, limit: Number = 100) -> list[Lesson]:
        """Return recurring failures, the most frequent first."""
        with self.database.read(lenient=True) as tx:
            return list_lessons(tx, limit=limit)

    def projects(self) -> list[ProjectRow]:
        """List the projects that sessions were about, the latest first."""
        changes = self.database.changes()
        with self._reading() as around:
            if "tk_sessions" not in around.tables:
                return []
            return self._answers.latest("projects", changes, lambda: views.list_projects(around.tx))

    # ------------------------------------------------------------------ pages

    def project_page(self, *, limit: Limit = 50, cursor: Cursor | None = None) -> Page[ProjectRow]:
        """List projects, the last used first, one page at a time."""
        found = self.projects()
        return page_of(
            found, lambda one: (one.last_at or 0, one.name), limit, cursor, newest_first=True
        )

    def entity_page(
        self,
        *,
        text: str = "",
        type: str | None = None,  # noqa: A002  (what the contract calls it)
        limit: Limit = 50,
        cursor: Cursor | None = None,
    ) -> Page[EntityRow]:
        """List entities, the most often mentioned first, one page at a time."""
        found = self.entities(text=text, type=type, limit=_ALL)
        return page_of(found, lambda one: (one.nodes, one.id), limit, cursor, newest_first=True)

    def lesson_page(self, *, limit: Limit = 50, cursor: Cursor | None = None) -> Page[Lesson]:
        """List recurring failures, the most frequent first, one page at a time."""
        found = self.lessons(_ALL)
        return page_of(
            found, lambda one: (one.occurrences, one.id), limit, cursor, newest_first=True
        )

    def commands(
        self, query: Query = EVERYTHING, *, limit: Limit = 50, cursor: Cursor | None = None
    ) -> Page[CommandRow]:
        """List commands of shells and tools, the latest first."""

        def fetch(until: int | None, count: int) -> list[CommandRow]:
            return views.commands(self.store, _before(query, until), count)

        return page_before(fetch, lambda one: (one.timestamp, one.id), limit, cursor)

    def visits(
        self,
        query: Query = EVERYTHING,
        *,
        domain: str | None = None,
        limit: Limit = 50,
        cursor: Cursor | None = None,
    ) -> Page[StoredVisit]:
        """List web pages that were read, the latest first."""

        def fetch(until: int | None, count: int) -> list[StoredVisit]:
            return views.visits(self.store, _before(query, until), domain, count)

        return page_before(fetch, lambda one: (one.timestamp, one.id), limit, cursor)

    def runs(
        self, query: Query = EVERYTHING, *, limit: Limit = 50, cursor: Cursor | None = None
    ) -> Page[RunRow]:
        """List runs of CI, the newest first."""
        return page_of(
            views.ci_runs(self.store, query, _ALL),
            lambda one: (one.started_at or one.first_seen_at, one.id),
            limit,
            cursor,
            newest_first=True,
        )

    def run(self, run: RowId) -> RunDetails:
        """Return a run of CI with its jobs and their output."""
        return views.ci_run(self.store, run)

    # ------------------------------------------------------------------ typed queries

    def select(self, sql: Sql, *, limit: RowLimit = 1000) -> SqlAnswer:
        """Run one SELECT over the tables of the file, read-only, for 5 seconds at most."""
        return run_sql(self.database, sql, limit)

    def tables(self) -> list[SqlTable]:
        """List the tables that `select` can query, with their columns."""
        return sql_tables(self.database)

    # ------------------------------------------------------------------ the end

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _before(query: Query, until: int | None) -> Query:
    """Narrow a query to what is older than a page."""
    ends = [at for at in (query.until, until) if at is not None]
    return msgspec.structs.replace(query, until=min(ends, default=None))


def _mark(tx: Tx) -> int:
    return int(tx.value("last_entry_id") or 0)


def _today(around: ListContext, since: int) -> Today:
    counted = {
        kind: int(around.tx.value(f"browse_{kind}_since", {"since": since}) or 0)
        for kind, table in _COUNTED.items()
        if table in around.tables
    }
    if "tk_sessions" not in around.tables:
        return Today(0, tokens=0, cost=0, live=(), recent=(), **{**_NONE, **counted})
    day = Query(since=since)
    spent = usage.report(usage.read_spent(around, day, None, UTC)).total
    live = session_list.list_page(around, Query(marks=("live",)), None, None, _SHOWN_TODAY)
    recent = session_list.list_page(around, EVERYTHING, None, None, _SHOWN_TODAY)
    return Today(
        sessions=session_list.count(around, day, None).sessions or 0,
        tokens=tokens_of(spent),
        cost=spent.cost,
        live=live.items,
        recent=recent.items,
        **{**_NONE, **counted},
    )


_COUNTED: Final = {
    "messages": "tk_entries",
    "commands": "events",
    "pages": "browser_events",
    "runs": "workflow_runs",
}
_NONE: Final = dict.fromkeys(_COUNTED, 0)
