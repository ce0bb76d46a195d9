"""The read connections of one database: lent one per transaction, kept for the next."""

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from threadkeep.base.sqlite import pragmas
from threadkeep.base.sqlite.connect import (
    OpenConnection,
    Tuning,
    between_commits,
    connect_uri,
    journal_mode,
    open_writer,
    run_patiently,
    wait_to_read,
)
from threadkeep.base.sqlite.errors import FileClosed, LockTimeout
from threadkeep.base.sqlite.guard import refuse_views
from threadkeep.base.sqlite.tx import SqliteTx, Trouble, roll_back
from threadkeep.base.sqlite.wal import WalKeeper, truncate
from threadkeep.base.tx import Params, Tx
from threadkeep.errors import Conflict, ThreadkeepError

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
        """Return a connection for one transaction."""
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
        """Return SQLite's number that differs after a commit of any other connection."""
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
        """Return the connections a forked child has from its parent: the idle, and those in use."""
        return self._idle_ones(), list(self._lent)

    @property
    def busy(self) -> bool:
        """Tell whether a connection is lent or being opened."""
        return bool(self._lent or self._opening)


# ------------------------------------------------------------------------------
# The one connection of a process that writes a database; always used with the writer lock held.

log = logging.getLogger(__name__)

_RETRY_SECONDS = 0.02
_PAGES_PER_STEP = 2048
# A header, and at least one table.
_FEWEST_PAGES = 2


