"""What was read of other programs' files and waits to be written.

A file of another program may be slow to read, or never come to an end. So nothing is read of one
while a transaction of ours is open: it is read first, up to a few megabytes of it, then written.
"""

from collections.abc import Callable
from typing import Final

from threadkeep.capture.batches import Batches

# Enough for hundreds of small sessions to share a commit, little enough to be kept in memory.
MOST_BYTES: Final = 8 * 1024 * 1024

Write = Callable[[], None]


class Backlog:
    """Keeps what is to be done in the next transaction, and does it when there is enough."""

    def __init__(self, batches: Batches) -> None:
        """End the transaction that is open: reading begins."""
        self.batches = batches
        self._waiting: list[Write] = []
        self._bytes = 0
        batches.commit()

    def add(self, write: Write, size: int = 0) -> None:
        """Have something written later, or now with all that waits if that is enough."""
        self._waiting.append(write)
        self._bytes += size
        if self._bytes >= MOST_BYTES:
            self.settle()

    def settle(self) -> None:
        """Write all that waits, in order, and end the transaction."""
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        for write in waiting:
            write()
        self.batches.commit()
