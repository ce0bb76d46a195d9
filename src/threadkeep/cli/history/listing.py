"""`threadkeep sessions`: what was captured, the latest first."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from threadkeep.cli.command import Call, store_command
from threadkeep.cli.history.opening import among_options, looking, read_among, short_id
from threadkeep.cli.history.words import Json, one_name, project_of, session_json, when
from threadkeep.cli.options import limit_option
from threadkeep.cli.output import is_terminal, note, one_line, paging, table

if TYPE_CHECKING:
    from threadkeep.capture.capture import History
    from threadkeep.knowledge.copies import Links
    from threadkeep.knowledge.records import CapturedSession

Row = tuple[str, ...]

_COLUMNS = ("id", "when", "program", "project", "messages", "title")
_SPARE = ("messages", "project", "program", "when")
_NAME = 20  # a terminal shows so much of the name of a project
_ALL = 2**31


@store_command(
    "sessions",
    "threadkeep sessions --project harbor --since 7d",
    "threadkeep sessions --harness codex --limit 5 --json",
    lists=True,
    pages=True,
)
@among_options
@click.option("--branch", metavar="B", help="Only on this git branch.")
@click.option("--all", "everything", is_flag=True, help="Subagents and internal threads, too.")
@limit_option(30, "How many; -1 for all.")
def sessions(
    call: Call, *, branch: str | None, everything: bool, limit: int, **chosen: Any
) -> None:
    """List captured sessions, the latest first: of all agents, in all projects.

    A terminal shows as much of each id as `show` needs; --json has everything.
    """
    among = read_among(branch=branch, **chosen)
    with looking(call) as history:
        page = _ALL if limit < 0 else limit
        found = history.sessions(among, everything=everything, limit=page)
        if call.as_json:
            call.answer("sessions", sessions=_as_json(history, found))
            return
        with paging(wanted=call.pager):
            session_table(session_rows(history, found))
    if not found:
        note("no session is like that; --all lists subagents, `threadkeep capture` brings in more")
    elif len(found) == limit:
        note(f"there may be more: --limit {limit * 2}")


def _as_json(history: "History", sessions: list["CapturedSession"]) -> list[Json]:
    from threadkeep.knowledge.copies import NO_LINKS

    links = history.links(sessions)
    return [session_json(one, links.get(one.id, NO_LINKS)) for one in sessions]


def session_rows(history: "History", sessions: Iterable["CapturedSession"]) -> list[Row]:
    """Describe sessions: with short ids and names for a person, with whole ones for a program."""
    listed = list(sessions)
    links = history.links(listed)
    return [_row(history, session, links.get(session.id)) for session in listed]


def _row(history: "History", session: "CapturedSession", links: "Links | None") -> Row:
    person = is_terminal()
    name = one_name(session)
    if links is not None and links.continues and links.continues.partition(":")[2] not in name:
        name = f"{name} [continues {one_line(links.continues)}]"
    marks = "[subagent] " if session.is_subagent else "[internal] " if session.hidden else ""
    return (
        short_id(history, session) if person else session.session_id,
        when(session.ended_at or session.started_at),
        session.harness,
        one_line(project_of(session), _NAME if person else 0),
        f"{session.entries:,}",
        marks + name,
    )


def session_table(rows: Iterable[Row]) -> None:
    """Print sessions as they were described."""
    table(_COLUMNS, rows, wide="title", spare=_SPARE)
