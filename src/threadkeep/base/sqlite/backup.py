"""Backups: online copies through SQLite's backup API, each checked before it counts.

Never a file copy: the newest commits live in the write-ahead log, and opening the live file
would drop SQLite's locks on it.
"""

import logging
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple

from threadkeep.base.clock import Clock, now_ms
from threadkeep.base.config import KEEP_COUNT, KEEP_DAYS
from threadkeep.base.database import DEFAULT_BUDGET, Database
from threadkeep.base.files import (
    PRIVATE_FILE,
    SIDECARS,
    created_meanwhile,
    make_private_dir,
    put_in_place,
    sync_dir,
    translate_os,
    wal_allowed,
)
from threadkeep.base.processes import is_running
from threadkeep.base.sqlite.checks import sqlite_problems
from threadkeep.base.sqlite.connect import outside_users
from threadkeep.base.sqlite.database import SqliteDatabase
from threadkeep.base.sqlite.errors import translate
from threadkeep.base.sqlite.lock import LockHeld, let_go, lock_for
from threadkeep.base.sqlite.tx import SqliteTx
from threadkeep.base.sqlite.upkeep import sqlite_file
from threadkeep.base.tx import Sql
from threadkeep.errors import Busy, Conflict, Damaged, NotFound

log = logging.getLogger(__name__)

Progress = Callable[[int, int], None]
# A contract's own check of a copy: gives what is wrong with it.
Check = Callable[[SqliteDatabase], list[str]]

_PAGES_PER_STEP = 2048
_DAY_MS = 86_400_000
_MINUTE_MS = 60_000  # clocks of two programs differ by less
_REASON_LENGTH = 40
_BEFORE_RESTORE = "before-restore"
_STAMP = r"(\d{8}T\d{6}\.\d{3}Z)"
_STAMP_PARTS = "%Y%m%dT%H%M%S.%fZ"


