"""Other programs' databases: read with every caution, never written, never waited for long."""

import os
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from threadkeep.base.files import SIDECARS
from threadkeep.base.nofollow import refuse_links
from threadkeep.base.sqlite.connect import LOOKING, connect_uri, open_reader, refuse_shared
from threadkeep.base.sqlite.errors import translate
from threadkeep.base.sqlite.guard import Budget, BudgetUsedUp, Guard
from threadkeep.errors import (
    Busy,
    Conflict,
    Damaged,
    Invalid,
    NotFound,
    ReadOnly,
    StorageFull,
    ThreadkeepError,
    TooLarge,
)

_PATIENCE_MS = 2_000
_NO_TRUST: Final = "trusted_schema = OFF"
# What SQLite before 3.41 says of a sound index on an expression: with no trust in the schema it
# takes functions such as json_extract() for unsafe there, and the whole file for damaged.
_UNSAFE: Final = "unsafe use of "
_SETTINGS: Final = (
    "query_only = ON",
    "cell_size_check = ON",
    "mmap_size = 0",
)
# A file that used up its budget is left alone, for longer each time it does so again.
_FIRST_REST: Final = 60.0
_LONGEST_REST: Final = 3600.0


class SelectedRows(NamedTuple):
    """What a query gave."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    cut: bool  # there were more rows, or more bytes, than were asked for


class ForeignDatabase:
    """A database of another program, open for reading: one snapshot, no side effects."""

    def __init__(self, connection: sqlite3.Connection, guard: Guard, path: Path) -> None:
        self._connection = connection
        self._guard = guard
        self._path = path

    def rows(
        self, sql: str, params: Mapping[str, Any] | Sequence[Any] = ()
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query; a broken file raises Damaged when it shows."""
        guard = self._guard
        try:
            with guard:
                cursor = self._connection.execute(sql, params)
                row = cursor.fetchone()
            while row is not None:
                yield row
                with guard:
                    row = cursor.fetchone()
        except sqlite3.Error as error:
            raise guard.trouble(error, sql) from error
        except UnicodeDecodeError as error:
            raise _unreadable(self._path) from error

    def count(self, table: str) -> int:
        """Count the rows of a table.

        Without the condition SQLite counts in one single step, which nobody could interrupt.
        """
        return int(next(self.rows(f'SELECT count(*) FROM "{table}" WHERE true'))[0])  # noqa: S608

    def tables(self) -> set[str]:
        """Name the tables, and what is in the place of one: to read that raises Damaged."""
        return set(self._guard.names)

    def columns(self, table: str) -> list[str]:
        """Name the columns a table really has: they change from release to release."""
        self._guard.need_table(table)
        return [row[1] for row in self.rows(f'PRAGMA table_info("{table}")')]


@contextmanager
def open_foreign(
    path: Path,
    budget: Budget = Budget(),  # noqa: B008  (a constant)
    *,
    root: str | Path = "",
) -> Iterator[ForeignDatabase]:
    """Open another program's database to read one snapshot of it.

    Nothing on the way from a root to it may be a link, before it is opened and after.
    """
    if root:
        refuse_links(path, root)
    if not path.is_file():
        raise NotFound(f"there is no file {path}", hint="check the path")
    _refuse_odd_sidecars(path)
    _refuse_resting(path)
    try:
        connection, guard = _connect(path, budget)
        try:
            if root:
                refuse_links(path, root)
            yield ForeignDatabase(connection, guard, path)
        finally:
            connection.close()
    except BudgetUsedUp as error:
        rest = _let_rest(path)
        raise BudgetUsedUp(
            error.message, hint=f"{error.hint}; it is left alone for {rest:g} s"
        ) from error


def _unreadable(path: Path) -> Damaged:
    # SQLite quotes the broken schema in its message, which Python cannot read then.
    return Damaged(f"{path} is damaged: its schema is not text", hint="it was left unchanged")


def _refuse_odd_sidecars(path: Path) -> None:
    """SQLite follows a link to a journal, and waits forever on a pipe in its place."""
    for suffix in SIDECARS:
        try:
            found = os.lstat(f"{path}{suffix}")
        except OSError:
            continue
        if not stat.S_ISREG(found.st_mode):
            msg = f"{path}{suffix} is a link or not a regular file, and {path} was not opened"
            raise Damaged(msg, hint="no program creates such a file; check the folder")