class Writer:
    """Opens the connection when it is first needed, and leaves it ready for the next use."""

    def __init__(
        self,
        file: Path,
        queries: Mapping[str, str],
        wal: WalKeeper,
        tuning: Tuning,
        trouble: Trouble,
    ) -> None:
        self.connection: sqlite3.Connection | None = None
        self.journal_mode = ""
        self.tx: SqliteTx | None = None
        self._file = file
        self._queries = queries
        self._wal = wal
        self._tuning = tuning
        self._trouble = trouble
        self._level = pragmas.FULL
        self._cookie = -1
        self._wrote = False
        self._closed = False

    def connect(self) -> sqlite3.Connection:
        """Return the connection, opened if it is not yet."""
        if self._closed:
            raise FileClosed(f"{self._file} was closed", hint="open the store again")
        if self.connection is None:
            connection = open_writer(self._file, self._tuning)
            between_commits(connection, lambda: refuse_views(connection, self._queries))
            self.journal_mode = between_commits(connection, lambda: journal_mode(connection))
            self._level = pragmas.FULL
            self.connection = connection
            self._wal.begin()
        return self.connection

    def begin(self, budget: float, durable: bool, foreign_keys: bool) -> SqliteTx:  # noqa: FBT001
        """Begin a transaction; the caller ends it with `settle`."""
        connection = self.connection or self.connect()
        self._wal.refuse_lost()
        self._set_level(connection, pragmas.FULL if durable else pragmas.NORMAL)
        if not foreign_keys:
            connection.execute("PRAGMA foreign_keys = OFF")
        run_patiently(connection, "BEGIN IMMEDIATE", budget)
        if self.journal_mode != "wal":  # readers may be in the way of any statement
            connection.execute(f"PRAGMA busy_timeout = {pragmas.BUSY_MS}")
        self.tx = tx = SqliteTx(connection, self._queries, self._trouble)
        if self._tuning.guard is not None:
            self._look_at_schema(connection, tx, self._tuning.guard)
        return tx

    def _look_at_schema(
        self, connection: sqlite3.Connection, tx: SqliteTx, guard: Callable[[Tx], None]
    ) -> None:
        """Another program may have brought the file up while we had it open (2 µs to ask)."""
        cookie = connection.execute("PRAGMA schema_version").fetchone()[0]
        if cookie != self._cookie:
            guard(tx)
            self._cookie = cookie

    def commit(self, budget: float, durable: bool) -> None:  # noqa: FBT001
        """Commit what was begun."""
        connection = self.connection or self.connect()
        run_patiently(connection, "COMMIT", budget)
        self._wrote = True
        self._wal.after_commit(connection, durable)

    def send(self, name: str, params: Params, budget: float, *, durable: bool) -> int:
        """Run one statement that is a transaction of its own; give the number of changed rows.

        SQLite begins and commits around it: BEGIN and COMMIT as statements cost as much again.
        Where somebody is in the way of that, it waits in an ordinary transaction.
        """
        connection = self.connection or self.connect()
        if self.journal_mode != "wal" or self._tuning.guard is not None:
            return self._send_patiently(name, params, budget, durable=durable)
        self._wal.refuse_lost()
        level = pragmas.FULL if durable else pragmas.NORMAL
        if level != self._level:
            self._set_level(connection, level)
        try:
            changed = SqliteTx(connection, self._queries, self._trouble).count(name, params)
        except LockTimeout:
            return self._send_patiently(name, params, budget, durable=durable)
        self._wrote = True
        self._wal.after_commit(connection, durable)
        return changed

    def _send_patiently(self, name: str, params: Params, budget: float, *, durable: bool) -> int:
        try:
            changed = self.begin(budget, durable, foreign_keys=True).count(name, params)
            self.commit(budget, durable)
        finally:
            self.settle(foreign_keys=True)
        return changed

    def settle(self, foreign_keys: bool) -> None:  # noqa: FBT001
        """Roll back what was not committed, and undo the settings of one transaction."""
        connection, tx = self.connection, self.tx
        self.tx = None
        if tx is not None:
            tx.end()
        if connection is None:
            return
        if connection.in_transaction:
            roll_back(connection)
        if not foreign_keys:
            connection.execute("PRAGMA foreign_keys = ON")
        if self.journal_mode != "wal":
            connection.execute("PRAGMA busy_timeout = 0")

    def _set_level(self, connection: sqlite3.Connection, level: int) -> None:
        if self._level != level:
            connection.execute(f"PRAGMA synchronous = {level}")
            self._level = level

    def give_back(self, pages: int, budget: float) -> int:
        """Cut up to so many free pages off the end of the file; give how many were cut.

        Only files made with incremental vacuum can; others give 0.
        """
        connection = self.connect()
        before = int(connection.execute("PRAGMA page_count").fetchone()[0])
        self._set_level(connection, pragmas.NORMAL)
        run_patiently(connection, "BEGIN IMMEDIATE", budget)
        free = int(connection.execute("PRAGMA freelist_count").fetchone()[0])
        for _ in range(min(pages, free)):  # Python's driver runs this statement for one page only
            connection.execute("PRAGMA incremental_vacuum(1)")
        run_patiently(connection, "COMMIT", budget)
        self._wrote = True
        return before - int(connection.execute("PRAGMA page_count").fetchone()[0])

    def vacuum(self, budget: float) -> None:
        """Rewrite the file without its free pages, then empty the log into it."""
        connection = self.connect()
        self._set_level(connection, pragmas.FULL)
        run_patiently(connection, "VACUUM", budget)
        truncate(connection)

    def replace_with(self, source: Path, budget: float, save: Callable[[], None]) -> None:
        """Overwrite everything with the content of another database file, in one transaction.

        `save` is called once, when nobody else can commit any more and all is still as it was.
        """
        connection = self.connect()
        self._wal.refuse_lost()
        self._set_level(connection, pragmas.FULL)
        with closing(sqlite3.connect(connect_uri(source, "ro"), uri=True)) as origin:
            origin.execute("BEGIN")
            pages = self._pages_to_copy(connection, origin, source)
            if self.journal_mode == "wal":
                _overwrite(connection, origin, pages, budget, save)
            else:  # the copy locks out readers, too: what is there is saved before it begins
                with _alone(connection, budget):
                    save()
                    _overwrite(connection, origin, pages, budget)
        self._wrote = True
        self._wal.look(connection)

    def _pages_to_copy(
        self, connection: sqlite3.Connection, origin: sqlite3.Connection, source: Path
    ) -> int:
        """A file with a write-ahead log cannot change its page size while it is open."""
        theirs, ours = (
            int(c.execute("PRAGMA page_size").fetchone()[0]) for c in (origin, connection)
        )
        if self.journal_mode == "wal" and theirs != ours:
            msg = f"{source} has pages of {theirs} bytes, {self._file} has pages of {ours}"
            raise Conflict(msg, hint="move the database away, then restore into its place")
        pages = int(origin.execute("PRAGMA page_count").fetchone()[0])
        if pages < _FEWEST_PAGES:
            msg = f"{source} holds nothing, and {self._file} was left unchanged"
            raise Conflict(msg, hint="choose another backup")
        return pages

    def close(self) -> None:
        """Tidy up after writes, then close; looking at a file must not change it."""
        connection, self.connection = self.connection, None
        self._closed = True
        if connection is not None:
            if self._wrote and not connection.in_transaction:
                self._tidy(connection)
            connection.close()

    def _tidy(self, connection: sqlite3.Connection) -> None:
        try:
            if self._tuning.statistics:
                connection.execute("PRAGMA optimize")
            self._wal.look(connection)
        except (sqlite3.Error, ThreadkeepError) as error:  # nothing may keep us from closing
            log.debug("closing %s: %s", self._file, error)


def _overwrite(
    connection: sqlite3.Connection,
    origin: sqlite3.Connection,
    pages: int,
    budget: float,
    save: Callable[[], None] | None = None,
) -> None:
    """Copy every page; the first step takes SQLite's write lock, the last one commits.

    So the first step is never the last, and `save` is called between the two.
    """
    waiting, deadline = [save] if save is not None else [], time.monotonic() + budget

    def stepped(status: int, _remaining: int, _total: int) -> None:
        if status not in (sqlite3.SQLITE_OK, sqlite3.SQLITE_DONE):
            if time.monotonic() >= deadline:
                raise TimeoutError  # the driver itself would try forever
        elif waiting:
            waiting.pop()()

    step = min(_PAGES_PER_STEP, pages - 1)
    origin.backup(connection, pages=step, progress=stepped, sleep=_RETRY_SECONDS)


@contextmanager
def _alone(connection: sqlite3.Connection, budget: float) -> Iterator[None]:
    """Keep every other program out of a file without a write-ahead log, between statements too."""
    connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchone()
    try:
        run_patiently(connection, "BEGIN EXCLUSIVE", budget)
        connection.execute("COMMIT")
        yield
    finally:
        connection.execute("PRAGMA locking_mode = NORMAL").fetchone()
        # The next look at the file lets go of it.
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
