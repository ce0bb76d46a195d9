"""Full-text indexes of SQLite: here alone is known how FTS5 is asked and kept.

See `base/word_index.py` for what each verb does on any engine.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from threadkeep.base.match import AnyOf, Match, Phrase, Without
from threadkeep.base.tx import BROKEN_TABLE, LAST_ROW, Sql, Tx, engine_words
from threadkeep.errors import ThreadkeepError

_FORMATS: Final = (4, 5)  # of FTS5's files; 5 has the option secure-delete
_SHADOWS: Final = ("data", "idx", "content", "docsize", "config")
# What FTS5 itself writes into a new index: no averages, and a structure without any segment.
_EMPTY: Final = ((1, b""), (10, bytes(7)))


class Fts5(NamedTuple):
    """A full-text index of SQLite's own."""

    table: str

    @property
    def main_table(self) -> str:
        """The table that tells whether the index is there."""
        return self.table

    # ------------------------------------------------------------------ asking

    def asked(self, tx: Tx, match: Match, newest: int = -1) -> str:  # noqa: ARG002  (always the same)
        """Return what a query with the piece `{matching:index}` takes as `:match`."""
        return _expression(match)

    def scored(self, tx: Tx, match: Match) -> str:
        """Return what a query with the piece `{ranked:index}` takes as `:match`."""
        return self.asked(tx, match)

    def ids(
        self,
        tx: Tx,
        match: Match,
        span: tuple[int, int] = (0, LAST_ROW),
        *,
        newest: bool = True,
        limit: int = -1,
    ) -> list[int]:
        """Return the rows that have what is asked for, from one end, at most so many."""
        order = "DESC" if newest else "ASC"
        sql = (
            f"SELECT id FROM {{matching:{self.table}}} WHERE id BETWEEN :first AND :last"  # noqa: S608
            f" ORDER BY id {order} LIMIT :limit"
        )
        values = {"match": _expression(match), "first": span[0], "last": span[1], "limit": limit}
        return [int(row[0]) for row in tx.all(Sql(sql), values)]

    def having(self, tx: Tx, match: Match, ids: Iterable[int]) -> set[int]:
        """Return those of some rows that have what is asked for."""
        # The plus: one walk through the words, not one for each row.
        sql = f"SELECT id FROM {{matching:{self.table}}} WHERE +id IN ({{ids:ids}})"  # noqa: S608
        values = {"match": _expression(match), "ids": msgspec.json.encode(list(ids)).decode()}
        return {row[0] for row in tx.all(Sql(sql), values)}

    def frequency(self, tx: Tx, match: Match, bound: int) -> tuple[int, int]:
        """Count the rows that have what is asked for, up to a bound; give the last one counted."""
        found = f"SELECT id FROM {{matching:{self.table}}} LIMIT :bound"  # noqa: S608
        sql = f"SELECT count(*), max(id) FROM ({found})"  # noqa: S608
        values = {"match": _expression(match), "bound": bound}
        ((count, last),) = tx.all(Sql(sql), values)
        return count, last or 0

    def lengths(self, tx: Tx, span: tuple[int, int]) -> dict[int, int]:
        """Give how many words each row of a span has, by its number; none of what is not there."""
        sql = f"SELECT id, sz FROM {self.table}_docsize WHERE id BETWEEN ? AND ?"  # noqa: S608
        return {row[0]: _first_number(row[1]) for row in tx.all(Sql(sql), span)}

    def last(self, tx: Tx, span: tuple[int, int]) -> int | None:
        """Return the largest number in a span, None if there is none."""
        sql = f"SELECT max(id) FROM {self.table}_docsize WHERE id BETWEEN ? AND ?"  # noqa: S608
        found: int | None = tx.value(Sql(sql), span)
        return found

    def size(self, tx: Tx) -> int:
        """Count the rows, with those that are gone."""
        return int(tx.value(Sql(f"SELECT count(*) FROM {self.table}_docsize")))  # noqa: S608

    # ------------------------------------------------------------------ filling

    def put(self, tx: Tx, rows: Iterable[tuple[int, str]]) -> None:
        """Index texts, each under its number, a new one; in rising order it costs least."""
        sql = f"INSERT INTO {self.table} (rowid, text) VALUES (?, ?)"  # noqa: S608
        tx.run_bulk(Sql(sql), rows)

    def clear(self, tx: Tx) -> None:
        """Take everything out of an index that keeps no texts."""
        self._command(tx, "delete-all")

    def rebuild(self, tx: Tx) -> None:
        """Fill an index that keeps or knows its texts again from them."""
        self._command(tx, "rebuild")

    def merge(self, tx: Tx, pages: int | None = None) -> bool:
        """Merge some pages, or all into one piece; tell whether there was anything to merge.

        Until then words of what is gone stay in the file. A negative number begins a merge of all.
        """
        if pages is None:
            self._command(tx, "optimize")
            return True
        before = _changes(tx)
        self._command(tx, "merge", pages)
        return _changes(tx) - before > 1

    def _command(self, tx: Tx, name: str, value: int | None = None) -> None:
        table = self.table
        tx.run(Sql(f"INSERT INTO {table} ({table}, rank) VALUES (?, ?)"), (name, value))  # noqa: S608

    # ------------------------------------------------------------------ damage

    def problem(self, tx: Tx, *, compare: bool) -> str | None:
        """Say what is wrong with an index; only a transaction that may write can tell.

        With `compare` the texts are read and compared with it, where it knows them.
        """
        try:
            # Read once per connection, so ours may not have noticed; the next program will.
            version = f"SELECT v FROM {self.table}_config WHERE k = 'version'"  # noqa: S608
            if tx.one(Sql(version)) not in [(known,) for known in _FORMATS]:
                return "has lost its settings"
            # FTS5's own check reads page after page and does not notice. The number of a page has
            # that of its segment in front.
            lost = (
                f"SELECT 1 FROM {self.table}_data WHERE id > 10"  # noqa: S608
                f" AND id >> 37 NOT IN (SELECT segid FROM {self.table}_idx) LIMIT 1"
            )
            if tx.one(Sql(lost)) is not None:
                return "has lost its link to the words"
            self._command(tx, "integrity-check", int(compare))
        except BROKEN_TABLE as error:
            return f"is damaged ({engine_words(error)})"
        return None

    def mend(self, tx: Tx) -> bool:
        """Make a broken index an empty one that works; False if it was not broken.

        FTS5 reads two records of an index before it does anything with it. Where these are broken,
        those of an empty index are put in their place; then it can be filled again.
        """
        try:
            tx.run(Sql(f"SELECT rowid FROM {self.table} LIMIT 0"))  # noqa: S608
        except BROKEN_TABLE:
            for part in ("data", "idx", "docsize"):
                tx.run(Sql(f"DELETE FROM {self.table}_{part}"))  # noqa: S608
            record = f"INSERT INTO {self.table}_data (id, block) VALUES (?, ?)"  # noqa: S608
            for values in _EMPTY:
                tx.run(Sql(record), values)
            return True
        return False

    def drop(self, tx: Tx) -> None:
        """Drop an index with its shadow tables, even one that SQLite cannot open any more."""
        try:
            tx.run(Sql(f"DROP TABLE IF EXISTS {self.table}"))
        except ThreadkeepError:  # it may also be a view
            # Then its line is taken out of the schema, and what is left are ordinary tables.
            tx.run(Sql("PRAGMA writable_schema = ON"))
            try:
                tx.run(Sql("DELETE FROM sqlite_master WHERE name = ?"), (self.table,))
            finally:
                tx.run(Sql("PRAGMA writable_schema = RESET"))
        for shadow in _SHADOWS:
            tx.run(Sql(f"DROP TABLE IF EXISTS {self.table}_{shadow}"))

    def remake(self, tx: Tx, script: str) -> None:
        """Rebuild an index, empty, as a script of the schema declares it."""
        declared = re.search(rf"CREATE VIRTUAL TABLE [^;]*\b{self.table} [^;]*;", script)
        if declared is None:
            msg = f"the schema has no index {self.table}"
            raise ValueError(msg)
        self.drop(tx)
        tx.run(Sql(declared[0]))


