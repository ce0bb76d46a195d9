"""A store whose verbs are awaited, each in a thread: what Hermes calls AsyncSessionDB."""

import asyncio
import errno
from functools import wraps
from pathlib import Path
from typing import Any, Final

from threadkeep.base.files import holders_of
from threadkeep.base.sqlite import checks
from threadkeep.base.sqlite.backup import make_backup
from threadkeep.errors import Busy, Damaged, ReadOnly, StorageFull, ThreadkeepError
from threadkeep.state.context import Json, newest_columns
from threadkeep.state.leases import (
    CompressionSessionBusyError,
    CompressionSessionClosedError,
    SessionTurnLeaseLostError,
)
from threadkeep.state.session_db import SessionDB


class AwaitedSessions:
    """Offers everything of a SessionDB; what can be called is a coroutine. It is not closed."""

    def __init__(self, db: SessionDB) -> None:
        """Give an open store an async face."""
        self._db = db

    def __getattr__(self, name: str) -> Any:
        """Return a verb as a coroutine function, anything else as it is."""
        found = getattr(self._db, name)
        if not callable(found):
            return found

        @wraps(found)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            return await asyncio.to_thread(found, *args, **kwargs)

        return awaited


# ------------------------------------------------------------------------------
# Why a session could not be stored, in the words by which Hermes tells its users what to do.

PERSISTENCE_ERROR_CAUSES: Final = (
    *("locked", "compression", "compression_closed", "turn_lease", "corrupt", "disk", "unknown"),
)
_FULL: Final = (
    *("no space left on device", "not enough space", "database or disk is full", "disk full"),
    *("full disk", "enospc"),
)
_BY_KIND: Final = (
    (SessionTurnLeaseLostError, "turn_lease"),
    (CompressionSessionClosedError, "compression_closed"),
    (CompressionSessionBusyError, "compression"),
    (Damaged, "corrupt"),
    (Busy, "locked"),
    (StorageFull, "disk"),
    (ReadOnly, "disk"),
)
# In this order: "database disk image is malformed" is no full disk.
_BY_WORDS: Final = (
    ("turn_lease", ("turn lease",)),
    ("compression_closed", ("closed by compression",)),
    ("compression", ("being compressed", "compression lease")),
    ("corrupt", ("malformed", "not a database", "database corruption")),
    ("locked", ("locked", "busy")),
    ("disk", (*_FULL, "disk", "readonly", "read-only")),
)


def is_disk_full_error(exc: BaseException | str | None) -> bool:
    """Tell whether an error, or its text, says that there is no space left."""
    if isinstance(exc, StorageFull) or (isinstance(exc, OSError) and exc.errno == errno.ENOSPC):
        return True
    return exc is not None and any(words in str(exc).lower() for words in _FULL)


def classify_persistence_error(exc_or_str: BaseException | str | None) -> str:
    """Return the cause of an error, or of its text: one of PERSISTENCE_ERROR_CAUSES."""
    if exc_or_str is None:
        return "unknown"
    for kind, cause in _BY_KIND:
        if isinstance(exc_or_str, kind):
            return cause
    text = str(exc_or_str).lower()
    if isinstance(exc_or_str, OSError) and is_disk_full_error(exc_or_str):
        return "disk"
    return next((cause for cause, words in _BY_WORDS if any(w in text for w in words)), "unknown")


# ------------------------------------------------------------------------------
# Facts about a state file for programs that look at it from outside: size, holders, soundness.

_FTS: Final = ("messages_fts", "messages_fts_trigram", "messages_fts_cjk")
_META: Final = "SELECT CAST(value AS INTEGER) FROM state_meta WHERE key = '{}'"
_QUESTIONS: Final = {
    **{name: f"PRAGMA {name}" for name in ("page_count", "page_size", "freelist_count")},
    "journal_mode": "PRAGMA journal_mode",
    "messages": "SELECT count(*) FROM messages",
    "sessions": "SELECT count(*) FROM sessions",
    "names": "SELECT group_concat(name) FROM sqlite_master WHERE type = 'table'",
    **{
        name: _META.format(name)
        for name in ("fts_storage_version", "fts_rebuild_high_water", "fts_rebuild_progress")
    },
}
# A damaged full-text table shows only when something is written.
_PROBES: Final = (
    "SELECT id FROM sessions LIMIT 1",
    "INSERT INTO sessions(id, source, started_at) VALUES ('threadkeep probe', 'probe', 0)",
    """INSERT INTO messages(session_id, role, content, timestamp)
    VALUES ('threadkeep probe', 'user', 'probe', 0)""",
)


def collect_state_db_stats(db_path: str | Path) -> Json:
    """Tell the size, the mode and the counts of a file without changing it; None where unknown."""
    path = Path(db_path)
    found = checks.ask(path, _QUESTIONS)
    names = found.pop("names")
    present = None if names is None else set(str(names).split(","))
    pages, size = found["page_count"], found["page_size"]
    high, done = found["fts_rebuild_high_water"], found["fts_rebuild_progress"]
    return {
        **found,
        "logical_size_bytes": None if pages is None or size is None else pages * size,
        "wal_size_bytes": _size(Path(f"{path}-wal")),
        "fts_tables": None if present is None else {name: name in present for name in _FTS},
        "fts_rebuild_pending": None if present is None else (done or 0) < (high or 0),
    }


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size if path.exists() else 0
    except OSError:
        return None


def count_db_holders(db_path: str | Path) -> int | None:
    """Count the processes that have a file open, None where the system does not tell."""
    found = holders_of(Path(db_path))
    return None if found is None else len(found)


def opens_cleanly(db_path: str | Path) -> str | None:
    """Tell what is wrong with a state file, None if it can be read and written."""
    return checks.trouble_of(Path(db_path), _PROBES)


def repair_state_db_schema(db_path: str | Path, *, backup: bool = True) -> Json:
    """Refill damaged full-text tables from the messages, after a backup; tell what was done.

    The messages themselves are not touched. What this cannot mend is told in `error`.
    """
    path = Path(db_path)
    report: Json = {"repaired": False, "strategy": None, "backup_path": None, "error": None}
    if not path.is_file():
        return {**report, "error": f"there is no file {path}"}
    if opens_cleanly(path) is None:
        return {**report, "repaired": True, "strategy": "none_needed"}
    try:
        with SessionDB(path) as store:
            if backup:
                report["backup_path"] = str(make_backup(store.context.db, reason="repair"))
            store.rebuild_fts()
    except ThreadkeepError as error:
        return {**report, "error": str(error)}
    left = opens_cleanly(path)
    if left is not None:
        return {**report, "error": f"{left}; restore a backup, or `.recover` with sqlite3"}
    return {**report, "repaired": True, "strategy": "fts_rebuild"}


def schema_read_probe_statements() -> tuple[str, ...]:
    """Return statements that fail on a file that lacks a table or column of the newest form."""

    def select(table: str, columns: tuple[Any, ...]) -> str:
        names = ", ".join(f'"{table}"."{column.name}"' for column in columns)
        return f'SELECT {names} FROM "{table}" LIMIT 0'  # noqa: S608

    return tuple(select(table, columns) for table, columns in sorted(newest_columns().items()))
