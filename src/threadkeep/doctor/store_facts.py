"""Looking at the file of a store, without changing it and without waiting long."""

import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from threadkeep.base.backup import list_backups
from threadkeep.base.checks import sqlite_problems
from threadkeep.base.files import PRIVATE_DIR, PRIVATE_FILE, SIDECARS
from threadkeep.base.lock import let_go, lock_for
from threadkeep.base.processes import describe_process, lock_holders
from threadkeep.base.sqlite import Database
from threadkeep.base.tx import Tx
from threadkeep.doctor.facts import OpenMode, StoreFacts, Trouble
from threadkeep.errors import Busy, Invalid, ReadOnly, SchemaMismatch, ThreadkeepError

# To look at every page of so much takes 0.2 s; of larger files only small tables are looked at.
_WHOLE_BYTES: Final = 64 << 20
_SMALL_TABLES: Final = (
    *("sessions", "source_health", "capture_alarms", "tk_sessions", "tk_logs", "tk_watchdog"),
    *("chat_sessions", "tk_recordings", "agent_groups", "messaging_groups"),
)
_PATIENCE: Final = 0.5
_PAUSE: Final = 0.05
_OTHERS: Final = 0o077
# Bytes of -shm that SQLite locks: while writing, while reading the log, while the file is open.
_WRITES, _READS, _OPEN = (120, 120), (123, 127), (128, 128)
# The same in a file without a write-ahead log: reserved, pending, and the bytes of its readers.
_ROLLBACK_WRITES: Final = (0x40000000, 0x40000001)
_ROLLBACK_READS: Final = (0x40000002, 0x400001FF)  # locked for writing: nobody else may even read


class StoreKind(NamedTuple):
    """A kind of store: how its version is read, and which ones this program writes."""

    name: str
    queries: Mapping[str, str]
    read_version: Callable[[Tx], int | None]
    newest: int
    unindexed: Callable[[Tx], int]
    target: Callable[[int], int] | None = None  # which version one is brought to; else the newest
    # Why a file must not be written, where that is told by its tables; else by its version.
    refusal: Callable[[Tx], str | None] | None = None


def look_at_store(
    known: StoreKind,
    path: Path,
    *,
    ours: bool = True,
    wait: Callable[[float], None] = time.sleep,
) -> StoreFacts:
    """Find out what a store's file is like; `ours` tells whether it lies in a folder of ours."""
    file = Path(os.path.realpath(path))
    if not file.exists():
        return StoreFacts(known.name, str(path), exists=False)
    facts = StoreFacts(
        name=known.name,
        path=str(path),
        exists=True,
        bytes=_size(file),
        wal_bytes=_size(Path(f"{file}-wal")),
        open_modes=tuple(_open_modes(file)) if ours else (),
        writer=_writer(file, wait),
        reader=_named(_others(lock_holders(Path(f"{file}-shm"), "READ", *_READS))),
        users=_users(file),
        last_backup=_last_backup(path),
    )
    if owner := _named(_others(lock_holders(file, "WRITE", *_ROLLBACK_READS))):
        # Opening it would wait for seconds, and end with the same words.
        said = f"{file} is locked by {owner}, which lets nobody read it"
        return replace(facts, trouble="locked", said=said)
    return _look_inside(known, file, facts, ours=ours)


def _look_inside(known: StoreKind, file: Path, facts: StoreFacts, *, ours: bool) -> StoreFacts:
    try:
        with (
            Database(file, known.queries, read_only=True, budget=1.0) as database,
            database.read() as tx,
        ):
            version = known.read_version(tx)
            if version is None:
                return replace(facts, **_strange(tx, known, file))
            said = _refused(tx, known, file, version)
            if said is not None:
                return replace(facts, version=version, trouble="newer", said=said)
            problems = _problems(tx, facts)
            return replace(
                facts,
                version=version,
                older=ours and 0 < version < _target(known, version),
                problems=tuple(problems),
                whole=facts.bytes <= _WHOLE_BYTES,
                unindexed=0 if problems else known.unindexed(tx),
                journal=str(tx.execute("PRAGMA journal_mode").fetchone()[0]),
            )
    except ThreadkeepError as error:
        return replace(facts, trouble=_kind(error), said=error.message)
    except UnicodeDecodeError:  # SQLite quotes damaged bytes of the schema in its own message
        return replace(facts, trouble="damaged", said=f"the schema of {file} is damaged")


