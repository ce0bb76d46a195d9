"""One SQLite file: transactions that run named queries, and a wake-up when somebody commits."""

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Self, TypeVar

from threadkeep.base.database import DEFAULT_BUDGET
from threadkeep.base.files import create_private_file, identity_of, make_private_dir, set_aside
from threadkeep.base.sqlite import connect, pragmas
from threadkeep.base.sqlite.connect import (
    PLAIN,
    OpenConnection,
    Tuning,
    load_extension,
    open_reader,
    outside_writer,
    shape_new_file,
    wait_to_read,
)
from threadkeep.base.sqlite.connections import Readers, Writer, look_first
from threadkeep.base.sqlite.errors import FileClosed, LockTimeout, is_busy, translate
from threadkeep.base.sqlite.lock import LockClaim, LockHeld, WriterLock, let_go, lock_for
from threadkeep.base.sqlite.raw_connection import LiveConnection, LiveConnections
from threadkeep.base.sqlite.tx import ReadTransaction, SqliteTx, WriteTransaction, end_read
from threadkeep.base.sqlite.wal import WalKeeper, replaced, truncate
from threadkeep.base.tx import Params, Tx
from threadkeep.errors import Busy, Invalid, NotFound, ReadOnly, StorageFull, ThreadkeepError

# ------------------------------------------------------------------------------
# Waiting for somebody's commit: at once for those of this process, by looking for the others'.

_POLL_FIRST, _POLL_LAST = 0.001, 0.02


class Wakeup:
    """Lets threads sleep until a number, asked for again and again, is another one."""

    def __init__(self, number: Callable[[], int]) -> None:
        self._number = number
        self._commits = threading.Condition()
        self._waiting = 0

    def wake(self) -> None:
        """Let everybody who waits look at once; costs nothing when nobody does."""
        if self._waiting:
            with self._commits:
                self._commits.notify_all()

    def wait(self, seen: int, timeout: float | None) -> int:
        """Wait until the number is not `seen` any more, or `timeout` seconds passed; give it."""
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = _POLL_FIRST
        with self._commits:
            self._waiting += 1
        try:
            while (now := self._number()) == seen:
                left = pause if deadline is None else min(pause, deadline - time.monotonic())
                if left <= 0:
                    break
                with self._commits:
                    self._commits.wait(left)
                pause = min(pause * 2, _POLL_LAST)
            return now
        finally:
            with self._commits:
                self._waiting -= 1


# ------------------------------------------------------------------------------
# Reading beside a program that writes without a write-ahead log: it is left most of the time.
#
# There a reader stops every writer. Whoever had to wait for a gap between two commits reads beside
# a
# busy writer, and rests after each look nine times as long as it took: at least 40 ms, because a
# writer that was stopped sleeps before it tries again, and at most half a second.

_REST: Final = 9
_SHORTEST: Final = 0.04
_LONGEST: Final = 0.5


class Courtesy:
    """When the readers of one database may look again; its transactions share it."""

    def __init__(self) -> None:
        self._rest_until = 0.0

    def begin(self, connection: sqlite3.Connection, budget: float) -> float:
        """Wait for the next look; give the time when it began, 0 if nobody else writes."""
        pause = self._rest_until - time.monotonic()
        if pause > 0:
            time.sleep(pause)
        return time.monotonic() if wait_to_read(connection, budget) else 0.0

    def end(self, began: float) -> None:
        """Note the end of a look beside a writer."""
        now = time.monotonic()
        self._rest_until = now + min(max(_REST * (now - began), _SHORTEST), _LONGEST)


log = logging.getLogger(__name__)
R = TypeVar("R")


