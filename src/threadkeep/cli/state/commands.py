"""`threadkeep state`: the commands of the state store."""

import click

from threadkeep import SessionDB
from threadkeep.cli.command import PROBLEMS, Call, alias, confirm
from threadkeep.cli.output import (
    counted,
    document,
    facts,
    note,
    one_line,
    progress,
    size_text,
    table,
    write,
)
from threadkeep.cli.state.browse import lineage, ls, search, show, stats
from threadkeep.cli.state.group import (
    Json,
    changing,
    days,
    joining,
    plain,
    reading,
    session_argument,
    sessions_argument,
    state,
    state_command,
    when,
)
from threadkeep.cli.state.transfer import export, import_
from threadkeep.errors import Invalid
from threadkeep.state.naming import count_long_messages, find_state_session, is_adopted

# ------------------------------------------------------------------------------
# `threadkeep state prune`, `rm`, `compact`, `sizes`, `check`, `reindex` and `release`.

_TITLE = 40


@state_command(
    "prune",
    "threadkeep state prune --older-than 90d --dry-run",
    "threadkeep state prune --older-than 30d --source cron --yes",
)
@click.option(
    "--older-than",
    default="90d",
    show_default=True,
    metavar="AGE",
    help="Sessions whose last message is older than this.",
)
@click.option("--source", help="Only sessions of this source.")
@click.option("--include-active", is_flag=True, help="Include open ones without messages.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--dry-run", is_flag=True, help="Show what would be deleted; delete nothing.")
def prune(
    call: Call,
    *,
    older_than: str,
    source: str | None,
    include_active: bool,
    yes: bool,
    dry_run: bool,
) -> None:
    """Delete sessions not used for long, except pinned ones, and free their space."""
    age = days(older_than)
    with reading(call) as store:
        found = store.prune_candidates(age, source, include_active=include_active)
    count = 0
    if found and not dry_run:
        confirm(f"delete {counted(len(found), 'session')}?", yes=yes)
        with changing(call) as store, progress("pruning"):
            count = store.prune_sessions(age, source, include_active=include_active)
    if call.as_json:
        document(sessions=plain(found), deleted=count, dry_run=dry_run)
        return
    rows = [
        (one["id"], when(one["last_active"]), f"{one['message_count']:,}", one["title"] or "")
        for one in found
    ]
    table(("id", "last active", "messages", "title"), rows, wide="title")
    messages = counted(sum(one["message_count"] for one in found), "message")
    told = counted(len(found) if dry_run else count, "session")
    verb = "would delete" if dry_run else "deleted"
    note(f"{verb} {told} not used for {older_than}, with {messages}")


@state_command("rm", "threadkeep state rm 20260115_103000 --dry-run")
@sessions_argument
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--dry-run", is_flag=True, help="Show what would be deleted; delete nothing.")
def rm(call: Call, *, sessions: tuple[str, ...], yes: bool, dry_run: bool) -> None:
    """Delete SESSIONS with all their messages; their children are kept, without a parent."""
    with reading(call) as store:
        ids = dict.fromkeys(find_state_session(store, session) for session in sessions)
        named = [f"{one} {one_line(store.get_session_title(one) or '', _TITLE)}" for one in ids]
    if not dry_run:
        confirm(f"delete {', '.join(name.strip() for name in named)}?", yes=yes)
        with changing(call) as store, progress("deleting"):
            store.delete_sessions(ids)
    if call.as_json:
        document(deleted=list(ids), dry_run=dry_run)
        return
    for session_id in ids:
        write(session_id)
    note(f"{'would delete' if dry_run else 'deleted'} {counted(len(ids), 'session')}")


# ---------------------------------------------------------------------- space


