"""Keeps the write-ahead log small: checkpoints while busy, truncates it when idle."""

import logging
import os
import sqlite3
import threading
from typing import TYPE_CHECKING

from threadkeep.base.pragmas import BUSY_MS
from threadkeep.errors import Closed, Damaged, ThreadkeepError

if TYPE_CHECKING:
    from threadkeep.base.sqlite import Database

log = logging.getLogger(__name__)

_LOOK_EVERY = 64
# SQLite checkpoints by itself each 1,000 pages (4 MB); a log past twice that means that readers
# kept it from starting over.
_LARGE = 8 * 1024 * 1024
_ALARM = 64 * 1024 * 1024
_IDLE_FIRST, _IDLE_LAST = 1.0, 30.0


class WalKeeper:
    """Watches the size of one database's log, from inside the writer lock."""

    def __init__(self, database: "Database") -> None:
        self._database = database
        self._path = f"{database.path}-wal"
        self._commits = 0
        self._inode: int | None = None
        self._timer: threading.Timer | None = None
        self._pause = _IDLE_FIRST
        self._warned = False

    def size(self) -> int:
        """Give the size of the log in bytes, 0 if there is none."""
        try:
            return os.stat(self._path).st_size
        except FileNotFoundError:
            return 0

    def after_commit(self, connection: sqlite3.Connection) -> None:
        """Look at the log every few commits; called with the writer lock held."""
        self._commits += 1
        if self._commits % _LOOK_EVERY and self._commits > 1:
            return
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            self._check_inode(None)
            return
        self._check_inode(found.st_ino)
        if found.st_size > _LARGE and not truncate(connection):
            self._complain(found.st_size)
            self._arm()

    def _check_inode(self, inode: int | None) -> None:
        """A log deleted under an open connection swallows writes without an error."""
        if self._inode is not None and inode != self._inode:
            msg = f"{self._path} was removed or replaced while the database was open"
            hint = "close every program that uses the file, then run `threadkeep chat verify`"
            raise Damaged(msg, hint=hint)
        self._inode = inode

    def _complain(self, size: int) -> None:
        if size > _ALARM and not self._warned:
            self._warned = True
            log.warning("%s is %d MB: a reader keeps an old snapshot open", self._path, size >> 20)

    def _arm(self) -> None:
        """Try again when idle: only a log left large by a reader ever starts this timer."""
        if self._timer is None:
            self._timer = threading.Timer(self._pause, self._when_idle)
            self._timer.daemon = True
            self._timer.start()

    def _when_idle(self) -> None:
        self._timer = None
        done = False
        try:
            done = self._database.truncate_log(budget=0.5)
        except Closed:
            return
        except ThreadkeepError as error:
            log.debug("idle truncation: %s", error)
        self._pause = _IDLE_FIRST if done else min(self._pause * 2, _IDLE_LAST)
        if not done:
            self._arm()

    def stop(self) -> None:
        """Forget the timer; the database is being closed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def truncate(connection: sqlite3.Connection) -> bool:
    """Copy the log into the database and cut it to nothing; False if a reader is in the way."""
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        row = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return row is not None and row[0] == 0
    except sqlite3.OperationalError as error:
        log.debug("checkpoint: %s", error)
        return False
    finally:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
