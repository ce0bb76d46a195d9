"""One search in a full-text index of plain rows: which documents of which blocks have words.

What is rare is looked for first, and what is frequent only in the documents that are left: a word
that half of a million messages have is no list of half a million numbers then. What was read of
the index is kept for the transaction, since one question asks for its words many times.
"""

import json
import math
from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Set as AbstractSet
from itertools import accumulate, pairwise
from operator import attrgetter
from typing import Final, NamedTuple

from threadkeep.base.block import read_numbers, terms_of, to_array, unpack
from threadkeep.base.match import AllOf, AnyOf, Match, Phrase, Without
from threadkeep.base.tx import LAST_ROW, Row, Sql, Tx

_K1: Final = 1.2  # these two of BM25, as FTS5 has them
_B: Final = 0.75
_LEAST_WEIGHT: Final = 1e-6
_SPARSE: Final = 8  # how many times fewer documents are looked up one by one

Span = tuple[int, int]
TermRange = tuple[bytes, bytes]  # the first term, and the first behind the last
Found = Mapping[int, Collection[int]]  # offsets of documents, by block
Among = Mapping[int, AbstractSet[int] | None]  # where to look; None: in all of a block


class BlockHead(NamedTuple):
    """What is known of a block without its documents."""

    block: int
    first: int
    last: int
    size: int
    dead: AbstractSet[int]
    whole: bool  # no number is missing between the first and the last


