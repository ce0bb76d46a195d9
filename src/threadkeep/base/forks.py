"""Forks: no connection of ours is used on both sides of one.

A forked child has a copy of what SQLite knows about its parent's locks, but none of the locks:
a connection that it opens beside inherited ones believes to hold locks that it does not. When
the parent closes, the log is deleted under the child; its rows were acknowledged and are gone
(measured). So a fork waits until no other thread is inside a transaction, and the child closes
its copies, which takes no lock from the parent, before it opens its own.

A fork inside a transaction of its own thread cannot be waited for. Ending the copied transaction
would damage the parent's (measured), so the copies stay as they are for the life of the child,
and the child is refused that file.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Protocol
from weakref import WeakSet

from threadkeep.base.lock import all_locks, forget_locks
from threadkeep.errors import Conflict

# How long a fork waits for the transactions of other threads.
_PATIENCE = 5.0


class Forkable(Protocol):
    """What holds connections: told before a fork, and after it on both sides."""

    def pause(self, deadline: float) -> None:
        """Wait for the transactions of other threads, and let none begin."""

    def resume(self) -> None:
        """Go on in the parent."""

    def leave_to_parent(self) -> None:
        """Begin anew in the child."""

    def connections(self) -> list[sqlite3.Connection]:
        """Give the connections that are in use."""


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
