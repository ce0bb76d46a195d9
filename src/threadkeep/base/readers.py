"""The read connections of one database: lent one per transaction, kept for the next."""

import sqlite3
import threading
import time
from collections.abc import Callable, Mapping

from threadkeep.base.connect import OpenConnection, journal_mode, wait_to_read
from threadkeep.base.guard import refuse_views

# Each costs three file descriptors; opening one takes 0.2 ms.
_MOST_IDLE = 8


def look_first(connection: sqlite3.Connection, queries: Mapping[str, str], budget: float) -> bool:
    """Check what a new connection may be read through; tell whether it waits for writers."""
    try:
        connection.execute("BEGIN")
        wait_to_read(connection, budget)
        refuse_views(connection, queries)
        waits = journal_mode(connection) != "wal"
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return waits


class Readers:
    """A pool that grows with the number of transactions at once; readers never wait for it."""

    def __init__(self, connect: Callable[[], OpenConnection]) -> None:
        self._connect = connect
        self._guard = threading.Lock()
        self._returned = threading.Condition(self._guard)
        self._idle: list[sqlite3.Connection] = []
        self._watcher: sqlite3.Connection | None = None
        self._lent: dict[sqlite3.Connection, int] = {}  # to the thread that has it
        self._lent_once: set[sqlite3.Connection] = set()
        self._opening = 0
        self._closed = False
        self._paused = False

    def lend(self) -> sqlite3.Connection:
        """Give a connection for one transaction."""
        with self._guard:
            if self._idle:
                connection = self._idle.pop()
                self._lent[connection] = threading.get_ident()
                return connection
            self._opening += 1
        opened = None
        try:
            opened = self._connect()
        finally:
            with self._guard:
                self._opening -= 1
                if opened is not None:
                    self._lent[opened.connection] = threading.get_ident()
                    if not opened.reusable:
                        self._lent_once.add(opened.connection)
        return opened.connection

    def take_back(self, connection: sqlite3.Connection) -> None:
        """Keep a lent connection for the next transaction, or close it."""
        with self._guard:
            self._lent.pop(connection, None)
            if self._closed or connection in self._lent_once or len(self._idle) >= _MOST_IDLE:
                self._lent_once.discard(connection)
                connection.close()
            else:
                self._idle.append(connection)
            if self._paused:
                self._returned.notify_all()

    def data_version(self) -> int:
        """Give SQLite's number that differs after a commit of any other connection."""
        with self._guard:
            if self._watcher is None:
                self._watcher = self._connect().connection
            return int(self._watcher.execute("PRAGMA data_version").fetchone()[0])

    def close(self) -> None:
        """Close what is idle now, and what is lent when it comes back."""
        with self._guard:
            self._closed = True
            for connection in self._idle_ones():
                connection.close()
            self._idle.clear()
            self._watcher = None

    def _idle_ones(self) -> list[sqlite3.Connection]:
        return [*self._idle, *([] if self._watcher is None else [self._watcher])]

    # ------------------------------------------------------------------ forks

    def pause(self, deadline: float) -> None:
        """Wait for the transactions of other threads, and let none begin."""
        me = threading.get_ident()
        if not self._guard.acquire(timeout=max(deadline - time.monotonic(), 0)):
            return
        self._paused = True
        self._returned.wait_for(
            lambda: not self._opening and all(thread == me for thread in self._lent.values()),
            deadline - time.monotonic(),
        )

    def resume(self) -> None:
        """Take back a `pause`."""
        if self._paused:
            self._paused = False
            self._guard.release()

    def inherited(self) -> tuple[list[sqlite3.Connection], list[sqlite3.Connection]]:
        """Give the connections a forked child has from its parent: the idle, and those in use."""
        return self._idle_ones(), list(self._lent)

    @property
    def busy(self) -> bool:
        """Tell whether a connection is lent or being opened."""
        return bool(self._lent or self._opening)
