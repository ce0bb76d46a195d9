"""Full-text indexes in plain rows, for an engine without FTS5: same words, same hits, same scores.

Documents are indexed in blocks. For each word of a block one row says which documents have it, how
often, and where; `{index}_blocks` says which number each document has:

    {index}_postings   (term, block) → docs: offsets in the block, then counts; pos: places
    {index}_blocks     (block)       → numbers and lengths of the documents, which are dead

Nothing is changed in place but the list of the dead. Small blocks are merged into larger ones,
eight at a time, which also drops what is dead. Two writers never wait for each other: the number of
a block is random, and a merge takes only blocks that nobody else is merging.
"""

import json
import math
import os
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from operator import itemgetter
from typing import Final, NamedTuple

from threadkeep.base.block import (
    Block,
    Stored,
    pack,
    pack_numbers,
    read_list,
    terms_of,
    to_array,
    to_bytes,
)
from threadkeep.base.match import AllOf, AnyOf, Match, Phrase, Without
from threadkeep.base.tx import LAST_ROW, Row, Sql, Tx

# What the schema of a store has in place of an FTS5 table.
SCHEMA: Final = """
CREATE TABLE {index}_blocks (
  block INTEGER PRIMARY KEY,         -- a random number
  level INTEGER NOT NULL,            -- the size's logarithm to the base 8
  rows INTEGER NOT NULL,             -- documents that are not dead
  words INTEGER NOT NULL,            -- how many words they have together
  first INTEGER NOT NULL,            -- the smallest number of a document
  last INTEGER NOT NULL,             -- the largest
  size INTEGER NOT NULL,             -- all documents
  numbers BLOB NOT NULL,             -- of each document, minus the first; empty if none is missing
  lengths BLOB NOT NULL,             -- of each document, in words
  dead BLOB NOT NULL                 -- offsets of documents that were removed
);
CREATE TABLE {index}_postings (
  term BLOB NOT NULL,                -- a stem need not be text: it may end inside a character
  block INTEGER NOT NULL,
  n INTEGER NOT NULL,                -- documents that have it
  docs BLOB NOT NULL,                -- their offsets in the block, then how often each has it
  pos BLOB NOT NULL                  -- where it stands in them
);
CREATE INDEX {index}_terms ON {index}_postings (term, block);
CREATE INDEX {index}_merged ON {index}_postings (block);
"""

_FAN: Final = 8  # blocks that are merged into one
_WRITER_LEVELS: Final = 3  # merged by who writes: up to some 4,000 documents, the rest is upkeep
_BATCH: Final = 4_000  # documents of a new block
_LARGEST: Final = (1 << 16) - 1  # documents of any block: an offset has 16 bits
_FIRST_LOOK: Final = 4  # blocks that are searched first if not all hits are wanted
_K1: Final = 1.2  # these two of BM25, as FTS5 has them
_B: Final = 0.75
_LEAST_WEIGHT: Final = 1e-6
_NOTHING: Final[Mapping[str, object]] = {}

Hits = dict[int, dict[int, int]]  # how often a phrase stands in a document, by block and offset


# ------------------------------------------------------------------------------
# The index


