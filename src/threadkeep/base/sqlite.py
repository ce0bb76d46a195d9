"""One SQLite file: transactions that run named queries, and a wake-up when somebody commits."""

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Self
from urllib.parse import quote

from threadkeep.base import pragmas
from threadkeep.base.files import create_private_file, make_private_dir, wal_allowed
from threadkeep.base.lock import WriterLock, lock_for
from threadkeep.base.trouble import translate
from threadkeep.base.tx import ForeignKeysOff, LockHeld, ReadTransaction, Row, Tx, WriteTransaction
from threadkeep.base.wal import WalKeeper, truncate
from threadkeep.errors import Closed, Invalid, NotFound, ReadOnly

__all__ = ["DEFAULT_BUDGET", "Database", "Row", "Tx"]

log = logging.getLogger(__name__)

DEFAULT_BUDGET = 30.0
_POLL_FIRST, _POLL_LAST = 0.001, 0.02

# Connections a forked child inherited. Closing them there would checkpoint and delete the
# parent's live log, so they are kept, unused, until the child ends.
_INHERITED: list[sqlite3.Connection] = []


class Database:
    """One SQLite file; safe to share between threads, and reopened by itself after a fork."""

    def __init__(
        self,
        path: str | Path,
        queries: Mapping[str, str],
        *,
        budget: float = DEFAULT_BUDGET,
        read_only: bool = False,
        must_exist: bool = False,
    ) -> None:
        """Open the file, and create it for the owner alone if it is missing."""
        self.path = Path(os.path.abspath(path))
        self.queries = queries
        self.budget = budget
        self.read_only = read_only
        self._create(must_exist=must_exist or read_only)
        self._start()
        if not read_only:
            with self._guarded():
                self._connect_writer()

    def _create(self, *, must_exist: bool) -> None:
        self.created = False
        if self.path.is_dir():
            msg = f"{self.path} is a folder, not a database file"
            raise Invalid(msg, hint="give the path of a file")
        if self.path.exists():
            return
        if must_exist:
            msg = f"there is no database at {self.path}"
            raise NotFound(msg, hint="check the path, or THREADKEEP_HOME")
        make_private_dir(self.path.parent)
        self.created = create_private_file(self.path)

    def _start(self) -> None:
        """Set what belongs to this process; run again in a forked child."""
        self._pid = os.getpid()
        self._closed = False
        self._writer: sqlite3.Connection | None = None
        self._readers: list[sqlite3.Connection] = []
        self._watcher: sqlite3.Connection | None = None
        self._pool = threading.Lock()
        self._commits = threading.Condition()
        self._waiting = 0
        self._owner: int | None = None
        self._wrote = False
        self._level = pragmas.FULL
        self._lock: WriterLock | None = None if self.read_only else lock_for(self.path)
        self.wal = WalKeeper(self)

    # ------------------------------------------------------------------ transactions

    def read(self) -> ReadTransaction:
        """Begin a read transaction: one consistent snapshot."""
        return ReadTransaction(self)

    def write(self, *, durable: bool = True, budget: float | None = None) -> WriteTransaction:
        """Begin a write transaction; with `durable` its commit survives a power cut.

        Without, a crash of the process loses nothing, a power cut at most what was committed
        since the last durable commit.
        """
        level = pragmas.FULL if durable else pragmas.NORMAL
        return WriteTransaction(self, level, self.budget if budget is None else budget)

    def truncate_log(self, budget: float | None = None) -> bool:
        """Empty the write-ahead log into the file; False if a reader is in the way."""
        self._check_alive()
        with self._guarded(budget):
            return truncate(self._connect_writer())

    def vacuum(self) -> None:
        """Write the file anew without its free pages, then empty the log into it."""
        self._check_alive()
        try:
            with self._guarded():
                connection = self._connect_writer()
                connection.execute("VACUUM")
                truncate(connection)
        except sqlite3.Error as error:
            raise translate(error, self.path) from error

    def follow(self) -> None:
        """Announce a live reader (see the lock); a read-only database cannot."""
        if self._lock is not None:
            self._lock.follow()

    def unfollow(self) -> None:
        """Take back a `follow`."""
        if self._lock is not None:
            self._lock.unfollow()

    def followed(self) -> bool:
        """Tell whether anybody follows this database live."""
        return self._lock is not None and self._lock.followed()

    def replace_with(self, source: Path) -> None:
        """Overwrite everything with the content of another database file, in one transaction."""
        self._check_alive()
        uri = f"file:{quote(os.fsencode(source))}?mode=ro"
        try:
            with self._guarded(), closing(sqlite3.connect(uri, uri=True)) as origin:
                origin.backup(self._connect_writer())
        except sqlite3.Error as error:
            raise translate(error, self.path) from error

    def without_foreign_keys(self) -> ForeignKeysOff:
        """Switch foreign keys off for the transactions inside: rebuilding a table needs it."""
        self._check_alive()
        return ForeignKeysOff(self._connect_writer())

    def begin(self, level: int, budget: float) -> Tx:
        """Take the lock and begin; for `write`, whose block ends it."""
        self._check_alive()
        lock = self._writer_lock()
        if self._owner == threading.get_ident():
            msg = "a write transaction was begun inside another one of the same thread"
            raise RuntimeError(msg)
        deadline = time.monotonic() + budget
        lock.acquire(budget)
        try:
            connection = self._connect_writer()
            if self._level != level:
                connection.execute(f"PRAGMA synchronous = {level}")
                self._level = level
            self._begin_immediate(connection, deadline)
        except BaseException as error:
            lock.release()
            if isinstance(error, sqlite3.Error):
                raise translate(error, self.path) from error
            raise
        self._owner = threading.get_ident()
        return Tx(connection, self.queries)

    def _begin_immediate(self, connection: sqlite3.Connection, deadline: float) -> None:
        """Wait for programs that do not know our lock, as long as the time budget allows."""
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                busy = (error.sqlite_errorcode & 0xFF) in (
                    sqlite3.SQLITE_BUSY,
                    sqlite3.SQLITE_LOCKED,
                )
                if not busy or time.monotonic() >= deadline:
                    raise
            else:
                return

    def end(self, error: BaseException | None) -> None:
        """Commit, or roll back after an error; for `write`."""
        connection, lock = self._writer, self._lock
        assert connection is not None  # noqa: S101  (set by _begin)
        assert lock is not None  # noqa: S101
        try:
            if error is None:
                connection.execute("COMMIT")
                self._wrote = True
                self.wal.after_commit(connection)
        except sqlite3.Error as problem:
            raise translate(problem, self.path) from problem
        finally:
            self._owner = None
            if connection.in_transaction:
                _roll_back(connection)
            lock.release()
        if self._waiting:
            with self._commits:
                self._commits.notify_all()

    # ------------------------------------------------------------------ wake-up

    def changes(self) -> int:
        """Give a number that differs after anybody's commit; hand it to `changed`."""
        self._check_alive()
        with self._pool:
            if self._watcher is None:
                self._watcher = self._connect(pragmas.READER)
            try:
                return int(self._watcher.execute("PRAGMA data_version").fetchone()[0])
            except sqlite3.Error as error:
                raise translate(error, self.path) from error

    def changed(self, seen: int, timeout: float | None = None) -> int:
        """Wait until somebody, here or in another process, commits after `seen`.

        Gives the new number, or `seen` again when `timeout` seconds pass first.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = _POLL_FIRST
        self._waiting += 1
        try:
            while (now := self.changes()) == seen:
                left = pause if deadline is None else min(pause, deadline - time.monotonic())
                if left <= 0:
                    break
                with self._commits:
                    self._commits.wait(left)
                pause = min(pause * 2, _POLL_LAST)
            return now
        finally:
            self._waiting -= 1

    # ------------------------------------------------------------------ connections

    def _connect(self, *groups: tuple[pragmas.Pragma, ...]) -> sqlite3.Connection:
        uri = f"file:{quote(os.fsencode(self.path))}?mode=" + self._mode()
        try:
            connection = sqlite3.connect(
                uri, uri=True, isolation_level=None, check_same_thread=False, cached_statements=256
            )
            try:
                pragmas.apply(connection, pragmas.CONNECTION, *groups)
                self._first_look(connection)
            except BaseException:
                connection.close()
                raise
        except sqlite3.Error as error:
            raise translate(error, self.path) from error
        return connection

    def _mode(self) -> str:
        if not self.read_only:
            return "rw"
        folder_writable = os.access(self.path.parent, os.W_OK)
        # A cleanly closed WAL file in a folder we cannot write has no log to look into; only
        # then may SQLite be told that the file cannot change.
        immutable = not folder_writable and not Path(f"{self.path}-wal").exists()
        return "ro&immutable=1" if immutable else "ro"

    def _first_look(self, connection: sqlite3.Connection) -> None:
        """Read once; on a full disk the log's shared index may not fit, then do without it."""
        try:
            connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in (
                sqlite3.SQLITE_FULL,
                sqlite3.SQLITE_IOERR,
                sqlite3.SQLITE_CANTOPEN,
            ):
                raise
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
            connection.execute("PRAGMA locking_mode = NORMAL")

    def _connect_writer(self) -> sqlite3.Connection:
        if self._writer is None:
            self._writer = self._connect(pragmas.WRITER)
            self._level = pragmas.FULL
            self._choose_journal(self._writer)
        return self._writer

    def _choose_journal(self, connection: sqlite3.Connection) -> None:
        """A new file gets a write-ahead log where that is safe; an old one keeps its mode."""
        if connection.execute("PRAGMA page_count").fetchone()[0] == 0:
            allowed, kind = wal_allowed(self.path)
            if allowed:
                connection.execute("PRAGMA journal_mode = WAL").fetchone()
            else:
                log.warning("%s is on %s: using a rollback journal, not WAL", self.path, kind)
        self.journal_mode = str(connection.execute("PRAGMA journal_mode").fetchone()[0])

    def take_reader(self) -> sqlite3.Connection:
        """Lend a read connection; for `read`."""
        self._check_alive()
        with self._pool:
            if self._readers:
                return self._readers.pop()
        return self._connect(pragmas.READER)

    def give_reader(self, connection: sqlite3.Connection) -> None:
        """Take a read connection back."""
        with self._pool:
            if not self._closed:
                self._readers.append(connection)
                return
        connection.close()

    def _writer_lock(self) -> WriterLock:
        if self._lock is None:
            msg = f"{self.path} is open read-only"
            raise ReadOnly(msg, hint="open it for writing")
        return self._lock

    def _guarded(self, budget: float | None = None) -> LockHeld:
        return LockHeld(self._writer_lock(), self.budget if budget is None else budget)

    def _check_alive(self) -> None:
        if self._pid != os.getpid():
            self._leave_to_parent()
        if self._closed:
            msg = f"{self.path} was closed"
            raise Closed(msg, hint="open the store again")

    def _leave_to_parent(self) -> None:
        """This is a forked child: keep the parent's connections untouched, open our own."""
        closed = self._closed
        held = [self._writer, self._watcher, *self._readers]
        _INHERITED.extend(connection for connection in held if connection is not None)
        self._start()
        self._closed = closed

    @property
    def closed(self) -> bool:
        """Tell whether `close` was called."""
        return self._closed

    def close(self) -> None:
        """Close every connection; the last one out empties the write-ahead log."""
        if self._closed or self._pid != os.getpid():
            self._closed = True
            return
        self._closed = True
        self.wal.stop()
        with self._pool:
            for connection in (*self._readers, self._watcher):
                if connection is not None:
                    connection.close()
            self._readers.clear()
            self._watcher = None
        with self._commits:
            self._commits.notify_all()
        if self._writer is not None and self._lock is not None:
            with self._guarded():
                if self._wrote:  # looking at a file must not change it
                    self._optimize(self._writer)
                self._writer.close()
                self._writer = None

    def _optimize(self, connection: sqlite3.Connection) -> None:
        try:
            connection.execute("PRAGMA optimize")
        except sqlite3.Error as error:  # a full or locked disk must not keep us from closing
            log.debug("PRAGMA optimize: %s", error)

    def __enter__(self) -> Self:
        """Use the database in a `with` block, which closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the database."""
        self.close()


def _roll_back(connection: sqlite3.Connection) -> None:
    try:
        connection.execute("ROLLBACK")
    except sqlite3.Error as error:  # SQLite rolls back by itself after some errors
        log.debug("ROLLBACK: %s", error)
