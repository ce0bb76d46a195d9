"""`threadkeep compare`: two sessions side by side."""

from typing import TYPE_CHECKING

import click

from threadkeep.cli.command import Call, store_command
from threadkeep.cli.history.sessions import find, looking
from threadkeep.cli.options import complete_captured
from threadkeep.cli.output import document, one_line, paging, table, write
from threadkeep.cli.words import duration, one_name, when

if TYPE_CHECKING:
    from threadkeep.knowledge.results import SessionDetail

_TITLE = 40
_PROMPT = 100
_MICRO = 1_000_000


@store_command(
    "compare", "threadkeep compare last 5f0c2a7e", "threadkeep compare 5f0c 019caf10", pages=True
)
@click.argument("left", shell_complete=complete_captured)
@click.argument("right", shell_complete=complete_captured)
def compare(call: Call, *, left: str, right: str) -> None:
    """Compare two sessions: agent, model, time, messages, tokens, cost and prompts."""
    from threadkeep.home.opening import open_browse

    with looking(call) as history:
        found = [find(history, name, None) for name in (left, right)]
    refs = [f"{one.agent}:{one.session_id}" for one in found]
    with open_browse(call.home, call.db) as browse:
        sides = [browse.session(ref) for ref in refs]
    if call.as_json:
        document(left=sides[0], right=sides[1])
        return
    facts = [_facts(one) for one in sides]
    rows = [(name, one, facts[1][name]) for name, one in facts[0].items()]
    with paging(wanted=call.pager):
        table(("", *(one_name(one, _TITLE) for one in found)), rows)
        for ref, side in zip(refs, sides, strict=True):
            write()
            write(ref, "bold")
            for turn in side.turns:
                write(f"  {one_line(turn.prompt, _PROMPT)}")


def _facts(detail: "SessionDetail") -> dict[str, str]:
    listed = detail.listed
    session = listed.session
    known = session.started_at is not None and session.ended_at is not None
    took = (session.ended_at or 0) - (session.started_at or 0)
    return {
        "session": listed.ref,
        "agent": session.agent,
        "model": session.model,
        "project": session.project,
        "branch": session.git_branch,
        "began": when(session.started_at),
        "duration": duration(took) if known else "",
        "turns": f"{len(detail.turns):,}",
        "messages": f"{session.entries:,}",
        "tool calls": f"{session.tool_calls:,}",
        "failed results": f"{session.errors:,}",
        "subagents": f"{len(detail.children):,}",
        "tokens": f"{listed.tokens:,}",
        "cost": "" if listed.cost is None else f"${listed.cost / _MICRO:,.2f}",
    }
