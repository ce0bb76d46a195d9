"""The captured history: sessions of all agents, transcripts, what they used; forgetting."""

from collections.abc import Iterator
from zoneinfo import ZoneInfo

import msgspec

from threadkeep.base.limits import Moment, Number
from threadkeep.base.page import Cursor, Limit, Page, page_of
from threadkeep.base.verb_table import Given
from threadkeep.capture.coverage import Coverage
from threadkeep.capture.forget import ForgetReport
from threadkeep.capture.forget_selection import refuse_mixture
from threadkeep.errors import Invalid
from threadkeep.home.stores import Stores
from threadkeep.knowledge.query import Query, format_query
from threadkeep.knowledge.records import Kind as EntryKind, Outcome, Role
from threadkeep.knowledge.results import (
    BillingBlock,
    ProjectRow,
    SessionDetail,
    SessionPage,
    Spot,
    Today,
    UsageReport,
    Window,
)
from threadkeep.web.api.verb import (
    ApiVerb,
    DryRun,
    Empty,
    Lines,
    Name,
    Names,
    Words,
    query_of,
    verb,
)


class SessionFilterRequest(Given, frozen=True):
    """Which sessions: fields, and `q` in the filter language: `agent:codex cost:>1 docker`."""

    q: Words = ""
    session: Names = ()
    agent: Names = ()
    project: Names = ()
    branch: Names = ()
    model: Names = ()
    role: tuple[Role, ...] = ()
    part: tuple[EntryKind, ...] = ()
    tool: Names = ()
    outcome: tuple[Outcome, ...] = ()
    entity: Name | None = None
    parent: Name | None = None
    since: Moment | None = None
    until: Moment | None = None


class SessionListRequest(SessionFilterRequest, frozen=True):
    """Which sessions, and which page of them."""

    limit: Limit = 50
    cursor: Cursor = ""


class OneSession(Given, frozen=True):
    """A session: `agent:id`, or the beginning of an id."""

    session: Name


class TranscriptRequest(Given, frozen=True):
    """A part of a transcript: around a key or position, before or after a position."""

    session: Name
    at: Name | None = None
    before: Number | None = None
    after: Number | None = None
    limit: Limit = 100


class FindIn(Given, frozen=True):
    """Words to find in one session."""

    session: Name
    q: Words
    limit: Limit = 200


class ForgetWhat(Given, frozen=True):
    """What to forget, said in one way: sessions, a project, a time, a pattern, or a filter."""

    q: Words = ""
    session: tuple[Name, ...] = ()
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


class ListPage(Given, frozen=True):
    """Which page of a list."""

    limit: Limit = 50
    cursor: Cursor = ""


def sessions(stores: Stores, asked: SessionListRequest) -> SessionPage:
    """List captured sessions of all agents, the latest first."""
    query = query_of(stores, asked)
    return stores.browse().sessions(query, after=asked.cursor or None, limit=asked.limit)


def facets(stores: Stores, asked: SessionFilterRequest) -> dict[str, list[tuple[str, int]]]:
    """Count sessions by agent, project, model and branch."""
    return stores.browse().facets(query_of(stores, asked))


def parse(stores: Stores, asked: SessionFilterRequest) -> ParsedQuery:
    """Say what a text of the filter bar means."""
    query = query_of(stores, asked)
    return ParsedQuery(query, format_query(query, ZoneInfo(stores.home.zone)))


def session(stores: Stores, asked: OneSession) -> SessionDetail:
    """Give a session with its turns, what they used, its subagents and its resume command."""
    return stores.browse().session(asked.session)


def window(stores: Stores, asked: TranscriptRequest) -> Window:
    """Give some consecutive messages of a session; without a position its beginning."""
    at: str | int | None = asked.at
    if asked.at is not None and asked.at.isascii() and asked.at.isdigit():
        at = min(int(asked.at), 2**53)
    where = stores.browse()
    return where.window(
        asked.session, at=at, before=asked.before, after=asked.after, limit=asked.limit
    )


def find(stores: Stores, asked: FindIn) -> Page[Spot]:
    """Find words in one session, in its order."""
    return Page(stores.browse().find(asked.session, asked.q, asked.limit))


def raw(stores: Stores, asked: OneSession) -> Lines:
    """Give the lines of a session as its agent wrote them, secrets masked."""

    def lines() -> Iterator[str]:
        history = stores.history("look")
        found = history.find(asked.session)
        yield from (one.decode("utf-8", "replace") for one in history.raw(found))

    return Lines(lines())


def usage(stores: Stores, asked: SessionFilterRequest) -> UsageReport:
    """Sum up tokens and cost by day, model, project, agent and hour."""
    return stores.browse().usage(query_of(stores, asked))


def activity(stores: Stores, asked: SessionFilterRequest) -> dict[str, int]:
    """Give the tokens of each day of the last year."""
    return stores.browse().activity(query_of(stores, asked))


def blocks(stores: Stores, asked: SessionFilterRequest) -> Page[BillingBlock]:
    """Give the five-hour blocks of subscriptions, with the gaps between them."""
    return Page(stores.browse().blocks_report(query_of(stores, asked)))


def today(stores: Stores, _: Empty) -> Today:
    """Tell what happened since midnight, what is live, and what was last."""
    return stores.browse().today()


def projects(stores: Stores, asked: ListPage) -> Page[ProjectRow]:
    """List projects, the one used last first."""
    found = stores.browse().projects()
    return page_of(
        found,
        lambda one: (one.last_at or 0, one.name),
        asked.limit,
        asked.cursor,
        newest_first=True,
    )


def coverage(stores: Stores, _: Empty) -> Coverage:
    """Compare what is on the disk with what is in the store."""
    history = stores.history("look")
    return history.coverage()


# ---------------------------------------------------------------------- forgetting


def forget(stores: Stores, _: Empty, body: ForgetWhat) -> WouldGo:
    """Take captured work out for good; say `dry_run: false` to do it."""
    what = _what(stores, body)
    would_go = stores.history("look").forget(what, dry_run=True)
    if body.dry_run:  # else what is wrong with it was told before we write
        return WouldGo(body.dry_run, would_go)
    _collect_first(stores)
    return WouldGo(body.dry_run, stores.history("change").forget(what))


def _what(stores: Stores, body: ForgetWhat) -> Query:
    said = Query(
        session=body.session,
        project=() if body.project is None else (body.project,),
        agent=() if body.agent is None else (body.agent,),
        since=body.since,
        until=body.until,
        pattern=body.pattern,
    )
    if not body.q.strip():
        refuse_mixture(said)
        return said
    if said != Query():
        raise Invalid("that is said in two ways", hint="give q, or other fields")
    return query_of(stores, body)


def _collect_first(stores: Stores) -> None:
    """Bring in what shells and browsers left: it could not be forgotten else."""
    with stores.home.observations(stores.db, must_exist=True) as observations:
        observations.collect()


_ONE = "/sessions/{session}"
VERBS: tuple[ApiVerb, ...] = (
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
