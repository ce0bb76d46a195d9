"""The captured history: sessions of all agents, transcripts, what they used; forgetting."""

from collections.abc import Iterator
from zoneinfo import ZoneInfo

import msgspec

from threadkeep.base.verb_table import Given
from threadkeep.base.verbs import Moment
from threadkeep.capture.coverage import Coverage
from threadkeep.capture.forget import ForgetReport
from threadkeep.capture.forget_selection import refuse_mixture
from threadkeep.errors import Invalid
from threadkeep.home.stores import Stores
from threadkeep.knowledge.query import Query, format_query
from threadkeep.knowledge.records import Kind as EntryKind, Outcome, Role
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


class OneSession(Given, frozen=True):
    """A session: `agent:id`, or the beginning of an id."""

    session: Name


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


def parse(stores: Stores, asked: SessionFilterRequest) -> ParsedQuery:
    """Say what a text of the filter bar means."""
    query = query_of(stores, asked)
    return ParsedQuery(query, format_query(query, ZoneInfo(stores.home.zone)))


def raw(stores: Stores, asked: OneSession) -> Lines:
    """Give the lines of a session as its agent wrote them, secrets masked."""

    def lines() -> Iterator[str]:
        history = stores.history("look")
        found = history.find(asked.session)
        yield from (one.decode("utf-8", "replace") for one in history.raw(found))

    return Lines(lines())


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
    verb("GET", "/sessions/parse", parse),
    verb("GET", f"{_ONE}/raw", raw),
    verb("GET", "/coverage", coverage),
    verb("POST", "/forget", forget),
)
