"""When a recorder writes what it has taken: at once, or after a while, but never later."""

import logging
import os
import threading
import time
from collections.abc import Callable
from weakref import WeakMethod

from threadkeep.chat.journal import JournalEntry
from threadkeep.chat.records import Json
from threadkeep.errors import Invalid

log = logging.getLogger(__name__)

POLICIES = ("chunk", "step", "turn")
DURABLE = ("steps", "every")
_DELTAS = frozenset({"text-delta", "reasoning-delta", "tool-input-delta"})
_TURN_ENDS = frozenset({"finish", "abort"})
_STEP_ENDS = _TURN_ENDS | {"finish-step", "error"}
# A power cut loses at most this much of an unfinished reply.
_DURABLE_SECONDS = 1.0
# Readers that know only the three tables are promised 250 ms; the rest is for writing it.
_BEHIND_SECONDS = 0.2


class SavePolicy:
    """What waits to be written, since when, and how long it may wait."""

    def __init__(
        self, save_on: str, buffer_size: int, buffer_ms: int, durable: str, now: float
    ) -> None:
        if save_on not in POLICIES:
            msg = f"there is no save policy {save_on!r}"
            raise Invalid(msg, hint="use one of: " + ", ".join(POLICIES))
        if durable not in DURABLE:
            msg = f"durable cannot be {durable!r}"
            raise Invalid(msg, hint="use one of: " + ", ".join(DURABLE))
        self._every = durable == "every"
        self._save_on = save_on
        self._at_once = save_on == "chunk" and not (buffer_size or buffer_ms)
        self._buffer_size, self._buffer_seconds = buffer_size, buffer_ms / 1000
        self._buffered, self._oldest = 0, 0.0
        self.last_durable = now

    def took(self, entry: JournalEntry, now: float) -> bool:
        """Count a chunk that waits from now on; tell whether all that waits is to be written."""
        if self._at_once:
            return True
        if self._buffered == 0:
            self._oldest = now
        self._buffered += len(entry.text)
        return self._should_write(entry, now)

    def wrote(self, now: float, *, durable: bool) -> None:
        """Nothing waits any more."""
        self._buffered = 0
        if durable:
            self.last_durable = now

    def _should_write(self, entry: JournalEntry, now: float) -> bool:
        kind = entry.chunk["type"]
        if self._save_on == "turn":
            return kind in _TURN_ENDS
        if self._save_on == "step":
            return kind in _STEP_ENDS
        if kind not in _DELTAS:
            return True  # only deltas may wait, never a change of state
        aged = now - self._oldest >= self._buffer_seconds > 0
        return aged or 0 < self._buffer_size <= self._buffered or bool(entry.change.parts)

    def is_boundary(self, chunk: Json, now: float) -> bool:
        """Tell whether what is written with this chunk must survive a power cut."""
        kind = chunk["type"]
        if self._every or kind in _STEP_ENDS or (kind.startswith("tool-") and kind not in _DELTAS):
            return True
        return now - self.last_durable >= _DURABLE_SECONDS

    def latest(self, folded_at: float | None) -> float | None:
        """Return the time by which to write even if no further chunk comes; None if never.

        `folded_at` is when the row was written that has been behind for longest.
        """
        if self._save_on != "chunk":
            return None
        times = [] if folded_at is None else [folded_at + _BEHIND_SECONDS]
        if self._buffered:
            times.append(self._oldest + (self._buffer_seconds or _BEHIND_SECONDS))
        return min(times, default=None)


# ------------------------------------------------------------------------------
# One timer per process for all its recorders: what waits is written though no chunk comes.
#
# A thread runs only while something waits, and most of that time it sleeps: a recorder asks for one
# look, and is not in its way while chunks keep coming. A forked child has neither thread nor
# recorder; the parent's continue.

# Writes what is overdue; gives the seconds until the next look, None if no other is needed.
Look = Callable[[], float | None]


class Timer:
    """Calls methods of objects that something else keeps alive."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start over: in a forked child there is no thread, and nobody to look after."""
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
