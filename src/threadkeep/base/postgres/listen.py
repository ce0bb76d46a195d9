"""Hearing of commits: one connection of a process listens, and commits are announced in batches.

A NOTIFY inside a durable commit makes commits wait for each other's disk: 50 writers fell from
3,066 to 308 commits a second. So it is sent after the commit, once in 10 ms at most, and only while
somebody listens. Who listens, and who follows live, holds a lock of the server for it: what
crashed holds none.
"""

import logging
import os
import select
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import psycopg
from psycopg import sql

from threadkeep.base.postgres.pool import Connection
from threadkeep.errors import Busy, ThreadkeepError, Unreachable

log = logging.getLogger(__name__)

_LOOK: Final = 1.0  # seconds between two looks, whatever was heard
_BATCH: Final = 0.01  # seconds in which commits are announced together
_RETRY: Final = 0.5  # seconds until a lost connection is made again
_IDLE: Final = 30.0  # seconds after which the connection that announces is closed
_STATE: Final = b"SELECT CAST(pg_current_snapshot() AS text)"


class Commits:
    """Counts the commits that were heard of; wakes who waits for one."""

    def __init__(self) -> None:
        self._heard = threading.Condition()
        self._number = 0

    @property
    def number(self) -> int:
        """The number that differs after a commit."""
        return self._number

    def note(self) -> None:
        """Count one, and wake everybody."""
        with self._heard:
            self._number += 1
            self._heard.notify_all()

    def wait(self, seen: int, timeout: float | None) -> int:
        """Wait until the number is not `seen`, or `timeout` seconds passed; give it."""
        with self._heard:
            self._heard.wait_for(lambda: self._number != seen, timeout)
            return self._number


class Listener:
    """Listens on a channel in a thread; begins with the first who asks."""

    def __init__(
        self, make: Callable[[], Connection], channel: str, locks: tuple[int, int], commits: Commits
    ) -> None:
        self._make = make
        self._channel = channel
        self._listen_lock, self._follow_lock = locks
        self._commits = commits
        self._guard = threading.RLock()
        self._thread: threading.Thread | None = None
        self._connection: Connection | None = None
        self._follows = 0
        self._held: set[int] = set()
        self._stopped = False
        self._seen = ""
        self.own: set[int] = set()  # processes of the server that announce our own commits

    def start(self) -> None:
        """Listen from now on."""
        with self._guard:
            if self._thread is not None or self._stopped:
                return
            with suppress(psycopg.OperationalError, Unreachable, Busy):  # the thread tries again
                self._open()
            self._reads, self._wakes = os.pipe()
            self._thread = threading.Thread(
                target=self._run, name=f"threadkeep-{self._channel}", daemon=True
            )
            self._thread.start()

    def _open(self) -> Connection:
        connection = self._make()
        name = sql.Identifier(self._channel)
        connection.execute(sql.SQL("LISTEN {}").format(name))
        connection.execute("SELECT pg_advisory_lock_shared(%s)", (self._listen_lock,))
        for lock in self._held:
            connection.execute("SELECT pg_advisory_lock_shared(%s)", (lock,))
        for _ in range(self._follows):
            connection.execute("SELECT pg_advisory_lock_shared(%s)", (self._follow_lock,))
        connection.add_notify_handler(self._hear)
        self._connection = connection
        self._seen = self._state(connection)
        return connection

    def hold(self, lock: int) -> None:
        """Hold a lock from now on, over every new connection as well."""
        self.start()
        with self._guard:
            if lock in self._held:
                return
            self._held.add(lock)
            if self._connection is not None:
                with suppress(psycopg.OperationalError):
                    self._connection.execute("SELECT pg_advisory_lock_shared(%s)", (lock,))

    def follow(self, *, on: bool) -> None:
        """Announce a live reader, or take that back."""
        self.start()
        with self._guard:
            if not on and not self._follows:
                return
            self._follows += 1 if on else -1
            verb = "pg_advisory_lock_shared" if on else "pg_advisory_unlock_shared"
            connection = self._connection
            if connection is not None:  # else the thread is about to connect again
                with suppress(psycopg.OperationalError):
                    connection.execute(f"SELECT {verb}(%s)".encode(), (self._follow_lock,))

    def _hear(self, notice: psycopg.Notify) -> None:
        if notice.pid not in self.own:
            self._commits.note()

    def _run(self) -> None:
        while not self._stopped:
            try:
                self._listen()
            except (psycopg.Error, ThreadkeepError, OSError) as error:
                if self._stopped:
                    return
                log.debug("%s: listening again after %s", self._channel, error)
                self._reopen()

    def _reopen(self) -> None:
        with self._guard:
            connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()
        _ready([self._reads], _RETRY)
        with self._guard:
            if not self._stopped:
                with suppress(psycopg.Error, ThreadkeepError):
                    self._open()
                    self._commits.note()  # whatever was missed: everybody looks

    def _listen(self) -> None:
        connection = self._connection
        if connection is None:
            msg = "not connected"
            raise OSError(msg)
        waited_for = [connection.pgconn.socket, self._reads]
        while not self._stopped:
            heard = _ready(waited_for, _LOOK)
            with self._guard:
                if self._stopped:
                    return
                if heard:
                    self._take_in(connection)
                elif (now := self._state(connection)) != self._seen:
                    self._seen = now
                    self._commits.note()

    def _take_in(self, connection: Connection) -> None:
        connection.pgconn.consume_input()
        while notice := connection.pgconn.notifies():
            self._hear(
                psycopg.Notify(notice.relname.decode(), notice.extra.decode(), notice.be_pid)
            )

    def _state(self, connection: Connection) -> str:
        """Return a text that differs after any commit in the server."""
        row = connection.execute(_STATE).fetchone()
        return "" if row is None else str(row[0])

    def close(self) -> None:
        """Listen no more."""
        with self._guard:
            self._stopped = True
            thread, self._thread = self._thread, None
        if thread is None:
            return
        os.write(self._wakes, b"x")
        if thread is not threading.current_thread():
            thread.join()
        os.close(self._reads)
        os.close(self._wakes)
        if self._connection is not None:
            with suppress(psycopg.Error):
                # Said and not left to the end of the connection, which the server notices later.
                self._connection.execute("SELECT pg_advisory_unlock_all()")
                self._connection.close()


