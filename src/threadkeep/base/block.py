"""A block of a full-text index in plain rows: its documents, and where their words stand.

block = Block()
block.add(7, terms_of("see gateway/run.py", stemmed=True))
block.lists[b"run"].packed()        as a row of `postings` has it
read_list(n, docs, pos)             and back
"""

import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence, Set as AbstractSet
from hashlib import blake2b
from itertools import accumulate, count
from typing import Final, NamedTuple

from threadkeep.base.tx import Row
from threadkeep.base.words import fold, split_words, stem

_LONGEST_TERM: Final = 1_600  # bytes; PostgreSQL's B-tree takes 2,704


def terms_of(text: str, *, stemmed: bool) -> list[bytes]:
    """Return the words of a text as they are indexed, in order."""
    words = fold(" ".join(split_words(text))).split()
    return [_term(stem(word) if stemmed else word) for word in words]


def _term(word: str) -> bytes:
    term = word.encode("utf-8", "surrogateescape")
    if len(term) <= _LONGEST_TERM:
        return term
    return term[:_LONGEST_TERM] + blake2b(term, digest_size=16).digest()


def pack(values: Iterable[int]) -> bytes:
    """Write numbers below 2^32 one behind the other, all in as few bytes as the largest needs."""
    wide = array("I", values)
    largest = max(wide, default=0)
    code = "B" if largest < 1 << 8 else "H" if largest < 1 << 16 else "I"
    return to_bytes(array(code, wide))


def unpack(data: bytes, size: int) -> "array[int]":
    """Read so many numbers."""
    return to_array({1: "B", 2: "H", 4: "I"}[len(data) // size], data) if size else array("B")


def to_bytes(values: "array[int]") -> bytes:
    """Write an array, the lowest byte of a number first on any machine."""
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()


def to_array(code: str, data: bytes) -> "array[int]":
    """Read an array that `to_bytes` wrote."""
    values = array(code, data)
    if sys.byteorder == "big":
        values.byteswap()
    return values


class TermList(NamedTuple):
    """Where a word stands in the documents of a block."""

    offsets: "array[int]"
    counts: "array[int]"
    places: "array[int]"

    def packed(self) -> tuple[int, bytes, bytes]:
        """Return it as a row has it: how many documents, which, where."""
        docs = to_bytes(array("H", self.offsets)) + pack(self.counts)
        return len(self.offsets), docs, pack(self.places)

    def places_by_offset(self, wanted: AbstractSet[int]) -> "Iterator[tuple[int, array[int]]]":
        """Return the places in some of the documents."""
        starts = accumulate(self.counts, initial=0)
        for offset, start, number in zip(self.offsets, starts, self.counts, strict=False):
            if offset in wanted:
                yield offset, self.places[start : start + number]


def read_list(size: int, docs: bytes, pos: bytes | None = None) -> TermList:
    """Read a row; without its places, if these are not wanted."""
    offsets, counts = to_array("H", docs[: 2 * size]), unpack(docs[2 * size :], size)
    return TermList(offsets, counts, array("B") if pos is None else unpack(pos, sum(counts)))


class Block:
    """Documents and the lists of their words, before they are written."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.lengths: list[int] = []
        self.lists: dict[bytes, TermList] = {}

    def add(self, number: int, terms: Sequence[bytes]) -> None:
        """Take in a document."""
        offset = len(self.numbers)
        self.numbers.append(number)
        self.lengths.append(len(terms))
        places: dict[bytes, list[int]] = {}
        for place, term in enumerate(terms):
            places.setdefault(term, []).append(place)
        for term, found in places.items():
            kept = self._list(term)
            kept.offsets.append(offset)
            kept.counts.append(len(found))
            kept.places.extend(found)

    def take_in(self, other: "Stored", rows: Iterable[tuple[bytes, TermList]]) -> None:
        """Take in the documents of a block that are not dead."""
        start = count(len(self.numbers))
        moved = {offset: next(start) for offset in range(other.size) if offset not in other.dead}
        self.numbers.extend(other.numbers[offset] for offset in moved)
        self.lengths.extend(other.lengths[offset] for offset in moved)
        for term, found in rows:
            alive = found if not other.dead else _without(found, other.dead)
            if not alive.offsets:
                continue
            kept = self._list(term)
            kept.offsets.extend([moved[offset] for offset in alive.offsets])
            kept.counts.extend(array("I", alive.counts))
            kept.places.extend(array("I", alive.places))

    def _list(self, term: bytes) -> TermList:
        found = self.lists.get(term)
        if found is None:
            found = self.lists[term] = TermList(array("H"), array("I"), array("I"))
        return found


def _without(found: TermList, dead: AbstractSet[int]) -> TermList:
    alive = TermList(array("H"), array("I"), array("I"))
    for offset, places in found.places_by_offset(set(found.offsets) - dead):
        alive.offsets.append(offset)
        alive.counts.append(len(places))
        alive.places.extend(array("I", places))
    return alive


class Stored:
    """A block as it is in its row."""

    columns: Final = "block, rows, words, first, last, size, numbers, lengths, dead"

    def __init__(self, row: Row) -> None:
        self.block, self.rows, self.words, self.first, self.last, self.size, *packed = row
        self._packed = packed
        self.dead: AbstractSet[int] = frozenset(to_array("H", packed[2]))

    @property
    def numbers(self) -> Sequence[int]:
        """The number of each document."""
        return read_numbers(self.first, self.size, self._packed[0])

    @property
    def lengths(self) -> Sequence[int]:
        """The number of words of each document."""
        return unpack(self._packed[1], self.size)

    @property
    def packed_dead(self) -> bytes:
        """Those that are dead, as the row has them."""
        data: bytes = self._packed[2]
        return data


def pack_numbers(numbers: Sequence[int]) -> bytes:
    """Write the numbers of documents as `Stored` reads them."""
    first = min(numbers)
    if list(numbers) == list(range(first, first + len(numbers))):
        return b""
    if max(numbers) - first < 1 << 32:
        return pack(number - first for number in numbers)
    return to_bytes(array("Q", (number - first for number in numbers)))


def read_numbers(first: int, size: int, data: bytes) -> Sequence[int]:
    """Read them back; where none is missing, there is nothing to read."""
    if not data:
        return range(first, first + size)
    packed = to_array("Q", data) if len(data) == 8 * size else unpack(data, size)
    return [first + number for number in packed]
