"""`threadkeep search`: find what was said and done, in all agents' sessions at once."""

from typing import TYPE_CHECKING, get_args

import click
from msgspec.structs import replace

from threadkeep.cli.command import Call, store_command
from threadkeep.cli.memory.recall import (
    all_hits_option,
    folded_by,
    newest_option,
    remembering,
    show_found,
)
from threadkeep.cli.options import OneOf, complete_captured, limit_option, query_options
from threadkeep.knowledge.records import Kind, Role

if TYPE_CHECKING:
    from threadkeep.knowledge.query import Query


@store_command(
    "search",
    'threadkeep search "slow query" --project harbor',
    "threadkeep search board.py --part tool_call --since 30d --newest",
    "threadkeep search tide --session last --all-hits",
    lists=True,
    pages=True,
)
@click.argument("words", nargs=-1, required=True)
@query_options(words=False, everything=False)
@click.option("--role", type=OneOf(get_args(Role)), help="Who said it.")
@click.option("--part", type=OneOf(get_args(Kind)), help="Only this part of a session.")
@click.option("--session", shell_complete=complete_captured, help="Only in this session.")
@newest_option
@all_hits_option
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
    all_hits: bool,
    limit: int,
) -> None:
    """Search messages for WORDS: `recall`, limited to messages.

    Any text works, including punctuation; "a phrase", OR, NOT and a prefix* are understood. Matches
    with all words come first, each with the command that opens it.
    """
    chosen = replace(
        query,
        kind=("message",),
        role=(role,) if role else (),
        part=(part,) if part else (),
        session=() if session is None else (_session(call, session, query),),
    )
    with remembering(call) as memory:
        found = memory.recall(
            " ".join(words), chosen, limit=max(limit, 0), newest=newest, fold=folded_by(all_hits)
        )
    show_found(call, found)


def _session(call: Call, name: str, query: "Query") -> str:
    from threadkeep.cli.history.sessions import find, looking

    with looking(call) as history:
        one = find(history, name, query.agent[0] if query.agent else None)
    return f"{one.agent}:{one.session_id}"
