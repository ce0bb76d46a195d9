"""Stands in for Hermes Agent's module of this name: import SessionDB from here instead.

The other names are those that Hermes's own modules take from it.
"""

from pathlib import Path
from typing import Any, Final

from threadkeep.base.files import foreign_holders
from threadkeep.base.sql import load_text
from threadkeep.base.sqlite import checks
from threadkeep.state.context import PACKAGE, SCHEMA_VERSION
from threadkeep.state.conversation import (
    MAX_SAFE_MESSAGES,
    SessionExportTooLargeError,
    SessionResumeTooLargeError,
)
from threadkeep.state.hermes_support import (
    PERSISTENCE_ERROR_CAUSES,
    AwaitedSessions,
    classify_persistence_error,
    collect_state_db_stats,
    count_db_holders,
    is_disk_full_error,
    opens_cleanly,
    repair_state_db_schema,
    schema_read_probe_statements,
)
from threadkeep.state.leases import (
    COMPLETE as SESSION_STATUS_COMPLETE,
    EMPTY as SESSION_STATUS_EMPTY,
    ERROR as SESSION_STATUS_ERROR,
    INTERRUPTED as SESSION_STATUS_INTERRUPTED,
    CompressionSessionBusyError,
    CompressionSessionClosedError,
    SessionCompressionInProgressError,
    SessionTurnLeaseLostError,
    classify_session_status,
)
from threadkeep.state.opener import default_path, hermes_home, last_refusal
from threadkeep.state.session_config import (
    BARE_BILLING_PROVIDERS as _BARE_BILLING_PROVIDERS,
    RESET_END_REASONS as _RESET_END_REASONS,
)
from threadkeep.state.session_db import SessionDB
from threadkeep.state.sessions import workspace_key
from threadkeep.state.titles import MAX_TITLE_LENGTH

_WRITE_MAX_RETRIES = SessionDB._WRITE_MAX_RETRIES  # noqa: SLF001
_WRITE_RETRY_MIN_S = SessionDB._WRITE_RETRY_MIN_S  # noqa: SLF001
_WRITE_RETRY_MAX_S = SessionDB._WRITE_RETRY_MAX_S  # noqa: SLF001
_CHECKPOINT_EVERY_N_WRITES = SessionDB._CHECKPOINT_EVERY_N_WRITES  # noqa: SLF001
FTS_STORAGE_VERSION = 1
SCHEMA_SQL = load_text(PACKAGE, "newest.sql")  # the tables and columns that we know by name
MAX_SAFE_RESUME_MESSAGES = MAX_SAFE_EXPORT_MESSAGES = MAX_SAFE_MESSAGES

AsyncSessionDB = AwaitedSessions
get_hermes_home = hermes_home
DEFAULT_DB_PATH = default_path()  # as in Hermes, of the moment of import
_IMPORTED_DEFAULT: Final = DEFAULT_DB_PATH
_db_opens_cleanly = opens_cleanly
_foreign_state_db_holders = foreign_holders
is_malformed_db_error = checks.is_malformed
sqlite_source_id = checks.source_id
get_last_init_error = last_refusal


def _default_db_path() -> Path:
    """Give the default file: the one that a program has put here, else Hermes's of this moment."""
    return default_path() if DEFAULT_DB_PATH == _IMPORTED_DEFAULT else DEFAULT_DB_PATH


def format_session_db_unavailable(prefix: str = "Session database not available") -> str:
    """Say that there is no store, and why the last one could not be opened."""
    cause = last_refusal()
    return f"{prefix}: {cause}." if cause else f"{prefix}."


def apply_wal_with_fallback(
    conn: Any, *, db_label: str = "state.db", require_wal: bool = False
) -> str:
    """Return a connection's file a write-ahead log where that is safe; give the mode it has."""
    safe = not is_sqlite_wal_reset_vulnerable()
    return checks.choose_journal(conn, db_label, safe=safe, require_wal=require_wal)


def is_sqlite_wal_reset_vulnerable(version_info: tuple[int, int, int] | None = None) -> bool:
    """Tell whether this SQLite, or that of the version, can lose what a log holds."""
    return checks.has_reset_race(version_info)


def _wal_reset_repair_hint() -> str:
    """Say which SQLite to get."""
    return "use a Python with SQLite 3.51.3 or later (or 3.50.7, 3.44.6), and start again"


def preflight_db_writability(db_path: str | Path, *, db_label: str = "state.db") -> None:
    """Raise if a file, its folder or its log cannot be written; say which and what to do."""
    checks.refuse_read_only(Path(db_path), db_label)


def resolved_max_resume_messages() -> int:
    """Return how many messages a session may have to be resumed."""
    return MAX_SAFE_RESUME_MESSAGES


def resolved_max_export_messages() -> int:
    """Return how many messages a session may have to be exported in memory."""
    return MAX_SAFE_EXPORT_MESSAGES


__all__ = [
    "DEFAULT_DB_PATH",
    "FTS_STORAGE_VERSION",
    "MAX_SAFE_EXPORT_MESSAGES",
    "MAX_SAFE_RESUME_MESSAGES",
    "MAX_TITLE_LENGTH",
    "PERSISTENCE_ERROR_CAUSES",
    "SCHEMA_SQL",
    "SCHEMA_VERSION",
    "SESSION_STATUS_COMPLETE",
    "SESSION_STATUS_EMPTY",
    "SESSION_STATUS_ERROR",
    "SESSION_STATUS_INTERRUPTED",
    "_BARE_BILLING_PROVIDERS",
    "_RESET_END_REASONS",
    "AsyncSessionDB",
    "CompressionSessionBusyError",
    "CompressionSessionClosedError",
    "SessionCompressionInProgressError",
    "SessionDB",
    "SessionExportTooLargeError",
    "SessionResumeTooLargeError",
    "SessionTurnLeaseLostError",
    "apply_wal_with_fallback",
    "classify_persistence_error",
    "classify_session_status",
    "collect_state_db_stats",
    "count_db_holders",
    "format_session_db_unavailable",
    "get_hermes_home",
    "get_last_init_error",
    "is_disk_full_error",
    "is_malformed_db_error",
    "is_sqlite_wal_reset_vulnerable",
    "preflight_db_writability",
    "repair_state_db_schema",
    "resolved_max_export_messages",
    "resolved_max_resume_messages",
    "schema_read_probe_statements",
    "sqlite_source_id",
    "workspace_key",
]
