"""Keeps the write-ahead log small: checkpoints while busy, truncates it when idle."""

import logging
import os
import sqlite3
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from threadkeep.base.processes import describe_process, lock_holders
from threadkeep.base.sqlite.errors import FileDamaged
from threadkeep.errors import Closed, Damaged, ThreadkeepError

if TYPE_CHECKING:
    from threadkeep.base.sqlite.database import SqliteDatabase
    from threadkeep.base.sqlite.lock import WriterLock


log = logging.getLogger(__name__)

_LOOK_EVERY = 64
# SQLite checkpoints by itself each 1,000 pages (4 MB), but never shortens the file.
_IDLE_LIMIT = 4 * 1024 * 1024
# A log past twice that means that readers kept it from starting over.
_LARGE = 8 * 1024 * 1024
_ALARM = 64 * 1024 * 1024
_IDLE_FIRST, _IDLE_LAST = 5.0, 30.0
# The bytes of -shm that readers lock while they use the log.
_READ_LOCKS = (123, 127)


class WalKeeper:
    """Watches the log of one database, and that nobody replaces it, from inside the writer lock."""

    def __init__(self, database: "SqliteDatabase") -> None:
        self._database = database
        self._file = str(database.file)
        self._path = f"{self._file}-wal"
        self._commits = 0
        self._commits_then = 0
        self._seen: dict[str, int] = {}
        self._timer: threading.Timer | None = None
        self._pause = _IDLE_FIRST
        self._warned = False
        self._lock: WriterLock | None = None
        self._moves = 0
        self.lost = ""

    def size(self) -> int:
        """Return the size of the log in bytes, 0 if there is none."""
        try:
            return os.stat(self._path).st_size
        except FileNotFoundError:
            return 0

    def after_commit(self, connection: sqlite3.Connection, durable: bool) -> None:  # noqa: FBT001
        """Look at the log every few commits; a durable one waits for the disk anyway (2 µs)."""
        self._commits += 1
        if durable or self._commits % _LOOK_EVERY == 1:
            self.look(connection)

    def begin(self) -> None:
        """Remember which files the writer opened, and what an earlier process left of the log."""
        self._seen.clear()
        self._lock = self._database.writer_lock()
        self._moves = self._lock.moves()
        self._check(self._file)
        if self._check(self._path) > _IDLE_LIMIT:
            self._arm()

    def look(self, connection: sqlite3.Connection) -> None:
        """Check that the files are still ours, and shorten a long log; needs the writer lock."""
        self._check(self._file)
        size = self._check(self._path)
        if size > _LARGE and not truncate(connection):
            self._complain(size)
        if size > _IDLE_LIMIT:
            self._arm()

    def _check(self, path: str) -> int:
        """A file deleted under an open connection swallows writes without an error."""
        try:
            found = os.stat(path)
        except FileNotFoundError:
            found = None
        inode = 0 if found is None else found.st_ino
        if (self._seen.setdefault(path, inode) or inode) != inode:
            self.lost = path
            self.refuse_lost()
        self._seen[path] = inode
        return 0 if found is None else found.st_size

    def refuse_lost(self) -> None:
        """Raise if a file was found replaced: what is written now would go nowhere."""
        if self._lock is not None and self._lock.moves() != self._moves:
            self.lost = self.lost or self._file
        if self.lost:
            raise replaced(self.lost)

    def _complain(self, size: int) -> None:
        if size > _ALARM and not self._warned:
            self._warned = True
            pids = lock_holders(Path(f"{self._file}-shm"), "READ", *_READ_LOCKS)
            readers = " and ".join(describe_process(pid) for pid in sorted(set(pids)))
            who = readers or "a reader"
            log.warning("%s is %d MB: %s keeps an old snapshot open", self._path, size >> 20, who)

    def _arm(self) -> None:
        """Come back when idle: only a log longer than SQLite leaves it ever starts this timer."""
        if self._timer is None:
            self._commits_then = self._commits
            timer = threading.Timer(self._pause, self.when_idle)
            timer.daemon = True
            self._timer = timer
            try:
                timer.start()
            except RuntimeError:  # the interpreter is ending: closing empties the log, too
                self._timer = None

    def when_idle(self) -> None:
        """Empty the log if nothing was written since the timer was set, else wait on."""
        self._timer = None
        done = False
        if self._commits == self._commits_then:
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
        self._lock = None
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()


def replaced(path: str | Path) -> Damaged:
    """Say that a file is no longer the one that was opened."""
    msg = f"{path} was removed or replaced while the database was open"
    hint = "start this program again; `threadkeep doctor` checks whether the store is intact"
    return FileDamaged(msg, hint=hint)


def truncate(connection: sqlite3.Connection) -> bool:
    """Copy the log into the database and cut it to nothing; False if a reader is in the way."""
    try:
        row = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return row is not None and row[0] == 0
    except sqlite3.OperationalError as error:
        log.debug("checkpoint: %s", error)
        return False