class Postings(NamedTuple):
    """A full-text index in plain rows."""

    table: str
    stemmed: bool = True

    @property
    def main_table(self) -> str:
        """The table that tells whether the index is there."""
        return f"{self.table}_blocks"

    # ------------------------------------------------------------------ asking

    def ids(
        self,
        tx: Tx,
        match: Match,
        span: tuple[int, int] = (0, LAST_ROW),
        *,
        newest: bool = True,
        limit: int = -1,
    ) -> list[int]:
        """Give the documents that have what is asked for, from one end, at most so many."""
        blocks = self._blocks(tx, "block, first, last", span)
        blocks.sort(key=itemgetter(2 if newest else 1), reverse=newest)
        found: list[int] = []
        look = _FIRST_LOOK if limit >= 0 else len(blocks)
        whole = look >= len(blocks)
        while blocks and limit != 0:
            now, blocks = blocks[:look], blocks[look:]
            search = _Search(tx, self, None if whole else [row[0] for row in now])
            found += [one for one in search.numbers(match, span) if span[0] <= one <= span[1]]
            found.sort(reverse=newest)
            if 0 < limit <= len(found) and blocks:
                last, edge = found[limit - 1], blocks[0][2 if newest else 1]
                if last > edge if newest else last < edge:
                    break
            look *= _FAN
        return found[:limit] if limit >= 0 else found

    def having(self, tx: Tx, match: Match, ids: Iterable[int]) -> set[int]:
        """Give those of some documents that have what is asked for."""
        wanted = set(ids)
        span = (min(wanted, default=0), max(wanted, default=0))
        return wanted.intersection(self.ids(tx, match, span))

    def frequency(self, tx: Tx, match: Match, bound: int) -> tuple[int, int]:
        """Count the documents that have it, up to a bound; give the last one counted."""
        found = self.ids(tx, match, newest=False, limit=bound)
        return len(found), found[-1] if found else 0

    def asked(self, tx: Tx, match: Match) -> str:
        """Give what the piece `{matching:index}` takes as `:match`: the documents that have it."""
        return json.dumps(self.ids(tx, match))

    def scored(self, tx: Tx, match: Match) -> str:
        """Give what the piece `{ranked:index}` takes as `:match`: the same with their scores."""
        return json.dumps(self.scores(tx, match))

    def scores(self, tx: Tx, match: Match) -> list[tuple[int, float]]:
        """Give the documents that have what is asked for, each with BM25; the best is the least."""
        return list(_Search(tx, self, None).scores(match))

    def lengths(self, tx: Tx, span: tuple[int, int]) -> dict[int, int]:
        """Give how many words each document of a span has, by its number."""
        found: dict[int, int] = {}
        for row in self._blocks(tx, Stored.columns, span):
            block = Stored(row)
            for offset, pair in enumerate(zip(block.numbers, block.lengths, strict=True)):
                if span[0] <= pair[0] <= span[1] and offset not in block.dead:
                    found[pair[0]] = pair[1]
        return found

    def last(self, tx: Tx, span: tuple[int, int]) -> int | None:
        """Give the largest number of a document in a span, dead or not."""
        found: list[int] = []
        mixed: list[int] = []
        for block, last in self._blocks(tx, "block, last", span):
            if last <= span[1]:
                found.append(last)
            else:
                mixed.append(block)
        for stored in _Search(tx, self, None).stored(mixed, span):
            found += [one for one in stored.numbers if span[0] <= one <= span[1]]
        return max(found, default=None)

    def size(self, tx: Tx) -> int:
        """Count the documents, with those that are dead."""
        ((size,),) = self.rows(tx, "SELECT coalesce(sum(size), 0) FROM {index}_blocks")
        return int(size)

    def sums(self, tx: Tx) -> tuple[int, int]:
        """Give how many documents there are, and how many words they have together."""
        sql = "SELECT coalesce(sum(rows), 0), coalesce(sum(words), 0) FROM {index}_blocks"
        ((rows, words),) = self.rows(tx, sql)
        return int(rows), int(words)

    # ------------------------------------------------------------------ filling

    def put(self, tx: Tx, rows: Iterable[tuple[int, str]]) -> None:
        """Index texts, each under its number, a new one."""
        block = Block()
        for number, text in rows:
            block.add(number, terms_of(text, stemmed=self.stemmed))
            if len(block.numbers) == _BATCH:
                self._write(tx, block)
                block = Block()
        self._write(tx, block)
        for level in range(_WRITER_LEVELS):
            while self._merge(tx, level):
                pass

    def remove(self, tx: Tx, numbers: Iterable[int]) -> None:
        """Take documents out; what is left of them goes with the next merge."""
        wanted = set(numbers)
        while wanted:
            found = self._find(tx, wanted)
            if not found:
                return
            for block, offsets in found:
                self._bury(tx, block, offsets)
            # Somebody may have merged a block in between: then they are looked for once more.

    def clear(self, tx: Tx) -> None:
        """Take everything out."""
        for part in ("postings", "blocks"):
            self._run(tx, f"DELETE FROM {{index}}_{part}")  # noqa: S608

    def remake(self, tx: Tx, script: str) -> None:  # noqa: ARG002  (its tables are always there)
        """Take everything out."""
        self.clear(tx)

    def mend(self, tx: Tx) -> bool:  # noqa: ARG002
        """Tell that it is not broken: rows of plain tables can always be asked for."""
        return False

    def merge(self, tx: Tx, pages: int | None = None) -> bool:
        """Merge some blocks, or all into as few as can be; tell whether there were any."""
        if pages is None:
            return self._merge_all(tx)
        levels = range(_LARGEST.bit_length() // 3)
        return any(self._merge(tx, level) for level in levels)

    def problem(self, tx: Tx, *, compare: bool) -> str | None:
        """Say what is wrong with the index, None if nothing is; with `compare` read all of it."""
        sql = (
            "SELECT count(*) FROM {index}_postings AS p WHERE NOT EXISTS"
            " (SELECT 1 FROM {index}_blocks AS b WHERE b.block = p.block)"
        )
        ((lost,),) = self.rows(tx, sql)
        if lost:
            return f"has {lost} rows of a block that is gone"
        try:
            for row in self._blocks(tx, Stored.columns) if compare else ():
                self._check(tx, Stored(row))
        except (ValueError, KeyError, IndexError) as error:
            return f"is damaged ({error})"
        return None

    # ------------------------------------------------------------------ rows

    def _check(self, tx: Tx, block: Stored) -> None:
        """Raise ValueError if the lists of a block do not add up to the lengths that it has."""
        lengths = [0] * block.size
        for _, size, docs, pos in self._lists(tx, [block.block])[block.block]:
            found = read_list(size, docs, pos)
            for offset, number in zip(found.offsets, found.counts, strict=True):
                lengths[offset] += number
        if lengths != list(block.lengths) or len(block.numbers) != block.size:
            msg = f"block {block.block} has lost words"
            raise ValueError(msg)

    def _blocks(self, tx: Tx, columns: str, span: tuple[int, int] = (0, LAST_ROW)) -> list[Row]:
        sql = (
            f"SELECT {columns} FROM {{index}}_blocks"  # noqa: S608
            " WHERE first <= :upto AND last >= :since"
        )
        return self.rows(tx, sql, {"since": span[0], "upto": span[1]})

    def _find(self, tx: Tx, wanted: set[int]) -> list[tuple[Stored, set[int]]]:
        """Find the blocks that have some documents, and at which offsets."""
        found = []
        for row in self._blocks(tx, Stored.columns, (min(wanted), max(wanted))):
            block = Stored(row)
            offsets = {at for at, number in enumerate(block.numbers) if number in wanted}
            if alive := offsets - block.dead:
                found.append((block, alive))
        return found

    def _bury(self, tx: Tx, block: Stored, offsets: set[int]) -> None:
        lengths = block.lengths
        values = {
            "block": block.block,
            "dead": to_bytes(array("H", sorted(block.dead | offsets))),
            "before": block.packed_dead,
            "rows": block.rows - len(offsets),
            "words": block.words - sum(lengths[offset] for offset in offsets),
        }
        sql = (
            "UPDATE {index}_blocks SET dead = :dead, rows = :rows, words = :words"
            " WHERE block = :block AND dead = :before"
        )
        self._run(tx, sql, values)

    def _write(self, tx: Tx, block: Block) -> None:
        if not block.numbers:
            return
        number = int.from_bytes(os.urandom(8), "big") >> 1
        values = {
            "block": number,
            "level": (len(block.numbers).bit_length() - 1) // 3,
            "rows": len(block.numbers),
            "words": sum(block.lengths),
            "first": min(block.numbers),
            "last": max(block.numbers),
            "numbers": pack_numbers(block.numbers),
            "lengths": pack(block.lengths),
            "dead": b"",
        }
        sql = (
            "INSERT INTO {index}_blocks (block, level, rows, words, first, last, size,"
            " numbers, lengths, dead) VALUES (:block, :level, :rows, :words, :first, :last,"
            " :rows, :numbers, :lengths, :dead)"
        )
        self._run(tx, sql, values)
        sql = (
            "INSERT INTO {index}_postings (term, block, n, docs, pos)"
            " VALUES (:term, :block, :n, :docs, :pos)"
        )
        rows = []
        for term in sorted(block.lists):
            n, docs, pos = block.lists[term].packed()
            named = {"term": term, "block": number, "n": n, "docs": docs, "pos": pos}
            rows.append(named)
        tx.run_bulk(self._sql(sql), rows)

    # ------------------------------------------------------------------ merging

    def _merge(self, tx: Tx, level: int) -> bool:
        """Merge blocks of a level, if there are enough of them that nobody else is merging."""
        sql = (
            f"SELECT {Stored.columns} FROM {{index}}_blocks"  # noqa: S608
            " WHERE level = :level ORDER BY last, block LIMIT :most {claimed}"
        )
        found = [Stored(row) for row in self.rows(tx, sql, {"level": level, "most": _FAN})]
        enough = len(found) == _FAN and sum(block.size for block in found) <= _LARGEST
        if enough:
            self._join(tx, found)
        return enough

    def _merge_all(self, tx: Tx) -> bool:
        sql = (
            f"SELECT {Stored.columns} FROM {{index}}_blocks"  # noqa: S608
            " ORDER BY last, block {claimed}"
        )
        group: list[Stored] = []
        merged = False
        for block in [*map(Stored, self.rows(tx, sql)), None]:
            full = block is None or sum(one.rows for one in group) + block.rows > _LARGEST
            if full and (len(group) > 1 or any(one.dead for one in group)):
                self._join(tx, group)
                merged = True
            if block is not None:
                group = [block] if full else [*group, block]
        return merged

    def _join(self, tx: Tx, blocks: Sequence[Stored]) -> None:
        lists = self._lists(tx, [block.block for block in blocks])
        joined = Block()
        for block in blocks:
            rows = lists[block.block]
            joined.take_in(block, ((row[0], read_list(*row[1:])) for row in rows))
        gone = {"blocks": json.dumps([block.block for block in blocks])}
        for part in ("postings", "blocks"):
            sql = f"DELETE FROM {{index}}_{part} WHERE block IN ({{ids:blocks}})"  # noqa: S608
            self._run(tx, sql, gone)
        self._write(tx, joined)

    def _lists(self, tx: Tx, blocks: Sequence[int]) -> dict[int, list[Row]]:
        sql = "SELECT block, term, n, docs, pos FROM {index}_postings WHERE block IN ({ids:blocks})"
        found: dict[int, list[Row]] = {block: [] for block in blocks}
        for block, *row in self.rows(tx, sql, {"blocks": json.dumps(blocks)}):
            found[block].append(tuple(row))
        return found

    # ------------------------------------------------------------------ SQL

    def _sql(self, sql: str) -> Sql:
        return Sql(sql.replace("{index}", self.table))

    def rows(self, tx: Tx, sql: str, values: Mapping[str, object] = _NOTHING) -> list[Row]:
        """Give the rows of a query over the tables of the index."""
        return tx.all(self._sql(sql), values)

    def _run(self, tx: Tx, sql: str, values: Mapping[str, object] = _NOTHING) -> None:
        tx.run(self._sql(sql), values)


# ------------------------------------------------------------------------------
# One search


class _Search:
    """What a match finds, in some blocks or in all."""

    def __init__(self, tx: Tx, index: Postings, blocks: Sequence[int] | None) -> None:
        self._tx = tx
        self._index = index
        self._blocks = None if blocks is None else json.dumps(blocks)
        self._phrases: dict[Phrase, Hits] = {}

    def numbers(self, match: Match, span: tuple[int, int]) -> Iterator[int]:
        """Give the numbers of the documents that are found, of those in a span at least."""
        found = self._found_by_block(match)
        for block in self.stored(found, span):
            numbers = block.numbers
            for offset in found[block.block] - block.dead:
                yield numbers[offset]

    def scores(self, match: Match) -> Iterator[tuple[int, float]]:
        """Give the documents that are found with their scores, as FTS5 computes them."""
        found = self._found_by_block(match)
        if not found:
            return
        rows, words = self._index.sums(self._tx)
        weights = self._weights(rows)
        for block in self.stored(found):
            docs, lengths, numbers = found[block.block] - block.dead, block.lengths, block.numbers
            share = {
                offset: _K1 * (1 - _B + _B * lengths[offset] / (words / rows)) for offset in docs
            }
            sums = dict.fromkeys(docs, 0.0)
            for phrase, places in self._counted(match, block.block, docs):
                for offset, often in places:
                    grade = (often * (_K1 + 1.0)) / (often + share[offset])
                    sums[offset] += weights[phrase] * grade
            for offset, score in sums.items():
                yield numbers[offset], -1.0 * score

    def _found_by_block(self, match: Match) -> dict[int, AbstractSet[int]]:
        blocks = {block for phrase in _phrases(match) for block in self._hits(phrase)}
        found = ((block, self._found(match, block)) for block in blocks)
        return {block: offsets for block, offsets in found if offsets}

    def _found(self, match: Match, block: int) -> AbstractSet[int]:
        """Give the offsets of the documents of a block that have what is asked for."""
        if isinstance(match, Phrase):
            return self._hits(match).get(block, {}).keys()
        if isinstance(match, Without):
            wanted = self._found(match.wanted, block)
            return wanted - self._found(match.unwanted, block) if wanted else wanted
        parts = self._parts(match)
        if isinstance(match, AnyOf):
            return set[int]().union(*(self._found(part, block) for part in parts))
        found: AbstractSet[int] = self._found(parts[0], block) if parts else set()
        for part in parts[1:]:
            if not found:
                break
            found = found & self._found(part, block)
        return found

    def _parts(self, match: AllOf | AnyOf) -> Sequence[Match]:
        """Give the parts; one without a word is skipped where all are phrases, as FTS5 does it."""
        if isinstance(match, AllOf) and all(isinstance(part, Phrase) for part in match.parts):
            return [part for part in match.parts if isinstance(part, Phrase) and self._terms(part)]
        return match.parts

    def _counted(
        self, match: Match, block: int, docs: AbstractSet[int]
    ) -> Iterator[tuple[Phrase, list[tuple[int, int]]]]:
        """Give how often each phrase stands in documents; only where all around it is found."""
        if isinstance(match, Phrase):
            hits = self._hits(match).get(block, {})
            yield match, [(offset, hits[offset]) for offset in docs if offset in hits]
            return
        for part in (match.wanted,) if isinstance(match, Without) else match.parts:
            yield from self._counted(part, block, docs & self._found(part, block))

    # ------------------------------------------------------------------ phrases

    def _terms(self, phrase: Phrase) -> list[bytes]:
        return terms_of(" ".join(phrase.words), stemmed=self._index.stemmed)

    def _hits(self, phrase: Phrase) -> Hits:
        found = self._phrases.get(phrase)
        if found is None:
            found = self._phrases[phrase] = self._look_up(phrase)
        return found

    def _look_up(self, phrase: Phrase) -> Hits:
        terms = self._terms(phrase)
        last = len(terms) - 1
        ranges = [
            _range(term, prefix=phrase.prefix and at == last) for at, term in enumerate(terms)
        ]
        common: Hits | None = None
        for one in ranges:
            hits = self._word(one)
            common = hits if common is None else _both(common, hits)
            if not common:
                return {}
        return common or {} if len(ranges) < 2 else self._in_a_row(ranges, common or {})  # noqa: PLR2004

    def _word(self, terms: tuple[bytes, bytes]) -> Hits:
        found: Hits = {}
        for block, size, docs in self._rows("block, n, docs", terms, self._blocks):
            read = read_list(size, docs)
            counts = found.get(block)
            if counts is None:
                found[block] = dict(zip(read.offsets, read.counts, strict=True))
                continue
            for offset, number in zip(read.offsets, read.counts, strict=True):
                counts[offset] = counts.get(offset, 0) + number
        return found

    def _in_a_row(self, ranges: Sequence[tuple[bytes, bytes]], common: Hits) -> Hits:
        """Keep the documents in which the words follow each other, and count how often."""
        starts: dict[tuple[int, int], set[int]] = {}
        for step, terms in enumerate(ranges):
            blocks = json.dumps(list(common))
            here: dict[tuple[int, int], set[int]] = {}
            for block, *row in self._rows("block, n, docs, pos", terms, blocks):
                for offset, places in read_list(*row).places_by_offset(common[block].keys()):
                    begun = {place - step for place in places}
                    here.setdefault((block, offset), set()).update(begun)
            starts = {at: starts[at] & found for at, found in here.items()} if step else here
            starts = {at: found for at, found in starts.items() if found}
            common = {}
            for (block, offset), found in starts.items():
                common.setdefault(block, {})[offset] = len(found)
            if not common:
                break
        return common

    def _rows(self, columns: str, terms: tuple[bytes, bytes], blocks: str | None) -> list[Row]:
        only = "" if blocks is None else " AND block IN ({ids:blocks})"
        sql = (
            f"SELECT {columns} FROM {{index}}_postings"  # noqa: S608
            f" WHERE term >= :term AND term < :behind{only}"
        )
        values: dict[str, object] = {"term": terms[0], "behind": terms[1]}
        return self._index.rows(self._tx, sql, {**values, **({"blocks": blocks} if only else {})})

    # ------------------------------------------------------------------ blocks

    def _weights(self, rows: int) -> dict[Phrase, float]:
        """Give how much each phrase says; one that more than half have says next to nothing."""
        sql = "SELECT block, dead FROM {index}_blocks WHERE dead <> :none"
        found = self._index.rows(self._tx, sql, {"none": b""})
        dead = {block: frozenset(to_array("H", offsets)) for block, offsets in found}
        weights = {}
        for phrase, hits in self._phrases.items():
            having = sum(len(hits[block]) for block in hits)
            having -= sum(len(hits[block].keys() & dead[block]) for block in hits if block in dead)
            weight = math.log((rows - having + 0.5) / (having + 0.5))
            weights[phrase] = weight if weight > 0.0 else _LEAST_WEIGHT
        return weights

    def stored(
        self, blocks: Iterable[int], span: tuple[int, int] = (0, LAST_ROW)
    ) -> Iterator[Stored]:
        sql = (
            f"SELECT {Stored.columns} FROM {{index}}_blocks"  # noqa: S608
            " WHERE block IN ({ids:blocks}) AND first <= :upto AND last >= :since"
        )
        named = {"blocks": json.dumps(list(blocks)), "since": span[0], "upto": span[1]}
        return map(Stored, self._index.rows(self._tx, sql, named))


def _range(term: bytes, *, prefix: bool) -> tuple[bytes, bytes]:
    """Give the terms from which to which: this one alone, or all that begin with it."""
    return term, term[:-1] + bytes([term[-1] + 1]) if prefix else term + b"\0"


def _both(some: Hits, others: Hits) -> Hits:
    found: Hits = {}
    for block in some.keys() & others.keys():
        if docs := some[block].keys() & others[block].keys():
            found[block] = dict.fromkeys(docs, 0)
    return found


def _phrases(match: Match) -> Iterator[Phrase]:
    """Give every phrase, wanted or not."""
    if isinstance(match, Phrase):
        yield match
    elif isinstance(match, Without):
        yield from _phrases(match.wanted)
        yield from _phrases(match.unwanted)
    else:
        for part in match.parts:
            yield from _phrases(part)
