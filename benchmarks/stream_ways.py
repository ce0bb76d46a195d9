"""Ways to keep one growing part, each chunk committed before the next is taken."""

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks import plain
from benchmarks.corpus import Json, Stream, delta_text
from threadkeep.base.clock import now_ms
from threadkeep.base.hashes import checksum
from threadkeep.chat.recorder import Recorder
from threadkeep.chat.runs import RunInfo
from threadkeep.chat.store import ChatStore

Feed = Callable[[Json], Any]
# Opens a file in a folder and gives the function that stores one chunk; leaving it ends the
# stream and closes the file.
Way = Callable[[Path, Stream], AbstractContextManager[Feed]]

_PART = "prt_000000000000000000000000000"


# ------------------------------------------------------------------ threadkeep


@contextmanager
def _recording(
    folder: Path, stream: Stream, begin: Callable[[ChatStore, str], Recorder]
) -> Iterator[Recorder]:
    with ChatStore.open(folder / "chat.db") as store:
        session = store.create_session(agent="bench", model="none/none").id
        with begin(store, session) as recorder:
            for chunk in stream.opening:
                recorder.feed(chunk)
            yield recorder
            for chunk in stream.closing:
                recorder.feed(chunk)


def recorded(**options: Any) -> Way:
    """The recorder; without options every chunk is stored when `feed` returns."""

    def begin(store: ChatStore, session: str) -> Recorder:
        return store.record(session, **options)

    @contextmanager
    def way(folder: Path, stream: Stream) -> Iterator[Feed]:
        with _recording(folder, stream, begin) as recorder:
            yield recorder.feed

    return way


def paced(seconds: float) -> Way:
    """The recorder, told that so much time passes between two deltas.

    Rows must not be older than a quarter of a second, so a slow stream folds more often than a
    fast one; waiting for real would take minutes.
    """

    @contextmanager
    def way(folder: Path, stream: Stream) -> Iterator[Feed]:
        now = 0.0

        def begin(store: ChatStore, session: str) -> Recorder:
            given: Any = {"message_id": None, "run": RunInfo(), "facts": {}}
            return Recorder(store.context, session, monotonic=lambda: now, **given)

        with _recording(folder, stream, begin) as recorder:

            def feed(chunk: Json) -> None:
                nonlocal now
                now += seconds
                recorder.feed(chunk)

            yield feed

    return way


# ------------------------------------------------------------------ by hand

_ROWS = """
CREATE TABLE chunks (id INTEGER PRIMARY KEY, part_id TEXT NOT NULL, data_json TEXT NOT NULL);
"""
_PARTS = """
CREATE TABLE parts (id TEXT PRIMARY KEY, data_json TEXT NOT NULL, updated_at INTEGER NOT NULL);
"""
_UPSERT = """
INSERT INTO parts(id, data_json, updated_at) VALUES (?, ?, ?)
ON CONFLICT(id) DO UPDATE SET data_json = excluded.data_json, updated_at = excluded.updated_at
"""


@contextmanager
def appended(folder: Path, _stream: Stream) -> Iterator[Feed]:
    """The limit: each chunk is a row of a plain table, and that is all."""
    with closing(plain.connect(folder / "raw.db", "NORMAL", _ROWS)) as connection:
        encode = msgspec.json.Encoder().encode

        def feed(chunk: Json) -> None:
            row = (_PART, encode(chunk).decode())
            connection.execute("INSERT INTO chunks(part_id, data_json) VALUES (?, ?)", row)

        yield feed


_SAME_ROW = """
INSERT INTO chat_events(
  stream_id, seq, kind, message_id, part_id, data_json, created_at, checksum)
VALUES (?, ?, 'chunk', ?, NULL, ?, ?, ?)
"""


@contextmanager
def same_row(folder: Path, stream: Stream) -> Iterator[Feed]:
    """What a recorder writes for a chunk: the very row, inserted by hand; no lock, no message."""
    path = folder / "chat.db"
    with _recording(folder, stream, lambda store, session: store.record(session)):
        pass  # makes the file, and a message that has a name
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = NORMAL")
        names = connection.execute("SELECT session_id, id FROM chat_messages").fetchone()
        encode = msgspec.json.Encoder().encode
        number = 1000

        def insert(chunk: Json) -> None:
            nonlocal number
            number += 1
            session_id, message_id = names
            text, at = encode(chunk).decode(), now_ms()
            summed = checksum(session_id, "chunk", message_id, None, text, at)
            connection.execute(_SAME_ROW, (session_id, number, message_id, text, at, summed))

        yield insert


@contextmanager
def rewritten(folder: Path, stream: Stream) -> Iterator[Feed]:
    """The naive way: the row of the part is written again, whole, for every chunk."""
    pieces: list[str] = []
    with closing(plain.connect(folder / "naive.db", "NORMAL", _PARTS)) as connection:

        def feed(chunk: Json) -> None:
            pieces.append(delta_text(chunk))
            part = _shown(stream.kind, "".join(pieces))
            connection.execute(_UPSERT, (_PART, json.dumps(part), len(pieces)))

        yield feed


def _shown(kind: str, text: str) -> Json:
    """The part so far. The input of a tool is not even parsed here, which favours this way."""
    if kind == "tool input":
        return {
            "type": "tool-write",
            "toolCallId": "p",
            "state": "input-streaming",
            "input": {"path": "notes.md", "content": text},
        }
    return {"type": kind, "text": text, "state": "streaming"}


def updated_by(statement: str) -> Way:
    """Let SQL append to the text inside the row."""

    @contextmanager
    def way(folder: Path, _stream: Stream) -> Iterator[Feed]:
        with closing(plain.connect(folder / "update.db", "NORMAL", _PARTS)) as connection:
            _insert_empty(connection)

            def feed(chunk: Json) -> None:
                connection.execute(statement, (delta_text(chunk),))

            yield feed

    return way


def _insert_empty(connection: sqlite3.Connection) -> None:
    row = (_PART, json.dumps(_shown("text", "")), 0)
    connection.execute(_UPSERT, row)


_JSON_SET = """
UPDATE parts SET data_json = json_set(data_json, '$.text', json_extract(data_json, '$.text') || ?)
"""
_CONCAT = "UPDATE parts SET data_json = data_json || ?"

THREADKEEP: Final = "threadkeep"
LIMIT: Final = "raw append (limit)"
SAME: Final = "raw append, the same row"
NAIVE: Final = "naive: whole row"
QUICK_WAYS: Final[Mapping[str, Way]] = {
    THREADKEEP: recorded(),
    SAME: same_row,
    LIMIT: appended,
}
SLOW_WAYS: Final[Mapping[str, Way]] = {
    "SQL concatenation": updated_by(_CONCAT),
    "json_set": updated_by(_JSON_SET),
}
MORE_WAYS: Final[Mapping[str, Way]] = {
    "threadkeep, 1 KB buffer": recorded(save_buffer_size=1024),
    "threadkeep, 100 deltas/s": paced(0.01),
}
