"""`threadkeep tail`: what all agents write, a line for each message, as it is captured."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from threadkeep.cli.command import Call, store_command
from threadkeep.cli.history.capture import user_home_option
from threadkeep.cli.history.progress import progress_bar, without_log
from threadkeep.cli.history.sessions import find, looking
from threadkeep.cli.options import complete_captured, limit_option, query_options
from threadkeep.cli.output import (
    is_terminal,
    json_line,
    note,
    one_line,
    terminal_width,
    warn,
    write,
)
from threadkeep.cli.signals import need_reader, stopped_by_signals
from threadkeep.cli.words import Json, project_of, when

if TYPE_CHECKING:
    from threadkeep.knowledge.query import Query
    from threadkeep.knowledge.tail import TailEntry
    from threadkeep.knowledge.transcript import SessionArchive

_ID = 8
_NAME = 16
_STYLES = {"user": "bold green", "assistant": "", "tool": "dim", "system": "dim"}
_LONGEST = 500  # characters of a line where nobody's terminal says how wide it is


@store_command(
    "tail",
    "threadkeep tail",
    "threadkeep tail --agent codex --project harbor",
    "threadkeep tail last --json",
)
@click.argument("session", required=False, shell_complete=complete_captured)
@query_options(words=False, everything=False)
@limit_option(10, "Start with the latest N.")
@click.option("--no-tools", is_flag=True, help="Leave out tool calls and their results.")
@click.option(
    "--reasoning", is_flag=True, help="Include the model's reasoning, where it was logged."
)
@user_home_option
@click.option("-f", "--follow", is_flag=True, hidden=True, expose_value=False)
def tail(
    call: Call,
    *,
    session: str | None,
    query: "Query",
    limit: int,
    no_tools: bool,
    reasoning: bool,
    user_home: str | None,
) -> None:
    """Follow what all agents on this machine write, or one SESSION, until Ctrl-C.

    If no service is running, this command captures the logs itself while it runs. With --json every
    line is an object.
    """
    from threadkeep.knowledge.tail import Tail

    kinds = {"reasoning": reasoning, "tool_call": not no_tools, "tool_result": not no_tools}
    with stopped_by_signals() as goes_on, kept_current(call, user_home) as history:
        agent = query.agent[0] if query.agent else None
        meant = None if session is None else find(history, session, agent)
        follower = Tail(history.store, history.readers, query, meant)
        show = _show_json if call.as_json else _show
        for one in follower.latest(max(limit, 0)):
            if kinds.get(one.row.kind, True):
                show(one)
        for one in follower.follow(lambda: goes_on() and need_reader()):
            if kinds.get(one.row.kind, True):
                show(one)


@contextmanager
def kept_current(call: Call, user_home: str | None = None) -> Iterator["SessionArchive"]:
    """Open the history as somebody brings it up to date: who serves it, or this process."""
    from threadkeep.service.tail import capturing, is_served

    if is_served(call.home, call.db):
        with looking(call) as history:
            yield history
        return
    with call.home.history(call.db, user_home=user_home) as history, without_log():
        with progress_bar(wanted=not call.as_json) as bar:
            history.capture(show=bar)
        note("Following; Ctrl-C to stop")
        with capturing(history, warn):
            yield history


def _show_json(one: "TailEntry") -> None:
    names = ("key", "role", "tool", "call_id", "error", "model", "text")
    shown: Json = {
        "session": f"{one.session.agent}:{one.session.session_id}",
        "agent": one.session.agent,
        "project": project_of(one.session),
        "ref": f"message:{one.row.id}",
        "at": one.row.at,
        "part": one.row.kind,
        **{name: getattr(one.entry, name) for name in names},
    }
    json_line(shown)


def _clock(at: int | None) -> str:
    return " " * 8 if at is None else time.strftime("%H:%M:%S", time.localtime(at / 1000))


def _show(one: "TailEntry") -> None:
    session, entry = one.session, one.entry
    said = one_line(f"{entry.tool} {entry.text}" if one.row.kind == "tool_call" else entry.text)
    mark = {"tool_call": "▸ ", "tool_result": "✗ " if entry.error else "→ "}.get(one.row.kind, "")
    if not is_terminal():
        facts = (when(one.row.at), session.agent, project_of(session), session.session_id)
        write("\t".join(map(one_line, (*facts, one.row.role, one.row.kind, said[:_LONGEST]))))
        return
    place = one_line(project_of(session), _NAME)
    head = f"{_clock(one.row.at)} {session.agent} {place} {session.session_id[:_ID]} "
    room = max(terminal_width() - len(head) - len(mark), 10)
    write(head, "dim", end="")
    style = "red" if entry.error else "yellow" if mark == "▸ " else _STYLES.get(one.row.role, "")
    write(mark + one_line(said, room), style)
