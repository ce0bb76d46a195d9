"""Why a session could not be stored, in the words by which Hermes tells its users what to do."""

import errno
from typing import Final

from threadkeep.errors import Busy, Damaged, ReadOnly, StorageFull
from threadkeep.state.leases import (
    CompressionSessionBusyError,
    CompressionSessionClosedError,
    SessionTurnLeaseLostError,
)

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
    """Give the cause of an error, or of its text: one of PERSISTENCE_ERROR_CAUSES."""
    if exc_or_str is None:
        return "unknown"
    for kind, cause in _BY_KIND:
        if isinstance(exc_or_str, kind):
            return cause
    text = str(exc_or_str).lower()
    if isinstance(exc_or_str, OSError) and is_disk_full_error(exc_or_str):
        return "disk"
    return next((cause for cause, words in _BY_WORDS if any(w in text for w in words)), "unknown")
