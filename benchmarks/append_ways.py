"""Ways to append one message durably, each message a transaction of its own."""

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks import plain
from benchmarks.corpus import Json
from threadkeep.base.clock import now_ms
from threadkeep.base.ids import IdSource
from threadkeep.chat.store import ChatStore

Append = Callable[[Json], Any]
# Opens a file in a folder and gives the function that stores one message.
Way = Callable[[Path], AbstractContextManager[Append]]

_SEARCH_EVERY = 64


# ------------------------------------------------------------------ threadkeep


@contextmanager
def _session(folder: Path) -> Iterator[tuple[ChatStore, str]]:
    with ChatStore.open(folder / "chat.db") as store:
        yield store, store.create_session(agent="bench", model="none/none").id


@contextmanager
def said(folder: Path) -> Iterator[Append]:
    """What the user says: the parts of the message, as a user's."""
    with _session(folder) as (store, session):
        yield lambda message: store.say(session, message["parts"])


@contextmanager
def put(folder: Path) -> Iterator[Append]:
    """A whole message of any role."""
    with _session(folder) as (store, session):
        yield lambda message: store.put_message(session, message)


@contextmanager
def said_and_found(folder: Path) -> Iterator[Append]:
    """With its share of the full-text index: a search every so many messages takes them in."""
    with _session(folder) as (store, session):
        count = 0

        def append(message: Json) -> None:
            nonlocal count
            count += 1
            store.say(session, message["parts"])
            if count % _SEARCH_EVERY == 0:
                store.search("nowhere")

        yield append


# ------------------------------------------------------------------ by hand


def in_one_table(schema: str) -> Way:
    """One table, one row per message, an index by session."""

    @contextmanager
    def way(folder: Path) -> Iterator[Append]:
        ids = IdSource()
        with closing(plain.connect(folder / "raw.db", "FULL", schema)) as connection:

            def append(message: Json) -> None:
                content = json.dumps(message["parts"])
                row = (ids.new("msg"), "ses", message["role"], content, now_ms())
                connection.execute("BEGIN IMMEDIATE")
                connection.execute(plain.INSERT_MESSAGE, row)
                connection.execute("COMMIT")

            yield append

    return way


@contextmanager
def in_three_tables(folder: Path) -> Iterator[Append]:
    """The rows that threadkeep writes into its three tables, and nothing else.

    The tables and their indexes are those of the chat store's contract; the columns, foreign keys
    and the session's place in the list as well. No hashes, no search, no checks, no lock.
    """
    with ChatStore.open(folder / "chat.db") as store:
        session = store.create_session(agent="bench", model="none/none").id
    with closing(sqlite3.connect(folder / "chat.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")
        _drop_triggers(connection)
        yield _three_tables(connection, session)


def _drop_triggers(connection: sqlite3.Connection) -> None:
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
    for (name,) in found.fetchall():
        connection.execute(f'DROP TRIGGER "{name}"')


_MESSAGE = """
INSERT INTO chat_messages(id, session_id, role, metadata_json, created_at, updated_at)
VALUES (?, ?, ?, '{}', ?, ?)
"""
_PART = """
INSERT INTO chat_parts(
  id, message_id, session_id, "index", type, data_json, tool_call_id, tool_state, created_at,
  updated_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_TOUCH = "UPDATE chat_sessions SET updated_at = ? WHERE id = ?"


def _three_tables(connection: sqlite3.Connection, session: str) -> Append:
    ids = IdSource()

    def append(message: Json) -> None:
        now, message_id = now_ms(), ids.new("msg")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(_MESSAGE, (message_id, session, message["role"], now, now))
        for index, part in enumerate(message["parts"]):
            row = (ids.new("prt"), message_id, session, index, part["type"], json.dumps(part))
            tool = (part.get("toolCallId"), part.get("state"))
            connection.execute(_PART, (*row, *tool, now, now))
        connection.execute(_TOUCH, (now, session))
        connection.execute("COMMIT")

    return append


SAY: Final = "threadkeep say()"
RAW: Final = "raw, one table"
RAW_THREE: Final = "raw, the three tables"
WAYS: Final[Mapping[str, Way]] = {
    SAY: said,
    "threadkeep put_message()": put,
    "threadkeep say(), indexed": said_and_found,
    RAW: in_one_table(plain.MESSAGES),
    RAW_THREE: in_three_tables,
    "raw, one table, FTS trigger": in_one_table(plain.MESSAGES + plain.SEARCH),
}
