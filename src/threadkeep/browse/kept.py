"""Answers that are remembered: the latest few, for readers in several threads."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
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
    weight: int


class AnswerCache:
    """Remembers the latest answers, at most so many, or so much where they have a weight."""

    def __init__(
        self,
        size: int = _KEPT,
        now: Seconds = time.monotonic,
        work: Seconds = time.thread_time,
        *,
        worth: float = _WORTH,  # 0: nothing is ever given after its version is over
        weigh: Callable[[Any], int] = lambda _: 1,
    ) -> None:
        self._size = size
        self._now = now
        self._work = work
        self._worth = worth
        self._weigh = weigh
        self._weight = 0
        self._guard = threading.Lock()
        self._made: dict[Any, _Made] = {}
        self._making: dict[Any, Future[Any]] = {}

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
        return self._shared(key, version, make)

    def _shared(self, key: object, version: object, make: Callable[[], T]) -> T:
        """Make an answer, or wait for who makes it already: of two at once, one does the work."""
        mine: Future[T] = Future()
        with self._guard:
            found = self._made.get(key)
            if found is not None and found.version == version:  # made in this very moment
                mine.set_result(found.value)
                return mine.result()
            made: Future[T] = self._making.setdefault((key, version), mine)
        if made is not mine:
            return made.result()
        try:
            began = self._work()
            value = make()
            weight = self._weigh(value)
            self._put(key, _Made(value, version, self._work() - began, self._now(), weight))
            mine.set_result(value)
        except BaseException as error:
            mine.set_exception(error)
            raise
        finally:
            with self._guard:
                del self._making[key, version]
        return value

    def _is_worth(self, found: _Made) -> bool:
        return found.work >= _LONG and self._now() - found.at < found.work * self._worth

    def _put(self, key: object, made: _Made) -> None:
        with self._guard:
            self._drop(key)
            if made.weight > self._size:
                return  # all others would go for it, and it as well
            self._made[key] = made
            self._weight += made.weight
            while self._weight > self._size:
                self._drop(next(iter(self._made)))

    def _drop(self, key: object) -> None:
        gone = self._made.pop(key, None)
        if gone is not None:
            self._weight -= gone.weight
