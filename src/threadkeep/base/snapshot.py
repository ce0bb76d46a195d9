"""A copy of a database that is not even touched: no log is made beside it, no lock file."""

import sqlite3
from pathlib import Path

from threadkeep.base.connect import LOOKING, connect_uri, open_reader
from threadkeep.base.forks import refuse_shared
from threadkeep.base.trouble import translate
from threadkeep.errors import Busy, Invalid, NotFound

_ATTEMPTS = 3


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
        before = _trace(file)
        _copy(file, target, still=not any(before[1:]))
        if any(before[1:]) or _trace(file) == before:
            return
    msg = f"{source} changed while it was copied, {_ATTEMPTS} times"
    raise Busy(msg, hint="stop the program that writes it, or try again")


def _trace(file: Path) -> tuple[tuple[int, int], bool, bool]:
    """Give what changes when somebody writes; looking at it opens nothing."""
    found = file.stat()
    beside = (Path(f"{file}{suffix}").exists() for suffix in ("-wal", "-journal"))
    return ((found.st_mtime_ns, found.st_size), *beside)  # type: ignore[return-value]


def _copy(file: Path, target: Path, *, still: bool) -> None:
    try:
        reader = _still_reader(file) if still else open_reader(file, read_only=True).connection
        try:
            copy = sqlite3.connect(target, isolation_level=None)
            try:
                reader.backup(copy)
            finally:
                copy.close()
        finally:
            reader.close()
    except sqlite3.Error as error:
        raise translate(error, file) from error


def _still_reader(file: Path) -> sqlite3.Connection:
    refuse_shared(file)
    return sqlite3.connect(
        connect_uri(file, f"{LOOKING}&immutable=1"), uri=True, isolation_level=None
    )
