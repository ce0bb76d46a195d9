"""How a connection is opened: in which mode, with which settings, and what if the place is odd."""

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar
from urllib.parse import quote
from weakref import WeakSet

from threadkeep.base.files import wal_allowed
from threadkeep.base.processes import describe_process, lock_holders, may_write
from threadkeep.base.sqlite import pragmas
from threadkeep.base.sqlite.errors import SALVAGE, FileDamaged, is_busy
from threadkeep.base.sqlite.lock import all_locks, forget_locks
from threadkeep.base.sqlite.tx import KeepingConnection
from threadkeep.errors import Conflict

# ------------------------------------------------------------------------------
# Forks: no connection of ours is used on both sides of one.
#
# A forked child has a copy of what SQLite knows about its parent's locks, but none of the locks:
# a connection that it opens beside inherited ones believes to hold locks that it does not. When
# the parent closes, the log is deleted under the child; its rows were acknowledged and are gone
# (measured). So a fork waits until no other thread is inside a transaction, and the child closes
# its copies, which takes no lock from the parent, before it opens its own.
#
# A fork inside a transaction of its own thread cannot be waited for. Ending the copied transaction
# would damage the parent's (measured), so the copies stay as they are for the life of the child,
# and the child is refused that file.

# How long a fork waits for the transactions of other threads.
_PATIENCE = 5.0


class Forkable(Protocol):
    """What holds connections: told before a fork, and after it on both sides."""

    def pause(self, deadline: float) -> None:
        """Wait for the transactions of other threads, and let none begin."""

    def resume(self) -> None:
        """Go on in the parent."""

    def leave_to_parent(self) -> None:
        """Start over in the child."""

    def connections(self) -> list[sqlite3.Connection]:
        """Return the connections that are in use."""


_WATCHED: WeakSet[Forkable] = WeakSet()
# Held during a fork: nobody may begin to hold connections meanwhile.
_WATCHED_GUARD = threading.Lock()
# Files with inherited connections that cannot be closed: refused for the life of the process.
_SHARED: set[str] = set()


def watch(holder: Forkable) -> None:
    """Tell a holder of connections about forks, as long as it lives."""
    with _WATCHED_GUARD:
        _WATCHED.add(holder)


def interrupt_all() -> None:
    """Have SQLite leave whatever it is at for us, in any thread: this process is to end.

    What it was at fails, and is rolled back; any thread may ask for it.
    """
    for holder in list(_WATCHED):
        for connection in holder.connections():
            with suppress(sqlite3.Error):  # it was closed meanwhile
                connection.interrupt()


def keep_for_ever(file: Path, connections: Iterable[sqlite3.Connection]) -> None:
    """Leave inherited connections as they are, even when the interpreter ends."""
    import ctypes  # noqa: PLC0415  (5 ms that only a fork inside a transaction pays)

    _SHARED.add(str(file))
    for connection in connections:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


def refuse_shared(file: Path) -> None:
    """Raise if this process inherited a transaction on the file from its parent."""
    if str(file) in _SHARED:
        msg = f"{file} cannot be used here: this process was forked inside a transaction on it"
        raise Conflict(msg, hint="fork outside of transactions, or start processes with spawn")


def _before() -> None:
    _WATCHED_GUARD.acquire()
    deadline = time.monotonic() + _PATIENCE
    for lock in all_locks():
        lock.pause(deadline - time.monotonic())
    for holder in list(_WATCHED):
        holder.pause(deadline)


def _after_in_parent() -> None:
    for holder in list(_WATCHED):
        holder.resume()
    for lock in all_locks():
        lock.resume()
    _WATCHED_GUARD.release()


def _after_in_child() -> None:
    global _WATCHED_GUARD  # noqa: PLW0603
    _WATCHED_GUARD = threading.Lock()
    forget_locks()
    for holder in list(_WATCHED):
        holder.leave_to_parent()


os.register_at_fork(
    before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
)


log = logging.getLogger(__name__)

R = TypeVar("R")

