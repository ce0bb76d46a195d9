"""The fair writer lock: one writer at a time per database, first come, first served.

SQLite's own lock has no queue: with eight saturating writers one of them waited 1.7 s, others
starved. Here every writer of ours takes this lock before `BEGIN IMMEDIATE`; the worst wait
falls to tens of milliseconds, and no two connections of ours ever checkpoint at once (which
keeps SQLite versions before 3.51.3 away from their WAL-reset race).

The lock is two regions of byte-range locks in a side file, never in the database itself:

    byte 0                 held by the writer
    bytes 1 + time (ns)    one byte per waiter, at its time of arrival: the queue
    byte 2^62              shared by everybody who follows the database live

A waiter may take byte 0 only when no byte before its own is locked. The kernel frees the bytes
of a process that dies, so nobody waits for a ghost. Byte-range locks belong to the process;
threads of one process queue up in `_FairMutex` first.
"""

import fcntl
import os
import struct
import sys
import threading
import time
from collections import deque
from pathlib import Path

from threadkeep.base.files import PRIVATE_FILE
from threadkeep.errors import Busy, ReadOnly

_HELD = 0
_QUEUE = 1
_FOLLOWED = 1 << 62  # 146 years of nanoseconds: past every place in the queue
_PAUSE_SHORT, _PAUSE_LONG = 0.0001, 0.005
# The first milliseconds decide throughput under load; after that patience is cheaper.
_SHORT_PHASE = 0.02

_FLOCK_LINUX, _FLOCK_BSD = "hhqqi4x", "qqihh"


def _holder_pid(descriptor: int, start: int, length: int) -> int | None:
    """Find a process that holds a lock in the range, without taking one; None if it is free."""
    if sys.platform == "darwin":
        request = struct.pack(_FLOCK_BSD, start, length, 0, fcntl.F_WRLCK, os.SEEK_SET)
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, request)
        _, _, pid, kind, _ = struct.unpack(_FLOCK_BSD, answer)
    else:
        request = struct.pack(_FLOCK_LINUX, fcntl.F_WRLCK, os.SEEK_SET, start, length, 0)
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, request)
        kind, _, _, _, pid = struct.unpack(_FLOCK_LINUX, answer)
    return None if kind == fcntl.F_UNLCK else pid


def describe_process(pid: int) -> str:
    """Say which process a pid is, as far as this machine tells."""
    if pid <= 0:
        return "a process outside this container"
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return f"process {pid}"
    command = b" ".join(words).decode("utf-8", "replace").strip()[:120]
    return f"process {pid} ({command})" if command else f"process {pid}"


class _FairMutex:
    """A first-come-first-served mutex for threads; `threading.Lock` promises no order."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._taken = False
        self._waiting: deque[threading.Lock] = deque()

    def acquire(self, timeout: float) -> bool:
        with self._guard:
            if not self._taken:
                self._taken = True
                return True
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        if turn.acquire(timeout=max(timeout, 0)):
            return True
        with self._guard:
            if turn in self._waiting:
                self._waiting.remove(turn)
                return False
        return True  # it was handed to us while we gave up

    def release(self) -> None:
        with self._guard:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False


class WriterLock:
    """The writer lock of one database; get it from `lock_for`, which keeps one per process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._threads = _FairMutex()
        self._followers = 0
        self._followers_guard = threading.Lock()
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            self._file = os.open(path, flags, PRIVATE_FILE)
        except OSError as error:
            msg = f"cannot create the lock file {path}: {error.strerror}"
            raise ReadOnly(msg, hint="make the folder writable, or open read-only") from error

    def acquire(self, budget: float) -> None:
        """Take the lock within `budget` seconds, or raise Busy with the holder's name."""
        deadline = time.monotonic() + budget
        if not self._threads.acquire(budget):
            raise self._busy(budget, "another thread of this process")
        try:
            if self._range_free(_QUEUE, _FOLLOWED - _QUEUE) and self._try_hold():
                return
            self._wait_in_queue(deadline, budget)
        except BaseException:
            self._threads.release()
            raise

    def release(self) -> None:
        """Give the lock to whoever waits longest."""
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _HELD)
        self._threads.release()

    def holder(self) -> str | None:
        """Name the process that holds the lock now, None if nobody else does."""
        pid = _holder_pid(self._file, _HELD, 1)
        return None if pid is None else describe_process(pid)

    def follow(self) -> None:
        """Announce a live reader, so that writers keep what it has not read yet."""
        with self._followers_guard:
            if self._followers == 0:
                fcntl.lockf(self._file, fcntl.LOCK_SH, 1, _FOLLOWED)
            self._followers += 1

    def unfollow(self) -> None:
        """Take back a `follow`; a process that dies takes back all of its own."""
        with self._followers_guard:
            self._followers -= 1
            if self._followers == 0:
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _FOLLOWED)

    def followed(self) -> bool:
        """Tell whether anybody, here or in another process, follows the database live."""
        return self._followers > 0 or not self._range_free(_FOLLOWED, 1)

    def _wait_in_queue(self, deadline: float, budget: float) -> None:
        place = self._enqueue()
        started = time.monotonic()
        try:
            while not (self._range_free(_QUEUE, place - _QUEUE) and self._try_hold()):
                now = time.monotonic()
                if now >= deadline:
                    raise self._busy(budget, self.holder() or "a process that just let go")
                time.sleep(_PAUSE_SHORT if now - started < _SHORT_PHASE else _PAUSE_LONG)
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, place)

    def _enqueue(self) -> int:
        place = _QUEUE + time.monotonic_ns()
        while not self._try_lock(place):
            place += 1  # two arrived in the same nanosecond
        return place

    def _try_hold(self) -> bool:
        return self._try_lock(_HELD)

    def _try_lock(self, byte: int) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
        except BlockingIOError:
            return False
        except PermissionError:  # POSIX allows EACCES for "somebody holds it"
            return False
        return True

    def _range_free(self, start: int, length: int) -> bool:
        return _holder_pid(self._file, start, length) is None

    def _busy(self, budget: float, holder: str) -> Busy:
        return Busy(
            f"{self.path.with_suffix('')} is locked for writing by {holder}; waited {budget:g} s",
            hint="try again, or raise the time budget",
        )


# One lock object per file and process: byte-range locks are the process's, and closing one
# descriptor of the file would drop the locks taken through another.
_LOCKS: dict[str, WriterLock] = {}
_LOCKS_GUARD = threading.Lock()


def lock_for(database: Path) -> WriterLock:
    """Give the one writer lock that this process has for a database file."""
    key = os.path.realpath(database)
    with _LOCKS_GUARD:
        lock = _LOCKS.get(key)
        if lock is None or not _still_there(lock):
            lock = _LOCKS[key] = WriterLock(Path(key + ".lock"))
        return lock


def _still_there(lock: WriterLock) -> bool:
    """A deleted folder that came back has another lock file under the same name."""
    try:
        ours, named = os.fstat(lock._file), os.stat(lock.path)  # noqa: SLF001  (same module)
    except OSError:
        return False
    return (ours.st_dev, ours.st_ino) == (named.st_dev, named.st_ino)


def _forget_locks_in_child() -> None:
    """A forked child has none of its parent's locks, and maybe its held thread mutexes."""
    global _LOCKS_GUARD  # noqa: PLW0603
    _LOCKS_GUARD = threading.Lock()
    _LOCKS.clear()


os.register_at_fork(after_in_child=_forget_locks_in_child)
