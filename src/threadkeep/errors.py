"""Every error threadkeep raises, with its exit code and HTTP status in one place.

ThreadkeepError
├── NotFound                 the named thing does not exist
│   └── NoStore              the store has no file yet, or it was removed
├── Invalid                  the input is refused, nothing was written
│   ├── TooLarge             a value is over its limit
│   ├── ProtocolViolation    a chunk does not fit the stream so far
│   └── UnsupportedEngine    the given location needs an engine that is not there
├── Conflict                 another writer or an earlier state is in the way
├── Busy                     the writer lock was not free within the time budget
├── SchemaMismatch           the file's version is not one this program may write
├── Damaged                  the stored data fails its own checks
├── StorageFull              the disk or the file-size limit is used up
├── ReadOnly                 the store was opened read-only, or its place cannot be written
├── Unreachable              the server that keeps the stores does not answer
└── Closed                   the store, recorder or connection is closed
"""


class ThreadkeepError(Exception):
    """Something went wrong in threadkeep."""

    exit_code = 1
    http_status = 500

    def __init__(self, message: str = "", *, hint: str = "") -> None:
        """Say what happened to which thing in `message`, and the next step in `hint`."""
        super().__init__(message or (self.__doc__ or "").strip().splitlines()[0])
        self.hint = hint

    @property
    def message(self) -> str:
        """What happened, without the hint."""
        return str(self.args[0])

    def __str__(self) -> str:
        """What happened, then what to do next."""
        return f"{self.message} ({self.hint})" if self.hint else self.message


class NotFound(ThreadkeepError):
    """The named thing does not exist."""

    exit_code = 3
    http_status = 404


class NoStore(NotFound):
    """The store does not exist."""


class Invalid(ThreadkeepError):
    """The input was refused; nothing was written."""

    exit_code = 2
    http_status = 400


class TooLarge(Invalid):
    """A value is larger than the store accepts."""

    http_status = 413


class ProtocolViolation(Invalid):
    """A chunk does not fit the stream so far; what came before it is kept."""

    http_status = 422


class UnsupportedEngine(Invalid):
    """The location asks for a database engine that is not available."""

    http_status = 501


class Conflict(ThreadkeepError):
    """Another writer or an earlier state is in the way."""

    http_status = 409


class Busy(ThreadkeepError):
    """The database could not be locked for writing within the time budget."""

    exit_code = 4
    http_status = 503


class SchemaMismatch(ThreadkeepError):
    """The file has a schema version that this program must not write."""

    exit_code = 5
    http_status = 409


class Damaged(ThreadkeepError):
    """The stored data fails its own checks."""


class StorageFull(ThreadkeepError):
    """The disk, or the file-size limit, is used up; what was acknowledged is safe."""

    http_status = 507


class ReadOnly(ThreadkeepError):
    """The store cannot be written: it was opened read-only, or its place is not writable."""

    http_status = 403


class Unreachable(ThreadkeepError):
    """The server that keeps the stores does not answer; whether a write was done is not known."""

    exit_code = 4
    http_status = 502


class Closed(ThreadkeepError):
    """The store is closed."""

    http_status = 409