PATIENCE = 30.0
_POLL_FIRST, _POLL_LAST = 0.001, 0.02
# Where SQLite keeps its write lock: in -shm with a write-ahead log, else in the file itself.
_WAL_WRITE_LOCK = (120, 120)
_ROLLBACK_WRITE_LOCKS = (0x40000000, 0x400001FF)
_SHARED_LOCKS = (0x40000002, 0x400001FF)


class OpenConnection(NamedTuple):
    """A connection, and whether it may serve for more than one transaction."""

    connection: sqlite3.Connection
    reusable: bool = True


class Tuning(NamedTuple):
    """What a contract wants: statements for a new file, for the writer, for each reader.

    `guard` looks at the file before a write whenever its schema has changed, and may refuse.
    """

    fresh: tuple[str, ...] = ()
    writer: tuple[str, ...] = ()
    reader: tuple[str, ...] = ()
    guard: Callable[[Any], None] | None = None
    # Whether statistics for the planner may be written; another program's file gets no table of it.
    statistics: bool = True


PLAIN = Tuning()
LOOKING = "ro"


def open_reader(file: Path, *, read_only: bool, tuning: Tuning = PLAIN) -> OpenConnection:
    """Open a connection that cannot write.

    Where neither the log nor its shared index can be made, the connection is good for one
    transaction only: nothing tells it of later changes, or it keeps everybody else out.
    """
    if not read_only:
        return _open_or_alone(file, tuning)
    mode = looking_mode(file)
    return OpenConnection(_open_reader(file, mode, tuning), reusable=mode == LOOKING)


def looking_mode(file: Path) -> str:
    """Return the mode to open a file that is only read.

    A cleanly closed WAL file in a folder we cannot write has no log to look into; only then
    may SQLite be told that the file cannot change.
    """
    folder_writable = os.access(file.parent, os.W_OK)
    immutable = not folder_writable and not Path(f"{file}-wal").exists()
    return f"{LOOKING}&immutable=1" if immutable else LOOKING


def _open_or_alone(file: Path, tuning: Tuning) -> OpenConnection:
    """On a full disk the shared index of the log may not fit: read without it, alone."""
    try:
        return OpenConnection(_open_reader(file, "rw", tuning))
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode not in (sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_FULL):
            raise
        return OpenConnection(_open_reader(file, "rw", tuning, pragmas.ALONE), reusable=False)


def _open_reader(
    file: Path, mode: str, tuning: Tuning, *groups: tuple[pragmas.Pragma, ...]
) -> sqlite3.Connection:
    connection = _open(file, mode, pragmas.CONNECTION, *groups)
    try:
        for statement in tuning.reader:  # before it may no longer write, not even to itself
            connection.execute(statement)
        pragmas.apply(connection, pragmas.READER)
    except BaseException:
        connection.close()
        raise
    return connection


def shape_new_file(spare: Path, file: Path, tuning: Tuning) -> None:
    """Give a new file its journal mode before it has its name.

    A program that found it empty, and kept reading, would keep it from ever getting one.
    """
    if wal_allowed(file)[0]:
        connection = sqlite3.connect(connect_uri(spare, "rw"), uri=True, isolation_level=None)
        try:
            for statement in (*tuning.fresh, "PRAGMA journal_mode = WAL"):
                connection.execute(statement).fetchone()
        finally:
            connection.close()


def open_writer(file: Path, tuning: Tuning = PLAIN) -> sqlite3.Connection:
    """Open the connection that writes; a new file gets its journal mode here."""
    connection = _open(file, "rw", pragmas.CONNECTION)
    try:
        between_commits(connection, lambda: _choose_journal(connection, file, tuning))
        pragmas.apply(connection, pragmas.WRITER)
        for statement in tuning.writer:
            connection.execute(statement)
    except BaseException:
        connection.close()
        raise
    return connection


def load_extension(connection: sqlite3.Connection, path: str) -> bool:
    """Load an extension of SQLite; False where this Python was built without that.

    Loading is allowed for just this one: SQL of the connection cannot load another.
    """
    if not hasattr(connection, "enable_load_extension"):
        return False
    connection.enable_load_extension(True)  # noqa: FBT003  (no name is allowed)
    try:
        connection.load_extension(path)
    finally:
        connection.enable_load_extension(False)  # noqa: FBT003  (no name is allowed)
    return True


