"""The captured history: sessions of all agents, transcripts, what they used; forgetting."""

from collections.abc import Iterator
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from threadkeep.base.clock import now_ms
from threadkeep.capture.coverage import Coverage
from threadkeep.capture.forget import ForgetReport
from threadkeep.capture.forget_selection import Forget
from threadkeep.errors import Invalid
from threadkeep.home.stores import Stores
from threadkeep.knowledge.query import Query, format_query, parse_query
from threadkeep.knowledge.results import (
    BillingBlock,
    ProjectRow,
    SessionDetail,
    SessionSummary,
    Spot,
    Today,
    UsageReport,
    Window,
)
from threadkeep.web.api.verb import (
    Cursor,
    DryRun,
    Empty,
    Limit,
    Lines,
    Moment,
    Name,
    Number,
    ResultPage,
    Strict,
    Verb,
    Words,
    has_knowledge,
    page_of,
    reading_history,
    verb,
)


class SessionFilterRequest(Strict, frozen=True):
    """Which sessions, in the language of the filter bar: `agent:codex cost:>1 docker`."""

    q: Words = ""


class SessionListRequest(Strict, frozen=True):
    """Which sessions, in the language of the filter bar, and which page of them."""

    q: Words = ""
    limit: Limit = 50
    cursor: Cursor = ""


class OneSession(Strict, frozen=True):
    """A session: `agent:id`, or the beginning of an id."""

    session: Name


class TranscriptRequest(Strict, frozen=True):
    """A part of a transcript: around a key or position, before or after a position."""

    session: Name
    at: Name | None = None
    before: Number | None = None
    after: Number | None = None
    limit: Limit = 100


class FindIn(Strict, frozen=True):
    """Words to find in one session."""

    session: Name
    q: Words
    limit: Limit = 200


class ForgetWhat(Strict, frozen=True):
    """What to forget, said in one way: sessions, a project, a span of time, or a pattern."""

    sessions: tuple[Name, ...] = ()
    project: Name | None = None
    since: Moment | None = None
    until: Moment | None = None
    pattern: Name | None = None
    agent: Name | None = None
    dry_run: DryRun = True


class WouldGo(msgspec.Struct, frozen=True):
    """What was forgotten, or would be."""

    dry_run: bool
    forgotten: ForgetReport


class ParsedQuery(msgspec.Struct, frozen=True):
    """What a text of the filter bar means, and how it is written shortest."""

    query: Query
    text: str


class ListPage(Strict, frozen=True):
    """Which page of a list."""

    limit: Limit = 50
    cursor: Cursor = ""


def query_of(stores: Stores, text: str) -> Query:
    """Read what was typed into the filter bar."""
    return parse_query(text, now_ms(), ZoneInfo(stores.home.zone))


def sessions(stores: Stores, asked: SessionListRequest) -> ResultPage[SessionSummary]:
    """List captured sessions of all agents, the latest first."""
    if not has_knowledge(stores):
        return ResultPage([])
    query = query_of(stores, asked.q)
    page = stores.browse().sessions(query, after=asked.cursor or None, limit=asked.limit)
    return ResultPage(page.items, page.next)


def facets(stores: Stores, asked: SessionFilterRequest) -> dict[str, list[tuple[str, int]]]:
    """Count sessions by agent, project, model and branch."""
    if not has_knowledge(stores):
        return {}
    return stores.browse().facets(query_of(stores, asked.q))


def parse(stores: Stores, asked: SessionFilterRequest) -> ParsedQuery:
    """Say what a text of the filter bar means."""
    query = query_of(stores, asked.q)
    return ParsedQuery(query, format_query(query, ZoneInfo(stores.home.zone)))


def session(stores: Stores, asked: OneSession) -> SessionDetail:
    """Give a session with its turns, what they used, its subagents and its resume command."""
    return stores.browse().session(asked.session)


def window(stores: Stores, asked: TranscriptRequest) -> Window:
    """Give some consecutive blocks of a transcript; without a place its beginning."""
    at: str | int | None = asked.at
    if asked.at is not None and asked.at.isascii() and asked.at.isdigit():
        at = min(int(asked.at), 2**53)
    where = stores.browse()
    return where.window(
        asked.session, at=at, before=asked.before, after=asked.after, limit=asked.limit
    )


