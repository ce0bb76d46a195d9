"""Databases of other programs that somebody made to do harm, one for each reader and attack."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple


class Reader(NamedTuple):
    """A database that is captured: where it lies, and what its tables are."""

    agent: str
    path: str
    target: str  # the table that is attacked
    columns: tuple[str, ...]  # of that table
    others: str  # the other tables


READERS = {
    "opencode": Reader(
        "opencode",
        ".local/share/opencode/opencode.db",
        "session",
        ("id", "title", "directory", "time_updated"),
        "CREATE TABLE message (id, session_id, data); CREATE TABLE part (id, message_id, "
        "session_id, data);",
    ),
    "opencode-part": Reader(
        "opencode",
        ".local/share/opencode/opencode-parts.db",
        "part",
        ("id", "message_id", "session_id", "data"),
        "CREATE TABLE session (id, title); CREATE TABLE message (id, session_id, data); "
        "INSERT INTO session VALUES ('x', 'y'); INSERT INTO message VALUES ('x', 'x', '{}');",
    ),
    "cursor-ide": Reader(
        "cursor",
        ".config/Cursor/User/globalStorage/state.vscdb",
        "cursorDiskKV",
        ("key", "value"),
        "",
    ),
    "cursor-chats": Reader(
        "cursor",
        ".cursor/chats/0123/0c0ffee0-0000-4000-8000-000000000001/store.db",
        "meta",
        ("key", "value"),
        "CREATE TABLE blobs (id, data);",
    ),
    "kilo": Reader(
        "kilo",
        ".local/share/kilo/kilo.db",
        "session",
        ("id", "title", "directory", "time_updated"),
        "CREATE TABLE message (id, session_id, data); CREATE TABLE part (id, message_id, "
        "session_id, data);",
    ),
    "openclaw": Reader(
        "pi",
        ".openclaw/agents/main/agent/openclaw-agent.sqlite",
        "transcript_events",
        ("session_id", "seq", "event_json", "event_zstd"),
        "",
    ),
    "goose": Reader(
        "goose",
        ".local/share/goose/sessions/sessions.db",
        "sessions",
        ("id", "name", "working_dir", "created_at"),
        "CREATE TABLE messages (id, message_id, session_id, role, content_json, metadata_json);",
    ),
    "goose-messages": Reader(
        "goose",
        "AppData/Roaming/Block/goose/data/sessions/sessions.db",
        "messages",
        ("id", "message_id", "session_id", "role", "content_json", "metadata_json"),
        "CREATE TABLE sessions (id, name); INSERT INTO sessions VALUES ('x', 'y');",
    ),
    "llm": Reader(
        "llm",
        ".config/io.datasette.llm/logs.db",
        "threads",
        ("id", "name", "tip_message_hash", "datetime_utc"),
        "CREATE TABLE messages (hash, parent_hash, role); CREATE TABLE turns (id, thread_id);",
    ),
    "zed": Reader(
        "zed",
        ".local/share/zed/threads/threads.db",
        "threads",
        ("id", "summary", "updated_at", "data_type", "data"),
        "",
    ),
    "hermes": Reader(
        "hermes",
        ".hermes/state.db",
        "sessions",
        ("id", "source", "model", "started_at"),
        "CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id, role, content, timestamp);",
    ),
    "hermes-messages": Reader(
        "hermes",
        ".hermes/profiles/other/state.db",
        "messages",
        ("id", "session_id", "role", "content", "timestamp"),
        "CREATE TABLE sessions (id, source); INSERT INTO sessions VALUES ('x', 'y');",
    ),
}

Connection = sqlite3.Connection
_BOMB = "hex(zeroblob(400000000))"


def _ordinary(connection: Connection, reader: Reader, more: str = "") -> None:
    names = ", ".join(reader.columns)
    connection.execute(f"CREATE TABLE {reader.target} ({names}{more})")
    connection.execute(f"INSERT INTO {reader.target} ({names}) VALUES ({_values(reader)})")


def _values(reader: Reader) -> str:
    return ", ".join(["'x'"] * len(reader.columns))


def _view(connection: Connection, reader: Reader) -> None:
    named = ", ".join(f"'x' AS {name}" for name in reader.columns)
    connection.execute(f"CREATE VIEW {reader.target} AS SELECT {named}")


def _view_with_trigger(connection: Connection, reader: Reader) -> None:
    _view(connection, reader)
    connection.execute(f"CREATE TRIGGER t INSTEAD OF INSERT ON {reader.target} BEGIN SELECT 1; END")


def _endless(connection: Connection, reader: Reader) -> None:
    named = ", ".join(f"'x' || i AS {name}" for name in reader.columns)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
    connection.execute(f"CREATE VIEW {reader.target} AS {endless} SELECT {named} FROM n")


def _bomb_view(connection: Connection, reader: Reader) -> None:
    named = ", ".join(f"{_BOMB} AS {name}" for name in reader.columns)
    connection.execute(f"CREATE VIEW {reader.target} AS SELECT {named}")


def _full_text(connection: Connection, reader: Reader) -> None:
    names = ", ".join(reader.columns)
    connection.execute(f"CREATE VIRTUAL TABLE {reader.target} USING fts5({names})")
    connection.execute(f"INSERT INTO {reader.target} VALUES ({_values(reader)})")


def _rtree(connection: Connection, reader: Reader) -> None:
    connection.execute(f"CREATE VIRTUAL TABLE {reader.target} USING rtree(id, low, high)")


def _generated(kind: str, expression: str) -> Callable[[Connection, Reader], None]:
    def make(connection: Connection, reader: Reader) -> None:
        *names, last = reader.columns
        computed = f"{last} TEXT GENERATED ALWAYS AS (0) {kind}"
        connection.execute(f"CREATE TABLE {reader.target} ({', '.join(names)}, {computed})")
        marks = ", ".join(["'x'"] * len(names))
        connection.execute(f"INSERT INTO {reader.target} VALUES ({marks})")
        _arm(connection, reader, expression)

    return make


def _extra_generated(connection: Connection, reader: Reader) -> None:
    _ordinary(connection, reader, ", more AS (0)")
    _arm(connection, reader, _BOMB)


def _arm(connection: Connection, reader: Reader, expression: str) -> None:
    # The expression comes in afterwards: to write the row would compute it.
    connection.execute("PRAGMA writable_schema = ON")
    sql = "UPDATE sqlite_master SET sql = replace(sql, '(0)', ?) WHERE name = ?"
    connection.execute(sql, (f"({expression})", reader.target))


def _disguised(connection: Connection, reader: Reader) -> None:
    """A view that the schema calls a table, with a page of its own."""
    _endless(connection, reader)
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute(
        "UPDATE sqlite_master SET type = 'table', rootpage = 2 WHERE name = ?", (reader.target,)
    )


def _many_tables(connection: Connection, reader: Reader) -> None:
    _ordinary(connection, reader)
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000) "
        "INSERT INTO sqlite_master SELECT 'table', 't' || i, 't' || i, 2, "
        "'CREATE TABLE t' || i || '(a)' FROM n"
    )


def _long_schema(connection: Connection, reader: Reader) -> None:
    _ordinary(connection, reader)
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute(
        "INSERT INTO sqlite_master VALUES ('table', 'long', 'long', 2, "
        "'CREATE TABLE long(a DEFAULT ' || hex(zeroblob(2000000)) || ')')"
    )


_LARGE = {
    *("data", "value", "content", "title", "model", "name"),
    *("event_json", "content_json"),
}


def _large_value(connection: Connection, reader: Reader) -> None:
    _ordinary(connection, reader)
    for name in reader.columns:
        if name in _LARGE:
            connection.execute(f"UPDATE {reader.target} SET {name} = zeroblob(26000000)")
    if reader.target == "cursorDiskKV":
        connection.execute("UPDATE cursorDiskKV SET key = 'composerData:x'")
    if reader.target == "meta":
        connection.execute("UPDATE meta SET key = '0'")


def _torn(connection: Connection, reader: Reader) -> None:
    _ordinary(connection, reader)
    names = ", ".join(reader.columns)
    many = f"SELECT {', '.join(['i' for _ in reader.columns])} FROM n"
    connection.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) "
        f"INSERT INTO {reader.target} ({names}) {many}"
    )


# What is refused: the report and the health row name the file and the reason.
REFUSED = {
    "view": (_view, "view"),
    "view-with-trigger": (_view_with_trigger, "view"),
    "endless": (_endless, "view"),
    "bomb-view": (_bomb_view, "view"),
    "fts5": (_full_text, "virtual"),
    "rtree": (_rtree, "virtual"),
    "generated": (_generated("VIRTUAL", _BOMB), "generated"),
    "generated-stored": (_generated("STORED", _BOMB), "generated"),
    "generated-extra": (_extra_generated, "generated"),
    "disguised": (_disguised, ""),
    "many-tables": (_many_tables, "schema"),
    "long-schema": (_long_schema, ""),
    "large-value": (_large_value, "MiB"),
    "torn": (_torn, "damaged"),
}


def make_hostile(user: Path, reader: Reader, attack: str) -> Path:
    """Put a hostile database where a reader looks for its own."""
    path = user / reader.path
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.executescript(reader.others)
        REFUSED[attack][0](connection, reader)
    if attack == "torn":
        size = os.stat(path).st_size
        with path.open("r+b") as file:
            for page in range(4096, size, 4096):
                file.seek(page)
                file.write(b"\xff" * 2048)
    return path
