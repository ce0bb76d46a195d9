"""Stands in for Hermes Agent's module of this name: import SessionDB from here instead."""

from threadkeep.base.sql import load_text
from threadkeep.state.conversation import SessionExportTooLargeError, SessionResumeTooLargeError
from threadkeep.state.heartbeat import (
    COMPLETE as SESSION_STATUS_COMPLETE,
    EMPTY as SESSION_STATUS_EMPTY,
    ERROR as SESSION_STATUS_ERROR,
    INTERRUPTED as SESSION_STATUS_INTERRUPTED,
    classify_session_status,
)
from threadkeep.state.leases import (
    CompressionSessionBusyError,
    CompressionSessionClosedError,
    SessionCompressionInProgressError,
    SessionTurnLeaseLostError,
)
from threadkeep.state.opening import default_path
from threadkeep.state.relations import RESET_END_REASONS as _RESET_END_REASONS
from threadkeep.state.session_config import BARE_BILLING_PROVIDERS as _BARE_BILLING_PROVIDERS
from threadkeep.state.session_db import SessionDB
from threadkeep.state.titles import MAX_TITLE_LENGTH
from threadkeep.state.versions import PACKAGE, SCHEMA_VERSION
from threadkeep.state.workspace import workspace_key

_WRITE_MAX_RETRIES = SessionDB._WRITE_MAX_RETRIES  # noqa: SLF001
_WRITE_RETRY_MIN_S = SessionDB._WRITE_RETRY_MIN_S  # noqa: SLF001
_WRITE_RETRY_MAX_S = SessionDB._WRITE_RETRY_MAX_S  # noqa: SLF001
_CHECKPOINT_EVERY_N_WRITES = SessionDB._CHECKPOINT_EVERY_N_WRITES  # noqa: SLF001
SCHEMA_SQL = load_text(PACKAGE, "newest.sql")  # the tables and columns that we know by name
DEFAULT_DB_PATH = default_path()  # as in Hermes, of the moment of import

__all__ = [
    "DEFAULT_DB_PATH",
    "MAX_TITLE_LENGTH",
    "SCHEMA_SQL",
    "SCHEMA_VERSION",
    "SESSION_STATUS_COMPLETE",
    "SESSION_STATUS_EMPTY",
    "SESSION_STATUS_ERROR",
    "SESSION_STATUS_INTERRUPTED",
    "_BARE_BILLING_PROVIDERS",
    "_RESET_END_REASONS",
    "CompressionSessionBusyError",
    "CompressionSessionClosedError",
    "SessionCompressionInProgressError",
    "SessionDB",
    "SessionExportTooLargeError",
    "SessionResumeTooLargeError",
    "SessionTurnLeaseLostError",
    "classify_session_status",
    "workspace_key",
]
