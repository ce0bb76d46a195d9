"""`threadkeep chat fork`, `rewind` and `archive`: nothing here deletes anything."""

import click

from threadkeep.cli.command import Call, session_argument, store_command
from threadkeep.cli.complete import complete_session
from threadkeep.cli.output import counted, document, note, write
from threadkeep.errors import Invalid


@store_command("fork", "threadkeep chat fork last --at msg_019a --title 'another way'")
@session_argument
@click.option("--at", metavar="MESSAGE", help="Branch off after this message (default: the last).")
@click.option("--title", help="The title of the branch.")
def fork(call: Call, *, session: str, at: str | None, title: str | None) -> None:
    """Branch off a session and print the id of the branch.

    MESSAGE may be the beginning of an id, or `last` for the last thing the user said.
    """
    with call.changing() as store:
        parent = store.find_session(session)
        point = None if at is None else store.find_message(parent, at)
        branch = store.fork(parent, point, title=title)
    if call.as_json:
        document(session=branch)
    else:
        write(branch.id)


@store_command("rewind", "threadkeep chat rewind last last", "threadkeep chat rewind last --undo")
@session_argument
@click.argument("message", required=False)
@click.option("--inclusive", is_flag=True, help="Hide MESSAGE itself as well.")
@click.option("--undo", is_flag=True, help="Show again what the latest rewind hid.")
def rewind(call: Call, *, session: str, message: str | None, inclusive: bool, undo: bool) -> None:
    """Go back to a user message: hide all that came after it; print what was hidden.

    MESSAGE may be the beginning of an id, or `last` for the last thing the user said.
    """
    if undo and message is not None:
        raise Invalid("a rewind goes to a message or is undone, not both", hint="leave one out")
    if not undo and message is None:
        hint = "`last` is the last thing the user said; `chat show` has the ids; --undo takes back"
        raise Invalid(f"to which message of session {session} should it go back?", hint=hint)
    with call.changing() as store:
        found = store.find_session(session)
        if message is None:
            changed = store.unrewind(found)
        else:
            point = store.find_message(found, message)
            changed = store.rewind(found, point, inclusive=inclusive)
    if call.as_json:
        document(session_id=found.id, **{"shown" if undo else "hidden": changed})
        return
    for message_id in changed:
        write(message_id)
    note(f"{'showed' if undo else 'hid'} {counted(len(changed), 'message')} of {found.id}")


@store_command("archive", "threadkeep chat archive last", "threadkeep chat archive last --undo")
@click.argument("sessions", nargs=-1, required=True, shell_complete=complete_session)
@click.option("--undo", is_flag=True, help="Put the sessions back into the list.")
def archive(call: Call, *, sessions: tuple[str, ...], undo: bool) -> None:
    """Take SESSIONS out of the list; nothing is deleted."""
    with call.changing() as store:
        found = [store.find_session(session) for session in sessions]
        changed = [store.unarchive(one) if undo else store.archive(one) for one in found]
    if call.as_json:
        document(sessions=changed)
        return
    for session in changed:
        write(session.id)
