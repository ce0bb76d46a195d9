"""Transactions: what runs inside a database, read or write."""

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from threadkeep.base.lock import WriterLock
from threadkeep.base.text import to_sql
from threadkeep.base.trouble import translate
from threadkeep.errors import Invalid

if TYPE_CHECKING:
    from threadkeep.base.sqlite import Database

Row = tuple[Any, ...]
Params = Mapping[str, Any] | Sequence[Any]


class Tx:
    """A transaction: runs the named queries of its database."""

    __slots__ = ("_connection", "_queries")

    def __init__(self, connection: sqlite3.Connection, queries: Mapping[str, str]) -> None:
        self._connection = connection
        self._queries = queries

    def execute(self, sql: str, params: Params = ()) -> sqlite3.Cursor:
        """Run SQL that is not a named query (schema work, columns known only at run time)."""
        try:
            return self._connection.execute(sql, params)
        except UnicodeEncodeError:  # a lone surrogate: rare, so it costs nothing until it happens
            return self._connection.execute(sql, _storable(params))
        except OverflowError as error:
            msg = "an integer does not fit the 64 bits of a database column"
            raise Invalid(msg, hint="store such numbers inside JSON") from error

    def run(self, name: str, params: Params = ()) -> int:
        """Run a named query and give the number of rows it changed."""
        return self.execute(self._queries[name], params).rowcount

    def run_many(self, name: str, rows: Iterable[Params]) -> None:
        """Run a named query once for each set of parameters."""
        for row in rows:
            self.execute(self._queries[name], row)

    def one(self, name: str, params: Params = ()) -> Row | None:
        """Give the first row of a named query, None if there is none."""
        row: Row | None = self.execute(self._queries[name], params).fetchone()
        return row

    def all(self, name: str, params: Params = ()) -> list[Row]:
        """Give every row of a named query."""
        return self.execute(self._queries[name], params).fetchall()

    def value(self, name: str, params: Params = ()) -> Any:
        """Give the first column of the first row, None if there is no row."""
        row = self.one(name, params)
        return None if row is None else row[0]

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


def _storable(params: Params) -> Params:
    if isinstance(params, Mapping):
        return {k: to_sql(v) if isinstance(v, str) else v for k, v in params.items()}
    return [to_sql(v) if isinstance(v, str) else v for v in params]


class ReadTransaction:
    """A read transaction: one snapshot, on a connection that never waits for the writer."""

    def __init__(self, database: "Database") -> None:
        self._database = database

    def __enter__(self) -> Tx:
        self._connection = self._database.take_reader()
        try:
            self._connection.execute("BEGIN")
        except sqlite3.Error as error:
            self._database.give_reader(self._connection)
            raise translate(error, self._database.path) from error
        return Tx(self._connection, self._database.queries)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        self._database.give_reader(self._connection)
        if isinstance(error, sqlite3.Error):
            raise translate(error, self._database.path) from error


class WriteTransaction:
    """A write transaction under the fair lock; commits on success, else leaves no trace."""

    def __init__(self, database: "Database", level: int, budget: float) -> None:
        self._database = database
        self._level = level
        self._budget = budget

    def __enter__(self) -> Tx:
        return self._database.begin(self._level, self._budget)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._database.end(error)
        if isinstance(error, sqlite3.Error):
            raise translate(error, self._database.path) from error


class ForeignKeysOff:
    """Foreign keys can only be switched outside a transaction; on again when done."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("PRAGMA foreign_keys = OFF")

    def __exit__(self, *_: object) -> None:
        self._connection.execute("PRAGMA foreign_keys = ON")


class LockHeld:
    """Holds the writer lock without a transaction: for closing and for the first connection."""

    def __init__(self, lock: WriterLock, budget: float) -> None:
        self._lock = lock
        self._budget = budget

    def __enter__(self) -> None:
        self._lock.acquire(self._budget)

    def __exit__(self, *_: object) -> None:
        self._lock.release()
