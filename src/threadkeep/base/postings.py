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
import os
from array import array
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from threadkeep.base.block import (
    Block,
    Stored,
    pack,
    pack_numbers,
    read_list,
    terms_of,
    to_bytes,
)
from threadkeep.base.match import Match, Phrase
from threadkeep.base.posting_search import PostingSearch
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
_NOTHING: Final[Mapping[str, object]] = {}


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
        """Return the documents that have what is asked for, from one end, at most so many."""
        search = PostingSearch(tx, self.table, stemmed=self.stemmed)
        heads = [one for one in search.heads.values() if one.last >= span[0]]
        heads = [one for one in heads if one.first <= span[1]]
        heads.sort(key=attrgetter("last" if newest else "first"), reverse=newest)
        found: list[int] = []
        look = _FIRST_LOOK if limit >= 0 else len(heads)
        while heads and limit != 0:
            now, heads = heads[:look], heads[look:]
            found += search.numbers(
                search.find(match, dict.fromkeys(one.block for one in now)), span
            )
            found.sort(reverse=newest)
            if 0 < limit <= len(found) and heads:
                last, edge = found[limit - 1], heads[0].last if newest else heads[0].first
                if last > edge if newest else last < edge:
                    break
            look *= _FAN
        return found[:limit] if limit >= 0 else found

    def having(self, tx: Tx, match: Match, ids: Iterable[int]) -> set[int]:
        """Return those of some documents that have what is asked for."""
        search = PostingSearch(tx, self.table, stemmed=self.stemmed)
        return set(search.numbers(search.find(match, search.places(set(ids)))))

    def frequency(self, tx: Tx, match: Match, bound: int) -> tuple[int, int]:
        """Count the documents that have it, up to a bound; give the last one counted."""
        search = PostingSearch(tx, self.table, stemmed=self.stemmed)
        counted = search.count_word(match, bound) if isinstance(match, Phrase) else None
        if counted is not None:
            return counted
        found = self.ids(tx, match, newest=False, limit=bound)
        return len(found), found[-1] if found else 0

    def asked(self, tx: Tx, match: Match, newest: int = -1) -> str:
        """Give what the piece `{matching:index}` takes as `:match`: the documents that have it."""
        return json.dumps(self.ids(tx, match, limit=newest))

    def scored(self, tx: Tx, match: Match) -> str:
        """Return what the piece `{ranked:index}` takes as `:match`: the same with their scores."""
        return json.dumps(self.scores(tx, match))

    def scores(self, tx: Tx, match: Match) -> list[tuple[int, float]]:
        """Give the documents that have what is asked for, each with BM25; the best is the least."""
        rows, words = self.sums(tx)
        search = PostingSearch(tx, self.table, stemmed=self.stemmed)
        return list(search.scores(match, rows, words))

    def lengths(self, tx: Tx, span: tuple[int, int]) -> dict[int, int]:
        """Return how many words each document of a span has, by its number."""
        found: dict[int, int] = {}
        for row in self._blocks(tx, Stored.columns, span):
            block = Stored(row)
            for offset, pair in enumerate(zip(block.numbers, block.lengths, strict=True)):
                if span[0] <= pair[0] <= span[1] and offset not in block.dead:
                    found[pair[0]] = pair[1]
        return found

    def last(self, tx: Tx, span: tuple[int, int]) -> int | None:
        """Return the largest number of a document in a span, dead or not."""
        found: list[int] = []
        mixed: list[int] = []
        for block, last in self._blocks(tx, "block, last", span):
            if last <= span[1]:
                found.append(last)
            else:
                mixed.append(block)
        search = PostingSearch(tx, self.table, stemmed=self.stemmed)
        every = {block: range(search.heads[block].size) for block in mixed}
        found += search.numbers(every, span, dead=True)
        return max(found, default=None)

    def size(self, tx: Tx) -> int:
        """Count the documents, with those that are dead."""
        ((size,),) = self.rows(tx, "SELECT coalesce(sum(size), 0) FROM {index}_blocks")
        return int(size)

    def sums(self, tx: Tx) -> tuple[int, int]:
        """Return how many documents there are, and how many words they have together."""
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
        """Return the rows of a query over the tables of the index."""
        return tx.all(self._sql(sql), values)

    def _run(self, tx: Tx, sql: str, values: Mapping[str, object] = _NOTHING) -> None:
        tx.run(self._sql(sql), values)
