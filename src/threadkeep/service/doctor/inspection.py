"""Looking at the file of a store, without changing it and without waiting long."""

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from threadkeep.base.config import Config, read_settings
from threadkeep.base.files import PRIVATE_DIR, PRIVATE_FILE, SIDECARS
from threadkeep.base.json import decode
from threadkeep.base.processes import describe_process, lock_holders
from threadkeep.base.spool import Spool
from threadkeep.base.sqlite.backup import list_backups
from threadkeep.base.sqlite.checks import is_blank, journal_mode, sqlite_problems, table_problems
from threadkeep.base.sqlite.database import SqliteDatabase
from threadkeep.base.sqlite.lock import let_go, lock_for
from threadkeep.base.tx import Tx
from threadkeep.errors import (
    Busy,
    Invalid,
    NotFound,
    ReadOnly,
    SchemaMismatch,
    ThreadkeepError,
)
from threadkeep.knowledge.health import (
    all_drops,
    list_alarms,
    part_states,
    the_service,
    unknown_records,
)
from threadkeep.knowledge.queues import QUEUES, depths, locks
from threadkeep.knowledge.vector_rows import nodes_without_vector, vector_model
from threadkeep.service.doctor.facts import (
    CaptureFacts,
    CleanupFacts,
    DriftFacts,
    OpenMode,
    QueueFacts,
    SourceFacts,
    StoreFacts,
    Trouble,
    VectorFacts,
)
from threadkeep.service.doctor.invariants import check
from threadkeep.service.doctor.observations import DoctorObservation, DoctorScope
from threadkeep.sources.claude.paths import project_folders
from threadkeep.sources.records import UserHome

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
    unindexed: Callable[[Path], int] | None = None  # counts the rows that an index lacks
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
            SqliteDatabase(file, known.queries, read_only=True, budget=1.0) as database,
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
                unindexed=0 if problems or known.unindexed is None else known.unindexed(file),
                journal=journal_mode(tx),
            )
    except ThreadkeepError as error:
        return replace(facts, trouble=_kind(error), said=error.message)
    except UnicodeDecodeError:  # SQLite quotes damaged bytes of the schema in its own message
        return replace(facts, trouble="damaged", said=f"the schema of {file} is damaged")


def _target(known: StoreKind, version: int) -> int:
    return known.newest if known.target is None else known.target(version)


def _strange(tx: Tx, known: StoreKind, file: Path) -> dict[str, Any]:
    """Say what is wrong with a file that has no version; one that is still empty is fine."""
    if is_blank(tx):
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
    return table_problems(tx, _SMALL_TABLES)


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


# ------------------------------------------------------------------------------
# What the store and the logs say about capture and the work behind it, gathered for the doctor.


def look_at_capture(
    tx: Tx, seen: DoctorObservation, place: DoctorScope, settings: Config
) -> dict[str, Any]:
    """Gather the facts that only a readable knowledge store can tell, by the names of `Facts`."""
    now = seen.snapshot.now
    service = the_service(tx)
    return {
        "capture": _capture(tx, seen, place, settings),
        "queues": tuple(_queues(tx, now)),
        "vectors": _vectors(tx, settings, now),
        "service": service,
        "service_runs": service is not None and service.is_running,
        "service_hindrance": "" if service is None else service.hindrance(now),
        "parts": tuple(part_states(tx)),
    }


def _capture(tx: Tx, seen: DoctorObservation, place: DoctorScope, settings: Config) -> CaptureFacts:
    alarms = list_alarms(tx, active=False)
    waiting, trouble = seen.snapshot.waiting, _spool_trouble(place.spool)
    return CaptureFacts(
        sources=tuple(_sources(seen)),
        disabled=settings.capture.disable,
        violations=tuple(check(seen.snapshot)),
        resident=seen.snapshot.resident,
        alarms=tuple(one for one in alarms if one.active),
        resolved=sum(one.resolved_at is not None and one.acked_at is None for one in alarms),
        waiting=waiting,
        refused=_count_files(place.spool / "refused"),
        spool=str(place.spool),
        spool_trouble=trouble,
        spool_blocked=place.spool.exists() and not place.spool.is_dir(),
        drops=tuple(all_drops(tx)),
        drift=tuple(
            DriftFacts(one.agent, one.kind, one.count, one.last_seen) for one in unknown_records(tx)
        ),
        cleanup=_cleanup(place.user),
    )


def _sources(seen: DoctorObservation) -> Iterator[SourceFacts]:
    behind = {one.agent: one for one in seen.snapshot.behind}
    for agent, found in sorted(seen.ground.found.items()):
        missed = seen.ground.missed.get(agent, 0)
        one = behind.get(agent)
        example, why = (one.example, one.why) if one is not None else ("", "")
        unseen, fix = (one.closed, one.fix) if one is not None else (False, "")
        told = SourceFacts(agent, found, missed, example, why, unseen=unseen, fix=fix)
        closed = not unseen and _is_closed(example)
        yield msgspec.structs.replace(told, closed=closed)


def _queues(tx: Tx, now: int) -> Iterator[QueueFacts]:
    counts, found = depths(tx), locks(tx, now)
    for name in sorted(counts.keys() & QUEUES.keys()):  # not of the family that is frozen
        waiting, failed = counts[name].get("pending", 0), counts[name].get("failed", 0)
        yield QueueFacts(name, waiting, failed, found[name].held, found[name].lost)


def _vectors(tx: Tx, settings: Config, now: int) -> VectorFacts | None:
    used = None if settings.embeddings.provider == "off" else vector_model(tx)
    if used is None:
        return None
    wanted = settings.embeddings.name if settings.embeddings.provider == "url" else None
    return VectorFacts(used.model, wanted or "", nodes_without_vector(tx, now))


# ---------------------------------------------------------------------- files of others


def _is_closed(path: str) -> bool:
    return os.path.exists(path) and not os.access(path, os.R_OK)  # noqa: PTH110  (also of bytes)


def _spool_trouble(folder: Path) -> str:
    try:
        Spool(folder).waiting()
    except ThreadkeepError as error:
        return error.message
    return ""


def _count_files(folder: Path) -> int:
    try:
        return len(os.listdir(folder))  # noqa: PTH208  (only how many)
    except OSError:
        return 0


def _cleanup(user: UserHome) -> CleanupFacts | None:
    """Read how long Claude Code keeps transcripts; None if it was never used here."""
    folder = next((one.parent for one in project_folders(user) if one.is_dir()), None)
    if folder is None:
        return None
    path = folder / "settings.json"
    try:
        found = decode(read_settings(path))
    except NotFound:
        return CleanupFacts(str(path), None)
    except ThreadkeepError as error:
        return CleanupFacts(str(path), None, error.message)
    days = found.get("cleanupPeriodDays") if isinstance(found, dict) else None
    return CleanupFacts(str(path), days if isinstance(days, int) else None)
