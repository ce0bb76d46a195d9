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
from contextlib import contextmanager
from pathlib import Path

from threadkeep.base import forks, pragmas
from threadkeep.base.connect import connect_uri, run_patiently
from threadkeep.base.trouble import is_busy, translate
from threadkeep.base.tx import Tx, roll_back
from threadkeep.errors import Busy, Damaged, NotFound, ThreadkeepError

DEFAULT_BUDGET = 30.0
# How long a reader waits for the writer of an unfinished journal before it looks closer.
_PATIENCE = 0.5
_PAUSE = 0.01
_STEPS = 50_000  # between two looks at the clock, about a millisecond
_SUPER_MAGIC = bytes.fromhex("d9d505f920a163d7")

CONNECTION = (
    pragmas.Pragma("trusted_schema", "OFF", 0, "the other side may have written the schema"),
    pragmas.Pragma("cell_size_check", "ON", 1, "a damaged page is noticed when read, not after"),
    pragmas.Pragma("mmap_size", "0", 0, "mapped pages go stale when the other side writes"),
    pragmas.Pragma("temp_store", "MEMORY", 2, "no temporary files with mail in shared folders"),
)
WRITER = (
    pragmas.Pragma("journal_mode", "DELETE", "delete", "the only mode that two kernels can share"),
    pragmas.Pragma("synchronous", "FULL", pragmas.FULL, "acknowledged mail survives a power cut"),
    pragmas.Pragma("fullfsync", "ON", 1, "on macOS a plain fsync does not reach the disk"),
    pragmas.Pragma("foreign_keys", "ON", 1, "as every connection of ours"),
)

Running = Callable[[], bool]


