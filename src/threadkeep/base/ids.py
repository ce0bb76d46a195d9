"""Ids that sort in the order they were made: `msg_` + 12 hex digits + 14 base62 characters.

The hex digits are the epoch milliseconds, which fit until the year 10889. (Packing a counter into
the same 48 bits, as the guide's formula does, overflows: such ids went back to zero on
2026-08-14T11:19:55.136Z and will again on 2028-10-17.) The counter is the first three base62
characters instead, and eleven random ones keep two processes apart.
"""

import os
import threading
from typing import Final

from threadkeep.base.clock import Clock, now_ms
from threadkeep.errors import Invalid

# In ASCII order, so that text order is number order.
_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_COUNTER_END: Final = 62**3
# Eight of the 62 characters come a little more often than the rest: 65.3 random bits, not 65.5.
_RANDOM_DIGITS: Final = bytes(ord(_DIGITS[byte % 62]) for byte in range(256))
_MS_END: Final = 1 << 48


class IdSource:
    """Mints ids that only ever rise within this process, whatever its clock does."""

    def __init__(self, clock: Clock = now_ms) -> None:
        self._clock = clock
        self._ms = 0
        self._counter = -1
        self._renew_lock()

    def new(self, prefix: str) -> str:
        """Mint the next id; it sorts after every id with this prefix that came from here."""
        # A fork may copy the lock while another thread holds it; nobody would ever release it.
        if self._pid != os.getpid():
            self._renew_lock()
        with self._lock:
            ms, counter = self._tick()
        high, low = divmod(counter, 62 * 62)
        count = _DIGITS[high] + _DIGITS[low // 62] + _DIGITS[low % 62]
        random = os.urandom(11).translate(_RANDOM_DIGITS).decode()
        return f"{prefix}_{ms:012x}{count}{random}"

    def _tick(self) -> tuple[int, int]:
        now = self._clock()
        if now > self._ms:
            self._ms, self._counter = now, 0
        elif self._counter + 1 < _COUNTER_END:
            self._counter += 1
        else:
            self._ms, self._counter = self._ms + 1, 0
        if self._ms >= _MS_END:
            raise Invalid(
                f"the clock says {self._ms} ms since 1970, too late for an id",
                hint="set the system clock to before the year 10889",
            )
        return self._ms, self._counter

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()
        self._pid = os.getpid()