def _first_number(data: bytes) -> int:
    """Read the first number of SQLite's variable-length form: seven bits in each byte."""
    value = 0
    for byte in data[:9]:
        value = value << 7 | byte & 0x7F
        if byte < 0x80:  # noqa: PLR2004  (the last byte has no high bit)
            break
    return value


def _changes(tx: Tx) -> int:
    """Count what the connection changed; of a merge FTS5 tells by two or more that it did any."""
    return int(tx.value(Sql("SELECT total_changes()")))


def _expression(match: Match) -> str:
    """Write a match in FTS5's syntax."""
    if isinstance(match, Phrase):
        words = " ".join(match.words).replace('"', '""')
        return f'"{words}"*' if match.prefix else f'"{words}"'
    if isinstance(match, Without):
        return f"({_expression(match.wanted)} NOT {_expression(match.unwanted)})"
    sign = " OR " if isinstance(match, AnyOf) else " AND "
    if sign == " AND " and all(isinstance(part, Phrase) for part in match.parts):
        sign = " "  # side by side: one without a word of the index's is skipped, not nowhere found
    return f"({sign.join(map(_expression, match.parts))})"


# Errors that have nothing to do with an index, by SQLite's plain code: no memory, interrupted, a
# lock, a file that cannot be written or read, a full disk, a value too large or of a wrong type.
_NOT_INDEX: Final = frozenset({4, 5, 6, 7, 8, 9, 10, 13, 14, 15, 18, 20, 21, 22, 23, 26})
# And broken rules of a table: CHECK, FOREIGN KEY, NOT NULL, PRIMARY KEY, UNIQUE, ROWID, and the
# type of a column.
_RULES: Final = frozenset({275, 787, 1299, 1555, 2067, 2579, 3091})


def blames_index(error: ThreadkeepError) -> bool:
    """Tell whether an error of a write may come from an index: it came from SQLite, unexplained."""
    code = getattr(error.__cause__, "sqlite_errorcode", None)
    return isinstance(code, int) and code not in _RULES and code & 0xFF not in _NOT_INDEX