class SharedFile:
    """One file of a shared folder; each transaction is a connection of its own."""

    def __init__(
        self, path: Path, queries: Mapping[str, str], *, budget: float = DEFAULT_BUDGET
    ) -> None:
        self.path = path
        self.queries = queries
        self.budget = budget
        self._forget()
        forks.watch(self)

    @contextmanager
    def read(
        self,
        beside: Mapping[str, Path] | None = None,
        *,
        lenient: bool = False,
        owner_runs: Running | None = None,
    ) -> Iterator[Tx]:
        """Read one snapshot, and the files `beside` it under their names.

        A writer that died in a commit leaves a journal that a reader cannot undo. After a moment
        of patience it is undone here, but never while `owner_runs` says that the writer lives.
        `lenient` reads text that is no UTF-8 with U+FFFD in it.
        """
        with self._using() as began:
            connection = self._open_reader(beside or {}, owner_runs)
            try:
                if lenient:
                    connection.text_factory = _decoded
                yield from self._serve(connection, began)
            finally:
                connection.close()

    @contextmanager
    def write(self) -> Iterator[Tx]:
        """Write in one transaction that is on the disk when the block ends."""
        with self._using() as began:
            connection = self._open_writer()
            try:
                self._run(connection, "BEGIN IMMEDIATE")
                yield from self._serve(connection, began)
                self._run(connection, "COMMIT")
            finally:
                if connection.in_transaction:
                    roll_back(connection)
                connection.close()

    def create(self, script: Callable[[Tx], None]) -> None:
        """Shape an empty file, in one transaction."""
        with self.write() as tx:
            script(tx)

    # ------------------------------------------------------------------ inside a transaction

    @contextmanager
    def _using(self) -> Iterator[float]:
        """One transaction at a time per object, so that a fork can wait for its end."""
        forks.refuse_shared(self.path)
        with self._guard:
            self._thread = threading.get_ident()
            try:
                yield time.monotonic()
            finally:
                self._thread = 0

    def _serve(self, connection: sqlite3.Connection, began: float) -> Iterator[Tx]:
        deadline = began + self.budget
        connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
        self._connection = connection
        tx = Tx(connection, self.queries)
        try:
            yield tx
        except sqlite3.Error as error:
            raise self.trouble(error) from error
        finally:
            tx.end()
            self._connection = None
            connection.set_progress_handler(None, 0)

    def _run(self, connection: sqlite3.Connection, statement: str) -> None:
        try:
            run_patiently(connection, statement, self.budget)
        except sqlite3.Error as error:
            raise self.trouble(error) from error

    def trouble(self, error: sqlite3.Error) -> ThreadkeepError:
        """Turn an error of SQLite into one of ours."""
        code = getattr(error, "sqlite_errorcode", None)
        if code == sqlite3.SQLITE_INTERRUPT:
            msg = f"{self.path} kept a query running for {self.budget:g} s"
            return Damaged(msg, hint="look at its schema: somebody may have put a view there")
        if is_busy(error):
            msg = f"{self.path} is locked by another program; waited {self.budget:g} s"
            return Busy(msg, hint="try again; does a program keep a transaction open?")
        return translate(error, self.path)

    # ------------------------------------------------------------------ opening

    def _open_reader(
        self, beside: Mapping[str, Path], owner_runs: Running | None
    ) -> sqlite3.Connection:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                return self._try_reader(beside)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_READONLY_ROLLBACK:
                    raise self.trouble(error) from error
            if time.monotonic() < deadline:
                time.sleep(_PAUSE)
            else:
                self._recover((self.path, *beside.values()), owner_runs)

    def _try_reader(self, beside: Mapping[str, Path]) -> sqlite3.Connection:
        connection = self._connect(self.path, "ro")
        try:
            for name, path in beside.items():
                check_regular(path)
                connection.execute(f"ATTACH ? AS {name}", (connect_uri(path, "ro"),))
            connection.execute("PRAGMA query_only = ON")
            connection.execute("BEGIN")
            for name in ("main", *beside):
                connection.execute(f"SELECT 1 FROM {name}.sqlite_master LIMIT 1").fetchone()
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
                connection = self._connect(path, "rw")
                try:
                    self._run(connection, "BEGIN IMMEDIATE")
                finally:
                    connection.close()

    def _open_writer(self) -> sqlite3.Connection:
        connection = self._connect(self.path, "rw")
        try:
            pragmas.apply(connection, WRITER)
        except sqlite3.Error as error:
            connection.close()
            raise self.trouble(error) from error
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect(self, path: Path, mode: str) -> sqlite3.Connection:
        check_regular(path)
        if mode != "ro":
            refuse_planted_journal(path)
        connection = sqlite3.connect(
            connect_uri(path, mode), uri=True, isolation_level=None, check_same_thread=False
        )
        try:
            # First of all: a later statement that meets a lock must find the patience set.
            connection.execute(f"PRAGMA busy_timeout = {int(self.budget * 1000)}")
            pragmas.apply(connection, CONNECTION)
            check_regular(path)
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

    def leave_to_parent(self) -> None:
        """Begin anew in the child."""
        if self._connection is not None:
            forks.keep_for_ever(self.path, [self._connection])
        self._forget()

    def _forget(self) -> None:
        self._guard = threading.Lock()
        self._thread = 0
        self._paused = False
        self._connection: sqlite3.Connection | None = None


def check_regular(path: Path) -> None:
    """Refuse a database that is a link, has a second name, or is no file at all."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        msg = f"there is no database at {path}"
        raise NotFound(msg, hint="check the folder; `threadkeep mail new` makes one") from None
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        msg = f"{path} is a link or no regular file, and was not opened"
        raise Damaged(msg, hint="the other side may have put it there; look at the folder")


def refuse_planted_journal(path: Path) -> None:
    """Refuse a journal that ends in the name of another file.

    SQLite writes such a name for commits over several files, which these never see, and deletes
    the named file after undoing the journal: whoever plants one could delete any file of ours.
    """
    journal = f"{path}-journal"
    try:
        descriptor = os.open(journal, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
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
    return Damaged(msg, hint="the other side may have put it there; look at it, then remove it")


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "replace")
