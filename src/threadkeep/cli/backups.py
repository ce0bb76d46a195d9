"""`threadkeep backup` and `threadkeep restore`."""

from typing import TYPE_CHECKING

import click

from threadkeep.cli.command import Call, confirm, store_command
from threadkeep.cli.output import document, fail, note, progress, size_text, table, write
from threadkeep.errors import Damaged, Invalid
from threadkeep.home.backups import KINDS

if TYPE_CHECKING:
    from threadkeep.home.backups import BackupResult

store_option = click.option(
    "--store",
    type=click.Choice(list(KINDS)),
    default="chat",
    show_default=True,
    help="Which store; --db then names a file of that kind.",
)


@store_command(
    "backup",
    "threadkeep backup",
    "threadkeep backup --store knowledge",
    "threadkeep backup /mnt/usb",
    "threadkeep backup --list",
    lists=True,
)
@click.argument("target", required=False)
@click.option("--store", type=click.Choice(list(KINDS)), help="Only this store, not every one.")
@click.option("--list", "listing", is_flag=True, help="List the backups instead of making one.")
def backup(call: Call, *, target: str | None, store: str | None, listing: bool) -> int:
    """Copy every live store to a backup that is checked row by row.

    Without TARGET, a file or a folder, the copies go into `backups` beside the stores, and old
    copies make room. --db names one file, whichever store it is.
    """
    if listing:
        _list(call, store)
        return 0
    with progress("copying") as advance:
        made = call.home.backup_all(target, path=call.db, store=store, progress=advance)
    paths = {one.store: one.path for one in made if one.path is not None}
    if call.as_json:
        alone = {"backup": next(iter(paths.values()))} if len(made) == len(paths) == 1 else {}
        told = [{"store": store, "path": path} for store, path in paths.items()]
        call.answer("backups", backups=told, **alone)
    else:
        for path in paths.values():
            write(str(path))
    return _tell_failed(made)


def _tell_failed(made: "list[BackupResult]") -> int:
    code = 0
    for one in made:
        if one.problem is not None:
            fail(f"no backup of the {one.store} store: {one.problem.message}", one.problem.hint)
            code = code or one.problem.exit_code
    return code


def _list(call: Call, store: str | None) -> None:
    found = call.home.backups(call.db, store=store)
    if call.as_json:
        call.answer("backups", backups=found)
        return
    rows = [(one.at, one.store, one.reason, size_text(one.bytes), str(one.path)) for one in found]
    table(("made", "store", "reason", "size", "path"), rows, wide="path")
    if not found:
        named = f" --store {store}" if store else ""
        note(f"there is no backup yet; `threadkeep backup{named}` makes one")


@store_command(
    "restore",
    "threadkeep restore last --store knowledge",
    "threadkeep restore chat-20260115T103000.250Z-4711-manual.db",
    "threadkeep restore ./copy.db --yes",
)
@click.argument("backup", required=False)
@click.option(
    "--store", type=click.Choice(list(KINDS)), help="The store that `last` or a name is meant of."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Check the backup, restore nothing.")
def restore(call: Call, *, backup: str | None, store: str | None, yes: bool, dry_run: bool) -> None:
    """Put a backup in the place of its store; what is there now is saved first.

    BACKUP is a path, the beginning of a name that `backup --list` shows, or `last`. Which store it
    is of is told from the file. Other programs may go on: they wait for the moment that it takes.
    """
    if backup is None:
        msg = "which backup is to be restored?"
        named = f" --store {store}" if store else ""
        hint = f"`threadkeep backup --list{named}` shows them; `threadkeep restore last{named}`"
        raise Invalid(msg, hint=f"{hint} takes the newest")
    source = call.home.find_backup(backup, path=call.db, store=store)
    target = call.home.restore_target(call.db, store=store, backup=source)
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
