"""`threadkeep state title`, `pin`, `unpin`, `archive`, `rewind` and `undo`: nothing is deleted."""

import click

from threadkeep import SessionDB
from threadkeep.cli.command import Call
from threadkeep.cli.output import counted, document, note, write
from threadkeep.cli.state.group import (
    changing,
    reading,
    session_argument,
    sessions_argument,
    state_command,
)
from threadkeep.errors import Invalid
from threadkeep.state.naming import find_state_session


@state_command(
    "title", "threadkeep state title last", "threadkeep state title last 'Fix the gateway'"
)
@session_argument
@click.argument("text", required=False)
@click.option("--clear", is_flag=True, help="Take the title away.")
def title(call: Call, *, session: str, text: str | None, clear: bool) -> None:
    """Print the title of a session, or give it the title TEXT.

    No two sessions have one title; a clash names the session that has it.
    """
    if clear and text is not None:
        raise Invalid("a title is given or cleared, not both", hint="leave one out")
    if text is not None and SessionDB.sanitize_title(text) is None:
        raise Invalid("the title is empty", hint="add --clear to take the title away")
    with changing(call) if clear or text is not None else reading(call) as store:
        session_id = find_state_session(store, session)
        if clear or text is not None:
            store.set_session_title(session_id, text)
        found = store.get_session_title(session_id)
    if call.as_json:
        document(session_id=session_id, title=found)
    elif found is None:
        note(f"session {session_id} has no title")
    else:
        write(found)


@state_command("pin", "threadkeep state pin last")
@sessions_argument
def pin(call: Call, *, sessions: tuple[str, ...]) -> None:
    """Pin SESSIONS, so that prune never takes them."""
    _flag(call, sessions, "set_session_pinned", on=True)


@state_command("unpin", "threadkeep state unpin last")
@sessions_argument
def unpin(call: Call, *, sessions: tuple[str, ...]) -> None:
    """Take the pins off SESSIONS."""
    _flag(call, sessions, "set_session_pinned", on=False)


@state_command("archive", "threadkeep state archive last", "threadkeep state archive last --undo")
@sessions_argument
@click.option("--undo", is_flag=True, help="Put the sessions back into the list.")
def archive(call: Call, *, sessions: tuple[str, ...], undo: bool) -> None:
    """Take SESSIONS out of the list; search and `show` still find them."""
    _flag(call, sessions, "set_session_archived", on=not undo)


def _flag(call: Call, sessions: tuple[str, ...], verb: str, *, on: bool) -> None:
    """Resolve every name first: one that is wrong leaves all as they are."""
    with changing(call) as store:
        found = [find_state_session(store, session) for session in sessions]
        for session_id in found:
            getattr(store, verb)(session_id, on)
    if call.as_json:
        document(sessions=found)
        return
    for session_id in found:
        write(session_id)


@state_command("rewind", "threadkeep state rewind last 4711")
@session_argument
@click.argument("message", type=int)
def rewind(call: Call, *, session: str, message: int) -> None:
    """Take back MESSAGE and all after it, until `undo`; Hermes does not see them meanwhile.

    MESSAGE is a number that `show` prints.
    """
    with changing(call) as store:
        session_id = find_state_session(store, session)
        count = store.rewind_to_message(session_id, message, any_role=True)["rewound_count"]
    _report(call, session_id, count, "taken back")


@state_command("undo", "threadkeep state undo last")
@session_argument
def undo(call: Call, *, session: str) -> None:
    """Bring back what the last rewind of a session took.

    Messages written since that rewind are taken back in turn: another undo brings them back.
    """
    with changing(call) as store:
        session_id = find_state_session(store, session)
        count = store.undo_rewind(session_id)
    _report(call, session_id, count, "brought back")


def _report(call: Call, session_id: str, count: int, done: str) -> None:
    if call.as_json:
        document(session_id=session_id, messages=count)
    else:
        note(f"{counted(count, 'message')} of {session_id} {done}")
