"""`threadkeep search`: find what was said and done, in all agents' sessions at once."""

from typing import TYPE_CHECKING, get_args

import click

from threadkeep.cli.command import Call, store_command
from threadkeep.cli.history.sessions import find, looking, short_id, typed
from threadkeep.cli.options import complete_captured, limit_option, query_options
from threadkeep.cli.output import StyledText, marked, note, one_line, paging, write, write_pieces
from threadkeep.cli.words import Json, one_name, project_of, session_json, when
from threadkeep.knowledge.records import Kind, Role

if TYPE_CHECKING:
    from threadkeep.knowledge.query import Query
    from threadkeep.knowledge.transcript import EntryHit, SessionArchive

_TITLE = 60


@store_command(
    "search",
    'threadkeep search "slow query" --project harbor',
    "threadkeep search board.py --part tool_call --since 30d --newest",
    lists=True,
    pages=True,
)
@click.argument("words", nargs=-1, required=True)
@query_options(words=False, everything=False)
@click.option("--role", type=click.Choice(get_args(Role)), help="Who said it.")
@click.option("--part", type=click.Choice(get_args(Kind)), help="Only this part of a session.")
@click.option("--session", shell_complete=complete_captured, help="Only in this session.")
@click.option("--newest", is_flag=True, help="The newest first, not the best.")
@limit_option(10)
def search(
    call: Call,
    *,
    words: tuple[str, ...],
    query: "Query",
    role: str | None,
    part: str | None,
    session: str | None,
    newest: bool,
    limit: int,
) -> None:
    """Find WORDS in what was asked, answered and done; the best hit first.

    Any text will do, punctuation and all; "a phrase", OR, NOT and a prefix* are understood. Below
    each hit stands the command that opens the session at this place.
    """
    from msgspec.structs import replace

    with looking(call) as history:
        agent = query.agent[0] if query.agent else None
        within = None if session is None else find(history, session, agent)
        chosen = replace(
            query,
            role=(role,) if role else (),
            part=(part,) if part else (),
            session=() if within is None else (f"{within.agent}:{within.session_id}",),
        )
        hits = history.search(" ".join(words), chosen, newest=newest, limit=max(limit, 0))
        if call.as_json:
            call.answer("hits", hits=[hit_json(call, history, hit) for hit in hits])
            return
        with paging(wanted=call.pager):
            for hit in hits:
                show_hit(call, history, hit)
    if not hits:
        note("nothing found; fewer words find more, and `threadkeep capture` brings in what is new")


def hit_json(call: Call, history: "SessionArchive", hit: "EntryHit") -> Json:
    """Shape a hit for `--json`."""
    row = hit.shown.row
    return {
        "session": session_json(hit.session),
        "key": row.key,
        "role": row.role,
        "kind": row.kind,
        "at": row.at,
        "tool": hit.shown.entry.tool or None,
        "error": row.error,
        "snippet": hit.snippet,
        "show": opening_command(call, history, hit),
    }


def show_hit(call: Call, history: "SessionArchive", hit: "EntryHit") -> None:
    """Print a hit: where and when, the words with their neighbours, how to open it."""
    row, session = hit.shown.row, hit.session
    write(f"{short_id(history, session)}", "bold", end=" ")
    facts = [when(row.at), session.agent, project_of(session), _what(hit)]
    named = " · ".join(one_line(fact) for fact in facts if fact)
    write(f"{named} · {one_name(session, _TITLE)}", "dim")
    write_pieces([StyledText("  "), *marked(one_line(hit.snippet)), StyledText("\n")])
    write(f"  {opening_command(call, history, hit)}", "dim")


def _what(hit: "EntryHit") -> str:
    kind, tool = hit.shown.row.kind, hit.shown.entry.tool
    return f"{kind.replace('_', ' ')} {tool}".strip()


def opening_command(call: Call, history: "SessionArchive", hit: "EntryHit") -> str:
    """Give the command that shows a hit in its session."""
    return typed(call, "show", short_id(history, hit.session), "--at", hit.shown.row.key)
