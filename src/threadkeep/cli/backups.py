"""`threadkeep backup` and `threadkeep restore`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from threadkeep.cli.command import Call, confirm, store_command
from threadkeep.cli.options import OneOf
from threadkeep.cli.output import document, fail, note, progress, size_text, table, write
from threadkeep.errors import Damaged, Invalid
from threadkeep.home.backups import KINDS

if TYPE_CHECKING:
    from threadkeep.home.backups import BackupResult

store_option = click.option(
    "--store",
    type=OneOf(list(KINDS)),
    default="chat",
    show_default=True,
    help="Which store; with it, --db names a file of that kind.",
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
@click.option("--store", type=OneOf(list(KINDS)), help="Only this store instead of all of them.")
@click.option("--list", "listing", is_flag=True, help="List the backups instead of making one.")
def backup(call: Call, *, target: str | None, store: str | None, listing: bool) -> int:
    """Back up every live store, and check the copies row by row.

    TARGET is a file or a folder, or the name of the only store to back up; by default the copies go
    to `backups` beside the stores and old ones are removed. --db backs up a file of any store.
    """
    if store is None and target in KINDS and not Path(str(target)).exists():
        store, target = target, None
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
        for name, path in paths.items():
            write(str(path))
            note(f"{name}: {size_text(path.stat().st_size)}, verified")
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
        note(f"No backups yet; `threadkeep backup{named}` makes one")


@store_command(
    "restore",
    "threadkeep restore last --store knowledge",
    "threadkeep restore chat-20260115T103000.250Z-4711-manual.db",
    "threadkeep restore ./copy.db --yes",
)
@click.argument("backup", required=False)
@click.option("--store", type=OneOf(list(KINDS)), help="The store that `last` or a name refers to.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--dry-run", is_flag=True, help="Check the backup; restore nothing.")
def restore(call: Call, *, backup: str | None, store: str | None, yes: bool, dry_run: bool) -> None:
    """Restore a store from a backup; the current file is saved first.

    BACKUP is a path, the beginning of a name from `backup --list`, or `last`. The file shows which
    store it belongs to. Other programs can keep running; they wait for a moment.
    """
    if backup is None:
        msg = "Which backup should be restored?"
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
        confirm(f"Replace {target} with {source}?", yes=yes)
        saved = call.home.restore(source, path=call.db, store=store)
    if call.as_json:
        document(backup=source, restored=target, saved=saved, dry_run=dry_run)
        return
    note(f"{'would restore' if dry_run else 'restored'} {target} from {source}")
    if saved is not None:
        note(f"the previous file is kept as {saved}")
