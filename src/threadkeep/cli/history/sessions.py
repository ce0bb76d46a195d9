"""How the commands of the captured history open it, and which sessions they are asked about."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import click
import msgspec

from threadkeep.base.text import pattern
from threadkeep.cli.command import Call, Function, store_command
from threadkeep.cli.options import (
    OneOf,
    agent_option,
    complete_captured,
    limit_option,
    query_options,
)
from threadkeep.cli.output import is_terminal, note, one_line, paging, table
from threadkeep.cli.words import Json, none_has, one_name, project_of, session_json, when
from threadkeep.errors import Conflict, Invalid, NotFound

if TYPE_CHECKING:
    from threadkeep.capture.capture import History
    from threadkeep.knowledge.copies import Links
    from threadkeep.knowledge.query import Field, Query
    from threadkeep.knowledge.records import CapturedSession
    from threadkeep.knowledge.results import Sum
    from threadkeep.knowledge.transcript import SessionArchive


_LAST = "last"
_LOOKED_AT = 5000  # sessions, for a title
_SHOWN = 5
_REF = pattern(r"(?:message|command|visit|page|run|node|lesson|commit):\d+")
_SHORT = (8, 13, 18, 23)  # ids are cut where the groups of a UUID end


def looking(call: Call) -> "SessionArchive":
    """Open the captured sessions to look at them; close it after use."""
    from threadkeep.home.opening import open_archive

    return open_archive(call.home, call.db)


class LogPlaces(NamedTuple):
    """Where logs are looked for: below another home, and below further folders of projects."""

    user_home: str | None = None
    roots: tuple[str, ...] = ()


@contextmanager
def comparing(call: Call, where: LogPlaces) -> Iterator["History"]:
    """Open the history to compare it with the disk; where there is none, an empty one for now."""
    if call.home.has("knowledge", call.db):
        with call.home.history(
            call.db, read_only=True, user_home=where.user_home, roots=where.roots
        ) as history:
            history.store.need_captured()
            yield history
        return
    import tempfile

    with tempfile.TemporaryDirectory(prefix="threadkeep-") as folder:
        empty = Path(folder) / "knowledge.db"
        with call.home.history(empty, user_home=where.user_home, roots=where.roots) as history:
            yield history


# ---------------------------------------------------------------------- one session


def session_argument(function: Function) -> Function:
    """Add the argument that names a session, and the option that tells agents apart."""
    agent = agent_option("The session's agent.")
    named = click.argument("session", default=_LAST, shell_complete=complete_captured)
    return named(agent(function))


def find(history: "SessionArchive", name: str, agent: str | None) -> "CapturedSession":
    """Return the session that is meant: an id or its beginning, `agent:id`, a title, or `last`.

    A day, such as `yesterday`, means the latest session of that day.
    """
    if name != _LAST:
        return _named(history, name, agent)
    newest = history.sessions(_of(agent), limit=1)
    if not newest:
        raise NotFound("No sessions captured yet", hint="`threadkeep capture` brings them in")
    return newest[0]


def _named(history: "SessionArchive", name: str, agent: str | None) -> "CapturedSession":
    try:
        return history.find(name, agent)
    except NotFound:
        if _REF.fullmatch(name):
            msg = f"{name!r} names one message or event, not a session"
            raise Invalid(msg, hint=f"`threadkeep open {name}` opens it") from None
        found = _titled(history, name, agent) or _of_day(history, name, agent)
        if not found:
            raise
    if len(found) == 1:
        return found[0]
    ids = ", ".join(f"{one.agent}:{one.session_id}" for one in found[:_SHOWN])
    raise Conflict(f"several sessions match {name!r}: {ids}", hint="give one id")


def _titled(history: "SessionArchive", name: str, agent: str | None) -> list["CapturedSession"]:
    """Find sessions by their title, or by a beginning of it, among the latest ones."""
    wanted = name.casefold()
    latest = history.sessions(_of(agent, everything=True), limit=_LOOKED_AT)
    named = [(one_line(one.name).casefold(), one) for one in latest]
    return [one for called, one in named if called == wanted] or [
        one for called, one in named if wanted and called.startswith(wanted)
    ]


def _of_day(history: "SessionArchive", name: str, agent: str | None) -> list["CapturedSession"]:
    """Return the latest session of a day, a week or a month; none where the name is neither."""
    from threadkeep.cli.times import day_span

    span = day_span(name)
    if span is None:
        return []
    found = history.sessions(
        msgspec.structs.replace(_of(agent), since=span[0], until=span[1]), limit=1
    )
    if not found:
        raise NotFound(f"No sessions from {name}", hint="`threadkeep sessions` lists them")
    return found


def _of(agent: str | None, *, everything: bool = False) -> "Query":
    from threadkeep.knowledge.query import Query

    return Query(agent=(agent,) if agent else (), marks=("all",) if everything else ())


def short_id(history: "SessionArchive", session: "CapturedSession") -> str:
    """Return the shortest beginning of an id that still means this session alone."""
    whole = session.session_id
    for length in (length for length in _SHORT if length < len(whole)):
        if _is_found(history, whole[:length], session):
            return whole[:length]
    return whole if _is_found(history, whole, session) else f"{session.agent}:{whole}"


def _is_found(history: "SessionArchive", name: str, session: "CapturedSession") -> bool:
    try:
        return history.find(name).id == session.id
    except (Conflict, NotFound):
        return False


# ------------------------------------------------------------------------------
# `threadkeep sessions`: what was captured, the latest first.

Row = tuple[str, ...]

_COLUMNS = ("id", "when", "agent", "project", "messages", "tokens", "cost", "title")
_SPARE = ("messages", "tokens", "project", "agent", "when", "cost")
_SORTS = ("newest", "cost", "tokens", "messages", "prompts", "tools", "errors", "minutes")
_NAME = 20  # a terminal shows so much of the name of a project
_ALL = 2**31


@store_command(
    "sessions",
    "threadkeep sessions --project harbor --since 7d",
    "threadkeep sessions agent:codex 'cost:>1' --limit 5 --json",
    lists=True,
    pages=True,
)
@query_options()
@click.option("--sort", type=OneOf(_SORTS), default="newest", help="Sort order.")
@limit_option(30, "How many; -1 for all.")
def sessions(call: Call, *, query: "Query", sort: str, limit: int) -> None:
    """List captured sessions of all agents and projects, latest first.

    FILTER is words and the filters of the page: agent:codex project:web 'cost:>1' is:failed
    since:7d. A terminal shows as much of each id as `show` needs; --json has everything.
    """
    if sort != "newest":
        query = msgspec.structs.replace(query, sort=cast("Field", sort))
    with looking(call) as history:
        found = history.sessions(query, limit=_ALL if limit < 0 else limit)
        missing = history.store.missing_words(query.text) if query.text else ()
        if call.as_json:
            call.answer("sessions", sessions=_as_json(history, found), missing=missing)
            return
        with paging(wanted=call.pager):
            session_table(session_rows(history, found))
    if not found:
        note("No sessions match. Try --all to include subagents, or `threadkeep capture`.")
    elif missing:
        note(none_has(missing)[0])
    elif len(found) == limit:
        note(f"More with --limit {limit * 2}")


def _as_json(history: "SessionArchive", sessions: list["CapturedSession"]) -> list[Json]:
    from threadkeep.knowledge.copies import NO_LINKS

    links, sums = history.links(sessions), history.sums(sessions)
    return [
        {**session_json(one, links.get(one.id, NO_LINKS)), **_spent_json(sums.get(one.id))}
        for one in sessions
    ]


def _spent_json(spent: "Sum | None") -> Json:
    """Return tokens and cost; a cost of which a part has no price is null."""
    if spent is None:
        return {"tokens": 0, "cost_microdollars": 0}
    from threadkeep.knowledge.prices import cost_known, tokens_of

    return {"tokens": tokens_of(spent), "cost_microdollars": cost_known(spent)}


def session_rows(history: "SessionArchive", sessions: Iterable["CapturedSession"]) -> list[Row]:
    """Describe sessions: with short ids and names for a person, with whole ones for a program."""
    listed = list(sessions)
    links, sums = history.links(listed), history.sums(listed)
    return [
        _row(history, session, links.get(session.id), sums.get(session.id)) for session in listed
    ]


def _spent(spent: "Sum | None") -> tuple[str, str]:
    """Write tokens and cost; a plus says that some of it has no price."""
    told = _spent_json(spent)
    cost = 0 if spent is None else spent.cost
    unpriced = "+" if told["cost_microdollars"] is None else ""
    return f"{told['tokens']:,}", f"${cost / 1_000_000:.2f}{unpriced}" if cost or unpriced else ""


def _row(
    history: "SessionArchive",
    session: "CapturedSession",
    links: "Links | None",
    spent: "Sum | None",
) -> Row:
    person = is_terminal()
    name = one_name(session)
    if links is not None and links.continues and links.continues.partition(":")[2] not in name:
        name = f"{name} [continues {one_line(links.continues)}]"
    return (
        short_id(history, session) if person else session.session_id,
        when(session.ended_at or session.started_at),
        session.agent,
        one_line(project_of(session), _NAME if person else 0),
        f"{session.entries:,}",
        *_spent(spent),
        _mark(session, links) + name,
    )


def _mark(session: "CapturedSession", links: "Links | None") -> str:
    """Say why a session is not listed by itself."""
    if session.is_subagent:
        return "[subagent] "
    if not session.hidden:
        return ""
    return "[copy] " if links is not None and links.continues else "[internal] "


def session_table(rows: Iterable[Row]) -> None:
    """Print sessions as they were described."""
    table(_COLUMNS, rows, wide="title", spare=_SPARE)
