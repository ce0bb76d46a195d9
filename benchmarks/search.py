"""`search`: words over many parts, with the plain FTS5 query and a scan beside it."""

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks import plain
from benchmarks.corpus import Writer
from benchmarks.measure import Counters, in_turn, median_of, used_by
from benchmarks.place import Place
from benchmarks.report import NOTHING, Result, Table, figure, ratio, times
from threadkeep.chat.store import ChatStore

_MILLI = 1e3
_HITS, _NEW = 20, 1_000
_PER_SESSION = 50
_BATCH = 500
_COLUMNS = ("asked for", "parts", "threadkeep ms", "raw FTS5 + bm25 ms", "LIKE scan ms")
_SESSION = """
INSERT INTO chat_sessions(id, agent, created_at, updated_at) VALUES (?, 'bench', ?, ?)
"""
_MESSAGE = """
INSERT INTO chat_messages(id, session_id, role, created_at, updated_at) VALUES (?, ?, ?, ?, ?)
"""
_PART = """
INSERT INTO chat_parts(
  id, message_id, session_id, "index", type, data_json, created_at, updated_at)
VALUES (?, ?, ?, 0, 'text', ?, ?, ?)
"""
_RANKED = """
SELECT m.id, m.content FROM found JOIN messages m ON m.rowid = found.rowid
WHERE found MATCH ? ORDER BY bm25(found) LIMIT ?
"""
_SCAN = """
SELECT id, content FROM messages WHERE content LIKE ? ORDER BY rowid DESC LIMIT ?
"""


class Question(NamedTuple):
    """Words to look for, and how many parts have them."""

    name: str
    words: str
    matches: int


def run(place: Place) -> Result:
    """Build both indexes over the same texts, then ask both in turn."""
    count = place.either(100_000, 20_000)
    texts = _texts(count)
    questions = _questions(texts)
    with place.fresh() as folder:
        _fill_store(folder / "chat.db", texts)
        with (
            ChatStore.open(folder / "chat.db") as store,
            closing(plain.connect(folder / "raw.db", "NORMAL", plain.MESSAGES)) as connection,
        ):
            ours = used_by(lambda: store.search("nowhere"))
            raw = used_by(partial(_fill_raw, connection, texts))
            ways = _ways(questions, store, connection)
            timed = {name: partial(used_by, way) for name, way in ways.items()}
            runs = in_turn(timed, place.either(15, 5))
            late = _search_after_new(store, texts[:_NEW])
    costs = {name: median_of(found) for name, found in runs.items()}
    share = times(ratio(ours.cpu, raw.cpu))
    facts = [
        f"search: indexing uses {share} the CPU of raw inserts with their index, in batches",
        f"search: the first one after {_NEW:,} new messages takes {late.wall * _MILLI:.0f} ms",
    ]
    return Result([_table(count, questions, costs)], [], facts)


def _texts(count: int) -> list[str]:
    writer = Writer(3)
    return [writer.text(120 + number % 9 * 80) for number in range(count)]


def _questions(texts: list[str]) -> list[Question]:
    """Choose words by how many parts have them."""
    plain_word = str.isalpha
    found = Counter(
        word for text in texts for word in set(filter(plain_word, text.split())) if len(word) > 3
    )
    shares = {"rare word": 10, "mid word": len(texts) // 100, "common word": len(texts) // 2}
    asked = [
        Question(name, *min(found.items(), key=lambda item: abs(item[1] - wanted)))
        for name, wanted in shares.items()
    ]
    two = f"{asked[1].words} {asked[2].words}"
    both = sum(set(two.split()) <= set(text.split()) for text in texts)
    return [*asked, Question("mid and common word", two, both)]


# ------------------------------------------------------------------ filling


def _fill_store(path: Path, texts: list[str]) -> None:
    """Another program's way in: rows, no hashes; the store's triggers note what to index."""
    ChatStore.open(path).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        for session in range(0, len(texts), _PER_SESSION):
            connection.execute(_SESSION, (f"ses_{session:09}", session, session))
        connection.executemany(_MESSAGE, _message_rows(texts))
        connection.executemany(_PART, _part_rows(texts))


def _message_rows(texts: list[str]) -> Iterator[tuple[object, ...]]:
    for number in range(len(texts)):
        session = number - number % _PER_SESSION
        yield f"msg_{number:09}", f"ses_{session:09}", "user", number, number


def _part_rows(texts: list[str]) -> Iterator[tuple[object, ...]]:
    for number, text in enumerate(texts):
        session = number - number % _PER_SESSION
        data = json.dumps({"type": "text", "text": text})
        ids = (f"prt_{number:09}", f"msg_{number:09}", f"ses_{session:09}")
        yield *ids, data, number, number


def _fill_raw(connection: sqlite3.Connection, texts: list[str]) -> None:
    connection.executescript(plain.SEARCH)
    for start in range(0, len(texts), _BATCH):
        connection.execute("BEGIN")
        for number, text in enumerate(texts[start : start + _BATCH], start):
            row = (f"msg_{number:09}", "ses", "user", text, number)
            connection.execute(plain.INSERT_MESSAGE, row)
        connection.execute("COMMIT")


# ------------------------------------------------------------------ asking


def _ways(
    questions: list[Question], store: ChatStore, connection: sqlite3.Connection
) -> dict[tuple[str, str], Callable[[], object]]:
    ways: dict[tuple[str, str], Callable[[], object]] = {}
    for name, words, _ in questions:
        quoted = " ".join(f'"{word}"' for word in words.split())
        ways[name, "ours"] = partial(store.search, words, limit=_HITS)
        ways[name, "raw"] = partial(_fetch, connection, _RANKED, quoted)
        if " " not in words:
            ways[name, "scan"] = partial(_fetch, connection, _SCAN, f"%{words}%")
    return ways


def _fetch(connection: sqlite3.Connection, query: str, term: str) -> list[object]:
    return connection.execute(query, (term, _HITS)).fetchall()


def _search_after_new(store: ChatStore, texts: list[str]) -> Counters:
    """The next search takes in what is new, so it sees everything."""
    session = store.create_session(agent="bench", model="none/none")
    for text in texts:
        store.say(session, text)
    return used_by(lambda: store.search("nowhere"))


def _table(
    count: int, questions: list[Question], costs: Mapping[tuple[str, str], Counters]
) -> Table:
    def shown(name: str, way: str) -> str:
        cost = costs.get((name, way))
        return NOTHING if cost is None else figure(cost.wall * _MILLI, 2)

    rows = [
        (name, f"{matches:,}", shown(name, "ours"), shown(name, "raw"), shown(name, "scan"))
        for name, _, matches in questions
    ]
    return Table(f"search: the {_HITS} best of {count:,} parts", _COLUMNS, rows)
