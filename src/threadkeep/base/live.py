"""A connection for callers with SQL of their own: like sqlite3's, but its writes keep our rules.

Every statement that may write runs under the fair writer lock, from BEGIN to the end of its
transaction, so that such a caller neither jumps the queue nor meets a checkpoint of ours.
"""

import sqlite3
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self, TypeVar

from threadkeep.base import pragmas
from threadkeep.base.connect import Tuning, connect_uri
from threadkeep.base.forks import refuse_shared
from threadkeep.base.lock import Turn, WriterLock

R = TypeVar("R")

_READING = ("SELECT", "EXPLAIN", "VALUES", "PRAGMA TABLE_INFO")


class LiveConnection:
    """Passes everything on to a real connection in autocommit mode, with rows as sqlite3.Row."""

    def __init__(self, file: Path, lock: WriterLock | None, budget: float, tuning: Tuning) -> None:
        """Open the file; without a lock only for reading."""
        refuse_shared(file)
        mode = "ro" if lock is None else "rw"
        self._connection = sqlite3.connect(
            connect_uri(file, mode), uri=True, isolation_level=None, check_same_thread=False
        )
        self._connection.row_factory = sqlite3.Row
        self._lock = lock
        self._budget = budget
        self._turn: Turn | None = None
        self._guard = threading.RLock()
        self._set_up(tuning)

    def _set_up(self, tuning: Tuning) -> None:
        connection = self._connection
        for statement in tuning.reader if self._lock is None else tuning.writer:
            connection.execute(statement)
        connection.execute(f"PRAGMA busy_timeout = {int(self._budget * 1000)}")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA recursive_triggers = ON")
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute(f"PRAGMA synchronous = {pragmas.FULL}")
        # Checkpoints belong to the writer, under its lock.
        connection.execute("PRAGMA wal_autocheckpoint = 0")

    def execute(self, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
        """Run one statement."""
        return self._guarded(sql, lambda: self._connection.execute(sql, parameters))

    def executemany(self, sql: str, parameters: Iterable[Any]) -> sqlite3.Cursor:
        """Run one statement for each set of parameters."""
        return self._guarded(sql, lambda: self._connection.executemany(sql, parameters))

    def executescript(self, script: str) -> sqlite3.Cursor:
        """Run several statements."""
        return self._guarded(script, lambda: self._connection.executescript(script))

    def commit(self) -> None:
        """Commit what was begun, if anything was."""
        self._guarded("COMMIT", self._connection.commit)

    def rollback(self) -> None:
        """Take back what was begun, if anything was."""
        self._guarded("ROLLBACK", self._connection.rollback)

    def close(self) -> None:
        """Close it; what was begun and not committed is taken back."""
        with self._guard:
            self._connection.close()
            self._let_go()

    def _guarded(self, sql: str, act: Callable[[], R]) -> R:
        if self._lock is None or sql.lstrip()[:20].upper().startswith(_READING):
            return act()
        with self._guard:
            if self._turn is None:
                turn = Turn()
                self._lock.acquire(turn, self._budget)
                self._turn = turn
            try:
                return act()
            finally:
                if not self._connection.in_transaction:
                    self._let_go()

    def _let_go(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None and self._lock is not None:
            self._lock.release(turn)

    def __enter__(self) -> Self:
        """Begin nothing: as with sqlite3, the block commits or takes back at its end."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Commit, or take back after an error."""
        if kind is None:
            self.commit()
        else:
            self.rollback()

    def __getattr__(self, name: str) -> Any:
        """Everything else is the connection's own."""
        return getattr(self._connection, name)
