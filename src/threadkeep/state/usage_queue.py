"""Usage that is written behind the caller's back, in the order in which it came."""

import logging
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Lock
from typing import Any

log = logging.getLogger(__name__)

# What a usage is written with, and what a reader is willing to wait for it, in seconds.
Apply = Callable[..., None]
PATIENCE = 5.0


class UsageQueue:
    """One thread that writes usage for a store; a process that is forked off begins an empty one.

    The interpreter waits for the thread when it ends, so nothing that was queued is lost.
    """

    def __init__(self, apply: Apply) -> None:
        self._apply = apply
        self._lock = Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._last: Future[None] | None = None
        self._pid = os.getpid()
        self._closed = False

    def put(self, session_id: str, **values: Any) -> None:
        """Write a usage soon; at once, and raising what goes wrong, when the store is closed."""
        self._begin_anew_after_fork()
        with self._lock:
            if not self._closed:
                pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix="threadkeep-usage")
                self._pool = pool
                try:
                    self._last = pool.submit(self._write, session_id, values)
                except RuntimeError:  # the interpreter is about to end, and takes no more work
                    log.debug("usage of %s is written at once", session_id)
                else:
                    return
        self._apply(session_id, **values)

    def _write(self, session_id: str, values: dict[str, Any]) -> None:
        try:
            self._apply(session_id, **values)
        except Exception as error:  # noqa: BLE001  (the caller went on long ago: it is told here)
            log.warning("usage of session %s was not counted: %s", session_id, error)

    def flush(self, timeout: float = PATIENCE) -> bool:
        """Wait until all that was queued is written; False if that takes longer."""
        self._begin_anew_after_fork()
        last = self._last
        return last is None or last.done() or not wait([last], timeout).not_done

    def close(self) -> None:
        """Write what is queued, then take nothing more."""
        self._begin_anew_after_fork()
        with self._lock:
            self._closed = True
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True)

    def _begin_anew_after_fork(self) -> None:
        """What was queued before a fork is written by the process that queued it."""
        if self._pid != os.getpid():
            self._lock, self._pool, self._last = Lock(), None, None
            self._pid = os.getpid()
