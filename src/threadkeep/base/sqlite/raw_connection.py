"""A connection for callers with SQL of their own: like sqlite3's, but its writes keep our rules.

Every statement that may write runs under the fair writer lock, from BEGIN to the end of its
transaction, so that such a caller neither jumps the queue nor meets a checkpoint of ours.
"""

import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, Self, TypeVar
from weakref import WeakSet

from threadkeep.base.sqlite import pragmas
from threadkeep.base.sqlite.connect import LOOKING, Tuning, connect_uri, looking_mode, refuse_shared
from threadkeep.base.sqlite.errors import FileClosed
from threadkeep.base.sqlite.lock import LockClaim, WriterLock
from threadkeep.base.sqlite.wal import replaced
from threadkeep.base.text import pattern

R = TypeVar("R")

_FIRST_WORD: Final = pattern(r"(?:\s+|--[^\n]*\n|/\*.*?\*/)*([A-Za-z]+)\s*(\w*)", re.DOTALL)
_CHANGES: Final = pattern(r"\b(?:INSERT|UPDATE|DELETE|REPLACE)\b", re.IGNORECASE)
_READING: Final = ("SELECT", "EXPLAIN", "VALUES")
# Settings that do something when they are asked for, and those that take an argument to answer.
_ACTING: Final = ("WAL_CHECKPOINT", "INCREMENTAL_VACUUM", "OPTIMIZE")
_ASKING: Final = (
    *("TABLE_INFO", "TABLE_XINFO", "TABLE_LIST", "INDEX_LIST", "INDEX_INFO", "INDEX_XINFO"),
    *("FOREIGN_KEY_LIST", "FOREIGN_KEY_CHECK", "INTEGRITY_CHECK", "QUICK_CHECK"),
)


def only_reads(sql: str) -> bool:
    """Tell whether a statement surely changes nothing, so that it need not wait for writers."""
    found = _FIRST_WORD.match(sql)
    word, name = (found[1].upper(), found[2].upper()) if found else ("", "")
    if word == "WITH":
        return _CHANGES.search(sql) is None
    if word == "PRAGMA":
        return name in _ASKING or not (name in _ACTING or "=" in sql or "(" in sql)
    return word in _READING


class LiveConnection:
    """Passes everything on to a real connection in autocommit mode, with rows as sqlite3.Row."""

    def __init__(self, file: Path, lock: WriterLock | None, budget: float, tuning: Tuning) -> None:
        """Open the file; without a lock only for reading."""
        refuse_shared(file)
        self._moves = 0 if lock is None else lock.moves()
        mode = looking_mode(file) if lock is None else "rw"
        # Nothing tells a connection of later changes where the log cannot be shared.
        self.lasting = mode in (LOOKING, "rw")
        self.raw = sqlite3.connect(
            connect_uri(file, mode), uri=True, isolation_level=None, check_same_thread=False
        )
        self.raw.row_factory = sqlite3.Row
        # Held while a thread is inside SQLite; a fork waits for it.
        self.inside = threading.RLock()
        self._file = file
        self._pid = os.getpid()
        self._lock = lock
        self._budget = budget
        self._turn: LockClaim | None = None
        self._guard = threading.RLock()
        # Told what SQLite complains of; says whether it is there now.
        self.supply: Callable[[str], bool] | None = None
        self._set_up(tuning)

    def _set_up(self, tuning: Tuning) -> None:
        connection = self.raw
        for statement in tuning.reader if self._lock is None else tuning.writer:
            connection.execute(statement)
        connection.execute(f"PRAGMA busy_timeout = {int(self._budget * 1000)}")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA recursive_triggers = ON")
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute(f"PRAGMA synchronous = {pragmas.FULL}")
        # Checkpoints belong to the writer, under its lock.
        connection.execute("PRAGMA wal_autocheckpoint = 0")

    def cursor(self) -> "LiveCursor":
        """Return a cursor, whose writes keep our rules as well."""
        self._refuse_inherited()
        return LiveCursor(self, self.raw.cursor())

    def execute(self, sql: str, parameters: Any = ()) -> "LiveCursor":
        """Run one statement."""
        return self.cursor().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any]) -> "LiveCursor":
        """Run one statement for each set of parameters."""
        return self.cursor().executemany(sql, parameters)

    def executescript(self, script: str) -> "LiveCursor":
        """Run several statements."""
        return self.cursor().executescript(script)

    def commit(self) -> None:
        """Commit what was begun, if anything was."""
        self._refuse_inherited()
        if self.raw.in_transaction:
            self.run("COMMIT", self.raw.commit)

    def rollback(self) -> None:
        """Take back what was begun, if anything was."""
        self._refuse_inherited()
        if self.raw.in_transaction:
            self.run("ROLLBACK", self.raw.rollback)

    def transact(self, act: Callable[[Self], R]) -> R:
        """Do something in one write transaction, all or none; again if what it lacked is there."""
        try:
            return self._transact(act)
        except sqlite3.OperationalError as error:
            if self.supply is None or not self.supply(str(error)):
                raise
        return self._transact(act)

    def _transact(self, act: Callable[[Self], R]) -> R:
        self.execute("BEGIN IMMEDIATE")
        try:
            result = act(self)
        except BaseException:
            self.rollback()
            raise
        self.commit()
        return result

    def close(self) -> None:
        """Close it; what was begun and not committed is taken back.

        One that was inherited over a fork is not this process's to close: see forks.py.
        """
        if self._pid == os.getpid():
            with self._guard:
                with self.inside:
                    self.raw.close()
                self._let_go()

    def run(self, sql: str, act: Callable[[], R]) -> R:
        """Do something with the real connection, under the writer lock if it may write.

        Outside of a transaction, what SQLite does not know may be supplied, and it is done again.
        """
        try:
            return self._run(sql, act)
        except sqlite3.OperationalError as error:
            # A script may have done a part of what it says.
            if not sql or self.raw.in_transaction or self.supply is None:
                raise
            if not self.supply(str(error)):
                raise
        return self._run(sql, act)

    def _run(self, sql: str, act: Callable[[], R]) -> R:
        self._refuse_inherited()
        if self._lock is None or only_reads(sql):
            with self.inside:
                return act()
        with self._guard:
            if self._turn is None:
                turn = LockClaim()
                self._lock.acquire(turn, self._budget)
                self._turn = turn
            try:
                if self._lock.moves() != self._moves:
                    raise replaced(self._file)
                with self.inside:
                    return act()
            finally:
                if not self.raw.in_transaction:
                    self._let_go()

    def _refuse_inherited(self) -> None:
        if self._pid != os.getpid():
            msg = f"this connection to {self._file} was opened before a fork, in another process"
            raise FileClosed(msg, hint="get the store's connection again")

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

    @property
    def row_factory(self) -> Any:
        """What makes a row; the connection's own."""
        return self.raw.row_factory

    @row_factory.setter
    def row_factory(self, factory: Any) -> None:
        """Choose another one."""
        self.raw.row_factory = factory

    @property
    def text_factory(self) -> Any:
        """What makes a text; the connection's own."""
        return self.raw.text_factory

    @text_factory.setter
    def text_factory(self, factory: Any) -> None:
        """Choose another one."""
        self.raw.text_factory = factory

    def __getattr__(self, name: str) -> Any:
        """Everything else is the connection's own."""
        return getattr(self.raw, name)


