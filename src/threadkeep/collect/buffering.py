"""Between the socket and the store: events wait a moment, to be stored many at a time.

An event that was taken is stored; if the store cannot have it, it goes to the spool; only if that
fails too is it lost, and then it is counted.
"""

import logging
import threading
from collections import Counter, deque
from typing import Final

from threadkeep.collect.answering import Backend, Event
from threadkeep.collect.envelopes import write_line

log = logging.getLogger(__name__)

LOST: Final = "spool"  # the reason of a drop: neither the store nor the spool took it


class Buffer:
    """Events that wait to be stored; every method may be called by any thread."""

    def __init__(self, backend: Backend, *, batch: int, most: int, most_bytes: int) -> None:
        self._backend = backend
        self._batch = batch
        self._most = most
        self._most_bytes = most_bytes
        self._waiting: deque[tuple[Event, int]] = deque()
        self._bytes = 0
        self._guard = threading.Lock()
        self._keeping = threading.Lock()
        self._untold: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()

    def add(self, event: Event, size: int) -> bool:
        """Take an event; False if there is no room for it, so `relieve` first."""
        with self._guard:
            too_many = len(self._waiting) >= self._most
            if self._waiting and (too_many or self._bytes + size > self._most_bytes):
                return False
            self._waiting.append((event, size))
            self._bytes += size
            return True

    def is_due(self) -> bool:
        """Tell whether enough events wait to be stored at once."""
        return len(self._waiting) >= self._batch

    def lose(self, reason: str, count: int = 1) -> None:
        """Count events that nobody can have; the backend is told with the next flush."""
        with self._guard:
            self._untold[reason] += count
            self._counts["lost"] += count

    def flush(self) -> None:
        """Store what waits; when this returns, all that was added before is where it belongs."""
        left = len(self._waiting)
        while left > 0 and (batch := self._take()):
            left -= len(batch)
            self._store(batch)
        with self._keeping:  # what somebody has taken out to make room is in the spool now
            pass
        self._tell_losses()

    def relieve(self) -> None:
        """Make room: leave the oldest events in the spool."""
        with self._keeping:
            if batch := self._take():
                self._keep(batch)

    def counts(self) -> dict[str, int]:
        """Tell how many events were stored, kept in the spool, and lost."""
        with self._guard:
            return {name: self._counts[name] for name in ("stored", "kept", "lost")}

    def _take(self) -> list[Event]:
        with self._guard:
            taken = [self._waiting.popleft() for _ in range(min(self._batch, len(self._waiting)))]
            self._bytes -= sum(size for _, size in taken)
        return [event for event, _ in taken]

    def _store(self, batch: list[Event]) -> None:
        try:
            self._backend.store(batch)
        except Exception as error:  # noqa: BLE001  whatever it was, the spool has them then
            log.warning("%d events go to the spool: the store failed: %s", len(batch), error)
            with self._keeping:
                self._keep(batch)
        else:
            self._count("stored", len(batch))

    def _keep(self, batch: list[Event]) -> None:
        try:
            self._backend.keep([write_line(event) for event in batch])
        except Exception:
            log.exception("%d events are lost: the spool failed, too", len(batch))
            self.lose(LOST, len(batch))
        else:
            self._count("kept", len(batch))

    def _count(self, name: str, count: int) -> None:
        with self._guard:
            self._counts[name] += count

    def _tell_losses(self) -> None:
        with self._guard:
            untold, self._untold = self._untold, Counter()
        for reason, count in untold.items():
            try:
                self._backend.dropped(reason, count)
            except Exception as error:  # noqa: BLE001  the next flush tells it again
                log.warning("%d lost events could not be written down: %s", count, error)
                with self._guard:
                    self._untold[reason] += count