def find(stores: Stores, asked: FindIn) -> ResultPage[Spot]:
    """Find words in one session, in its order."""
    return ResultPage(stores.browse().find(asked.session, asked.q, asked.limit))


def raw(stores: Stores, asked: OneSession) -> Lines:
    """Give the lines of a session as its program wrote them, secrets masked."""

    def lines() -> Iterator[str]:
        with reading_history(stores) as history:
            found = history.find(asked.session)
            yield from (one.decode("utf-8", "replace") for one in history.raw(found))

    return Lines(lines())


def usage(stores: Stores, asked: SessionFilterRequest) -> UsageReport:
    """Sum up tokens and cost by day, model, project, agent and hour."""
    return stores.browse().usage(query_of(stores, asked.q))


def activity(stores: Stores, asked: SessionFilterRequest) -> dict[str, int]:
    """Give the tokens of each day of the last year."""
    return stores.browse().activity(query_of(stores, asked.q))


def blocks(stores: Stores, asked: SessionFilterRequest) -> ResultPage[BillingBlock]:
    """Give the five-hour blocks of subscriptions, with the gaps between them."""
    return ResultPage(stores.browse().blocks_report(query_of(stores, asked.q)))


def today(stores: Stores, _: Empty) -> Today:
    """Tell what happened since midnight, what is live, and what was last."""
    return stores.browse().today()


def projects(stores: Stores, asked: ListPage) -> ResultPage[ProjectRow]:
    """List projects, the one used last first."""
    found = stores.browse().projects() if has_knowledge(stores) else []
    return page_of(found, lambda one: (one.last_at or 0, one.name), asked, newest_first=True)


def coverage(stores: Stores, _: Empty) -> Coverage:
    """Compare what is on the disk with what is in the store."""
    with reading_history(stores) as history:
        return history.coverage()


# ---------------------------------------------------------------------- forgetting


def forget(stores: Stores, _: Empty, body: ForgetWhat) -> WouldGo:
    """Take captured work out for good; say `dry_run: false` to do it."""
    _refuse_mixture(body)
    with reading_history(stores) as history:
        ids = tuple(history.find(name, body.agent).session_id for name in body.sessions)
        given: dict[str, Any] = {**msgspec.structs.asdict(body), "sessions": ids}
        del given["dry_run"]
        given["harness"] = given.pop("agent")
        if body.dry_run:
            return WouldGo(body.dry_run, history.forget(Forget(**given), dry_run=True))
    _collect_first(stores)
    return WouldGo(body.dry_run, stores.history().forget(Forget(**given)))


def _refuse_mixture(body: ForgetWhat) -> None:
    """Want exactly one way of saying what is meant: with two, "and" and "or" look alike."""
    if (body.since is None) != (body.until is None):
        raise Invalid("a span of time has two ends", hint="give since and until")
    ways = (body.sessions, body.project, body.since is not None, body.pattern)
    if sum(map(bool, ways)) != 1:
        hint = "give one of sessions, project, pattern, or since with until"
        raise Invalid("what to forget must be said in one way", hint=hint)


def _collect_first(stores: Stores) -> None:
    """Bring in what shells and browsers left: it could not be forgotten else."""
    with stores.home.observations(stores.db, must_exist=True) as observations:
        observations.collect()


_ONE = "/sessions/{session}"
VERBS: tuple[Verb, ...] = (
    verb("GET", "/sessions", sessions, kept=True),
    verb("GET", "/sessions/facets", facets, kept=True),
    verb("GET", "/sessions/parse", parse),
    verb("GET", _ONE, session, kept=True),
    verb("GET", f"{_ONE}/window", window, kept=True),
    verb("GET", f"{_ONE}/find", find, kept=True),
    verb("GET", f"{_ONE}/raw", raw),
    verb("GET", "/usage", usage, kept=True),
    verb("GET", "/usage/activity", activity, kept=True),
    verb("GET", "/usage/blocks", blocks, kept=True),
    verb("GET", "/usage/today", today, kept=True),
    verb("GET", "/projects", projects, kept=True),
    verb("GET", "/coverage", coverage),
    verb("POST", "/forget", forget),
)