def _target(known: StoreKind, version: int) -> int:
    return known.newest if known.target is None else known.target(version)


def _strange(tx: Tx, known: StoreKind, file: Path) -> dict[str, Any]:
    """Say what is wrong with a file that has no version; one that is still empty is fine."""
    if tx.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None:
        return {"version": 0}
    return {"trouble": "foreign", "said": f"{file} is a database, but no {known.name} store"}


def _refused(tx: Tx, known: StoreKind, file: Path, version: int) -> str | None:
    if known.refusal is not None:
        why = known.refusal(tx)
        return None if why is None else f"{file} can only be read: {why}"
    if version <= known.newest:
        return None
    return f"{file} has schema version {version}; this program writes {known.newest}"


def _kind(error: ThreadkeepError) -> Trouble:
    kinds: tuple[tuple[type[ThreadkeepError], Trouble], ...] = (
        *((Busy, "locked"), (SchemaMismatch, "newer"), (ReadOnly, "closed"), (Invalid, "foreign")),
    )
    return next((kind for error_type, kind in kinds if isinstance(error, error_type)), "damaged")


def _problems(tx: Tx, facts: StoreFacts) -> list[str]:
    """Let SQLite look at the pages: at all of a small file, at the small tables of a large one."""
    if facts.bytes <= _WHOLE_BYTES:
        return sqlite_problems(tx, quick=True, references=False)
    present = {str(row[0]) for row in tx.execute("SELECT name FROM sqlite_master")}
    found = []
    for table in _SMALL_TABLES:
        if table in present:
            said = [str(row[0]) for row in tx.execute(f"PRAGMA quick_check('{table}')")]
            found += [f"quick_check: {line}" for line in said if line != "ok"]
    return found


# ---------------------------------------------------------------------- the file


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _open_modes(file: Path) -> Iterable[OpenMode]:
    """Yield the store's files, and its folder, that others may look into."""
    paths = [file, *(Path(f"{file}{suffix}") for suffix in SIDECARS)]
    for path, wanted in [*((one, PRIVATE_FILE) for one in paths), (file.parent, PRIVATE_DIR)]:
        try:
            mode = stat.S_IMODE(os.stat(path).st_mode)
        except OSError:
            continue
        if mode & _OTHERS:
            yield OpenMode(str(path), mode, wanted)


def _last_backup(path: Path) -> int | None:
    try:
        found = list_backups(path)
        return os.stat(found[0]).st_mtime_ns // 1_000_000 if found else None
    except OSError:
        return None


# ---------------------------------------------------------------------- who uses it


def _users(file: Path) -> tuple[str, ...]:
    pids = set(lock_holders(Path(f"{file}-shm"), "READ", *_OPEN)) - {os.getpid()}
    return tuple(describe_process(pid) for pid in sorted(pids))


def _writer(file: Path, wait: Callable[[float], None]) -> str:
    """Name who holds the lock for writing during all of half a second; most let go at once."""
    holder = _holder(file)
    waited = 0.0
    while holder and waited < _PATIENCE:
        wait(_PAUSE)
        waited += _PAUSE
        holder = _holder(file)
    return holder


def _holder(file: Path) -> str:
    pids = lock_holders(Path(f"{file}-shm"), "WRITE", *_WRITES)
    pids += lock_holders(file, "WRITE", *_ROLLBACK_WRITES)
    return _named(_others(pids)) or _our_holder(file)


def _our_holder(file: Path) -> str:
    if not Path(f"{file}.lock").exists():
        return ""
    try:
        lock = lock_for(file)
    except ThreadkeepError:
        return ""
    try:
        return lock.holder() or ""
    finally:
        let_go(lock)


def _others(pids: list[int]) -> list[int]:
    return [pid for pid in pids if pid != os.getpid()]


def _named(pids: list[int]) -> str:
    return describe_process(pids[0]) if pids else ""
