"""One SQLite file that two sides share over a folder: a rollback journal, and short connections.

A host and a sandboxed guest may sit on two kernels with only a mount between them. A write-ahead
log needs shared memory, which such mounts do not have, so the file always has a rollback journal
with full syncs; and closing a connection is what makes the other side see its pages, so every
transaction opens its own connection and closes it.

The other side is not trusted. It may put a link in the place of the file, a view in the place of
a table, or a journal that names a file of ours to be deleted; each is refused before SQLite acts.
"""

import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from threadkeep.base.files import translate_os
from threadkeep.base.sqlite import connect, pragmas
from threadkeep.base.sqlite.connect import connect_uri, journal_mode, run_patiently
from threadkeep.base.sqlite.errors import is_busy, translate
from threadkeep.base.sqlite.guard import Budget, Guard
from threadkeep.base.sqlite.lock import LockHeld, let_go, lock_for
from threadkeep.base.sqlite.tx import SqliteTx, refuse_inherited, roll_back
from threadkeep.base.tx import Tx
from threadkeep.errors import Busy, Conflict, Damaged, NotFound, ThreadkeepError

DEFAULT_BUDGET = 30.0
# How long a reader waits for the writer of an unfinished journal before it looks closer.
_PATIENCE = 0.5
_PAUSE = 0.01
_EXTRA = 3  # how SQLite reads it back
_SUPER_MAGIC = bytes.fromhex("d9d505f920a163d7")
# Both sides may agree on large mail, and a row holds several texts; what is computed is refused.
_LARGEST_VALUE = 64 * 1024 * 1024

CONNECTION = (
    pragmas.Pragma("trusted_schema", "OFF", 0, "the other side may have written the schema"),
    pragmas.Pragma("cell_size_check", "ON", 1, "a damaged page is noticed when read, not after"),
    pragmas.Pragma("mmap_size", "0", 0, "mapped pages go stale when the other side writes"),
    pragmas.Pragma("temp_store", "MEMORY", 2, "no temporary files with mail in shared folders"),
)
READER = (
    # A hostile file may ask for a write-ahead log, whose index is mapped memory: cut short by the
    # other side, it would kill this process with a signal. Alone, SQLite maps none.
    pragmas.Pragma("locking_mode", "EXCLUSIVE", "exclusive", "no shared index, it opens no log"),
)
WRITER = (
    *READER,
    pragmas.Pragma("secure_delete", "ON", 1, "purged mail is overwritten, not left in free pages"),
    # FULL lost 18 acknowledged messages in 60 power cuts on ext4, EXTRA none: a commit is the
    # removal of its journal, and only EXTRA syncs the folder after that (a fifth sync).
    pragmas.Pragma("synchronous", "EXTRA", _EXTRA, "acknowledged mail survives a power cut"),
    pragmas.Pragma("fullfsync", "ON", 1, "on macOS a plain fsync does not reach the disk"),
    pragmas.Pragma("foreign_keys", "ON", 1, "as every connection of ours"),
)

Running = Callable[[], bool]