def journal_mode(connection: sqlite3.Connection) -> str:
    """Tell the journal mode of an open file, `wal` or `delete` as a rule."""
    return str(connection.execute("PRAGMA journal_mode").fetchone()[0])


def connect_uri(file: Path, mode: str) -> str:
    """Name a file and an open mode the way SQLite wants it, whatever bytes the name has."""
    return f"file:{quote(os.fsencode(file))}?mode={mode}"


def _open(file: Path, mode: str, *groups: tuple[pragmas.Pragma, ...]) -> sqlite3.Connection:
    refuse_shared(file)
    connection = sqlite3.connect(
        connect_uri(file, mode),
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
        factory=KeepingConnection,
    )
    try:
        pragmas.apply(connection, *groups)
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    except UnicodeDecodeError as error:  # SQLite quotes what it cannot parse
        connection.close()
        msg = f"{file} is damaged: its schema cannot be read"
        raise FileDamaged(msg, hint=SALVAGE) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _choose_journal(connection: sqlite3.Connection, file: Path, tuning: Tuning) -> None:
    """A new file gets a write-ahead log where that is safe; an old one keeps its mode."""
    allowed, kind = wal_allowed(file)
    new = connection.execute("PRAGMA page_count").fetchone()[0] == 0
    for statement in tuning.fresh if new else ():
        connection.execute(statement)
    if new and allowed:
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
    elif new:
        log.warning("%s is on %s: using a rollback journal, not WAL", file, kind)
    elif not allowed and journal_mode(connection) == "wal":
        log.warning("%s is a WAL database on %s, where that is not safe: move it", file, kind)


def run_patiently(connection: sqlite3.Connection, sql: str, budget: float) -> None:
    """Run a statement; wait for programs that do not know our lock, `budget` seconds at most."""
    pause, deadline = _POLL_FIRST, None
    while True:
        try:
            connection.execute(sql)
            return
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            deadline = deadline or time.monotonic() + budget
            left = deadline - time.monotonic()
            if left <= 0:
                raise
        time.sleep(min(pause, left))
        pause = min(pause * 2, _POLL_LAST)


def wait_to_read(connection: sqlite3.Connection, budget: float) -> bool:
    """Take the shared lock of a file without a write-ahead log; tell whether it took waiting."""
    looks = 0

    def look() -> None:
        nonlocal looks
        looks += 1
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()

    between_commits(connection, look, budget)
    return looks > 1


def between_commits(
    connection: sqlite3.Connection, act: Callable[[], R], budget: float = PATIENCE
) -> R:
    """Do something that needs the shared lock, in a gap between two commits of other programs.

    A busy writer leaves gaps of a millisecond in twenty; SQLite's own waiting looks every 100 ms.
    """
    before = connection.execute("PRAGMA busy_timeout").fetchone()[0]
    connection.execute("PRAGMA busy_timeout = 0")
    deadline = time.monotonic() + budget
    try:
        while True:
            try:
                return act()
            except sqlite3.OperationalError as error:
                if not is_busy(error) or time.monotonic() >= deadline:
                    raise
            time.sleep(_POLL_FIRST)
    finally:
        connection.execute(f"PRAGMA busy_timeout = {before}")


def outside_users(file: Path) -> list[str]:
    """Name the programs that may write a file with a write-ahead log and do not know our lock.

    Each open connection to such a file holds a shared lock on it.
    """
    pids = set(lock_holders(file, "READ", *_SHARED_LOCKS)) - {os.getpid()}
    ours = Path(f"{file}.lock")
    outside = [p for p in pids if may_write(p, file) in (True, None) and not may_write(p, ours)]
    return [describe_process(pid) for pid in sorted(outside)]


def outside_writer(file: Path) -> str:
    """Name the program that holds SQLite's own write lock, as far as the system tells."""
    pids = lock_holders(Path(f"{file}-shm"), "WRITE", *_WAL_WRITE_LOCK)
    pids += lock_holders(file, "WRITE", *_ROLLBACK_WRITE_LOCKS)
    others = [pid for pid in pids if pid != os.getpid()]
    return describe_process(others[0]) if others else "another program"
