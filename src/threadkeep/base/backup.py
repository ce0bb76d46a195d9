"""Backups: online copies through SQLite's backup API, each checked before it counts.

Never a file copy: the newest commits live in the write-ahead log, and opening the live file
would drop SQLite's locks on it.
"""

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from threadkeep.base.checks import sqlite_problems
from threadkeep.base.clock import Clock, now_ms
from threadkeep.base.files import PRIVATE_FILE, make_private_dir, sync_dir
from threadkeep.base.lock import lock_for
from threadkeep.base.sqlite import DEFAULT_BUDGET, Database
from threadkeep.base.trouble import translate
from threadkeep.errors import Damaged, NotFound

Progress = Callable[[int, int], None]
# A contract's own check of a copy: gives what is wrong with it.
Check = Callable[[Database], list[str]]

_PAGES_PER_STEP = 2048
_SIDECARS = ("-wal", "-shm", "-journal")
KEEP_COUNT = 10
KEEP_DAYS = 30
_DAY_MS = 86_400_000


class Kept(NamedTuple):
    """Which backups to keep: the `newest` so many, and of those none older than `days`.

    The newest one is never removed.
    """

    newest: int = KEEP_COUNT
    days: int = KEEP_DAYS


def stamp(ms: int) -> str:
    """Write a time so that file names sort by it: 20260115T103000.250Z."""
    whole = time.strftime("%Y%m%dT%H%M%S", time.gmtime(ms // 1000))
    return f"{whole}.{ms % 1000:03d}Z"


def backup_folder(database: Path) -> Path:
    """Give the folder that holds the backups of a database."""
    return database.parent / "backups"


def list_backups(database: Path) -> list[Path]:
    """List the backups of a database, newest first."""
    return sorted(backup_folder(database).glob(f"{database.stem}-*.db"), reverse=True)


def make_backup(
    database: Database,
    target: Path | None = None,
    *,
    reason: str = "manual",
    check: Check | None = None,
    progress: Progress | None = None,
    keep: Kept | None = None,
    clock: Clock = now_ms,
) -> Path:
    """Copy a live database to a new file, check the copy, and only then give it its name."""
    final = target or _next_name(database.path, reason, clock())
    make_private_dir(final.parent)
    partial = final.with_name(final.name + ".partial")
    _remove(partial)
    try:
        _copy(database, partial, progress)
        _check_copy(partial, check)
        _sync(partial)
        partial.replace(final)
        sync_dir(final.parent)
    except BaseException:
        _remove(partial)
        raise
    if target is None:
        prune_backups(database.path, keep or Kept(), clock())
    return final


def _next_name(database: Path, reason: str, now: int) -> Path:
    return backup_folder(database) / f"{database.stem}-{stamp(now)}-{os.getpid()}-{reason}.db"


def _copy(database: Database, partial: Path, progress: Progress | None) -> None:
    descriptor = os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE_FILE)
    os.close(descriptor)
    target = sqlite3.connect(partial, isolation_level=None)
    try:
        # The open read transaction pins one snapshot: writers go on, the copy does not restart.
        with database.read() as tx:
            tx.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
            tx.copy_to(target, _PAGES_PER_STEP, progress)
        target.execute("PRAGMA journal_mode = DELETE").fetchone()
    except sqlite3.Error as error:
        raise translate(error, partial) from error
    finally:
        target.close()


def _check_copy(copy: Path, check: Check | None) -> None:
    problems = check_file(copy, check)
    if problems:
        msg = f"the backup {copy.name} fails its check: {problems[0]}"
        raise Damaged(msg, hint="run verify on the database that was copied")


def check_file(path: Path, check: Check | None = None) -> list[str]:
    """Check a database file that nobody writes: SQLite's checks, then the contract's own."""
    with Database(path, {}, read_only=True) as copy:
        with copy.read() as tx:
            problems = sqlite_problems(tx)
        return problems or (check(copy) if check else [])


def _sync(path: Path) -> None:
    """A backup is not live: nobody else has it open, so a descriptor of it is safe."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    for suffix in ("", *_SIDECARS):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def prune_backups(database: Path, keep: Kept, now: int) -> list[Path]:
    """Remove the backups that are too many or too old, never the newest; name those removed."""
    oldest = stamp(now - keep.days * _DAY_MS)
    backups = list_backups(database)
    gone = [
        path
        for place, path in enumerate(backups)
        if place > 0 and (place >= keep.newest or _stamp_of(path, database) < oldest)
    ]
    for path in gone:
        _remove(path)
    return gone


def _stamp_of(backup: Path, database: Path) -> str:
    return backup.name.removeprefix(f"{database.stem}-").split("-")[0]


def restore_backup(
    source: Path,
    target: Path,
    *,
    check: Check | None = None,
    budget: float = DEFAULT_BUDGET,
    clock: Clock = now_ms,
) -> Path | None:
    """Put a checked backup in the place of a database; give where the replaced data went.

    A sound database is replaced inside one transaction, so programs that have it open go on with
    the restored data. A damaged one is moved aside, whole, first.
    """
    if not source.is_file():
        msg = f"there is no backup at {source}"
        raise NotFound(msg, hint="`threadkeep backup --list` shows the backups")
    problems = check_file(source, check)
    if problems:
        msg = f"the backup {source} fails its check, nothing was restored: {problems[0]}"
        raise Damaged(msg, hint="try an older backup")
    if not target.exists():
        _overwrite(source, target, budget)
        return None
    try:
        with Database(target, {}, budget=budget) as current:
            saved = make_backup(current, reason="before-restore", clock=clock)
    except Damaged:
        saved = _set_aside(target, clock())
    _overwrite(source, target, budget)
    return saved


def _set_aside(target: Path, now: int) -> Path:
    """Rename a damaged database and its sidecars; nothing of it is deleted."""
    aside = target.with_name(f"{target.name}.damaged-{stamp(now)}")
    lock = lock_for(target)
    lock.acquire(DEFAULT_BUDGET)
    try:
        for suffix in ("", *_SIDECARS):
            part = Path(f"{target}{suffix}")
            if part.exists():
                part.rename(f"{aside}{suffix}")
    finally:
        lock.release()
    return aside


def _overwrite(source: Path, target: Path, budget: float) -> None:
    with Database(target, {}, budget=budget) as database:
        database.replace_with(source)
