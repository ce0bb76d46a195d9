"""Waiting for somebody's commit: at once for those of this process, by looking for the others'."""

import threading
import time
from collections.abc import Callable

_POLL_FIRST, _POLL_LAST = 0.001, 0.02


class Wakeup:
    """Lets threads sleep until a number, asked for again and again, is another one."""

    def __init__(self, number: Callable[[], int]) -> None:
        self._number = number
        self._commits = threading.Condition()
        self._waiting = 0

    def wake(self) -> None:
        """Let everybody who waits look at once; costs nothing when nobody does."""
        if self._waiting:
            with self._commits:
                self._commits.notify_all()

    def wait(self, seen: int, timeout: float | None) -> int:
        """Wait until the number is not `seen` any more, or `timeout` seconds passed; give it."""
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = _POLL_FIRST
        with self._commits:
            self._waiting += 1
        try:
            while (now := self._number()) == seen:
                left = pause if deadline is None else min(pause, deadline - time.monotonic())
                if left <= 0:
                    break
                with self._commits:
                    self._commits.wait(left)
                pause = min(pause * 2, _POLL_LAST)
            return now
        finally:
            with self._commits:
                self._waiting -= 1
