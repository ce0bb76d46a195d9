"""A copy of a database that is not even touched: no log is made beside it, no lock file."""

import sqlite3
from pathlib import Path
from typing import NamedTuple

from threadkeep.base.connect import LOOKING, connect_uri, open_reader
from threadkeep.base.forks import refuse_shared
from threadkeep.base.trouble import translate
from threadkeep.errors import Busy, Conflict, Invalid, NotFound

_ATTEMPTS = 3
_PAGES_PER_STEP = 2048


class _Look(NamedTuple):
    """What changes when somebody writes; to look at it opens nothing."""

    changed_ns: int
    size: int
    still: bool
    """There is no log or journal beside it."""


def copy_untouched(source: Path, target: Path) -> None:
    """Copy a database into a new file through SQLite's backup API, and leave no trace at it.

    A file in WAL mode that nobody has open has no log beside it, and a reader would make one: it is
    read as a file that does not change. Should it change meanwhile, the copy begins anew.
    """
    if not source.is_file():
        if source.is_dir():
            raise Invalid(f"{source} is a folder, not a database file", hint="give a file's path")
        raise NotFound(f"there is no database at {source}", hint="check the path")
    file = source.resolve()
    for _ in range(_ATTEMPTS):
        target.unlink(missing_ok=True)
        before = _look_at(file)
        _copy(file, target, still=before.still)
        if not before.still or _look_at(file) == before:
            return
    msg = f"{source} changed while it was copied, {_ATTEMPTS} times"
    raise Busy(msg, hint="stop the program that writes it, or try again")


def _look_at(file: Path) -> _Look:
    found = file.stat()
    beside = any(Path(f"{file}{suffix}").exists() for suffix in ("-wal", "-journal"))
    return _Look(found.st_mtime_ns, found.st_size, still=not beside)


def _copy(file: Path, target: Path, *, still: bool) -> None:
    try:
        reader = _still_reader(file) if still else open_reader(file, read_only=True).connection
        try:
            copy = sqlite3.connect(target, isolation_level=None)
            try:
                # One snapshot, in steps: a signal is heard between two of them.
                reader.execute("BEGIN")
                reader.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
                reader.backup(copy, pages=_PAGES_PER_STEP, progress=_go_on)
            finally:
                copy.close()
        finally:
            reader.close()
    except sqlite3.Error as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_READONLY_ROLLBACK:
            msg = f"{file} was left in the middle of a write, which only a writer can undo"
            hint = "let its program open it once; nothing was touched"
            raise Conflict(msg, hint=hint) from error
        raise translate(error, file) from error


def _go_on(_status: int, _remaining: int, _total: int) -> None:
    """Do nothing: that Python is asked at all is what lets a signal through."""


def _still_reader(file: Path) -> sqlite3.Connection:
    refuse_shared(file)
    return sqlite3.connect(
        connect_uri(file, f"{LOOKING}&immutable=1"), uri=True, isolation_level=None
    )
