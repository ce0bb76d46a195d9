"""`threadkeep backup` and `threadkeep restore`."""

import click

from threadkeep.cli.command import Call, confirm, store_command
from threadkeep.cli.output import document, note, progress, size_text, table, write
from threadkeep.errors import Damaged


@store_command("backup", "threadkeep backup", "threadkeep backup --list")
@click.argument("target", required=False)
@click.option("--list", "listing", is_flag=True, help="List the backups instead of making one.")
def backup(call: Call, *, target: str | None, listing: bool) -> None:
    """Copy the live chat store to a backup that is checked row by row.

    Without TARGET the copy goes into `backups` beside the store, and old copies make room.
    """
    if listing:
        _list(call)
        return
    with progress("copying") as advance:
        made = call.home.backup(target, path=call.db, progress=advance)
    if call.as_json:
        document(backup=made)
    else:
        write(str(made))


def _list(call: Call) -> None:
    found = call.home.backups(call.db)
    if call.as_json:
        document(backups=found)
        return
    rows = [(one.at, one.reason, size_text(one.bytes), str(one.path)) for one in found]
    table(("made", "reason", "size", "path"), rows, wide="path")
    if not found:
        note("there is no backup yet; `threadkeep backup` makes one")


@store_command("restore", "threadkeep restore last", "threadkeep restore ./copy.db --yes")
@click.argument("backup")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Check the backup, restore nothing.")
def restore(call: Call, *, backup: str, yes: bool, dry_run: bool) -> None:
    """Put a backup in the place of the chat store; what is there now is saved first.

    BACKUP is a path, the beginning of a name that `backup --list` shows, or `last`.
    """
    source = call.home.find_backup(backup, path=call.db)
    target = call.home.restore_target(call.db)
    with progress("checking"):
        problems = call.home.check_backup(source)
    if problems:
        raise Damaged(f"the backup {source} fails its check: {problems[0]}", hint="try another")
    saved = None
    if not dry_run:
        confirm(f"replace {target} by {source}?", yes=yes)
        saved = call.home.restore(source, path=call.db)
    if call.as_json:
        document(backup=source, restored=target, saved=saved, dry_run=dry_run)
        return
    note(f"{'would restore' if dry_run else 'restored'} {target} from {source}")
    if saved is not None:
        note(f"what was there before is in {saved}")