class SharedFile:
    """One file of a shared folder; each transaction is a connection of its own."""

    _connection: sqlite3.Connection | None
    _tx: SqliteTx | None
    _watch: Guard
    _thread: int

    def __init__(
        self, path: Path, queries: Mapping[str, str], *, budget: float = DEFAULT_BUDGET
    ) -> None:
        self.path = path
        self.queries = queries
        self.budget = budget
        self.takes_turns = False
        """Whether writers queue up: for a file that several processes of one side write."""
        self._forget()
        connect.watch(self)

    @contextmanager
    def read(
        self,
        beside: Mapping[str, Path] | None = None,
        *,
        owner_runs: Running | None = None,
    ) -> Iterator[Tx]:
        """Read one snapshot, and the files `beside` it under their names.

        A writer that died in a commit leaves a journal that a reader cannot undo. After a moment
        of patience it is undone here, but never while `owner_runs` says that the writer lives.
        """
        with self._using():
            connection = self._open_reader(beside or {}, owner_runs)
            with self._serving(connection) as tx:
                yield tx

    @contextmanager
    def write(self) -> Iterator[Tx]:
        """Write in one transaction that is on the disk when the block ends."""
        with self._using(), self._turn():
            connection = self._open_writer()
            with self._serving(connection) as tx:
                with self._told():
                    self._begin(connection)
                yield tx
                if self._connection is not connection:
                    refuse_inherited(None)
                with self._told():
                    connection.execute("COMMIT")

    # ------------------------------------------------------------------ inside a transaction

    @contextmanager
    def _using(self) -> Iterator[None]:
        """One transaction at a time per object, so that a fork can wait for its end."""
        connect.refuse_shared(self.path)
        guard = self._guard
        if self._thread == threading.get_ident():
            msg = f"a transaction on {self.path} is open in this thread already"
            raise Conflict(msg, hint="end it first, or use the one that is open")
        if not guard.acquire(timeout=self.budget):
            raise self._locked("another thread")
        self._thread = threading.get_ident()
        try:
            yield
        finally:
            self._thread = 0
            guard.release()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Wait for our turn: SQLite's lock knows no order, and one of four waited for seconds.

        Where no lock file can be had beside the file, that lock must do.
        """
        lock = None
        if self.takes_turns:
            with suppress(ThreadkeepError):
                lock = lock_for(self.path)
        if lock is None:
            yield
            return
        try:
            with LockHeld(lock, self.budget):
                yield
        finally:
            let_go(lock)

    @contextmanager
    def _serving(self, connection: sqlite3.Connection) -> Iterator[Tx]:
        self._connection = connection
        self._tx = tx = SqliteTx(connection, self.queries, self.trouble)
        try:
            yield tx
        finally:
            if self._connection is connection:  # else we are in a forked child: not ours to end
                tx.end()
                self._connection = self._tx = None
                if connection.in_transaction:
                    roll_back(connection)
                connection.close()

    def _begin(self, connection: sqlite3.Connection) -> None:
        """Look at what is there before anything is done to it, then wait for our turn to write."""
        self._watch.refuse_programs("main", self.path)
        if journal_mode(connection) != "delete":
            raise self._has_log()
        # Alone, a connection keeps its locks while it waits, and its journal after a commit; so not
        # alone any more, from the end of the next statement on.
        connection.execute("PRAGMA locking_mode = NORMAL")
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
        # SQLite's own pauses grow to 100 ms: with four writers shorter ones gave a third more.
        connection.execute("PRAGMA busy_timeout = 0")
        run_patiently(connection, "BEGIN IMMEDIATE", self.budget)
        connection.execute(f"PRAGMA busy_timeout = {int(self.budget * 1000)}")
        self._watch.allow(self.budget)  # the wait for the lock was not the file's doing
        self._watch.refuse_programs("main", self.path)  # the schema may have changed meanwhile

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self.trouble(error) from error

    def trouble(self, error: sqlite3.Error) -> ThreadkeepError:
        """Turn an error of SQLite into one of ours."""
        code = getattr(error, "sqlite_errorcode", None)
        if code in (sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_TOOBIG):
            return self._watch.trouble(error)
        if code == sqlite3.SQLITE_IOERR_LOCK:  # see READER: alone, it cannot open such a log
            return self._has_log()
        return self._locked("another program") if is_busy(error) else translate(error, self.path)

    def _has_log(self) -> Damaged:
        msg = f"{self.path}, or a file beside it, has a write-ahead log, and was not opened"
        hint = "the other side may have set that; PRAGMA journal_mode = DELETE reverts it"
        return Damaged(msg, hint=hint)

    def _locked(self, by: str) -> Busy:
        msg = f"{self.path} is locked by {by}; waited {self.budget:g} s"
        return Busy(msg, hint="try again; another program may hold a transaction open")

    # ------------------------------------------------------------------ opening

    def _open_reader(
        self, beside: Mapping[str, Path], owner_runs: Running | None
    ) -> sqlite3.Connection:
        began = time.monotonic()
        while True:
            try:
                return self._try_reader(beside)
            except sqlite3.Error as error:
                waited = time.monotonic() - began
                if not _is_unfinished(error) or waited > self.budget:
                    raise self.trouble(error) from error
            if waited < _PATIENCE:
                time.sleep(_PAUSE)
            else:
                self._recover((self.path, *beside.values()), owner_runs)

    def _try_reader(self, beside: Mapping[str, Path]) -> sqlite3.Connection:
        connection = self._connect(self.path, "ro", READER)
        try:
            for name, path in beside.items():
                check_place(path)
                connection.execute(f"ATTACH ? AS {name}", (connect_uri(path, "ro"),))
            connection.execute("PRAGMA query_only = ON")
            connection.execute("BEGIN")
            for name, path in {"main": self.path, **beside}.items():
                self._watch.refuse_programs(name, path)
        except BaseException:
            connection.close()
            raise
        return connection

    def _recover(self, paths: tuple[Path, ...], owner_runs: Running | None) -> None:
        """Undo what a dead writer left unfinished; only its owner's word can forbid it.

        On one kernel SQLite's locks tell the dead from the living by themselves.
        """
        if owner_runs is not None and owner_runs():
            msg = f"{self.path} is in the middle of a commit of the other side"
            raise Busy(msg, hint="try again; if its writer hangs, end it first")
        for path in paths:
            if os.path.lexists(f"{path}-journal"):
                with self._told(), closing(self._connect(path, "rw", READER)) as connection:
                    connection.execute("BEGIN IMMEDIATE")
                    # Alone, a connection keeps the journal it has undone; so not alone any more.
                    connection.execute("PRAGMA locking_mode = NORMAL")
                    connection.execute("ROLLBACK")

    def _open_writer(self) -> sqlite3.Connection:
        with self._told():
            return self._connect(self.path, "rw", WRITER)

    def _connect(
        self, path: Path, mode: str, settings: tuple[pragmas.Pragma, ...]
    ) -> sqlite3.Connection:
        check_place(path)
        connection = sqlite3.connect(
            connect_uri(path, mode), uri=True, isolation_level=None, check_same_thread=False
        )
        try:
            # First of all: a later statement that meets a lock must find the patience set.
            connection.execute(f"PRAGMA busy_timeout = {int(self.budget * 1000)}")
            self._watch = Guard(connection, path, Budget(self.budget, value=_LARGEST_VALUE))
            pragmas.apply(connection, CONNECTION, settings)
            # One cell that is no text must not make all rows behind it unreadable.
            connection.text_factory = _decoded
            check_place(path)
        except BaseException:
            connection.close()
            raise
        return connection

    # ------------------------------------------------------------------ forks

    def pause(self, deadline: float) -> None:
        """Wait for the transactions of other threads before a fork."""
        if self._thread != threading.get_ident():
            self._paused = self._guard.acquire(timeout=max(deadline - time.monotonic(), 0))

    def resume(self) -> None:
        """Go on in the parent."""
        if self._paused:
            self._paused = False
            self._guard.release()

    def connections(self) -> list[sqlite3.Connection]:
        """Return the connection that is in use, for an interrupt."""
        connection = self._connection
        return [] if connection is None else [connection]

    def leave_to_parent(self) -> None:
        """Start over in the child."""
        if self._connection is not None:
            connect.keep_for_ever(self.path, [self._connection])
        if self._tx is not None:
            self._tx.end()
        self._forget()

    def _forget(self) -> None:
        self._guard = threading.Lock()
        self._thread = 0
        self._paused = False
        self._connection = None
        self._tx = None


def check_place(path: Path) -> None:
    """Refuse a database that is a link, has a second name, or is no file; and such a journal."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        msg = f"there is no database at {path}"
        raise NotFound(msg, hint="check the folder; `threadkeep mail new` creates one") from None
    except OSError as error:
        raise translate_os(error, path, "cannot find") from error
    if not _is_plain(found):
        msg = f"{path} is a link or not a regular file, and was not opened"
        raise Damaged(msg, hint="the other side may have put it there; check the folder")
    _refuse_planted_journal(f"{path}-journal")


