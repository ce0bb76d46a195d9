"""One timer per process for all its recorders: what waits is written though no chunk comes.

A thread runs only while something waits, and most of that time it sleeps: a recorder asks for one
look, and is not in its way while chunks keep coming. In a forked child there is neither thread nor
recorder; the parent's go on.
"""

import logging
import os
import threading
import time
from collections.abc import Callable
from weakref import WeakMethod

log = logging.getLogger(__name__)


# Writes what is overdue; gives the seconds until the next look, None if no other is needed.
Look = Callable[[], float | None]


class Timer:
    """Calls methods of objects that something else keeps alive."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin anew: in a forked child there is no thread, and nobody to look after."""
        self._guard = threading.Condition()
        self._looks: dict[WeakMethod[Look], float] = {}
        self._next = 0.0  # when the thread wakes up by itself
        self._running = False

    def watch(self, look: Look, seconds: float) -> None:
        """Call a method in so many seconds, and again as long as it asks for it."""
        at = time.monotonic() + seconds
        with self._guard:
            self._looks[WeakMethod(look)] = at
            if not self._running:
                self._start()
            elif at < self._next:
                self._guard.notify()

    def forget(self, look: Look) -> None:
        """Call a method no more; the thread finds out when it wakes up by itself."""
        with self._guard:
            self._looks.pop(WeakMethod(look), None)

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name="threadkeep-recorders", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            # The interpreter ends, or there are no threads to be had: chunks still do the work.
            log.debug("no timer: %s", error)
            self._looks.clear()
        else:
            self._running = True

    def _run(self) -> None:
        while (due := self._wait()) is not None:
            for found in due:
                look = found()
                if look is not None:
                    self._call(look)
                del look  # a recorder that nobody else knows was abandoned

    def _wait(self) -> list[WeakMethod[Look]] | None:
        """Sleep until a look is due; None when there is none left, and the thread ends."""
        with self._guard:
            while self._looks:
                now, self._next = time.monotonic(), min(self._looks.values())
                if self._next <= now:
                    due = [found for found, at in self._looks.items() if at <= now]
                    for found in due:
                        del self._looks[found]
                    return due
                self._guard.wait(self._next - now)
            self._running = False
            return None

    def _call(self, look: Look) -> None:
        try:
            seconds = look()
        except Exception:
            log.exception("a recorder could not be brought up to date")
            return
        if seconds is not None:
            self.watch(look, seconds)


TIMER = Timer()
os.register_at_fork(after_in_child=TIMER.reset)
