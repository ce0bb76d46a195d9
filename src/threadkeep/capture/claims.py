"""Claims: what a log says it has from another session counts if that session really has it.

The mark of a hand-off stands in the log, where anybody can write one. Taken at its word it would
hide from search and sums whatever an agent did; so a record whose text its origin does not hold is
one like all others.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from threadkeep.base.tx import Tx
from threadkeep.knowledge.copies import is_here, parts_of, told_in
from threadkeep.knowledge.entries import text_hash
from threadkeep.knowledge.records import Entry
from threadkeep.sources.copy_marks import marks_in, may_be_marked, unmarked
from threadkeep.sources.records import Parser

Fresh = Callable[[], Parser]


class Claims:
    """Checks what the records of one log say about where they come from."""

    def __init__(self, fresh: Fresh, own: str) -> None:
        """Take what makes a parser for the log, and the log's own session as a reference."""
        self._fresh = fresh
        self._own = own
        self._told: dict[str, frozenset[int] | None] = {}  # None: the origin is not here

    def checked(self, tx: Tx, record: Any, line: bytes, number: int) -> Any:
        """Give a record as it is to be taken: without a mark that is not true."""
        if not may_be_marked(line) or not isinstance(record, dict):
            return record
        origins = {mark.origin for mark in marks_in(record)}
        if not origins:
            return record
        said = {text_hash(entry.text) for entry in alone(self._fresh, record, line, number)}
        return record if all(self._holds(tx, one, said) for one in origins) else unmarked(record)

    def _holds(self, tx: Tx, origin: str, said: set[int]) -> bool:
        if origin not in self._told:
            self._told[origin] = _told(tx, origin, self._own)
        told = self._told[origin]
        return told is None or said <= told


def alone(fresh: Fresh, record: Any, line: bytes, number: int) -> Iterable[Entry]:
    """Give the entries of one record, read by itself."""
    with suppress(Exception):  # whatever is wrong with it shows when it is captured
        return fresh().feed(record, line, number)
    return ()


def _told(tx: Tx, origin: str, own: str) -> frozenset[int] | None:
    named = parts_of(origin)
    if named is None or origin == own:
        return frozenset()
    return told_in(tx, named) if is_here(tx, named) else None
