"""`threadkeep chat rm`, `prune` and `verify`: what deletes, and what makes sure."""

import click

from threadkeep.base.clock import iso, now_ms, parse_duration
from threadkeep.cli.command import PROBLEMS, Call, confirm, store_command
from threadkeep.cli.complete import complete_session
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


@store_command("rm", "threadkeep chat rm ses_019a4c21 --dry-run")
@click.argument("sessions", nargs=-1, required=True, shell_complete=complete_session)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Say what would go, delete nothing.")
def rm(call: Call, *, sessions: tuple[str, ...], yes: bool, dry_run: bool) -> None:
    """Delete SESSIONS with all their messages; branches of them stay."""
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
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Say what would go, delete nothing.")
@click.option("--vacuum", is_flag=True, help="Give the space back to the disk.")
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
    """Delete old sessions: by age, by number, or both; none that is being recorded."""
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
@click.option("--adopt", is_flag=True, help="Take in a file, or rows, that another program wrote.")
def verify(call: Call, *, adopt: bool) -> int:
    """Check the file, and every row against its content hash; exit with 1 if anything is wrong."""
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