class SqliteDatabase:
    """One SQLite file; safe to share between threads, and reopened by itself after a fork."""

    engine: Final = "sqlite"
    forgets: Final = False

    def __init__(
        self,
        path: str | Path,
        queries: Mapping[str, str],
        *,
        budget: float = DEFAULT_BUDGET,
        read_only: bool = False,
        must_exist: bool = False,
        tuning: Tuning = PLAIN,
    ) -> None:
        """Open the file, and create it for the owner alone if it is missing."""
        self.path = Path(os.path.abspath(path))
        # SQLite follows links: the log and the lock are beside the file itself.
        self.file = Path(os.path.realpath(path))
        self.name = str(self.path)
        self.queries = queries
        self.budget = budget
        self.read_only = read_only
        self.tuning = tuning
        self._check_place(must_exist=must_exist or read_only)
        # Before anything is opened: one that is replaced meanwhile is found to be another.
        self._identity = identity_of(self.path)
        self._start()
        connect.watch(self)
        if not read_only:
            self._open_first()

    def _check_place(self, *, must_exist: bool) -> None:
        if self.file.is_dir():
            msg = f"{self.path} is a folder, not a database file"
            raise Invalid(msg, hint="give the path of a file")
        if not must_exist:
            make_private_dir(self.file.parent)
        elif not self.file.exists():
            msg = f"there is no database at {self.path}"
            raise NotFound(msg, hint="check the path, or THREADKEEP_HOME")

    def _start(self) -> None:
        """Set what belongs to this process; run again in a forked child."""
        self._pid = os.getpid()
        self._closed = False
        self._lock: WriterLock | None = None
        # Without a write-ahead log a reader waits for writers, and they for it.
        self.readers_wait = False
        self.courtesy = Courtesy()
        self._follows = 0
        self._follows_guard = threading.Lock()
        self._readers = Readers(self._connect_reader)
        self._lives = LiveConnections()
        self._wakeup = Wakeup(self.changes)
        self.wal = WalKeeper(self)
        self.writer = Writer(self.file, self.queries, self.wal, self.tuning, self.trouble)

    def _open_first(self) -> None:
        """Create the file if it is missing; on a full disk open it for reading at least.

        A file that is there need not wait for its turn: somebody may write it for long.
        """
        there = self.file.exists() and self.file.stat().st_size > 0
        try:
            with self._guarded(0.0 if there else None):
                new = self._create_if_missing()
                self._identity = identity_of(self.path)
                try:
                    self._connect_writer()
                except StorageFull as error:
                    if new:
                        raise
                    log.warning("%s can only be read for now: %s", self.path, error)
        except Busy as error:
            if not there:
                self.close()
                raise
            log.debug("opened without a look at the lock: %s", error)
        except BaseException:
            self.close()
            raise

    def _create_if_missing(self) -> bool:
        """Create the file; True if it is new or empty."""
        if self.file.exists():
            return self.file.stat().st_size == 0
        # SQLite would delete a log that it finds beside an empty file.
        orphan = set_aside(self.file, f"orphan-{os.urandom(4).hex()}")
        if orphan is not None:
            log.warning("a log without its database was kept as %s", orphan)
        try:
            return create_private_file(
                self.file, lambda spare: shape_new_file(spare, self.file, self.tuning)
            )
        except sqlite3.Error as error:
            raise self.trouble(error) from error

    # ------------------------------------------------------------------ transactions

    def read(self, *, lenient: bool = False) -> ReadTransaction:
        """Begin a read transaction: one consistent snapshot.

        Text that is no UTF-8 raises NoText; with `lenient` it is read with U+FFFD in it, slower.
        """
        return ReadTransaction(self, lenient)

    def write(
        self,
        *,
        durable: bool = True,
        key: str | None = None,  # noqa: ARG002  (a writer is alone here, whatever it writes)
        budget: float | None = None,
        foreign_keys: bool = True,
    ) -> WriteTransaction:
        """Begin a write transaction; with `durable` its commit survives a power cut.

        Without, a crash of the process loses nothing, a power cut at most what was committed
        since the last durable commit. Rebuilding a table needs `foreign_keys` off.
        """
        return WriteTransaction(
            self, durable, self.budget if budget is None else budget, foreign_keys
        )

    def again(
        self,
        verb: Callable[[Tx], R],
        *,
        durable: bool = True,
        key: str | None = None,  # noqa: ARG002
        idempotent: bool = False,  # noqa: ARG002
    ) -> R:
        """Run a function in a write transaction of its own: once, SQLite asks for no second run."""
        with self.write(durable=durable) as tx:
            return verb(tx)

    def send(self, name: str, params: Params, *, durable: bool = False) -> int:
        """Run one statement as its own transaction; give the number of rows it changed."""
        lock, turn = self.writer_lock(), LockClaim()
        try:
            lock.acquire(turn, self.budget)
            if self._closed:
                self.check_open()
            changed = self.writer.send(name, params, self.budget, durable=durable)
        except sqlite3.Error as error:
            if isinstance(error, ThreadkeepError):
                raise
            raise self.trouble(error, self.budget) from error
        finally:
            lock.release(turn)
        self._wakeup.wake()
        return changed

    def truncate_log(self, budget: float | None = None) -> bool:
        """Empty the write-ahead log into the file; False if a reader is in the way."""
        with self._guarded(budget):
            return truncate(self._connect_writer())

    def give_back(self, pages: int) -> int:
        """Cut up to so many free pages off the end of the file; give how many were cut."""
        with self._guarded():
            self._connect_writer()
            try:
                return self.writer.give_back(pages, self.budget)
            except sqlite3.Error as error:
                raise self.trouble(error, self.budget) from error
            finally:
                self.writer.settle(foreign_keys=True)

    def vacuum(self) -> None:
        """Rewrite the file without its free pages, then empty the log into it."""
        with self._guarded():
            self._connect_writer()
            try:
                self.writer.vacuum(self.budget)
            except sqlite3.Error as error:
                raise self.trouble(error, self.budget) from error

    def extend(self, path: str) -> bool:
        """Load an extension of SQLite into the connection that writes; False if Python cannot.

        A connection that is opened later does not have it: call this again before it is needed.
        """
        with self._guarded():
            connection = self._connect_writer()
            try:
                return load_extension(connection, path)
            except sqlite3.Error as error:
                raise self.trouble(error) from error

    def replace_with(self, source: Path, save: Callable[[SqliteTx], None]) -> None:
        """Overwrite everything with the content of another database file, in one transaction.

        `save` gets what is replaced, after the last commit that came before: nobody writes then.
        """
        with self._guarded():
            self._connect_writer()
            try:
                self.writer.replace_with(source, self.budget, lambda: self._show(save))
            except TimeoutError as error:
                raise self._busy(self.budget) from error
            except sqlite3.Error as error:
                raise self.trouble(error, self.budget) from error
        self.wake()

    def _show(self, save: Callable[[SqliteTx], None]) -> None:
        if self.journal_mode == "wal":
            with self.read() as tx:
                save(tx)
        else:  # the writer has the file to itself
            save(SqliteTx(self.writer.connect(), self.queries, self.trouble))

    def writer_lock(self) -> WriterLock:
        """Return the lock that a write needs."""
        self._check_alive()
        if self.read_only:
            msg = f"{self.path} is open read-only"
            raise ReadOnly(msg, hint="open it for writing")
        if self._lock is None:
            connect.refuse_shared(self.file)  # before anybody waits for a lock in vain
            self._lock = lock_for(self.file)
        return self._lock

    def _guarded(self, budget: float | None = None) -> LockHeld:
        return LockHeld(self.writer_lock(), self.budget if budget is None else budget)

    def trouble(
        self, error: sqlite3.Error, budget: float = pragmas.BUSY_MS / 1000
    ) -> ThreadkeepError:
        """Turn an error of a transaction into one of ours."""
        return self._busy(budget) if is_busy(error) else translate(error, self.path)

    def _busy(self, budget: float) -> LockTimeout:
        holder = outside_writer(self.file)
        msg = f"{self.path} is locked by {holder}, outside our lock; waited {budget:g} s"
        return LockTimeout(msg, hint="try again, or raise the time budget")

    # ------------------------------------------------------------------ wake-up

    def wake(self) -> None:
        """Wake who waits in this process for a commit."""
        self._wakeup.wake()

    def changes(self) -> int:
        """Return a number that differs after anybody's commit; hand it to `changed`."""
        self._check_alive()
        try:
            return self._readers.data_version()
        except sqlite3.Error as error:
            raise self.trouble(error) from error

    def changed(self, seen: int, timeout: float | None = None) -> int:
        """Wait until somebody, here or in another process, commits after `seen`.

        Gives the new number, or `seen` again when `timeout` seconds pass first. Nobody commits to
        a file that was removed or replaced: that is told then.
        """
        self._check_alive()
        now = self._wakeup.wait(seen, timeout)
        if now == seen:
            self.check_current()
        return now

    def is_current(self) -> bool:
        """Tell whether the file at the path is the one that was opened (2 µs)."""
        return identity_of(self.path) == self._identity

    def check_current(self) -> None:
        """Raise if it is not: nobody else reads what is written there, nor writes what is read."""
        if not self.is_current():
            raise replaced(self.path)

    def announce(self, mark: str) -> None:
        """Nothing is to be done: the system tells which processes of this machine run."""

    def follow(self) -> None:
        """Announce a live reader (see the lock); a read-only database cannot."""
        if not self.read_only:
            lock = self.writer_lock()
            with self._follows_guard:
                lock.follow()
                self._follows += 1

    def unfollow(self) -> None:
        """Take back a `follow`; closing takes back all."""
        if self._pid == os.getpid():
            with self._follows_guard:
                if self._lock is not None and self._follows:
                    self._follows -= 1
                    self._lock.unfollow()

    def followed(self) -> bool:
        """Tell whether anybody follows this database live."""
        return not self.read_only and self.writer_lock().followed()

    # ------------------------------------------------------------------ connections

    @property
    def journal_mode(self) -> str:
        """The journal mode of the file, as the writer found it: `wal`, or `delete` as a rule."""
        return self.writer.journal_mode

    def _connect_writer(self) -> sqlite3.Connection:
        """Return the connection that writes; the lock is held, so nobody closes it meanwhile."""
        self._check_alive()
        try:
            return self.writer.connect()
        except sqlite3.Error as error:
            raise self.trouble(error, self.budget) from error

    def _connect_reader(self) -> OpenConnection:
        self._check_alive()
        opened = open_reader(self.file, read_only=self.read_only, tuning=self.tuning)
        self.readers_wait = look_first(opened.connection, self.queries, self.budget)
        return opened

    def live(self) -> LiveConnection:
        """Open a connection of its own for callers who bring their own SQL; they close it."""
        self._check_alive()
        lock = None if self.read_only else self.writer_lock()
        try:
            return self._lives.connect(self.file, lock, self.budget, self.tuning)
        except sqlite3.Error as error:
            raise self.trouble(error) from error

    def take_reader(self) -> sqlite3.Connection:
        """Lend a read connection; for `read`."""
        self._check_alive()
        try:
            return self._readers.lend()
        except sqlite3.Error as error:
            raise self.trouble(error) from error

    def give_reader(self, connection: sqlite3.Connection) -> None:
        """Take a read connection back."""
        if self._pid == os.getpid():
            end_read(connection)
            self._readers.take_back(connection)

    def _check_alive(self) -> None:
        if self._pid != os.getpid():
            self.leave_to_parent()
        if self._closed:
            self.check_open()

    def check_open(self) -> None:
        """Raise if the database was closed, maybe while somebody waited for the lock."""
        if self._closed:
            msg = f"{self.path} was closed"
            raise FileClosed(msg, hint="open the store again")

    # ------------------------------------------------------------------ forks

    def pause(self, deadline: float) -> None:
        """Let no thread begin to read, and wait for those that do; before a fork."""
        self._readers.pause(deadline)
        self._lives.pause(deadline)

    def resume(self) -> None:
        """Take back a `pause`."""
        self._lives.resume()
        self._readers.resume()

    def leave_to_parent(self) -> None:
        """Start over in a forked child, which inherited our connections but none of their locks."""
        closed, writer, lock = self._closed, self.writer, self._lock
        idle, lent = self._readers.inherited()
        connections = [*idle, *self._lives.inherited()]
        if writer.connection is not None:
            connections.append(writer.connection)
        if self._readers.busy or self._lives.busy or (lock is not None and lock.writing):
            connect.keep_for_ever(self.file, [*connections, *lent])
        else:
            for connection in connections:
                connection.close()
        if writer.tx is not None:
            writer.tx.end()
        self._start()
        self._closed = closed

    # ------------------------------------------------------------------ the end

    def connections(self) -> list[sqlite3.Connection]:
        """Return the connections that are in use, for an interrupt."""
        writer = self.writer.connection
        lent = [*self._readers.inherited()[1], *self._lives.inherited()]
        return lent if writer is None else [*lent, writer]

    @property
    def closed(self) -> bool:
        """Tell whether `close` was called."""
        return self._closed

    def close(self) -> None:
        """Close every connection; the last one out empties the write-ahead log."""
        if self._pid != os.getpid():
            self.leave_to_parent()
        if self._closed:
            return
        self._closed = True
        self.wal.stop()
        self._readers.close()
        self.wake()
        lock, self._lock = self._lock, None
        if lock is not None:
            for _ in range(self._follows):
                lock.unfollow()
            self._close_writer(lock)
            let_go(lock)

    def _close_writer(self, lock: WriterLock) -> None:
        """Wait for the transaction of another thread; another process is no reason to stay open.

        A transaction of this thread is rolled back.
        """
        if lock.held_here():
            self.writer.close()
            return
        try:
            with LockHeld(lock, self.budget):
                self.writer.close()
        except Busy as error:
            log.debug("closing without the lock: %s", error)
            self.writer.close()

    def __enter__(self) -> Self:
        """Use the database in a `with` block, which closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the database."""
        self.close()