def _ready(descriptors: list[int], seconds: float) -> bool:
    """Wait until there is something to read; select() knows no descriptor above 1,023."""
    poll = select.poll()
    for one in descriptors:
        poll.register(one, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


class Announcer:
    """Tells who listens of this process's commits, in a thread that begins when somebody does."""

    def __init__(
        self, make: Callable[[], Connection], channel: str, lock: int, listener: Listener
    ) -> None:
        self._make = make
        self._channel = channel
        self._lock = lock
        self._listener = listener
        self._guard = threading.Lock()
        self._due = threading.Event()
        self._thread: threading.Thread | None = None
        self._asked = float("-inf")
        self._listened = False
        self._stopped = False

    def committed(self, connection: Connection) -> None:
        """Note a commit, just made on this connection."""
        now = time.monotonic()
        if now - self._asked > _LOOK:
            self._asked = now
            row = connection.execute(
                "SELECT NOT pg_try_advisory_xact_lock(%s)", (self._lock,), prepare=True
            ).fetchone()
            self._listened = bool(row and row[0])
        if self._listened:
            self._due.set()
            if self._thread is None:
                self._start()

    def _start(self) -> None:
        with self._guard:
            if self._thread is None and not self._stopped:
                self._thread = threading.Thread(
                    target=self._run, name=f"threadkeep-{self._channel}", daemon=True
                )
                self._thread.start()

    def _run(self) -> None:
        try:
            connection = self._make()
        except ThreadkeepError as error:
            log.debug("%s: commits are not announced: %s", self._channel, error)
            self._thread = None
            return
        self._listener.own.add(connection.info.backend_pid)
        try:
            with connection:
                while self._due.wait(_IDLE) and not self._stopped:
                    self._due.clear()
                    connection.execute("SELECT pg_notify(%s, '')", (self._channel,), prepare=True)
                    time.sleep(_BATCH)
        except psycopg.Error as error:
            log.debug("%s: commits are not announced: %s", self._channel, error)
        finally:
            self._thread = None

    def close(self) -> None:
        """Announce what is due, and no more."""
        with self._guard:
            thread = self._thread
            self._stopped = True
        if thread is not None and thread is not threading.current_thread():
            self._due.set()
            thread.join()
