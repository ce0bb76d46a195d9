"""Full-text indexes, by their names: FTS5 on SQLite, postings in plain rows on PostgreSQL.

    words = WordIndex("tk_entry_words")
    words.put(tx, [(7, index_text("see gateway/run.py"))])
    words.ids(tx, match, limit=20)                     the rows that have what a match asks for
    f"SELECT … FROM {words.matching} AS f JOIN …"      the same rows, column `id`, inside a query
    {"match": words.asked(tx, match), …}               that is given this

Both engines give the same rows with the same scores. A row is not taken out of an index that keeps
no texts: whoever has the rows leaves those out that are gone, and gives a changed one a new number.
"""

from collections.abc import Iterable, Set as AbstractSet
from typing import TYPE_CHECKING, NamedTuple

from threadkeep.base.match import Match
from threadkeep.base.sqlite import fts5
from threadkeep.base.sqlite.fts5 import Fts5
from threadkeep.base.tx import LAST_ROW, Tx
from threadkeep.errors import ThreadkeepError

if TYPE_CHECKING:
    from threadkeep.base.postings import Postings


def blames_index(error: ThreadkeepError) -> bool:
    """Tell whether an error of a write may come from an index; one of plain rows has none."""
    return fts5.blames_index(error)


class WordIndex(NamedTuple):
    """A full-text index; `stemmed` says whether `running` is found by `run`."""

    table: str
    stemmed: bool = True

    def _of(self, tx: Tx) -> "Fts5 | Postings":
        if tx.engine == "sqlite":
            return Fts5(self.table)
        from threadkeep.base.postings import Postings  # noqa: PLC0415  (one engine alone)

        return Postings(self.table, self.stemmed)

    def is_among(self, tx: Tx, tables: AbstractSet[str]) -> bool:
        """Tell by its tables whether a database has this index."""
        return self._of(tx).main_table in tables

    # ------------------------------------------------------------------ asking

    @property
    def matching(self) -> str:
        """A relation for queries: the `id` of each row that has what `:match` asks for."""
        return f"{{matching:{self.table}}}"

    @property
    def ranked(self) -> str:
        """The same with a `score`: BM25, the best is the least."""
        return f"{{ranked:{self.table}}}"

    def asked(self, tx: Tx, match: Match, newest: int = -1) -> str:
        """Return what a query with the relation `matching` takes as `:match`.

        Of one that takes only the rows with the largest numbers, `newest` says how many.
        """
        return self._of(tx).asked(tx, match, newest)

    def scored(self, tx: Tx, match: Match) -> str:
        """Return what a query with the relation `ranked` takes as `:match`."""
        return self._of(tx).scored(tx, match)

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
        return self._of(tx).ids(tx, match, span, newest=newest, limit=limit)

    def having(self, tx: Tx, match: Match, ids: Iterable[int]) -> set[int]:
        """Return those of some rows that have what is asked for."""
        return self._of(tx).having(tx, match, ids)

    def frequency(self, tx: Tx, match: Match, bound: int) -> tuple[int, int]:
        """Count the rows that have what is asked for, up to a bound; give the last one counted."""
        return self._of(tx).frequency(tx, match, bound)

    def lengths(self, tx: Tx, span: tuple[int, int]) -> dict[int, int]:
        """Give how many words each row of a span has, by its number; none of what is not there."""
        return self._of(tx).lengths(tx, span)

    def last(self, tx: Tx, span: tuple[int, int] = (0, LAST_ROW)) -> int | None:
        """Return the largest number that was ever put in a span, None if there is none."""
        return self._of(tx).last(tx, span)

    # ------------------------------------------------------------------ filling

    def put(self, tx: Tx, rows: Iterable[tuple[int, str]]) -> None:
        """Index texts, each under its number, a new one; in rising order it costs least."""
        self._of(tx).put(tx, rows)

    def remove(self, tx: Tx, numbers: Iterable[int]) -> None:
        """Take rows out of plain rows; of a file's index its triggers do that, with the texts."""
        if tx.engine == "postgres":
            from threadkeep.base.postings import Postings  # noqa: PLC0415  (one engine alone)

            Postings(self.table, self.stemmed).remove(tx, numbers)

    def size(self, tx: Tx) -> int:
        """Count the rows of an index, with those that are gone and were not merged away yet."""
        return self._of(tx).size(tx)

    def needs_us(self, tx: Tx) -> bool:
        """Tell whether nobody but us keeps an index that triggers of the schema keep on SQLite."""
        return tx.engine != "sqlite"

    def clear(self, tx: Tx) -> None:
        """Take everything out of an index that keeps no texts."""
        self._of(tx).clear(tx)

    def merge(self, tx: Tx, pages: int | None = None) -> bool:
        """Merge some pages, or all into one piece; tell whether there was anything to merge.

        Until then words of what is gone stay in the index. A negative number begins a merge of all.
        """
        return self._of(tx).merge(tx, pages)

    def remake(self, tx: Tx, script: str) -> None:
        """Rebuild an index, empty, as a script of the schema declares it."""
        self._of(tx).remake(tx, script)

    # ------------------------------------------------------------------ damage

    def problem(self, tx: Tx, *, compare: bool) -> str | None:
        """Say what is wrong with an index; only a transaction that may write can tell.

        With `compare` all of it is read, and compared with the texts where it knows them.
        """
        return self._of(tx).problem(tx, compare=compare)

    def mend(self, tx: Tx) -> bool:
        """Make a broken index an empty one that works; False if it was not broken."""
        return self._of(tx).mend(tx)

    def rebuild(self, tx: Tx, texts: Iterable[tuple[int, str]] = ()) -> None:
        """Fill an index again: FTS5 from the texts that it keeps or knows, another from these."""
        index = self._of(tx)
        if isinstance(index, Fts5):
            index.rebuild(tx)
        else:
            index.clear(tx)
            index.put(tx, texts)

    # ------------------------------------------------------------------ SQLite's files alone

    def drop(self, tx: Tx) -> None:
        """Drop an index with its shadow tables, even one that SQLite cannot open any more."""
        Fts5(self.table).drop(tx)