class LiveCursor:
    """A cursor of a live connection; passes on what is not said here."""

    def __init__(self, live: LiveConnection, raw: sqlite3.Cursor) -> None:
        self.connection = live
        self._raw = raw

    def execute(self, sql: str, parameters: Any = ()) -> Self:
        """Run one statement."""
        self.connection.run(sql, lambda: self._raw.execute(sql, parameters))
        return self

    def executemany(self, sql: str, parameters: Iterable[Any]) -> Self:
        """Run one statement for each set of parameters."""
        self.connection.run(sql, lambda: self._raw.executemany(sql, parameters))
        return self

    def executescript(self, script: str) -> Self:
        """Run several statements."""
        self.connection.run("", lambda: self._raw.executescript(script))
        return self

    def fetchone(self) -> Any:
        """Return the next row, None after the last."""
        with self.connection.inside:
            return self._raw.fetchone()

    def fetchmany(self, size: int | None = None) -> list[Any]:
        """Return the next rows."""
        with self.connection.inside:
            return self._raw.fetchmany(self._raw.arraysize if size is None else size)

    def fetchall(self) -> list[Any]:
        """Return all rows that are left."""
        with self.connection.inside:
            return self._raw.fetchall()

    def __iter__(self) -> Self:
        """Return the rows one by one."""
        return self

    def __next__(self) -> Any:
        """Return the next row."""
        with self.connection.inside:
            return next(self._raw)

    def __getattr__(self, name: str) -> Any:
        """Everything else is the cursor's own."""
        return getattr(self._raw, name)


class LiveConnections:
    """Those of one database, as far as a fork must know of them."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._open: WeakSet[LiveConnection] = WeakSet()
        self._paused: list[LiveConnection] | None = None
        self.busy = False

    def connect(
        self, file: Path, lock: WriterLock | None, budget: float, tuning: Tuning
    ) -> LiveConnection:
        """Open one more; its caller closes it."""
        with self._guard:
            live = LiveConnection(file, lock, budget, tuning)
            self._open.add(live)
            return live

    def pause(self, deadline: float) -> None:
        """Wait until no other thread is inside SQLite, and let none begin; before a fork."""
        self.busy = not self._guard.acquire(timeout=max(deadline - time.monotonic(), 0))
        if self.busy:
            return
        self._paused = []
        for live in list(self._open):
            if live.inside.acquire(timeout=max(deadline - time.monotonic(), 0)):
                self._paused.append(live)
            else:
                self.busy = True

    def resume(self) -> None:
        """Take back a `pause`, on either side of a fork."""
        paused, self._paused = self._paused, None
        if paused is not None:
            for live in paused:
                live.inside.release()
            self._guard.release()

    def inherited(self) -> list[sqlite3.Connection]:
        """Return the connections a forked child has from its parent."""
        self.resume()
        return [live.raw for live in self._open]
