"""Transactions of a SQLite file, read or write."""

import logging
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from threadkeep.base.processes import is_alive
from threadkeep.base.sql import fill_pieces
from threadkeep.base.sqlite.errors import FileClosed
from threadkeep.base.sqlite.lock import LockClaim, WriterLock
from threadkeep.base.sqlite.statements import split_statements
from threadkeep.base.text import to_sql
from threadkeep.base.tx import Params, Row, Sql, is_of_store
from threadkeep.errors import Conflict, Invalid, ThreadkeepError, TooLarge

if TYPE_CHECKING:
    from threadkeep.base.sqlite.database import SqliteDatabase

log = logging.getLogger(__name__)

_TABLES = Sql("SELECT name FROM sqlite_master WHERE type = 'table'")
_SCHEMA = Sql("PRAGMA schema_version")
_NO_SCHEMA: Final = (-1, frozenset[str]())
# Turns an error of SQLite into one of ours, with the name of the file.
Trouble = Callable[[sqlite3.Error], ThreadkeepError]


class KeepingConnection(sqlite3.Connection):
    """A connection with what was made of one state of its database (see `Tx.kept`)."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.kept: dict[object, Any] = {}
        self.tables = _NO_SCHEMA  # the version of the schema that was looked at, and its tables
        self._version: object = None

    def keep_for(self, version: object) -> None:
        """Drop what was kept of another state."""
        if version != self._version:
            self._version = version
            self.kept = {}


class _Ended:
    """Stands where the connection was: a transaction is good for its `with` block only."""

    def execute(self, *_: object) -> NoReturn:
        msg = "this transaction has ended"
        raise FileClosed(msg, hint="use a transaction inside its `with` block only")

    def executemany(self, *_: object) -> NoReturn:
        self.execute()

    def backup(self, *_: object, **__: object) -> NoReturn:
        self.execute()


_ENDED = _Ended()
T = TypeVar("T")


class SqliteTx:
    """A transaction: runs the named queries of its database."""

    __slots__ = ("_connection", "_queries", "_trouble")
    engine: Final = "sqlite"

    def __init__(
        self, connection: sqlite3.Connection, queries: Mapping[str, str], trouble: Trouble
    ) -> None:
        self._connection: sqlite3.Connection | _Ended = connection
        self._queries = queries
        self._trouble = trouble

    def _execute(self, name: str, params: Params) -> sqlite3.Cursor:
        sql = self._queries[name] if name.__class__ is str else _written(name)
        try:
            return self._connection.execute(sql, params)
        except UnicodeEncodeError:  # a lone surrogate: rare, so it costs nothing until it happens
            return self._execute(name, _storable(params))
        except OverflowError as error:
            raise _too_large(error) from error
        except sqlite3.Error as error:
            self._refuse(error)

    def _refuse(self, error: sqlite3.Error) -> NoReturn:
        if isinstance(error, ThreadkeepError):
            raise error
        raise self._trouble(error) from error

    def run(self, name: str, params: Params = ()) -> None:
        """Run a query whose effect nobody asks for: another engine need not wait for it."""
        self._execute(name, params)

    def count(self, name: str, params: Params = ()) -> int:
        """Run a query and give the number of rows it changed."""
        return self._execute(name, params).rowcount

    def insert(self, name: str, params: Params = ()) -> int:
        """Run a query that inserts one row and give its id, 0 if it had nothing to insert."""
        # RETURNING would do the same and costs 4 to 10 µs: SQLite keeps the row aside for it.
        cursor = self._execute(name, params)
        return (cursor.lastrowid or 0) if cursor.rowcount else 0

    def run_bulk(self, name: str, rows: Iterable[Params]) -> None:
        """Run a query for many rows of values that are fit to be stored: half the time."""
        sql = self._queries[name] if name.__class__ is str else _written(name)
        try:
            self._connection.executemany(sql, rows)
        except sqlite3.Error as error:
            self._refuse(error)

    def script(self, sql: str) -> None:
        """Run the statements of a script, which shape the schema, inside this transaction."""
        for statement in split_statements(sql):
            self._execute(Sql(statement), ())

    def one(self, name: str, params: Params = ()) -> Row | None:
        """Return the first row of a query, None if there is none."""
        cursor = self._execute(name, params)
        try:
            row: Row | None = cursor.fetchone()
        except sqlite3.Error as error:
            self._refuse(error)
        return row

    def all(self, name: str, params: Params = ()) -> list[Row]:
        """Return every row of a query."""
        cursor = self._execute(name, params)
        try:
            return cursor.fetchall()
        except sqlite3.Error as error:
            self._refuse(error)

    def each(self, name: str, params: Params = ()) -> Iterator[Row]:
        """Return the rows of a query one after the other, for results that may be large."""
        return self._rows(self._execute(name, params))  # asked now, not when somebody reads on

    def _rows(self, cursor: sqlite3.Cursor) -> Iterator[Row]:
        try:
            yield from cursor
        except sqlite3.Error as error:
            self._refuse(error)

    def dicts(self, name: str, params: Params = ()) -> list[dict[str, Any]]:
        """Return every row of a query by the names of its columns, known and unknown ones."""
        cursor = self._execute(name, params)
        names = [column[0] for column in cursor.description]
        try:
            return [dict(zip(names, row, strict=True)) for row in cursor]
        except sqlite3.Error as error:
            self._refuse(error)

    def value(self, name: str, params: Params = ()) -> Any:
        """Return the first column of the first row, None if there is no row."""
        row = self.one(name, params)
        return None if row is None else row[0]

    def tables(self) -> set[str]:
        """Name the tables of the database."""
        connection = self._connection
        if not isinstance(connection, KeepingConnection):
            return {row[0] for row in self.all(_TABLES)}
        # The catalogue of a store takes twenty times as long as its version, and some ask often.
        version = self.value(_SCHEMA)
        if connection.tables[0] != version:
            connection.tables = version, frozenset(row[0] for row in self.all(_TABLES))
        return set(connection.tables[1])

    def columns(self, table: str) -> list[str]:
        """Name the columns that a table really has, in order; none if no such table exists."""
        return [row[1] for row in self.all(Sql(f'PRAGMA table_info("{table}")'))]

    def is_alive(self, mark: str) -> bool:
        """Tell whether the process of a mark runs on this machine, the only one that can write."""
        return is_alive(mark)

    def kept(self, name: object, make: Callable[[], T]) -> T:
        """Give what was made under a name on this connection, or make it: until anybody commits."""
        connection = self._connection
        if not isinstance(connection, KeepingConnection):
            return make()
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        # Its own commits do not change the version.
        connection.keep_for((version, connection.total_changes))
        if name not in connection.kept:
            connection.kept[name] = make()
        found: T = connection.kept[name]
        return found

    @contextmanager
    def step(self) -> Iterator[None]:
        """Do what is inside whole or not at all; what an error takes back is this step alone."""
        self.run(Sql("SAVEPOINT step"))
        try:
            yield
        except Exception as error:
            if not is_of_store(error):  # else nothing of the whole transaction can be saved
                self.run(Sql("ROLLBACK TO step"))
                _forget_schema(self._connection)
                self.run(Sql("RELEASE step"))
            raise
        self.run(Sql("RELEASE step"))

    def copy_to(
        self,
        target: sqlite3.Connection,
        pages: int,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Copy the whole database, as this transaction sees it, into another connection."""

        def report(_status: int, remaining: int, total: int) -> None:
            if progress is not None:
                progress(total - remaining, total)

        self._connection.backup(target, pages=pages, progress=report)

    def end(self) -> None:
        """Refuse everything from now on."""
        self._connection = _ENDED


