"""SQLite's errors in our words: what happened to which file, and what to do next."""

import errno
import sqlite3
from pathlib import Path

from threadkeep.errors import (
    Busy,
    Conflict,
    Damaged,
    ReadOnly,
    StorageFull,
    ThreadkeepError,
    TooLarge,
)


def _error(
    kind: type[ThreadkeepError], said: str, hint: str
) -> tuple[type[ThreadkeepError], str, str]:
    return kind, said, hint


_BY_CODE = {
    sqlite3.SQLITE_BUSY: _error(Busy, "is locked by another program", "try again in a moment"),
    sqlite3.SQLITE_LOCKED: _error(Busy, "is locked by another program", "try again in a moment"),
    sqlite3.SQLITE_FULL: _error(StorageFull, "cannot grow: the disk is full", "free some space"),
    sqlite3.SQLITE_IOERR: _error(
        StorageFull,
        "could not be read or written",
        "check free space, file-size limits and the disk",
    ),
    sqlite3.SQLITE_CANTOPEN: _error(
        ReadOnly, "cannot be opened", "check that the file and its folder can be written"
    ),
    sqlite3.SQLITE_READONLY: _error(
        ReadOnly, "cannot be written", "check the permissions of the file and its folder"
    ),
    sqlite3.SQLITE_CORRUPT: _error(
        Damaged, "is damaged", "restore a backup with `threadkeep restore`; keep the file"
    ),
    sqlite3.SQLITE_NOTADB: _error(
        Damaged, "is not a SQLite database, or its header is damaged", "check the path"
    ),
    sqlite3.SQLITE_TOOBIG: _error(
        TooLarge, "does not take a value that large", "store it as a file and keep its URL"
    ),
    sqlite3.SQLITE_CONSTRAINT: _error(
        Conflict, "refused a row that breaks a rule of its schema", "check ids and references"
    ),
}


def translate(error: sqlite3.Error, path: Path) -> ThreadkeepError:
    """Turn an error of SQLite into one of ours, with the file's name and the next step."""
    code = getattr(error, "sqlite_errorcode", None)
    known = _BY_CODE.get(code & 0xFF) if code is not None else None
    if known is None:
        return ThreadkeepError(f"{path}: {error}", hint="please report this with what you did")
    kind, said, hint = known
    return kind(f"{path} {said}: {error}", hint=hint)


def translate_os(error: OSError, path: Path) -> ThreadkeepError:
    """Turn an error of the operating system about a file into one of ours."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return StorageFull(f"{path}: {error.strerror}", hint="free some space")
    return ReadOnly(f"{path}: {error.strerror}", hint="check the permissions of its folder")
