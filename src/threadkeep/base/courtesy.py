"""Reading beside a program that writes without a write-ahead log: it is left most of the time.

There a reader stops every writer. Whoever had to wait for a gap between two commits reads beside a
busy writer, and rests after each look nine times as long as it took: at least 40 ms, because a
writer that was stopped sleeps before it tries again, and at most half a second.
"""

import sqlite3
import time
from typing import Final

from threadkeep.base.connect import wait_to_read

_REST: Final = 9
_SHORTEST: Final = 0.04
_LONGEST: Final = 0.5


class Courtesy:
    """When the readers of one database may look again; its transactions share it."""

    def __init__(self) -> None:
        self._rest_until = 0.0

    def begin(self, connection: sqlite3.Connection, budget: float) -> float:
        """Wait for the next look; give the time when it began, 0 if nobody else writes."""
        pause = self._rest_until - time.monotonic()
        if pause > 0:
            time.sleep(pause)
        return time.monotonic() if wait_to_read(connection, budget) else 0.0

    def end(self, began: float) -> None:
        """Note the end of a look beside a writer."""
        now = time.monotonic()
        self._rest_until = now + min(max(_REST * (now - began), _SHORTEST), _LONGEST)