def select(path: Path, sql: str, *, budget: Budget, rows: int, size: int) -> SelectedRows:
    """Run a query that somebody typed over a database, behind the same guard as foreign files.

    It reads ordinary tables, and nothing else: no file beside this one, no setting, no view. It
    ends after so much time, so many rows, or so many bytes.
    """
    connection, guard = _connect(path, budget, typed=True)
    try:
        with guard:
            cursor = connection.execute(sql)
            columns = tuple(str(one[0]) for one in cursor.description or ())
            kept: list[tuple[Any, ...]] = []
            left = size
            for row in cursor:
                left -= sum(len(one) if isinstance(one, str | bytes) else 8 for one in row)
                if len(kept) == rows or left < 0:
                    return SelectedRows(columns, tuple(kept), cut=True)
                kept.append(row)
            return SelectedRows(columns, tuple(kept), cut=False)
    except sqlite3.Error as error:
        raise _refusal(error, guard, budget) from error
    except (sqlite3.Warning, ValueError) as error:  # several statements, a NUL in the text
        raise Invalid(f"that isn't one query: {error}", hint=ONE_QUERY) from error
    finally:
        connection.close()


ONE_QUERY: Final = "give one SELECT over the tables that are listed"


def _refusal(error: sqlite3.Error, guard: Guard, budget: Budget) -> ThreadkeepError:
    """Say what is wrong with a typed query: it is its author's, not the file's."""
    code = getattr(error, "sqlite_errorcode", None)
    if code == sqlite3.SQLITE_INTERRUPT:
        limit = "256 MB of memory" if guard.is_too_large else f"{budget.seconds:g} s"
        return TooLarge(
            f"the query was stopped after {limit}", hint="narrow it down, or add a LIMIT"
        )
    if guard.refused:
        return Invalid(f"the query can't run: {guard.refused}", hint=ONE_QUERY)
    if code == sqlite3.SQLITE_TOOBIG:
        return TooLarge("the query makes a value that is too large", hint="select a part of it")
    return Invalid(f"the query can't run: {error}", hint=ONE_QUERY)


def _connect(
    path: Path, budget: Budget, *, typed: bool = False
) -> tuple[sqlite3.Connection, Guard]:
    address = connect_uri(path, "ro")
    try:
        return _begin(address, path, budget, typed=typed)
    except (ReadOnly, StorageFull):
        # Beside a file on a medium that cannot be written no -shm can be made. Without a log
        # there is nothing in it, so the file alone is the whole truth.
        if Path(f"{path}-wal").exists():
            raise
    return _begin(f"{address}&immutable=1", path, budget, typed=typed)


def _begin(
    address: str,
    path: Path,
    budget: Budget,
    distrust: tuple[str, ...] = (_NO_TRUST,),
    *,
    typed: bool = False,
) -> tuple[sqlite3.Connection, Guard]:
    """Connect and learn what is in the file; one with such an index is opened without distrust.

    Nothing of its schema is run even then: the guard lets ordinary tables be read, no view, no
    generated column, and what an index is made of is worked out by writers alone.
    """
    try:
        connection = sqlite3.connect(
            address,
            uri=True,
            isolation_level=None,
            timeout=_PATIENCE_MS / 1000,
            check_same_thread=False,
        )
    except sqlite3.Error as error:
        raise translate(error, path) from error
    guard = Guard(connection, path, budget, typed=typed)
    try:
        connection.text_factory = _lenient_text
        for setting in (*distrust, *_SETTINGS):
            connection.execute(f"PRAGMA {setting}")
        connection.execute("BEGIN")
        guard.learn()
    except BaseException as error:
        connection.close()
        if distrust and isinstance(error, sqlite3.DatabaseError) and _UNSAFE in str(error):
            return _begin(address, path, budget, (), typed=typed)
        if isinstance(error, sqlite3.Error) and not isinstance(error, ThreadkeepError):
            raise guard.trouble(error) from error
        if isinstance(error, UnicodeDecodeError):
            raise _unreadable(path) from error
        raise
    return connection, guard


def _lenient_text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


# ---------------------------------------------------------------------- files that never end


class _Rest(NamedTuple):
    inode: int
    until: float
    seconds: float


# By path, for the life of the process: a program that watches must not spend the whole budget on
# one file again and again, however often it changes. Whoever asks again, in a new process, may try.
_RESTING: dict[str, _Rest] = {}
_RESTING_GUARD = threading.Lock()


def _refuse_resting(path: Path) -> None:
    with _RESTING_GUARD:
        rest = _RESTING.get(str(path))
    if rest is not None and rest.inode == os.stat(path).st_ino:
        left = rest.until - time.monotonic()
        if left > 0:
            msg = f"{path} has a query that never finished, so it is skipped for a while"
            raise Damaged(msg, hint="inspect its schema, and check it with its own program")


def _let_rest(path: Path) -> float:
    try:
        inode = os.stat(path).st_ino
    except OSError:
        inode = 0
    with _RESTING_GUARD:
        before = _RESTING.get(str(path))
        again = before is not None and before.inode == inode
        seconds = min(before.seconds * 2, _LONGEST_REST) if again and before else _FIRST_REST
        _RESTING[str(path)] = _Rest(inode, time.monotonic() + seconds, seconds)
    return seconds


# ------------------------------------------------------------------------------
# A copy of a database that is not even touched: no log is made beside it, no lock file.

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
    read as a file that does not change. Should it change meanwhile, the copy starts over.
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
