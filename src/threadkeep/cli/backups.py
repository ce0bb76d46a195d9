"""`threadkeep backup` and `threadkeep restore`."""

import click

from threadkeep.cli.command import Call, confirm, store_command
from threadkeep.cli.output import document, note, progress, size_text, table, write
from threadkeep.errors import Damaged
from threadkeep.home import KINDS

store_option = click.option(
    "--store",
    type=click.Choice(list(KINDS)),
    default="chat",
    show_default=True,
    help="Which store; --db then names a file of that kind.",
)


@store_command("backup", "threadkeep backup", "threadkeep backup --store state --list", lists=True)
@click.argument("target", required=False)
@store_option
@click.option("--list", "listing", is_flag=True, help="List the backups instead of making one.")
def backup(call: Call, *, target: str | None, store: str, listing: bool) -> None:
    """Copy a live store to a backup that is checked row by row.

    Without TARGET the copy goes into `backups` beside the store, and old copies make room.
    """
    if listing:
        _list(call, store)
        return
    with progress("copying") as advance:
        made = call.home.backup(target, path=call.db, store=store, progress=advance)
    if call.as_json:
        document(backup=made)
    else:
        write(str(made))


def _list(call: Call, store: str) -> None:
    found = call.home.backups(call.db, store=store)
    if call.as_json:
        call.answer("backups", backups=found)
        return
    rows = [(one.at, one.reason, size_text(one.bytes), str(one.path)) for one in found]
    table(("made", "reason", "size", "path"), rows, wide="path")
    if not found:
        note(f"there is no backup yet; `threadkeep backup --store {store}` makes one")


@store_command("restore", "threadkeep restore last", "threadkeep restore ./copy.db --yes")
@click.argument("backup")
@store_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Check the backup, restore nothing.")
def restore(call: Call, *, backup: str, store: str, yes: bool, dry_run: bool) -> None:
    """Put a backup in the place of a store; what is there now is saved first.

    BACKUP is a path, the beginning of a name that `backup --list` shows, or `last`.
    """
    source = call.home.find_backup(backup, path=call.db, store=store)
    target = call.home.restore_target(call.db, store=store)
    with progress("checking"):
        problems = call.home.check_backup(source, store=store)
    if problems:
        raise Damaged(f"the backup {source} fails its check: {problems[0]}", hint="try another")
    saved = None
    if not dry_run:
        confirm(f"replace {target} by {source}?", yes=yes)
        saved = call.home.restore(source, path=call.db, store=store)
    if call.as_json:
        document(backup=source, restored=target, saved=saved, dry_run=dry_run)
        return
    note(f"{'would restore' if dry_run else 'restored'} {target} from {source}")
    if saved is not None:
        note(f"what was there before is in {saved}")