class BackupRetention(NamedTuple):
    """Which backups to keep: the `newest` so many, and of those none older than `days`.

    The newest one is never removed.
    """

    newest: int = KEEP_COUNT
    days: int = KEEP_DAYS

    @property
    def longest_gap(self) -> int:
        """How far one step of time makes all that is older look older, in milliseconds.

        A clock that is a year ahead would else take every backup but the one just made.
        """
        return max(self.days * _DAY_MS // 4, _DAY_MS)


def stamp(ms: int) -> str:
    """Write a time so that file names sort by it: 20260115T103000.250Z."""
    whole = time.strftime("%Y%m%dT%H%M%S", time.gmtime(ms // 1000))
    return f"{whole}.{ms % 1000:03d}Z"


def stamp_time(text: str) -> int | None:
    """Read a time back from the name of a backup, in epoch milliseconds; None if it is none."""
    try:
        moment = datetime.strptime(text, _STAMP_PARTS).replace(tzinfo=UTC)
    except ValueError:
        return None
    return round(moment.timestamp() * 1000)


def backup_folder(database: Path) -> Path:
    """Return the folder that holds the backups of a database."""
    return database.parent / "backups"


def list_backups(database: Path, now: int | None = None) -> list[Path]:
    """List the backups of a database, newest first."""
    folder, now = backup_folder(database), now_ms() if now is None else now
    if not folder.is_dir():
        return []
    times = {path: _time_of(path, database) for path in folder.iterdir()}
    found = [(recency(at, now), path) for path, at in times.items() if at is not None]
    return [path for _, path in sorted(found, reverse=True)]


def recency(at: int, now: int) -> tuple[bool, int]:
    """Return what backups are sorted by: a time to come is one of a wrong clock, and comes last.

    As the newest it would be what a restore takes, and its successors would go as too many.
    """
    return at <= now + _MINUTE_MS, at


def _time_of(path: Path, database: Path) -> int | None:
    """Read the time in a backup's name; None for the backups of a database `chat-old` of `chat`."""
    name = rf"{re.escape(database.stem)}-{_STAMP}-.*{re.escape(database.suffix)}"
    found = re.fullmatch(name, path.name)
    return stamp_time(found[1]) if found else None


def make_backup(
    database: Database,
    target: Path | None = None,
    *,
    reason: str = "manual",
    check: Check | None = None,
    progress: Progress | None = None,
    keep: BackupRetention | None = None,
    clock: Clock = now_ms,
) -> Path:
    """Copy a live database to a new file, check the copy, and only then give it its name."""
    file = sqlite_file(database)
    final = target or _next_name(file.path, reason, clock())
    if final.exists():
        msg = f"{final} already exists and was left unchanged"
        raise Conflict(msg, hint="choose another name for the backup")
    _save(final, lambda partial: _copy_snapshot(file, partial, progress), check)
    if target is None:
        prune_backups(file.path, keep or BackupRetention(), clock())
    return final


def _save(final: Path, copy: Callable[[Path], None], check: Check | None = None) -> None:
    """Let a copy grow in a new file, and give it its name once it was checked."""
    make_private_dir(final.parent)
    _sweep_partials(final)
    with _growing(final) as partial:
        copy(partial)
        _check_copy(partial, check)
        _sync(partial)
        partial.replace(final)
        sync_dir(final.parent)


@contextmanager
def _growing(final: Path) -> Iterator[Path]:
    """Return the file that a copy grows in; it is removed if it does not get its name."""
    partial = _new_partial(final)
    try:
        yield partial
    except OSError as error:
        remove_with_sidecars(partial)
        raise translate_os(error, final, "cannot write") from error
    except BaseException:
        remove_with_sidecars(partial)
        raise


def _next_name(database: Path, reason: str, now: int) -> Path:
    # Whatever the caller gives as a reason, the file stays in the folder and its name is legal.
    words = re.sub(r"[^A-Za-z0-9]+", "-", reason)[:_REASON_LENGTH].strip("-") or "backup"
    name = f"{database.stem}-{stamp(now)}-{os.getpid()}-{words}{database.suffix}"
    path = backup_folder(database) / name
    return _next_name(database, reason, now + 1) if path.exists() else path


def _new_partial(final: Path) -> Path:
    """Create the private file a copy grows in, under a name of its own."""
    partial = final.with_name(f"{final.name}.{os.getpid()}-{os.urandom(4).hex()}.partial")
    try:
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE_FILE))
    except OSError as error:
        raise translate_os(error, partial, "cannot create") from error
    return partial


def _sweep_partials(final: Path) -> None:
    """Remove the unfinished copies that crashed backups of this kind left beside `final`."""
    kind = re.escape(re.split(_STAMP, final.name)[0])
    for path in final.parent.iterdir():
        found = re.fullmatch(rf"{kind}.*\.(\d+)-[0-9a-f]{{8}}\.partial", path.name)
        if found and not is_running(int(found[1])):
            remove_with_sidecars(path)


def _copy_snapshot(
    database: SqliteDatabase, partial: Path, progress: Progress | None = None
) -> None:
    # The open read transaction pins one snapshot: writers continue, the copy does not restart.
    with database.read() as tx:
        tx.one(Sql("SELECT 1 FROM sqlite_master LIMIT 1"))
        _copy(tx, partial, progress)


def _copy(tx: SqliteTx, partial: Path, progress: Progress | None = None) -> None:
    target = sqlite3.connect(partial, isolation_level=None)
    try:
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
    try:
        with SqliteDatabase(path, {}, read_only=True) as copy:
            with copy.read() as tx:
                # Rows without a parent are what another program left in the database: a true copy
                # has them too, and a store that has them needs its backups no less.
                problems = sqlite_problems(tx, references=False)
            return problems or (check(copy) if check else [])
    except Damaged as error:  # too much to be looked through
        return [error.message]


def _sync(path: Path) -> None:
    """A backup is not live: nobody else has it open, so a descriptor of it is safe."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise translate_os(error, path, "cannot write") from error
    finally:
        os.close(descriptor)


def remove_with_sidecars(path: Path) -> bool:
    """Remove a file that nobody has open, with its sidecars; one that stays is only told of."""
    try:
        for suffix in ("", *SIDECARS):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
    except OSError as error:
        log.warning("cannot remove %s: %s", path, error.strerror)
        return False
    return True


def prune_backups(database: Path, keep: BackupRetention, now: int) -> list[Path]:
    """Remove the backups that are too many or too old, never the newest; name those removed.

    What a restore replaced is nowhere else: such copies do not count, and go by age alone.
    """
    backups = list_backups(database, now)
    counted = [path for path in backups if not path.stem.endswith(f"-{_BEFORE_RESTORE}")]
    too_many = set(counted[keep.newest :])
    ages = _ages([_time_of(path, database) or 0 for path in backups], now, keep.longest_gap)
    gone = [
        path
        for path, age in list(zip(backups, ages, strict=True))[1:]
        if path in too_many or age > keep.days * _DAY_MS
    ]
    return [path for path in gone if remove_with_sidecars(path)]


def _ages(times: list[int], now: int, longest_gap: int) -> list[int]:
    """Tell how old backups are, newest first: what lies between two of them is not believed whole.

    Nobody can tell a machine that was off from a clock that was put ahead.
    """
    gaps = (after - at for after, at in pairwise((now, *times)))
    return list(accumulate(min(max(gap, 0), longest_gap) for gap in gaps))


def restore_backup(
    source: Path,
    target: Path,
    *,
    check: Check | None = None,
    budget: float = DEFAULT_BUDGET,
    clock: Clock = now_ms,
) -> Path | None:
    """Put a checked backup in the place of a database; give where the replaced data went.

    A sound database is saved and replaced inside one transaction: every commit is in the copy
    or in the restored data, and programs that have it open continue with that. A damaged one
    is moved aside, whole; ours that have it open refuse to write, and others must be closed.
    """
    _refuse_bad_source(source, target, check)
    place = Path(os.path.realpath(target))  # a link stays, and leads to the restored file
    missing = not place.exists()
    # Looked at without writing: SQLite would fold the log into a damaged file and delete it.
    if not missing and not check_file(place):
        return _restore_into(source, target, budget, clock)
    return _restore_beside(source, place, budget, clock(), missing=missing)


def _refuse_bad_source(source: Path, target: Path, check: Check | None) -> None:
    if not source.is_file():
        msg = f"there is no backup at {source}"
        raise NotFound(msg, hint="`threadkeep backup --list` shows the backups")
    if target.exists() and source.samefile(target):
        msg = f"{source} is the database itself, not a backup of it"
        raise Conflict(msg, hint="`threadkeep backup --list` shows the backups")
    problems = check_file(source, check)
    if problems:
        msg = f"the backup {source} fails its check, nothing was restored: {problems[0]}"
        raise Damaged(msg, hint="try an older backup")


def _restore_into(source: Path, target: Path, budget: float, clock: Clock) -> Path:
    saved: list[Path] = []

    def save(tx: SqliteTx) -> None:
        saved.append(_next_name(current.path, _BEFORE_RESTORE, clock()))
        _save(saved[0], lambda partial: _copy(tx, partial))

    with SqliteDatabase(target, {}, budget=budget) as current, _fitting(source, current) as fitting:
        current.replace_with(fitting, save)
    return saved[0]


@contextmanager
def _fitting(source: Path, current: SqliteDatabase) -> Iterator[Path]:
    """Return a backup in pages of a database's size: with a write-ahead log it cannot change it."""
    with SqliteDatabase(source, {}, read_only=True) as backup:
        theirs, ours = _page_size(backup), _page_size(current)
    if theirs == ours or current.journal_mode != "wal":
        yield source
        return
    with _growing(current.path) as partial:
        _copy_file(source, partial, wal=False)
        with closing(sqlite3.connect(partial, isolation_level=None)) as connection:
            try:
                connection.execute("PRAGMA trusted_schema = OFF")
                connection.execute(f"PRAGMA page_size = {ours:d}")
                connection.execute("VACUUM")
            except sqlite3.Error as error:
                raise translate(error, partial) from error
        yield partial
        remove_with_sidecars(partial)


def _page_size(database: Database) -> int:
    with database.read() as tx:
        return int(tx.value(Sql("PRAGMA page_size")))


def _restore_beside(
    source: Path, target: Path, budget: float, now: int, *, missing: bool
) -> Path | None:
    """Rebuild the database, then give it the name; what is left of the old one goes aside."""
    make_private_dir(target.parent)
    _sweep_partials(target)
    lock = lock_for(target)
    try:
        with _growing(target) as partial:
            _copy_file(source, partial, wal=wal_allowed(target)[0])
            _sync(partial)
            with LockHeld(lock, budget):
                if missing and target.exists():
                    raise created_meanwhile(target)
                _refuse_outside_users(target)
                lock.note_move()  # before: whoever is told too early merely opens it again
                aside = put_in_place(partial, target, f"damaged-{stamp(now)}")
            sync_dir(target.parent)
    finally:
        let_go(lock)
    return aside


def _refuse_outside_users(target: Path) -> None:
    """A program that does not know our lock would continue writing the file that is moved aside."""
    users = outside_users(target)
    if users:
        msg = f"{target} is damaged, and {' and '.join(users)} has it open: nothing was restored"
        raise Busy(msg, hint="stop that program, then restore again")


def _copy_file(source: Path, partial: Path, *, wal: bool) -> None:
    with SqliteDatabase(source, {}, read_only=True) as backup:
        _copy_snapshot(backup, partial)
    if wal:
        connection = sqlite3.connect(partial, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.Error as error:
            raise translate(error, partial) from error
        finally:
            connection.close()
