"""The fair writer lock: one writer at a time per database, first come, first served.

SQLite's own lock has no queue: with eight saturating writers one of them waited 1.7 s, others
starved. Here every writer of ours takes this lock before `BEGIN IMMEDIATE`; the worst wait
falls to tens of milliseconds, and no two connections of ours ever checkpoint at once (which
keeps SQLite versions before 3.51.3 away from their WAL-reset race).

The lock is byte-range locks in a side file, never in the database itself:

    byte 0                 held by the writer
    bytes 1 + time (ns)    one byte per waiter, at its time of arrival: the queue
    byte 2^62              shared by everybody who follows the database live

Its length counts how often the database file was replaced by another one, so that whoever has
the old one open notices before the next write (0.2 µs to ask; the file itself would be 2).

A waiter may take byte 0 only when no byte before its own is locked. The kernel frees the bytes
of a process that dies, so nobody waits for a ghost. Byte-range locks belong to the process;
threads of one process queue up in `_Threads` first.
"""

import fcntl
import os
import struct
import sys
import threading
import time
from collections import deque
from pathlib import Path

from threadkeep.base.files import PRIVATE_FILE, identity_of, translate_os
from threadkeep.base.processes import describe_process
from threadkeep.base.sqlite.errors import FileClosed, LockTimeout

_HELD = 0
_QUEUE = 1
_CLOSED = -1
_FOLLOWED = 1 << 62  # 146 years of nanoseconds: past every place in the queue
# No link is followed: a database may lie in a folder that somebody else can write.
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_PAUSE_SHORT, _PAUSE_LONG = 0.0001, 0.005
# The first milliseconds decide throughput under load; after that patience is cheaper.
_SHORT_PHASE = 0.02
# Somebody may remove the lock file. SQLite's own lock still keeps writers apart meanwhile, so
# looking now and then is enough; a look each time would cost 1 of 8 µs.
_LOOK_EVERY = 64

if sys.platform == "darwin":
    _FLOCK, _PID, _KIND = "qqihh", 2, 3
else:
    _FLOCK, _PID, _KIND = "hhqqi4x", 4, 0


def _request(start: int, length: int) -> bytes:
    """Ask the kernel who would be in the way of an exclusive lock on a range."""
    if sys.platform == "darwin":
        return struct.pack(_FLOCK, start, length, 0, fcntl.F_WRLCK, os.SEEK_SET)
    return struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, start, length, 0)


_ASK_QUEUE = _request(_QUEUE, _FOLLOWED - _QUEUE)
_ASK_HELD = _request(_HELD, 1)
_ASK_FOLLOWED = _request(_FOLLOWED, 1)


def _in_the_way(descriptor: int, request: bytes) -> int | None:
    """Return the process that holds a lock in the range of a request, None if it is free."""
    answer = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, request))
    return None if answer[_KIND] == fcntl.F_UNLCK else answer[_PID]


class LockClaim:
    """One claim on the lock, from before it waits until it lets go."""

    __slots__ = ("gate", "thread")

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.gate: threading.Lock | None = None


class _Threads:
    """A first-come-first-served mutex for threads; `threading.Lock` promises no order.

    Who owns it is one attribute, so an interrupt at any moment leaves it either owned by a
    known turn, which `release` ends, or not.
    """

    def __init__(self) -> None:
        self.owner: LockClaim | None = None
        self._guard = threading.Lock()
        self._waiting: deque[LockClaim] = deque()

    def take(self, turn: LockClaim) -> bool:
        """Own it if nobody does."""
        with self._guard:
            if self.owner is None:
                self.owner = turn
                return True
        return False

    def acquire(self, turn: LockClaim, timeout: float) -> bool:
        if self.take(turn):
            return True
        try:
            return self._wait(turn, min(max(timeout, 0), threading.TIMEOUT_MAX))
        except BaseException:
            self.release(turn)
            raise

    def _wait(self, turn: LockClaim, timeout: float) -> bool:
        turn.gate = gate = threading.Lock()
        gate.acquire()
        with self._guard:
            if self.owner is None:
                self.owner = turn
                return True
            self._waiting.append(turn)
        if gate.acquire(timeout=timeout):
            return True
        with self._guard:
            if self.owner is turn:  # it was handed to us while we gave up
                return True
            self._waiting.remove(turn)
        return False

    def release(self, turn: LockClaim) -> None:
        """Hand on what the turn holds, or leave the queue."""
        with self._guard:
            if self.owner is not turn:
                if turn in self._waiting:
                    self._waiting.remove(turn)
                return
            self.owner = self._waiting[0] if self._waiting else None
            if self.owner is not None and self.owner.gate is not None:
                self._waiting.popleft()
                self.owner.gate.release()