@state_command(
    "compact", "threadkeep state compact", "threadkeep state compact --offload --dry-run"
)
@click.option("--offload", is_flag=True, help="Pack the blobs of ended sessions; see docs.")
@click.option("--inline", is_flag=True, help="Move packed blobs back into their messages.")
@click.option("--older-than", metavar="AGE", help="With --offload: only of sessions idle so long.")
@click.option("--dry-run", is_flag=True, help="Show what would be done; change nothing.")
def compact(
    call: Call, *, offload: bool, inline: bool, older_than: str | None, dry_run: bool
) -> None:
    """Make the file smaller without losing anything.

    With --offload, base64, long tool output and long reasoning of ended sessions are moved out of
    the messages and stored once, compressed: threadkeep reads them as before, Hermes sees a marker
    until --inline.
    """
    if offload and inline:
        raise Invalid("offload blobs or restore them, not both", hint="leave one out")
    if older_than is not None and not offload:
        raise Invalid("--older-than applies to --offload only", hint="add --offload")
    age = 0.0 if older_than is None else days(older_than)
    if dry_run:
        with reading(call) as store:
            _tell_work(call, store, age if offload else None, inline=inline)
        return
    with changing(call) as store, progress("compacting"):
        restored = store.inline_blobs() if inline else 0
        report = store.compact(offload=offload, older_than_days=age)
    if call.as_json:
        document(compact=report, inlined=restored, dry_run=False)
        return
    if inline:
        note(f"{counted(restored, 'message')} whole again")
    moved = report["moved"]
    if moved:
        note(f"{counted(moved['blobs'], 'blob')} of {counted(moved['messages'], 'message')} packed")
    note(f"{size_text(report['bytes_before'])} before, {size_text(report['bytes_after'])} now")


def _tell_work(call: Call, store: SessionDB, age: float | None, *, inline: bool) -> None:
    report = store.size_report()
    work: Json = {"file_bytes": report["file_bytes"], "free_bytes": report["free_bytes"]}
    if age is not None:
        work["long_messages"] = count_long_messages(store, age)
    if inline:
        work["offloaded_values"] = report["counts"].get("offloaded_values", 0)
    if call.as_json:
        document(compact=work, dry_run=True)
        return
    note(f"would give back about {size_text(work['free_bytes'])} that are free inside")
    if age is not None:
        note(f"would look at {counted(work['long_messages'], 'long message')} of ended sessions")
    if inline:
        note(f"would put back {counted(work['offloaded_values'], 'value')}")


@state_command("sizes", "threadkeep state sizes --json")
def sizes(call: Call) -> None:
    """Show the disk usage of the file by kind of data, and its largest sessions."""
    with reading(call) as store, progress("measuring"):
        report = store.size_report()
    if call.as_json:
        document(sizes=plain(report))
        return
    about = "" if report["measured"] else "about "
    facts(
        {
            "path": report["path"],
            "file": size_text(report["file_bytes"]),
            "log": size_text(report["wal_bytes"]),
            "free inside": size_text(report["free_bytes"]),
            **{
                name.replace("_", " "): about + size_text(size)
                for name, size in report["by_group"].items()
            },
            **{
                f"number of {name.replace('_', ' ')}": f"{count:,}"
                for name, count in report["counts"].items()
            },
        }
    )
    write()
    rows = [
        (one["id"], size_text(one["bytes"]), f"{one['messages']:,}", one["title"] or "")
        for one in report["largest"]
    ]
    table(("largest sessions", "size", "messages", "title"), rows, wide="title")


# ---------------------------------------------------------------------- health


@state_command("check", "threadkeep state check", "threadkeep state --db ./copy.db check --json")
@click.option("--quick", is_flag=True, help="Do not compare every row with its fingerprint.")
@click.option("--adopt", is_flag=True, help="Adopt a file that only Hermes wrote; this changes it.")
def check(call: Call, *, quick: bool, adopt: bool) -> int:
    """Check file, rows and search index. Exit code 1 if anything is wrong.

    In our own file, rows that another program wrote get a fingerprint if all is well.
    """
    with changing(call) if adopt else joining(call) as store, progress("checking"):
        problems = store.check(quick=quick)
    if call.as_json:
        document(ok=not problems, problems=problems)
    else:
        for problem in problems:
            write(problem, "red")
        note(counted(len(problems), "problem"))
    return PROBLEMS if problems else 0


