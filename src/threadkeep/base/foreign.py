"""Other programs' databases: read with every caution, never written, never waited for long."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from threadkeep.base.connect import connect_uri
from threadkeep.base.trouble import is_busy, translate
from threadkeep.errors import Damaged, NotFound

_PATIENCE_MS = 2_000


class ForeignDatabase:
    """A database of another program, open for reading: one snapshot, no side effects."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path

    def rows(
        self, sql: str, params: Mapping[str, Any] | Sequence[Any] = ()
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query; a broken file raises Damaged when it shows."""
        try:
            yield from self._connection.execute(sql, params)
        except sqlite3.Error as error:
            raise translate(error, self._path) from error
        except UnicodeDecodeError as error:
            raise _unreadable(self._path) from error

    def tables(self) -> set[str]:
        """Name the tables."""
        return {row[0] for row in self.rows("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def columns(self, table: str) -> list[str]:
        """Name the columns a table really has: they change from release to release."""
        return [row[1] for row in self.rows(f'PRAGMA table_info("{table}")')]


@contextmanager
def open_foreign(path: Path) -> Iterator[ForeignDatabase]:
    """Open another program's database to read one snapshot of it."""
    if not path.is_file():
        raise NotFound(f"there is no file {path}", hint="check the path")
    try:
        connection = _connect(path)
    except sqlite3.Error as error:
        raise translate(error, path) from error
    except UnicodeDecodeError as error:
        raise _unreadable(path) from error
    try:
        yield ForeignDatabase(connection, path)
    finally:
        connection.close()


def _unreadable(path: Path) -> Damaged:
    # SQLite quotes the broken schema in its message, which Python cannot read then.
    return Damaged(f"{path} is damaged: its schema is no text", hint="it was left as it is")


def _connect(path: Path) -> sqlite3.Connection:
    address = connect_uri(path, "ro")
    try:
        return _begin(address)
    except sqlite3.OperationalError as error:
        # Beside a file on a medium that cannot be written no -shm can be made. Without a log
        # there is nothing in it, so the file alone is the whole truth; unless it is locked, for
        # then somebody is writing into it.
        if is_busy(error) or Path(f"{path}-wal").exists():
            raise
        return _begin(f"{address}&immutable=1")


def _begin(address: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        address,
        uri=True,
        isolation_level=None,
        timeout=_PATIENCE_MS / 1000,
        check_same_thread=False,
    )
    try:
        connection.text_factory = _lenient_text
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA query_only = ON")
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _lenient_text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
