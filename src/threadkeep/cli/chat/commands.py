"""`threadkeep chat`: the commands of the chat store."""

import click

from threadkeep.base.clock import iso, now_ms, parse_duration
from threadkeep.cli.chat.browse import ls, search, show, size
from threadkeep.cli.chat.follow import tail
from threadkeep.cli.chat.record import record
from threadkeep.cli.chat.transfer import diff, export, import_
from threadkeep.cli.command import (
    PROBLEMS,
    Call,
    alias,
    confirm,
    group,
    session_argument,
    store_command,
)
from threadkeep.cli.options import complete_session, db_option
from threadkeep.cli.output import (
    counted,
    document,
    note,
    one_line,
    progress,
    size_text,
    table,
    write,
)
from threadkeep.errors import Invalid

# ------------------------------------------------------------------------------
# The group that holds the commands of the chat store.


@group(
    "chat",
    "threadkeep chat ls",
    "curl -sN … | threadkeep chat record --agent build",
    "threadkeep chat --db ./other.db show last",
)
@db_option("Use this chat file.")
def chat() -> None:
    """Recorded conversations: list, read, search, follow, record and branch.

    SESSION is an id, the beginning of one, or `last`.
    """


# ------------------------------------------------------------------------------
# `threadkeep chat rm`, `prune` and `verify`: what deletes, and what makes sure.


@store_command("rm", "threadkeep chat rm ses_019a4c21 --dry-run")
@click.argument("sessions", nargs=-1, required=True, shell_complete=complete_session)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--dry-run", is_flag=True, help="Show what would be deleted; delete nothing.")
def rm(call: Call, *, sessions: tuple[str, ...], yes: bool, dry_run: bool) -> None:
    """Delete SESSIONS with all their messages; their branches are kept."""
    with call.reading() as store:
        found = {one.id: one for one in (store.find_session(ref) for ref in sessions)}
    if not dry_run:
        named = ", ".join(f"{one.id} {one_line(one.title or '', 40)}" for one in found.values())
        confirm(f"delete {named.strip()}?", yes=yes)
        with call.changing() as store:
            for session_id in found:
                store.delete(session_id)
    if call.as_json:
        document(deleted=list(found.values()), dry_run=dry_run)
        return
    for session_id in found:
        write(session_id)
    note(f"{'would delete' if dry_run else 'deleted'} {counted(len(found), 'session')}")


@store_command("prune", "threadkeep chat prune --older-than 90d --archived --dry-run")
@click.option("--older-than", metavar="AGE", help="Sessions not touched for this long: 30d.")
@click.option("--keep", type=int, metavar="N", help="All but the N newest sessions.")
@click.option("--agent", help="Only sessions of this agent.")
@click.option("--archived", is_flag=True, help="Only archived sessions.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--dry-run", is_flag=True, help="Show what would be deleted; delete nothing.")
@click.option("--vacuum", is_flag=True, help="Return the free space to the disk.")
def prune(
    call: Call,
    *,
    older_than: str | None,
    keep: int | None,
    agent: str | None,
    archived: bool,
    yes: bool,
    dry_run: bool,
    vacuum: bool,
) -> None:
    """Delete old sessions by age, by count, or both; never one that is being recorded."""
    before = None if older_than is None else now_ms() - parse_duration(older_than)
    freed = None
    with call.reading() as store:
        report = store.prune(
            before=before, keep=keep, agent=agent, archived_only=archived, dry_run=True
        )
    if not dry_run:
        if report.sessions:
            size = size_text(report.freed_bytes)
            confirm(f"delete {counted(len(report.sessions), 'session')} ({size})?", yes=yes)
        with call.changing() as store:
            report = store.prune(before=before, keep=keep, agent=agent, archived_only=archived)
            if vacuum:
                with progress("vacuuming"):
                    freed = store.vacuum()
    if call.as_json:
        document(prune=report, vacuum_bytes=freed)
        return
    rows = [
        (str(one["id"]), iso(int(str(one["updated_at"]))), str(one["title"] or ""))
        for one in report.sessions
    ]
    table(("id", "updated", "title"), rows, wide="title")
    verb = "would delete" if dry_run else "deleted"
    note(f"{verb} {counted(len(rows), 'session')} with {size_text(report.freed_bytes)} of content")
    if freed is not None:
        note(f"the file is {size_text(freed)} smaller")


@store_command("verify", "threadkeep chat verify", "threadkeep chat --db ./copy.db verify --json")
@click.option("--adopt", is_flag=True, help="Adopt a file or rows that another program wrote.")
def verify(call: Call, *, adopt: bool) -> int:
    """Check the file, and every row against its content hash. Exit code 1 if anything is wrong."""
    with call.changing() if adopt else call.reading() as store, progress("checking"):
        report = store.verify(adopt=adopt)
    if call.as_json:
        document(ok=report.ok, verify=report)
    else:
        for problem in report.problems:
            write(problem, "red")
        problems = counted(len(report.problems), "problem")
        note(f"{counted(report.checked, 'row')} checked, {problems}")
    if report.unhashed and not adopt:
        rows = counted(report.unhashed, "row")
        note(f"{rows} of another program without a hash yet: --adopt hashes them")
    return 0 if report.ok else PROBLEMS


# ------------------------------------------------------------------------------
# `threadkeep chat fork`, `rewind` and `archive`: nothing here deletes anything.


@store_command("fork", "threadkeep chat fork last --at msg_019a --title 'another way'")
@session_argument
@click.option(
    "--at", metavar="MESSAGE", help="Branch off after this message (default: the last one)."
)
@click.option("--title", help="The title of the branch.")
def fork(call: Call, *, session: str, at: str | None, title: str | None) -> None:
    """Branch off a session and print the id of the branch.

    MESSAGE is an id, the beginning of one, or `last` for the user's last message.
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
@click.option("--undo", is_flag=True, help="Show what the latest rewind hid.")
def rewind(call: Call, *, session: str, message: str | None, inclusive: bool, undo: bool) -> None:
    """Go back to a user message: hide everything after it, and print what was hidden.

    MESSAGE may be the beginning of an id, or `last` for the last thing the user said.
    """
    if undo and message is not None:
        raise Invalid("give a message or --undo, not both", hint="leave one out")
    if not undo and message is None:
        hint = (
            "`last` is the user's last message; `chat show` lists the ids; --undo reverses a rewind"
        )
        raise Invalid(f"Which message of session {session} should it go back to?", hint=hint)
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
@click.option("--undo", is_flag=True, help="Put the sessions back in the list.")
def archive(call: Call, *, sessions: tuple[str, ...], undo: bool) -> None:
    """Hide SESSIONS from the list; nothing is deleted."""
    with call.changing() as store:
        found = [store.find_session(session) for session in sessions]
        changed = [store.unarchive(one) if undo else store.archive(one) for one in found]
    if call.as_json:
        document(sessions=changed)
        return
    for session in changed:
        write(session.id)


for _command in (ls, show, search, tail, record, fork, rewind, archive, export, import_, diff):
    chat.add_command(_command)
for _command in (rm, size, prune, verify):
    chat.add_command(_command)
# One name for the same thing in all stores.
for _command in (alias(verify, "check"), alias(size, "sizes")):
    chat.add_command(_command)
