"""SQLite's errors in our words: what happened to which file, and what to do next."""

import sqlite3
from pathlib import Path
from typing import Final, NamedTuple

from threadkeep.base.text import pattern
from threadkeep.base.tx import NoText
from threadkeep.errors import (
    Busy,
    Closed,
    Conflict,
    Damaged,
    Invalid,
    ReadOnly,
    SchemaMismatch,
    StorageFull,
    ThreadkeepError,
    TooLarge,
)


class BrokenRule(Conflict, sqlite3.IntegrityError):
    """A row breaks a rule of the schema; also SQLite's own error, for callers who expect that."""


class LockTimeout(Busy, sqlite3.OperationalError):
    """The file stayed locked; also SQLite's own error, for callers who expect that."""


class FileDamaged(Damaged, sqlite3.DatabaseError):
    """The file fails a check; also SQLite's own error, for callers who expect that."""


class FileClosed(Closed, sqlite3.ProgrammingError):
    """The file is closed; also SQLite's own error, for callers who expect that."""


class UnreadableText(NoText, FileDamaged):
    """A text in the file is no UTF-8; also SQLite's own error."""


class UnfitSchema(SchemaMismatch, sqlite3.OperationalError):
    """A table or column is not there; also SQLite's own error, for callers who expect that."""


class _Meaning(NamedTuple):
    kind: type[ThreadkeepError]
    said: str
    hint: str


_LOCKED = _Meaning(LockTimeout, "is locked by another program", "try again in a moment")
_UNREADABLE = _Meaning(
    FileDamaged, "could not be read", "check the disk; restore a backup with `threadkeep restore`"
)
_NO_LOCKS = _Meaning(
    ReadOnly, "is on a file system whose locks do not work", "keep the file on a local disk"
)

SALVAGE: Final = "restore a backup with `threadkeep restore`; keep the file"

# By SQLite's extended code first, then by its plain one.
_MEANINGS = {
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_PROTOCOL: _LOCKED,
    sqlite3.SQLITE_FULL: _Meaning(StorageFull, "cannot grow: the disk is full", "free some space"),
    sqlite3.SQLITE_IOERR: _Meaning(
        StorageFull,
        "could not be written",
        "check free space, file-size limits and the disk",
    ),
    sqlite3.SQLITE_IOERR_READ: _UNREADABLE,
    sqlite3.SQLITE_IOERR_SHORT_READ: _UNREADABLE,
    sqlite3.SQLITE_IOERR_CORRUPTFS: _UNREADABLE,
    sqlite3.SQLITE_IOERR_DATA: _UNREADABLE,
    sqlite3.SQLITE_IOERR_LOCK: _NO_LOCKS,
    sqlite3.SQLITE_IOERR_RDLOCK: _NO_LOCKS,
    sqlite3.SQLITE_IOERR_SHMLOCK: _NO_LOCKS,
    sqlite3.SQLITE_PERM: _Meaning(ReadOnly, "may not be opened", "check its permissions"),
    sqlite3.SQLITE_CANTOPEN: _Meaning(
        ReadOnly,
        "cannot be opened",
        "check that the file can be read, and that its folder can be written: "
        "commits may still be in a log beside it",
    ),
    sqlite3.SQLITE_READONLY: _Meaning(
        ReadOnly, "cannot be written", "check the permissions of the file and its folder"
    ),
    sqlite3.SQLITE_READONLY_DBMOVED: _Meaning(
        FileDamaged,
        "was moved or replaced while it was open",
        "close every program that uses it, then open it again",
    ),
    sqlite3.SQLITE_CORRUPT: _Meaning(FileDamaged, "is damaged", SALVAGE),
    sqlite3.SQLITE_CORRUPT_VTAB: _Meaning(
        FileDamaged, "has a damaged index", "`threadkeep doctor --repair` rebuilds it"
    ),
    sqlite3.SQLITE_NOTADB: _Meaning(
        FileDamaged, "is not a SQLite database, or its header is damaged", "check the path"
    ),
    sqlite3.SQLITE_TOOBIG: _Meaning(
        TooLarge, "does not accept a value that large", "store it as a file and keep its URL"
    ),
    sqlite3.SQLITE_AUTH: _Meaning(
        FileDamaged,
        "has a view where a table belongs, or a view or trigger that never ends; it was not run",
        "check who created it",
    ),
    sqlite3.SQLITE_INTERRUPT: _Meaning(
        FileClosed, "was interrupted during a query", "this process was asked to stop"
    ),
    sqlite3.SQLITE_CONSTRAINT: _Meaning(
        BrokenRule, "refused a row that breaks a rule of its schema", "check ids and references"
    ),
}

# SQLite has one code for all that is wrong with a statement, so its words must tell.
_SAID: Final = (
    (
        pattern("^no such (?:table|column|module|tokenizer)|^unable to use function MATCH"),
        _Meaning(
            UnfitSchema,
            "lacks a table or a column of its schema",
            "open it once for writing to make it; `threadkeep doctor` looks at the file",
        ),
    ),
    (
        pattern("^vtable constructor failed|^invalid fts5 file format|^SQL logic error"),
        _MEANINGS[sqlite3.SQLITE_CORRUPT_VTAB],
    ),
)


def _meaning(error: sqlite3.Error) -> _Meaning | None:
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else _MEANINGS.get(code) or _MEANINGS.get(code & 0xFF)


def is_busy(error: sqlite3.Error) -> bool:
    """Tell whether another program had the database locked."""
    return _meaning(error) is _LOCKED


def translate(error: sqlite3.Error, path: Path) -> ThreadkeepError:
    """Turn an error of SQLite into one of ours, with the file's name and the next step."""
    if isinstance(error, ThreadkeepError):  # it was turned already, further down
        return error
    meaning = _meaning(error)
    if meaning is not None:
        return meaning.kind(f"{path} {meaning.said}: {error}", hint=meaning.hint)
    return _translate_misuse(error, path)


def _translate_misuse(error: sqlite3.Error, path: Path) -> ThreadkeepError:
    """Errors without a meaning come from Python's driver, or from SQL that should not be."""
    if "closed database" in str(error):
        return FileClosed(f"{path} was closed", hint="open the store again")
    if str(error).startswith("Could not decode to UTF-8"):
        where = str(error).partition(" with text")[0]  # the text itself may be long, or secret
        return UnreadableText(f"{path}: {where}", hint="run check to find the row")
    for said, meaning in _SAID:
        if said.search(str(error)):
            return meaning.kind(f"{path} {meaning.said}: {error}", hint=meaning.hint)
    if "binding" in str(error):
        return Invalid(f"{path}: {error}", hint="pass text, bytes, numbers or None")
    return ThreadkeepError(f"{path}: {error}", hint="please report this with what you did")
