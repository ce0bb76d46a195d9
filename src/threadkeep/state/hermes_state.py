"""Stands in for Hermes Agent's module of this name: import SessionDB from here instead."""

from threadkeep.state.conversation import SessionExportTooLargeError, SessionResumeTooLargeError
from threadkeep.state.leases import (
    CompressionSessionBusyError,
    CompressionSessionClosedError,
    SessionCompressionInProgressError,
    SessionTurnLeaseLostError,
)
from threadkeep.state.opening import default_path
from threadkeep.state.session_db import SessionDB
from threadkeep.state.titles import MAX_TITLE_LENGTH
from threadkeep.state.versions import SCHEMA_VERSION

_WRITE_MAX_RETRIES = SessionDB._WRITE_MAX_RETRIES  # noqa: SLF001
_WRITE_RETRY_MIN_S = SessionDB._WRITE_RETRY_MIN_S  # noqa: SLF001
_WRITE_RETRY_MAX_S = SessionDB._WRITE_RETRY_MAX_S  # noqa: SLF001
_CHECKPOINT_EVERY_N_WRITES = SessionDB._CHECKPOINT_EVERY_N_WRITES  # noqa: SLF001
DEFAULT_DB_PATH = default_path()  # as in Hermes, of the moment of import

__all__ = [
    "DEFAULT_DB_PATH",
    "MAX_TITLE_LENGTH",
    "SCHEMA_VERSION",
    "CompressionSessionBusyError",
    "CompressionSessionClosedError",
    "SessionCompressionInProgressError",
    "SessionDB",
    "SessionExportTooLargeError",
    "SessionResumeTooLargeError",
    "SessionTurnLeaseLostError",
]
