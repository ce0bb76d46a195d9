"""Asking a store of captured transcripts: words by how frequent they are, and a whole session."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.measure import Counters, in_turn, median_of, used_by
from benchmarks.place import Place
from benchmarks.report import NOTHING, Table, figure
from threadkeep.capture.capture import History
from threadkeep.home.home import Home

_MILLI: Final = 1e3
_HITS: Final = 20
_COLUMNS: Final = ("asked for", "entries", "threadkeep ms", "raw FTS5 + bm25 ms")
_VOCABULARY: Final = (
    "CREATE VIRTUAL TABLE temp.words USING fts5vocab('main', 'tk_entry_words', 'row')"
)
_WORDS: Final = """
SELECT term, doc FROM temp.words WHERE term GLOB '[a-z][a-z][a-z][a-z][a-z]*' ORDER BY doc DESC
"""
_COUNT: Final = "SELECT count(*) FROM tk_entry_words WHERE tk_entry_words MATCH ?"
_RANKED: Final = """
SELECT rowid FROM tk_entry_words WHERE tk_entry_words MATCH ? ORDER BY bm25(tk_entry_words) LIMIT ?
"""


class Word(NamedTuple):
    """A word to look for, and in how many entries it stands."""

    name: str
    word: str
    entries: int


def asking_table(place: Place, store: Path) -> Table:
    """Ask for a rare, a frequent and a very frequent word, then show the longest session."""
    path = store / "knowledge.db"
    with (
        closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection,
        Home(store, environ={}).history(read_only=True) as history,
    ):
        words = list(_words(connection))
        longest = max(history.sessions(limit=10_000), key=lambda session: session.entries)
        ways: dict[str, Callable[[], object]] = {}
        for word in words:
            ways[word.name] = partial(history.search, word.word)
            ways[f"raw {word.name}"] = partial(_ranked, connection, word.word)
        ways["show"] = lambda: _show(history, longest.session_id)
        timed = {name: partial(used_by, way) for name, way in ways.items()}
        runs = in_turn(timed, place.either(15, 5))
    costs = {name: median_of(found) for name, found in runs.items()}
    rows = [_row(word, costs) for word in words]
    shown = ("show the longest session", figure(longest.entries, 0), _ms(costs["show"]), NOTHING)
    return Table("capture: asking the store (wall time)", _COLUMNS, [*rows, shown])


def _words(connection: sqlite3.Connection) -> Iterator[Word]:
    connection.execute(_VOCABULARY)
    known = connection.execute(_WORDS).fetchall()
    most = known[0][1]
    for name, wanted in (("rare", 2), ("mid", most // 20), ("common", most)):
        nearest = sorted(known, key=lambda row: abs(row[1] - wanted))
        yield next(
            Word(f"a {name} word", word, entries)
            for word, entries in nearest
            if _finds(connection, word) == entries
        )


def _finds(connection: sqlite3.Connection, word: str) -> int:
    """Count its entries: the index knows stems, and the stem of a stem may be another word."""
    return int(connection.execute(_COUNT, (word,)).fetchone()[0])


def _ranked(connection: sqlite3.Connection, word: str) -> object:
    return connection.execute(_RANKED, (word, _HITS)).fetchall()


def _show(history: History, session: str) -> int:
    return sum(len(one.entry.text) for one in history.transcript(history.find(session)))


def _row(word: Word, costs: dict[str, Counters]) -> tuple[str, ...]:
    ours, raw = costs[word.name], costs[f"raw {word.name}"]
    return word.name, figure(word.entries, 0), _ms(ours), _ms(raw)


def _ms(cost: Counters) -> str:
    return figure(cost.wall * _MILLI, 1)