def _written(sql: str) -> str:
    return fill_pieces(sql) if "{" in sql else sql


def _storable(params: Params) -> Params:
    if isinstance(params, Mapping):
        return {k: to_sql(v) if isinstance(v, str) else v for k, v in params.items()}
    return [to_sql(v) if isinstance(v, str) else v for v in params]


def _too_large(error: OverflowError) -> Invalid:
    if "INTEGER" in str(error):
        msg = "an integer does not fit the 64 bits of a database column"
        return Invalid(msg, hint="store such numbers inside JSON")
    return TooLarge(f"a value is too large for SQLite: {error}", hint="store it as a file")


class ReadTransaction:
    """A read transaction: one snapshot, on a connection that never waits for the writer."""

    __slots__ = ("_began", "_connection", "_database", "_lenient", "_tx")

    def __init__(self, database: "SqliteDatabase", lenient: bool = False) -> None:  # noqa: FBT001, FBT002
        self._database = database
        self._lenient = lenient
        self._began = 0.0  # beside a busy writer, which is then left alone for a while
        self._connection: sqlite3.Connection | None = None
        self._tx: SqliteTx | None = None

    def __enter__(self) -> SqliteTx:
        connection = self._connection = self._database.take_reader()
        try:
            connection.execute("BEGIN")
            if self._database.readers_wait:
                self._began = self._database.courtesy.begin(connection, self._database.budget)
        except sqlite3.Error as error:
            self._finish()
            raise self._database.trouble(error, self._database.budget) from error
        if self._lenient:
            connection.text_factory = _decoded
        database = self._database
        self._tx = tx = SqliteTx(connection, database.queries, database.trouble)
        return tx

    def __exit__(self, *_: object) -> None:
        self._finish()

    def __del__(self) -> None:
        """Give the connection back after an interrupt in the first instruction of `__exit__`."""
        if getattr(self, "_connection", None) is not None:
            self._finish()

    def _finish(self) -> None:
        connection, self._connection = self._connection, None
        if self._tx is not None:
            self._tx.end()
        if connection is not None:
            if self._lenient:
                connection.text_factory = str
            self._database.give_reader(connection)
            if self._began:
                self._database.courtesy.end(self._began)


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "replace")


