"""One write transaction for many small logs, several for a big one."""

from contextlib import ExitStack
from types import TracebackType
from typing import Final, Self

from threadkeep.base.sqlite import Database
from threadkeep.base.tx import Tx
from threadkeep.knowledge.entries import Words, index_words

# A commit waits for the disk; at 16 MB of source that is a small part of the work, while others
# who want to write wait about half a second at most.
BATCH_BYTES: Final = 16 * 1024 * 1024


class Batches:
    """Gives the transaction to write into, and ends it whenever enough was written."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._open: Tx | None = None
        self._spent = 0
        self._words_before = 0
        self.words: Words = []  # of the open transaction, to be indexed at its end

    def tx(self) -> Tx:
        """Give the open transaction, or begin one."""
        if self._open is None:
            self._block = self._database.write()
            self._open = self._block.__enter__()
            self._open.execute("SAVEPOINT log")
            self._spent = 0
        return self._open

    def next_log(self) -> None:
        """Begin the next log: what fails in it is taken back to here, or to the last commit."""
        self._words_before = len(self.words)
        if self._open is not None:
            self._open.execute("RELEASE log")
            self._open.execute("SAVEPOINT log")

    def take_back(self) -> None:
        """Undo what was written of the current log since then."""
        del self.words[self._words_before :]
        if self._open is not None:
            self._open.execute("ROLLBACK TO log")

    def spend(self, size: int) -> bool:
        """Count what was written; tell whether it is time to commit."""
        self._spent += size
        return self._spent >= BATCH_BYTES

    def commit(self) -> None:
        """End the transaction, if one is open."""
        if self._open is not None:
            tx, self._open = self._open, None
            with ExitStack() as end:
                end.push(self._block)  # whatever goes wrong with the index ends it as well
                index_words(tx, self.words)
            self.words.clear()
            self._words_before = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.commit()
        elif self._open is not None:
            self._open = None
            self._block.__exit__(kind, error, trace)
