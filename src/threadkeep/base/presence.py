"""Heartbeats in a shared folder: a file that is touched, and a lock that only one may hold."""

import fcntl
import os
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

from threadkeep.base.files import PRIVATE_FILE, translate_os
from threadkeep.errors import Conflict, Damaged

# Whoever looks whether a lock is held has it for some microseconds.
_LOOKS = 5
_PAUSE = 0.02
_MARK = b"."  # in the file of a lock while somebody holds it, and after a death
_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def touch(path: Path, at: int | None = None) -> None:
    """Set the time of a file to now, or to `at` in epoch milliseconds; no link is followed.

    A file that is missing is created.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | _FLAGS, PRIVATE_FILE)
    except OSError as error:
        raise translate_os(error, path, "cannot touch") from error
    try:
        os.utime(descriptor, None if at is None else (at / 1000,) * 2)
    finally:
        os.close(descriptor)


def touched_ms(path: Path) -> int | None:
    """Return when a file was last touched, in epoch milliseconds; None if no such file exists."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_mtime_ns // 1_000_000 if stat.S_ISREG(found.st_mode) else None


def forget(path: Path) -> None:
    """Remove a file, or the link in its place, if it is there."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise translate_os(error, path, "cannot remove") from error


class ExclusiveLock:
    """Holds a lock that only one holder has at a time; the kernel frees it when we die."""

    def __init__(self, path: Path, who: str, *, looks: int = _LOOKS) -> None:
        """Take the lock, or raise Conflict because somebody has it at every look, 20 ms apart."""
        self._descriptor = _open_lock(path)
        try:
            taken = _take(self._descriptor, looks)
            if taken:
                os.pwrite(self._descriptor, _MARK, 0)
        except OSError as error:
            self._let_go()
            raise translate_os(error, path, "cannot lock") from error
        if not taken:
            self._let_go()
            msg = f"{who} is already working in {path.parent}"
            raise Conflict(msg, hint="stop the other one first; two would do the work twice")

    def close(self) -> None:
        """Let go, in peace: the file does not say any more that somebody works here."""
        if self._descriptor >= 0:
            with suppress(OSError):
                os.ftruncate(self._descriptor, 0)
        self._let_go()

    def _let_go(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        """Let go when nobody remembers the lock."""
        if getattr(self, "_descriptor", -1) >= 0:
            self.close()


def was_left(path: Path) -> bool:
    """Tell whether the last holder of a lock died with it in its hands."""
    try:
        marked = os.lstat(path).st_size > 0
    except OSError:
        return False
    return marked and not is_held(path)


def is_held(path: Path) -> bool:
    """Tell whether somebody holds the lock of a file."""
    try:
        descriptor = os.open(path, os.O_RDWR | _FLAGS)
    except OSError:
        return False
    try:
        # Shared: two who look at once must not take each other for the holder.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def _take(descriptor: int, looks: int) -> bool:
    for look in range(looks):
        if look:
            time.sleep(_PAUSE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        return True
    return False


def _open_lock(path: Path) -> int:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _FLAGS, PRIVATE_FILE)
    except OSError as error:
        raise translate_os(error, path, "cannot create the lock file") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Damaged(f"{path} is not a regular file", hint="check the folder, then remove it")
    return descriptor