def _is_plain(found: os.stat_result) -> bool:
    # No name at all is a journal that its writer removes while we look: one look in thousands.
    return stat.S_ISREG(found.st_mode) and found.st_nlink <= 1


def _refuse_planted_journal(journal: str) -> None:
    """Refuse a journal that is no plain file, or that ends in the name of another file.

    SQLite follows links to a journal and waits forever on a pipe. It writes a name into it for
    commits over several files, which these never see, and deletes the named file after undoing
    the journal: whoever plants one could delete any file of ours.
    """
    try:
        if not _is_plain(os.lstat(journal)):
            raise _planted(journal)
        descriptor = os.open(journal, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        # Gone; or root's for the moment before SQLite gives it to the owner of the database. What
        # we may not read, SQLite may not read either.
        return
    except OSError:
        raise _planted(journal) from None
    try:
        size = os.fstat(descriptor).st_size
        tail = os.pread(descriptor, len(_SUPER_MAGIC), max(size - len(_SUPER_MAGIC), 0))
    finally:
        os.close(descriptor)
    if tail == _SUPER_MAGIC and size > len(_SUPER_MAGIC):
        raise _planted(journal)


def _planted(journal: str) -> Damaged:
    msg = f"{journal} was not left by a commit of ours, and was not touched"
    return Damaged(msg, hint="the other side may have put it there; inspect it, then remove it")


def _is_unfinished(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_READONLY_ROLLBACK


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "replace")