class _Kept:
    """What was read of an index in a transaction."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.heads: dict[int, BlockHead] = {}
        for block, first, last, size, dead, whole in rows:
            gone = frozenset(to_array("H", dead))
            self.heads[block] = BlockHead(block, first, last, size, gone, bool(whole))
        self.numbers: dict[int, Collection[int]] = {}
        self.counts: dict[TermRange, dict[int, int]] = {}
        self.lists: dict[tuple[str, TermRange], dict[int, list[Row]]] = {}
        self.phrases: dict[Phrase, dict[int, dict[int, int]]] = {}  # of blocks looked at whole


class PostingSearch:
    """Looks for matches in the tables of an index."""

    def __init__(self, tx: Tx, table: str, *, stemmed: bool) -> None:
        self._tx = tx
        self._table = table
        self._stemmed = stemmed
        self._kept = tx.kept(("postings", table), self._begin)

    def _begin(self) -> _Kept:
        sql = "SELECT block, first, last, size, dead, numbers = :none FROM {index}_blocks"
        return _Kept(self._rows(sql, {"none": b""}))

    def _rows(self, sql: str, values: Mapping[str, object]) -> list[Row]:
        return self._tx.all(Sql(sql.replace("{index}", self._table)), values)

    @property
    def heads(self) -> Mapping[int, BlockHead]:
        """Every block of the index."""
        return self._kept.heads

    # ------------------------------------------------------------------ documents

    def numbers(self, found: Found, span: Span = (0, LAST_ROW), *, dead: bool = False) -> list[int]:
        """Return the numbers of documents within a span, without those that are dead."""
        numbers: list[int] = []
        known = self._numbers(found)
        for block, offsets in found.items():
            head = self._kept.heads[block]
            alive = offsets if dead or not head.dead else set(offsets) - head.dead
            if head.whole:
                here = [head.first + offset for offset in alive]
            else:
                own = known[block]
                here = [own[offset] for offset in alive]
            if head.first < span[0] or head.last > span[1]:
                here = [one for one in here if span[0] <= one <= span[1]]
            numbers += here
        return numbers

    def _numbers(self, blocks: Iterable[int]) -> dict[int, list[int]]:
        kept = self._kept
        wanted = [one for one in blocks if not kept.heads[one].whole]
        lacking = [one for one in wanted if one not in kept.numbers]
        if lacking:
            sql = (
                "SELECT block, first, size, numbers FROM {index}_blocks"
                " WHERE block IN ({ids:blocks})"
            )
            for block, first, size, data in self._rows(sql, {"blocks": json.dumps(lacking)}):
                kept.numbers[block] = list(read_numbers(first, size, data))
        return {one: list(kept.numbers[one]) for one in wanted}

    def places(self, numbers: AbstractSet[int]) -> dict[int, set[int]]:
        """Tell in which blocks documents stand, and where."""
        if not numbers:
            return {}
        ordered = sorted(numbers)
        near = [h for h in self.heads.values() if h.last >= ordered[0] and h.first <= ordered[-1]]
        known = self._numbers(head.block for head in near)
        found = {}
        for head in near:
            if head.whole:
                begin, end = bisect_left(ordered, head.first), bisect_left(ordered, head.last + 1)
                here = {one - head.first for one in ordered[begin:end]}
            else:
                here = {at for at, one in enumerate(known[head.block]) if one in numbers}
            if here:
                found[head.block] = here
        return found

    # ------------------------------------------------------------------ what a match finds

    def find(self, match: Match, among: Among | None = None) -> dict[int, AbstractSet[int]]:
        """Return the documents that have what is asked for, of all or of some."""
        if isinstance(match, Phrase):
            return self._with_phrase(match, among)
        if isinstance(match, Without):
            wanted = self.find(match.wanted, among)
            unwanted = self.find(match.unwanted, wanted) if wanted else {}
            left = {block: docs - unwanted.get(block, set()) for block, docs in wanted.items()}
            return {block: docs for block, docs in left.items() if docs}
        if isinstance(match, AnyOf):
            united: dict[int, AbstractSet[int]] = {}
            for part in match.parts:
                for block, docs in self.find(part, among).items():
                    united[block] = united[block] | docs if block in united else docs
            return united
        found: dict[int, AbstractSet[int]] = {}
        for place, part in enumerate(sorted(self._parts(match), key=self._estimate)):
            found = self.find(part, found if place else among)
            if not found:
                break
        return found

    def _parts(self, match: AllOf) -> list[Match]:
        """Give the parts; one without a word is skipped where all are phrases, as FTS5 does it."""
        phrases = [part for part in match.parts if isinstance(part, Phrase)]
        if len(phrases) < len(match.parts):
            return list(match.parts)
        return [phrase for phrase in phrases if self.ranges(phrase)]

    def _estimate(self, match: Match) -> int:
        """Tell how many documents a match finds at most, those that are dead among them."""
        if isinstance(match, Phrase):
            sums = (sum(self._counts(one).values()) for one in self.ranges(match))
            return min(sums, default=0)
        if isinstance(match, Without):
            return self._estimate(match.wanted)
        each = map(self._estimate, match.parts)
        return sum(each) if isinstance(match, AnyOf) else min(each, default=0)

    def ranges(self, phrase: Phrase) -> list[TermRange]:
        """Return the terms of a phrase, word by word; the last may be all that begin so."""
        terms = terms_of(" ".join(phrase.words), stemmed=self._stemmed)
        last = len(terms) - 1
        return [_range(term, prefix=phrase.prefix and at == last) for at, term in enumerate(terms)]

    def _with_phrase(self, phrase: Phrase, among: Among | None) -> dict[int, AbstractSet[int]]:
        ranges = self.ranges(phrase)
        if len(ranges) < 2:  # noqa: PLR2004
            return self._with_word(ranges[0], among) if ranges else {}
        known = self._kept.phrases.setdefault(phrase, {})
        wanted = dict.fromkeys(self.heads) if among is None else among
        left: Among = {block: docs for block, docs in wanted.items() if block not in known}
        starts: dict[int, dict[int, int]] = {}
        if left:
            rarest, *others = sorted(ranges, key=lambda one: sum(self._counts(one).values()))
            having = self._with_word(rarest, left)
            for terms in others:
                having = self._with_word(terms, having)
            starts = self._in_a_row(ranges, having)
            known |= {block: starts.get(block, {}) for block, docs in left.items() if docs is None}
        found: dict[int, AbstractSet[int]] = {}
        for block, docs in wanted.items():
            here: AbstractSet[int] = (known if block in known else starts).get(block, {}).keys()
            if here := here if docs is None else here & docs:
                found[block] = here
        return found

    def _with_word(self, terms: TermRange, among: Among | None) -> dict[int, AbstractSet[int]]:
        lists = self._lists("docs", terms, among)
        found: dict[int, AbstractSet[int]] = {}
        for block, rows in lists.items():
            docs = _documents(rows, None if among is None else among[block])
            if docs:
                found[block] = docs
        return found

    # ------------------------------------------------------------------ rows

    def _counts(self, terms: TermRange) -> dict[int, int]:
        """Return how many documents of each block have a word; who has several is counted so."""
        kept = self._kept.counts
        if terms not in kept:
            sql = "SELECT block, n FROM {index}_postings WHERE term >= :term AND term < :behind"
            found: dict[int, int] = {}
            for block, n in self._rows(sql, {"term": terms[0], "behind": terms[1]}):
                found[block] = found.get(block, 0) + n
            kept[terms] = found
        return kept[terms]

    def _lists(
        self, what: str, terms: TermRange, among: Iterable[int] | None
    ) -> dict[int, list[Row]]:
        """Return the rows of a word in some blocks, those that were not read yet from the table."""
        counts = self._kept.counts.get(terms)
        known = self._kept.lists.setdefault((what, terms), {})
        wanted = list(self.heads if among is None else among)
        if counts is not None:
            wanted = [block for block in wanted if block in counts]
        if lacking := [block for block in wanted if block not in known]:
            for block in lacking:
                known[block] = []
            columns = "docs" if what == "docs" else "docs, pos"
            every = 2 * len(lacking) > len(counts if counts is not None else self.heads)
            only = "" if every else " AND block IN ({ids:blocks})"
            sql = (
                f"SELECT block, n, {columns} FROM {{index}}_postings"  # noqa: S608
                f" WHERE term >= :term AND term < :behind{only}"
            )
            values: dict[str, object] = {"term": terms[0], "behind": terms[1]}
            values |= {} if every else {"blocks": json.dumps(lacking)}
            news = set(lacking)
            for block, *row in self._rows(sql, values):
                if block in news:
                    known[block].append(tuple(row))
        return {block: known[block] for block in wanted if known[block]}

    # ------------------------------------------------------------------ words in a row

    def _in_a_row(self, ranges: list[TermRange], among: Found) -> dict[int, dict[int, int]]:
        """Keep the documents in which the words follow each other; tell how often they do."""
        lists = [self._lists("pos", terms, among) for terms in ranges]
        found: dict[int, dict[int, int]] = {}
        for block, docs in among.items():
            starts: dict[int, set[int]] = {}
            for step, rows in enumerate(each.get(block, []) for each in lists):
                here: dict[int, set[int]] = {}
                for offset, places in _places(rows, docs if not step else starts.keys()):
                    here.setdefault(offset, set()).update([place - step for place in places])
                starts = {at: starts[at] & begun for at, begun in here.items()} if step else here
                starts = {at: begun for at, begun in starts.items() if begun}
            if starts:
                found[block] = {offset: len(begun) for offset, begun in starts.items()}
        return found

    # ------------------------------------------------------------------ counting

    def count_word(self, match: Phrase, bound: int) -> tuple[int, int] | None:
        """Count the documents with a word, up to a bound, and give the last one counted.

        From the counts of the blocks alone, and the list of one of them; None where that does not
        tell: of several words, where documents are dead, or blocks lie within each other.
        """
        ranges = self.ranges(match)
        if len(ranges) != 1 or match.prefix:
            return None
        counts = self._counts(ranges[0])
        heads = sorted((self.heads[block] for block in counts), key=attrgetter("first"))
        if any(head.dead or not head.whole for head in heads):
            return None
        if any(one.last >= other.first for one, other in pairwise(heads)):
            return None
        total, taken, at = 0, 0, None
        for head in heads:
            if total < bound:
                taken, at = min(counts[head.block], bound - total), head
                total += taken
        if at is None:
            return 0, 0
        ((n, docs),) = self._lists("docs", ranges[0], [at.block])[at.block]
        return total, at.first + to_array("H", docs[: 2 * n])[taken - 1]

    # ------------------------------------------------------------------ scores

    def scores(self, match: Match, rows: int, words: int) -> Iterator[tuple[int, float]]:
        """Return the documents that are found with their scores, as FTS5 computes them.

        `rows` and `words` are those of the whole index.
        """
        found = self.find(match)
        if not found:
            return
        weights = {phrase: self._weight(phrase, rows) for phrase in _phrases(match)}
        lengths = self._lengths(found)
        for block, every in found.items():
            head = self.heads[block]
            docs = every - head.dead
            share = {
                offset: _K1 * (1 - _B + _B * lengths[block][offset] / (words / rows))
                for offset in docs
            }
            sums = dict.fromkeys(docs, 0.0)
            for phrase, places in self._counted(match, block, docs):
                for offset, often in places:
                    grade = (often * (_K1 + 1.0)) / (often + share[offset])
                    sums[offset] += weights[phrase] * grade
            own = {} if head.whole else self._numbers([block])
            for offset, score in sums.items():
                yield (head.first + offset if head.whole else own[block][offset]), -1.0 * score

    def _weight(self, phrase: Phrase, rows: int) -> float:
        """Return how much a phrase says; one that more than half have says next to nothing."""
        found = self.find(phrase)
        having = sum(len(docs - self.heads[block].dead) for block, docs in found.items())
        weight = math.log((rows - having + 0.5) / (having + 0.5))
        return weight if weight > 0.0 else _LEAST_WEIGHT

    def _lengths(self, blocks: Iterable[int]) -> dict[int, "array[int]"]:
        sql = "SELECT block, size, lengths FROM {index}_blocks WHERE block IN ({ids:blocks})"
        found = self._rows(sql, {"blocks": json.dumps(list(blocks))})
        return {block: unpack(data, size) for block, size, data in found}

    def _counted(
        self, match: Match, block: int, docs: AbstractSet[int]
    ) -> Iterator[tuple[Phrase, list[tuple[int, int]]]]:
        """Return how often each phrase stands in documents; only where all around it is found."""
        if isinstance(match, Phrase):
            yield match, self._often(match, block, docs)
            return
        for part in (match.wanted,) if isinstance(match, Without) else match.parts:
            here = self.find(part, {block: docs}).get(block, set())
            yield from self._counted(part, block, here)

    def _often(self, phrase: Phrase, block: int, docs: AbstractSet[int]) -> list[tuple[int, int]]:
        """Return how often a phrase stands in the documents of a block that have it."""
        ranges = self.ranges(phrase)
        if len(ranges) != 1:
            here = self.find(phrase, {block: docs})
            counts = self._in_a_row(ranges, here).get(block, {}) if here else {}
            return list(counts.items())
        often: dict[int, int] = {}
        for n, data in self._lists("docs", ranges[0], [block]).get(block, ()):
            offsets, counts_ = to_array("H", data[: 2 * n]), unpack(data[2 * n :], n)
            for offset, number in zip(offsets, counts_, strict=True):
                if offset in docs:
                    often[offset] = often.get(offset, 0) + number
        return list(often.items())


def _range(term: bytes, *, prefix: bool) -> TermRange:
    """Return the terms from which to which: this one alone, or all that begin with it."""
    return term, term[:-1] + bytes([term[-1] + 1]) if prefix else term + b"\0"


def _documents(rows: Iterable[Row], wanted: AbstractSet[int] | None) -> set[int]:
    """Return the documents in lists of a block, of all or of some."""
    found: set[int] = set()
    for n, docs in rows:
        offsets = to_array("H", docs[: 2 * n])
        if wanted is None:
            found.update(offsets)
        elif len(wanted) * _SPARSE < n:
            found.update(one for one in wanted if offsets[_at(offsets, one)] == one)
        else:
            found |= wanted & set(offsets)
    return found


def _at(offsets: "array[int]", wanted: int) -> int:
    return min(bisect_left(offsets, wanted), len(offsets) - 1)


def _places(rows: Iterable[Row], wanted: Collection[int]) -> "Iterator[tuple[int, array[int]]]":
    """Return where a word stands in some documents of a block."""
    for n, docs, pos in rows:
        offsets, counts = to_array("H", docs[: 2 * n]), unpack(docs[2 * n :], n)
        starts = list(accumulate(counts, initial=0))
        places = unpack(pos, starts[-1])
        for one in wanted:
            at = _at(offsets, one)
            if offsets[at] == one:
                yield one, places[starts[at] : starts[at + 1]]


def _phrases(match: Match) -> Iterator[Phrase]:
    """Return every phrase, wanted or not."""
    if isinstance(match, Phrase):
        yield match
    elif isinstance(match, Without):
        yield from _phrases(match.wanted)
        yield from _phrases(match.unwanted)
    else:
        for part in match.parts:
            yield from _phrases(part)
