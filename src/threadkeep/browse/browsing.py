"""Browse: the captured history as surfaces show it, read and never written."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, timedelta, tzinfo
from typing import Final, Self

from threadkeep.base.clock import Clock, now_ms
from threadkeep.base.sqlite import Database
from threadkeep.base.tx import Tx
from threadkeep.browse import counting, details, listing, remembered, usages
from threadkeep.browse.counting import SessionCounts
from threadkeep.browse.dates import day_of, start_of
from threadkeep.browse.kept import AnswerCache
from threadkeep.browse.listing import ListContext, Matches
from threadkeep.browse.outlines import Outline, Prompt, read_outline, read_prompts
from threadkeep.browse.records import (
    BillingBlock,
    EntityRow,
    EntityView,
    Graph,
    NodePage,
    NodeView,
    ProjectRow,
    Query,
    SessionDetail,
    SessionPage,
    Spot,
    Today,
    UsageReport,
    Window,
)
from threadkeep.browse.sums import tokens_of
from threadkeep.browse.windows import find_in, position_in, read_texts, read_window, span
from threadkeep.capture.archived import ArchivedEntries
from threadkeep.knowledge.layout import names
from threadkeep.knowledge.lessons import Lesson, list_lessons
from threadkeep.knowledge.reading import CapturedSession
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.sources.records import Source

EVERYTHING: Final = Query()
# Entries of a session whose prompts are all read to show one window; of 10,000 that takes 50 ms.
_READ_WHOLE: Final = 2_000
_MOST_TEXT: Final = 16_000_000  # characters of a session that are kept to be searched again
_MOST_NEW: Final = 10_000  # entries that one look at what is new goes through
_SHOWN_TODAY: Final = 20


class Browse:
    """The read model of all surfaces, over one knowledge store; safe to share between threads."""

    def __init__(
        self,
        store: KnowledgeStore,
        sources: Mapping[str, Source],
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
        return (f"nothing was captured into {self.database.path} yet",)

    @contextmanager
    def _reading(self) -> Iterator[ListContext]:
        with self.database.read() as tx:
            yield ListContext(tx, names(tx, "table"), self.sources, self.clock(), self.zone)

    # ------------------------------------------------------------------ lists

    def sessions(
        self, query: Query = EVERYTHING, *, after: str | None = None, limit: int = 50
    ) -> SessionPage:
        """List the sessions that a query means, the latest first; `after` is a page's `next`."""
        with self._reading() as around:
            if "tk_sessions" not in around.tables:
                return SessionPage((), None)
            found = self._matches(around, query, deep=after is not None)
            return listing.list_page(around, query, found, after, limit)

    def count(self, query: Query = EVERYTHING) -> int | None:
        """Count the sessions that a query means; None where that would take long."""
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
                lambda: counting.count(around, query, self._matches(around, query)),
            )

    def _matches(self, around: ListContext, query: Query, *, deep: bool = False) -> Matches | None:
        """Find the words of a query; `deep` goes through more of what has a common word."""
        if not query.words.strip():
            return None

        def make() -> Matches:
            return listing.find_matches(around.tx, around.tables, query.words, deep=deep)

        return self._found.latest((query.words, deep), _mark(around.tx), make)

    # ------------------------------------------------------------------ one session

    def session(self, ref: str) -> SessionDetail:
        """Give a session by `harness:session_id` or a beginning of its id, with its turns."""
        with self._reading() as around:
            found = details.find(self.store.context, around.tx, around.tables, ref)
            outline = self._outline(around, found)
            prompts = self._prompts_of(around, found, outline)
            return details.read_detail(self.store.context, around, found, outline, prompts)

    def window(
        self,
        ref: str,
        *,
        at: str | int | None = None,
        before: int | None = None,
        after: int | None = None,
        limit: int = 100,
    ) -> Window:
        """Give consecutive blocks of a session: around a key or position, before or after one.

        Without any of them the session's beginning is given.
        """
        with self._reading() as around:
            found = details.find(self.store.context, around.tx, around.tables, ref)
            outline = self._outline(around, found)
            place = position_in(outline, found, at)
            part = span(outline.total, place, before, after, limit)
            small = outline.total <= _READ_WHOLE
            prompts = self._prompts_of(around, found, outline) if small else ()
            return read_window(ArchivedEntries(around.tx, self.sources), outline, part, prompts)

    def find(self, ref: str, words: str, limit: int = 200) -> list[Spot]:
        """Find words in one session, in its order; any text may be looked for."""
        with self._reading() as around:
            found = details.find(self.store.context, around.tx, around.tables, ref)
            if not words.split() or limit < 1:
                return []
            outline = self._outline(around, found)
            texts = self._texts_of(around, found, outline)
            return find_in(around.tx, found, outline, texts, words, limit)

    def _texts_of(
        self, around: ListContext, session: CapturedSession, outline: Outline
    ) -> Iterable[str]:
        """Give the texts of a session; who types what to find asks for them at every letter."""

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
            return read_prompts(archive, outline, details.PROMPT_WIDTH)

        return self._prompts.get(self._version(around, session), make)

    def _version(self, around: ListContext, session: CapturedSession) -> tuple[object, ...]:
        """Name the state of a session: an entry that comes or changes has a new number."""
        newest = around.tx.value("browse_newest_of", {"session": session.id})
        return session.id, session.entries, session.ended_at, newest

    # ------------------------------------------------------------------ what is new

    def mark(self) -> int:
        """Give the number of the newest entry, for `changed_since`."""
        with self._reading() as around:
            return _mark(around.tx) if "tk_entries" in around.tables else 0

    def changed_since(self, mark: int) -> tuple[int, tuple[str, ...]]:
        """Give the new mark, and the sessions that have newer entries than the old one."""
        with self._reading() as around:
            if "tk_entries" not in around.tables:
                return 0, ()
            rows = around.tx.all("browse_changed", {"mark": mark, "limit": _MOST_NEW})
            return _mark(around.tx), tuple(f"{harness}:{name}" for harness, name in rows)

    # ------------------------------------------------------------------ sums

    def usage(self, query: Query = EVERYTHING, *, zone: tzinfo | None = None) -> UsageReport:
        """Sum up tokens and cost of a query's sessions, subagents included."""
        changes = self.database.changes()
        within = zone or self.zone
        with self._reading() as around:

            def make() -> UsageReport:
                if "tk_usage" not in around.tables:
                    return usages.report(usages.NOTHING)
                found = self._matches(around, query)
                return usages.report(usages.read_spent(around, query, found, within))

            return self._answers.latest(("usage", query, str(within)), changes, make)

    def activity(self, query: Query = EVERYTHING, days: int = 365) -> dict[str, int]:
        """Give the tokens of each of the last days that has some."""
        today = day_of(self.clock(), self.zone)
        first = (today - timedelta(days=max(0, days - 1))).isoformat()
        # All days, though some are not asked for: it is what the sums beside it are made of.
        return {day: n for day, n in usages.by_day(self.usage(query)).items() if day >= first}

    def blocks_report(
        self, query: Query = EVERYTHING, now: int | None = None
    ) -> list[BillingBlock]:
        """Give the five-hour blocks of a query's answers, the oldest first, gaps between them."""
        with self._reading() as around:
            if "tk_usage" not in around.tables:
                return []
            found = self._matches(around, query)
            return usages.read_blocks(around, query, found, around.now if now is None else now)

    def block_now(self, query: Query = EVERYTHING, now: int | None = None) -> BillingBlock | None:
        """Give the five-hour block that runs now, as of this minute; None if there is none."""
        changes = self.database.changes()
        with self._reading() as around:
            if "tk_usage" not in around.tables:
                return None
            moment = around.now if now is None else now

            def make() -> BillingBlock | None:
                found = self._matches(around, query)
                return usages.read_active(around, query, found, moment)

            return self._answers.latest(("block", query), (changes, moment // 60_000), make)

    def today(self, now: int | None = None) -> Today:
        """Tell what happened since midnight, what is live, and what was last."""
        with self._reading() as around:
            moment = around.now if now is None else now
            since = start_of(day_of(moment, self.zone), self.zone)
            return _today(around._replace(now=moment), since)

    # ------------------------------------------------------------------ memory

    def nodes(
        self,
        *,
        text: str = "",
        project: str | None = None,
        outcome: str | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> NodePage:
        """List what was learned, the newest first; `after` is a page's `next`."""
        asked = remembered.NodeFilter(text, project, outcome, self.clock())
        with self.database.read(lenient=True) as tx:
            return remembered.list_nodes(tx, asked, after, limit)

    def node(self, name: int | str) -> NodeView:
        """Give a piece of knowledge by its number or uuid, with what it rests on."""
        with self.database.read(lenient=True) as tx:
            archived = "tk_sessions" in names(tx, "table")
            return remembered.read_node(tx, name, archived=archived)

    def entities(
        self,
        *,
        text: str = "",
        type: str | None = None,  # noqa: A002  (what the contract calls it)
        limit: int = 100,
    ) -> list[EntityRow]:
        """List what knowledge mentions, the most often mentioned first."""
        with self.database.read(lenient=True) as tx:
            return remembered.list_entities(tx, text, type, limit)

    def entity(self, number: int) -> EntityView:
        """Give something that knowledge mentions, with its nodes and neighbours."""
        with self.database.read(lenient=True) as tx:
            return remembered.read_entity(tx, number)

    def graph(self, limit: int = 150) -> Graph:
        """Give the entities that are mentioned most, and what ties them."""
        with self.database.read(lenient=True) as tx:
            return remembered.read_graph(tx, limit)

    def lessons(self, limit: int = 100) -> list[Lesson]:
        """Give the failures that came back, the most frequent first."""
        with self.database.read(lenient=True) as tx:
            return list_lessons(tx, limit=limit)

    def projects(self) -> list[ProjectRow]:
        """List the projects that sessions were about, the latest first."""
        changes = self.database.changes()
        with self._reading() as around:
            if "tk_sessions" not in around.tables:
                return []
            return self._answers.latest(
                "projects", changes, lambda: remembered.list_projects(around.tx)
            )

    # ------------------------------------------------------------------ the end

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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
    spent = usages.report(usages.read_spent(around, day, None, UTC)).total
    live = listing.list_page(around, Query(marks=("live",)), None, None, _SHOWN_TODAY)
    recent = listing.list_page(around, EVERYTHING, None, None, _SHOWN_TODAY)
    return Today(
        sessions=counting.count(around, day, None).sessions or 0,
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