class WriterLock:
    """The writer lock of one database; get it from `lock_for`, which keeps one per process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pid = os.getpid()
        self.users = 0
        self._threads = _Threads()
        self._followers = 0
        self._followers_guard = threading.Lock()
        self._until_look = 0
        self._paused: LockClaim | None = None
        self._file, self._identity = _open(path)

    def acquire(self, turn: LockClaim, budget: float) -> None:
        """Take the lock within `budget` seconds, or raise Busy with the holder's name.

        Whatever it raises, an interrupt too, it leaves the lock and the queue free of `turn`.
        """
        deadline = time.monotonic() + budget
        try:
            self._join_threads(turn, budget)
            self._until_look -= 1
            if self._until_look < 0:
                self._look_after_file()
            if _in_the_way(self._file, _ASK_QUEUE) is not None or not self._try_lock(_HELD):
                self._wait_in_queue(deadline, budget)
        except BaseException:
            self.release(turn)
            raise

    def release(self, turn: LockClaim) -> None:
        """Give the lock to whoever waits longest; nothing happens if `turn` has it no more."""
        if self._threads.owner is turn:
            try:  # the place in the queue, too, if there is one: it is freed with the lock
                if self._file != _CLOSED:
                    fcntl.lockf(self._file, fcntl.LOCK_UN, _FOLLOWED, _HELD)
            finally:
                self._threads.release(turn)

    def held_by(self, turn: LockClaim) -> bool:
        """Tell whether `turn` has the lock."""
        return self._threads.owner is turn

    def holder(self) -> str | None:
        """Name the process that holds the lock now, None if no other process does."""
        pid = _in_the_way(self._file, _ASK_HELD)
        return None if pid is None else describe_process(pid)

    def held_here(self) -> bool:
        """Tell whether this thread has the lock."""
        owner = self._threads.owner
        return owner is not None and owner.thread == threading.get_ident()

    def close(self) -> bool:
        """Close the file and end the turn of this thread, if any; False if another thread waits."""
        owner, turn = self._threads.owner, LockClaim()
        if owner is not None and owner.thread == turn.thread:
            self.release(owner)
        if not self._threads.acquire(turn, 0):
            return False
        os.close(self._file)
        self._file = _CLOSED  # the number may soon be another file's
        self._threads.release(turn)
        return True

    # ------------------------------------------------------------------ followers

    def follow(self) -> None:
        """Announce a live reader, so that writers keep what it has not read yet."""
        with self._followers_guard:
            if self._followers == 0:
                fcntl.lockf(self._file, fcntl.LOCK_SH, 1, _FOLLOWED)
            self._followers += 1

    def unfollow(self) -> None:
        """Take back a `follow`; a process that dies takes back all of its own."""
        with self._followers_guard:
            if self._followers == 0:
                return  # a follower of the parent process, ended in a forked child
            self._followers -= 1
            if self._followers == 0:
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _FOLLOWED)

    def followed(self) -> bool:
        """Tell whether anybody, here or in another process, follows the database live."""
        return self._followers > 0 or _in_the_way(self._file, _ASK_FOLLOWED) is not None

    # ------------------------------------------------------------------ another file

    def moves(self) -> int:
        """Count how often the database file was replaced by another one."""
        return os.lseek(self._file, 0, os.SEEK_END)

    def note_move(self) -> None:
        """Say that the database file is about to be replaced; needs the lock."""
        os.ftruncate(self._file, self.moves() + 1)

    # ------------------------------------------------------------------ inside

    def _join_threads(self, turn: LockClaim, budget: float) -> None:
        if not self._threads.take(turn):
            if self.held_here():
                raise self._nested()
            if not self._threads.acquire(turn, budget):
                raise self._busy(budget, "another thread of this process")
        if self._file == _CLOSED:
            raise FileClosed(f"{self.path.with_suffix('')} was closed", hint="open the store again")

    def _wait_in_queue(self, deadline: float, budget: float) -> None:
        place = self._enqueue()
        ask_before = _request(_QUEUE, place - _QUEUE)
        started = time.monotonic()
        while _in_the_way(self._file, ask_before) is not None or not self._try_lock(_HELD):
            now = time.monotonic()
            if now >= deadline:
                raise self._busy(budget, self.holder() or "a process that just released it")
            time.sleep(_PAUSE_SHORT if now - started < _SHORT_PHASE else _PAUSE_LONG)

    def _enqueue(self) -> int:
        place = _QUEUE + time.monotonic_ns()
        while not self._try_lock(place):
            place += 1  # two arrived in the same nanosecond
        return place

    def _try_lock(self, byte: int) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
        except (BlockingIOError, PermissionError):  # POSIX allows EACCES for "somebody holds it"
            return False
        return True

    def _look_after_file(self) -> None:
        """Move to the lock file that is there now, if ours was removed or replaced."""
        if identity_of(self.path) != self._identity:
            with self._followers_guard:
                stale, moves = self._file, self.moves()
                self._file, self._identity = _open(self.path)
                os.close(stale)
                if self.moves() < moves:
                    os.ftruncate(self._file, moves)
                if self._followers:
                    fcntl.lockf(self._file, fcntl.LOCK_SH, 1, _FOLLOWED)
        self._until_look = _LOOK_EVERY

    def _nested(self) -> RuntimeError:
        """This thread would wait for itself."""
        msg = f"{self.path.with_suffix('')} was to be locked twice by one thread: a write"
        return RuntimeError(f"{msg} transaction was begun inside another one")

    def _busy(self, budget: float, holder: str) -> LockTimeout:
        return LockTimeout(
            f"{self.path.with_suffix('')} is locked for writing by {holder}; waited {budget:g} s",
            hint="try again, or raise the time budget",
        )

    # ------------------------------------------------------------------ forks

    def pause(self, timeout: float) -> None:
        """Keep the threads of this process from writing; not if this thread itself writes."""
        owner, turn = self._threads.owner, LockClaim()
        if owner is None or owner.thread != turn.thread:
            self._paused = turn if self._threads.acquire(turn, timeout) else None

    def resume(self) -> None:
        """Take back a `pause`."""
        if self._paused is not None:
            self._threads.release(self._paused)
            self._paused = None

    @property
    def writing(self) -> bool:
        """Tell whether a thread of this process has the lock for something else than a pause."""
        return self._threads.owner is not self._paused


class LockHeld:
    """Holds the writer lock without a transaction: for opening, closing and checkpoints."""

    __slots__ = ("_budget", "_lock", "_turn")

    def __init__(self, lock: WriterLock, budget: float) -> None:
        self._lock = lock
        self._budget = budget
        self._turn: LockClaim | None = None

    def __enter__(self) -> None:
        self._turn = LockClaim()
        self._lock.acquire(self._turn, self._budget)

    def __exit__(self, *_: object) -> None:
        if self._turn is not None:
            self._lock.release(self._turn)
            self._turn = None

    def __del__(self) -> None:
        """Let go after an interrupt in the first instruction of `__exit__`."""
        if getattr(self, "_turn", None) is not None:
            self.__exit__()


def _open(path: Path) -> tuple[int, tuple[int, int] | None]:
    try:
        descriptor = os.open(path, _FLAGS, PRIVATE_FILE)
    except OSError as error:
        raise translate_os(error, path, "cannot create the lock file") from error
    found = os.fstat(descriptor)
    return descriptor, (found.st_dev, found.st_ino)


# One lock object per file and process: byte-range locks are the process's, and closing one
# descriptor of the file would drop the locks taken through another.
_LOCKS: dict[str, WriterLock] = {}
_LOCKS_GUARD = threading.Lock()


def lock_for(database: Path) -> WriterLock:
    """Give the one writer lock that this process has for a database file; `let_go` ends the use."""
    key = os.path.realpath(database)
    with _LOCKS_GUARD:
        lock = _LOCKS.get(key)
        if lock is None or lock.pid != os.getpid():
            lock = _LOCKS[key] = WriterLock(Path(key + ".lock"))
        lock.users += 1
        lock._until_look = 0  # noqa: SLF001  (same module; a folder may have been rebuilt)
        return lock


def let_go(lock: WriterLock) -> None:
    """End one use of a lock; the last one closes its file."""
    with _LOCKS_GUARD:
        lock.users -= 1
        key = str(lock.path).removesuffix(".lock")
        # Closed under the guard: it drops the process's locks on the file, a newer object's too.
        if lock.users == 0 and _LOCKS.get(key) is lock and lock.close():
            del _LOCKS[key]


def all_locks() -> list[WriterLock]:
    """Return every lock this process uses."""
    return list(_LOCKS.values())


def forget_locks() -> None:
    """Start over in a forked child: it has none of its parent's locks."""
    global _LOCKS_GUARD  # noqa: PLW0603
    _LOCKS_GUARD = threading.Lock()
    _LOCKS.clear()