class WriteTransaction:
    """A write transaction under the fair lock; commits on success, else leaves no trace."""

    __slots__ = ("_budget", "_database", "_durable", "_foreign_keys", "_lock", "_turn")

    def __init__(
        self,
        database: "SqliteDatabase",
        durable: bool,  # noqa: FBT001
        budget: float,
        foreign_keys: bool,  # noqa: FBT001
    ) -> None:
        self._database = database
        self._durable = durable
        self._budget = budget
        self._foreign_keys = foreign_keys
        self._lock: WriterLock | None = None

    def __enter__(self) -> SqliteTx:
        database = self._database
        self._turn = turn = LockClaim()
        self._lock = lock = database.writer_lock()
        try:
            lock.acquire(turn, self._budget)
            database.check_open()
            return database.writer.begin(self._budget, self._durable, self._foreign_keys)
        except BaseException as error:
            self._finish(lock)
            if isinstance(error, sqlite3.Error) and not isinstance(error, ThreadkeepError):
                raise database.trouble(error, self._budget) from error
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._lock is not None  # noqa: S101  (set by __enter__)
        if self._lock.pid != os.getpid():
            refuse_inherited(error)
        else:
            self._end(self._lock, error)

    def _end(self, lock: WriterLock, error: BaseException | None) -> None:
        try:
            if error is None:
                self._database.writer.commit(self._budget, self._durable)
        except sqlite3.Error as problem:
            raise self._database.trouble(problem, self._budget) from problem
        finally:
            self._finish(lock)
        self._database.wake()

    def __del__(self) -> None:
        """Roll back after an interrupt in the first instruction of `__exit__`."""
        lock = getattr(self, "_lock", None)
        if lock is not None and lock.pid == os.getpid():
            self._finish(lock)

    def _finish(self, lock: WriterLock) -> None:
        try:
            if lock.held_by(self._turn):
                self._database.writer.settle(self._foreign_keys)
        finally:
            lock.release(self._turn)
            self._lock = None


def refuse_inherited(error: BaseException | None) -> None:
    """Only the process that began a write transaction may end it; a child's error continues."""
    if error is None:
        msg = "this write transaction was begun before a fork, in another process"
        raise Conflict(msg, hint="fork outside of transactions; nothing was written here")


def _forget_schema(connection: object) -> None:
    """After a step back the next change of the schema gets the number of the one taken back."""
    if isinstance(connection, KeepingConnection):
        connection.tables = _NO_SCHEMA


def roll_back(connection: sqlite3.Connection) -> None:
    """End a transaction without a trace."""
    _forget_schema(connection)
    end_read(connection)


def end_read(connection: sqlite3.Connection) -> None:
    """End a transaction that changed nothing; what is known of the schema stays true."""
    try:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    except sqlite3.Error as error:  # SQLite rolls back by itself after some errors
        log.debug("ROLLBACK: %s", error)
