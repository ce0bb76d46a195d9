"""Builders for the tests of the chat store: a clock turned by hand, replies, a plain reader."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from threadkeep.chat.records import Message, Session
from threadkeep.chat.store import ChatStore

Json = dict[str, Any]
Row = dict[str, Any]

NOON = 1_800_000_000_000
MODEL = {"provider_id": "acme", "model_id": "large"}


class FakeClock:
    """A clock that moves `step` milliseconds each time somebody looks at it."""

    def __init__(self, now: int = NOON, step: int = 1) -> None:
        self.now = now
        self.step = step

    def __call__(self) -> int:
        self.now += self.step
        return self.now


def open_store(path: Path, clock: FakeClock | None = None, **options: Any) -> ChatStore:
    """Open a store whose time is made by hand."""
    return ChatStore.open(path, clock=clock or FakeClock(), **options)


def new_session(store: ChatStore, **options: Any) -> Session:
    session: Session = store.create_session(**{"agent": "coder", "model": MODEL, **options})
    return session


def text_chunks(text: str, message_id: str | None = None) -> list[Json]:
    """Make the chunks of a reply that is one text."""
    start: Json = {"type": "start"} | ({"messageId": message_id} if message_id else {})
    return [
        start,
        {"type": "start-step"},
        {"type": "text-start", "id": "t"},
        {"type": "text-delta", "id": "t", "delta": text},
        {"type": "text-end", "id": "t"},
        {"type": "finish-step"},
        {"type": "finish", "finishReason": "stop"},
    ]


def tool_chunks(call: str, name: str = "search", **fields: Any) -> list[Json]:
    """Make the chunks of a tool call whose input is there and whose result is not."""
    return [
        {"type": "tool-input-start", "toolCallId": call, "toolName": name, **fields},
        {
            "type": "tool-input-available",
            "toolCallId": call,
            "toolName": name,
            "input": {"q": 1},
            **fields,
        },
    ]


def record(store: ChatStore, session: Session | str, chunks: Iterable[Json], **options: Any) -> str:
    """Record a list of chunks as one reply and give its message id."""
    with store.record(session, **options) as recorder:
        for chunk in chunks:
            recorder.feed(chunk)
    assert recorder.message_id is not None
    return str(recorder.message_id)


def reply(store: ChatStore, session: Session | str, text: str, usage: Json | None = None) -> str:
    """Record a reply of one text, with its usage if there is any, and give its message id."""
    message_id = record(store, session, text_chunks(text))
    if usage is not None:
        store.record_usage(session, usage, message=message_id)
    return message_id


def turn(
    store: ChatStore, session: Session | str, said: str, answer: str, usage: Json | None = None
) -> tuple[str, str]:
    """Add a user message and its reply; give both ids."""
    asked: Message = store.say(session, said)
    return asked.id, reply(store, session, answer, usage)


def texts(store: ChatStore, session: Session | str, view: Any = "transcript") -> list[str]:
    """Give the text of every message of a view, in order."""
    return [text_of(message) for message in store.ui_messages(session, view)]


def text_of(message: Json) -> str:
    return "".join(part.get("text", "") for part in message["parts"])


@contextmanager
def plain(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the file as another program would: the standard library, foreign keys on, no lock."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA foreign_keys = ON")
    try:
        yield connection
    finally:
        connection.close()


def rows(path: Path, sql: str, *params: object) -> list[Row]:
    """Read rows as another program would."""
    with plain(path) as connection:
        return [dict(row) for row in connection.execute(sql, params)]


def column_names(path: Path, table: str) -> list[str]:
    return [row["name"] for row in rows(path, f'PRAGMA table_info("{table}")')]


_OURS = ("chat_", "tk_", "system_prompts")


def contents(path: Path) -> dict[str, list[Row]]:
    """Give every row of every table that holds content; the index over it is left out."""
    with plain(path) as connection:
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        names = sorted(
            name for (name,) in found if name.startswith(_OURS) and not name.startswith("tk_search")
        )
        return {name: _all_rows(connection, name) for name in names}


def _all_rows(connection: sqlite3.Connection, table: str) -> list[Row]:
    found = [dict(row) for row in connection.execute(f'SELECT * FROM "{table}"')]
    return sorted(found, key=repr)