@state_command("reindex", "threadkeep state reindex")
def reindex(call: Call) -> None:
    """Rebuild the search index, and repair a damaged one; messages are not touched."""
    with changing(call) as store, progress("indexing") as advance:
        store.reindex(advance)
        count, path = store.message_count(), store.database.name
    if call.as_json:
        document(file=path, messages=count)
    else:
        note(f"the index of {path} is new; {counted(count, 'message')} in it")


@state_command("release", "threadkeep state release ~/.hermes/state.db")
@click.argument("path", required=False)
def release(call: Call, *, path: str | None) -> None:
    """Remove everything of threadkeep's from the file at PATH, so that it is Hermes's alone.

    A backup is made first. Sessions and messages are kept, packed blobs go back into their
    messages, and the search index is rebuilt in Hermes's form.
    """
    target = path or call.db
    with call.home.state(target, read_only=True) as looked:
        ours, file = is_adopted(looked), looked.database.name
    report: Json = {"removed": [], "backup": None}
    if ours:
        with call.home.state(target, must_exist=True) as store, progress("releasing"):
            report = store.release()
    if call.as_json:
        document(file=file, **report)
    elif ours:
        note(f"{counted(len(report['removed']), 'object')} taken out of {file}")
        note(f"as it was: {report['backup']}")
    else:
        note(f"{file} has nothing of threadkeep in it")


# ------------------------------------------------------------------------------
# `threadkeep state title`, `pin`, `unpin`, `archive`, `rewind` and `undo`: nothing is deleted.


@state_command(
    "title", "threadkeep state title last", "threadkeep state title last 'Fix the gateway'"
)
@session_argument
@click.argument("text", required=False)
@click.option("--clear", is_flag=True, help="Remove the title.")
def title(call: Call, *, session: str, text: str | None, clear: bool) -> None:
    """Print the title of a session, or set it to TEXT.

    Titles are unique; a conflict names the session that has the title.
    """
    if clear and text is not None:
        raise Invalid("give a title or --clear, not both", hint="leave one out")
    if text is not None and SessionDB.sanitize_title(text) is None:
        raise Invalid("the title is empty", hint="add --clear to remove the title")
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
    """Pin SESSIONS, so that prune keeps them."""
    _flag(call, sessions, "set_session_pinned", on=True)


@state_command("unpin", "threadkeep state unpin last")
@sessions_argument
def unpin(call: Call, *, sessions: tuple[str, ...]) -> None:
    """Unpin SESSIONS."""
    _flag(call, sessions, "set_session_pinned", on=False)


@state_command("archive", "threadkeep state archive last", "threadkeep state archive last --undo")
@sessions_argument
@click.option("--undo", is_flag=True, help="Put the sessions back in the list.")
def archive(call: Call, *, sessions: tuple[str, ...], undo: bool) -> None:
    """Hide SESSIONS from the list; search and `show` still find them."""
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
    """Hide MESSAGE and everything after it, also from Hermes, until `undo`.

    MESSAGE is a number from `show`.
    """
    with changing(call) as store:
        session_id = find_state_session(store, session)
        count = store.rewind_to_message(session_id, message, any_role=True)["rewound_count"]
    _report(call, session_id, count, "taken back")


@state_command("undo", "threadkeep state undo last")
@session_argument
def undo(call: Call, *, session: str) -> None:
    """Undo the last rewind of a session.

    Messages written since are hidden in turn; another undo brings them back.
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


for _command in (ls, show, search, stats, lineage, title, pin, unpin, archive, rewind, undo):
    state.add_command(_command)
for _command in (export, import_, rm, prune, compact, sizes, check, reindex, release):
    state.add_command(_command)
# One name for the same thing in all stores.
for _command in (alias(check, "verify"), alias(sizes, "size")):
    state.add_command(_command)
