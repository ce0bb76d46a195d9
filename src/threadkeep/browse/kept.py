"""Answers that are remembered: the latest few, for readers in several threads."""

import threading
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

_KEPT: Final = 32
_LONG: Final = 0.2  # seconds of work from which on an answer is worth being a little old
_WORTH: Final = 20  # times its work: making it anew takes at most a twentieth of one core

T = TypeVar("T")
Seconds = Callable[[], float]


class _Made(NamedTuple):
    value: Any
    version: object
    work: float
    at: float


class Kept:
    """Remembers the latest answers, at most so many."""

    def __init__(
        self, size: int = _KEPT, now: Seconds = time.monotonic, work: Seconds = time.thread_time
    ) -> None:
        self._size = size
        self._now = now
        self._work = work
        self._guard = threading.Lock()
        self._made: dict[Any, _Made] = {}

    def get(self, key: object, make: Callable[[], T]) -> T:
        """Give what is remembered under a key, or make it."""
        return self.latest(key, None, make)

    def latest(self, key: object, version: object, make: Callable[[], T]) -> T:
        """Give what was made of a version, or make it.

        What took long to make is given for a while after its version is over: where somebody
        writes all the time, it would be made all the time.
        """
        with self._guard:
            found = self._made.pop(key, None)
            if found is not None:
                self._made[key] = found
        if found is not None and (found.version == version or self._is_worth(found)):
            value: T = found.value
            return value
        began = self._work()
        made = make()
        self._put(key, _Made(made, version, self._work() - began, self._now()))
        return made

    def _is_worth(self, found: _Made) -> bool:
        return found.work >= _LONG and self._now() - found.at < found.work * _WORTH

    def _put(self, key: object, made: _Made) -> None:
        with self._guard:
            self._made[key] = made
            while len(self._made) > self._size:
                del self._made[next(iter(self._made))]
