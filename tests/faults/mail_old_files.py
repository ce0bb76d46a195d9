"""Single files of session folders as older builds of NanoClaw left them, with rows in them.

1  inbound.db of the first builds: no series, no trigger, no outcome of a delivery
2  inbound.db that lacks only `on_wake`
3  inbound.db of today, without anything of ours
4  outbound.db that lacks the two tables of memory
5  outbound.db of today, without anything of ours
"""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

INBOUND_VERSIONS: Final = (1, 2, 3)
OUTBOUND_VERSIONS: Final = (4, 5)
ROWS: Final = 40

_IN_COLUMNS: Final = {
    "id": "TEXT PRIMARY KEY",
    "seq": "INTEGER UNIQUE",
    "kind": "TEXT NOT NULL",
    "timestamp": "TEXT NOT NULL",
    "status": "TEXT DEFAULT 'pending'",
    "process_after": "TEXT",
    "recurrence": "TEXT",
    "series_id": "TEXT",
    "tries": "INTEGER DEFAULT 0",
    "trigger": "INTEGER NOT NULL DEFAULT 1",
    "platform_id": "TEXT",
    "channel_type": "TEXT",
    "thread_id": "TEXT",
    "content": "TEXT NOT NULL",
    "source_session_id": "TEXT",
    "on_wake": "INTEGER NOT NULL DEFAULT 0",
}
_LACKS: Final = {
    1: {"series_id", "trigger", "source_session_id", "on_wake"},
    2: {"on_wake"},
    3: set[str](),
}
_DELIVERED: Final = {
    1: "message_out_id TEXT PRIMARY KEY, delivered_at TEXT NOT NULL",
    2: "message_out_id TEXT PRIMARY KEY, platform_message_id TEXT,"
    " status TEXT NOT NULL DEFAULT 'delivered', delivered_at TEXT NOT NULL",
}
_OUT_TABLES: Final = """
CREATE TABLE messages_out (id TEXT PRIMARY KEY, seq INTEGER UNIQUE, in_reply_to TEXT,
  timestamp TEXT NOT NULL, deliver_after TEXT, recurrence TEXT, kind TEXT NOT NULL,
  platform_id TEXT, channel_type TEXT, thread_id TEXT, content TEXT NOT NULL);
CREATE TABLE processing_ack (message_id TEXT PRIMARY KEY, status TEXT NOT NULL,
  status_changed TEXT NOT NULL)
"""
_MEMORY: Final = """
CREATE TABLE session_state (key TEXT PRIMARY KEY, value TEXT NOT NULL, updated_at TEXT NOT NULL);
CREATE TABLE container_state (id INTEGER PRIMARY KEY CHECK (id = 1), current_tool TEXT,
  tool_declared_timeout_ms INTEGER, tool_started_at TEXT, updated_at TEXT NOT NULL)
"""
_AT: Final = "2026-01-02 03:04:05"


def make_old_mail(path: Path, version: int) -> None:
    """Make the file of a version."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        if version in INBOUND_VERSIONS:
            _make_inbound(connection, version)
        else:
            _make_outbound(connection, version)
        connection.execute("COMMIT")


def _make_inbound(connection: sqlite3.Connection, version: int) -> None:
    columns = {n: kind for n, kind in _IN_COLUMNS.items() if n not in _LACKS[version]}
    declared = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    connection.execute(f"CREATE TABLE messages_in ({declared})")
    connection.execute(f"CREATE TABLE delivered ({_DELIVERED[min(version, 2)]})")
    connection.execute(
        "CREATE TABLE destinations (name TEXT PRIMARY KEY, display_name TEXT, type TEXT NOT NULL,"
        " channel_type TEXT, platform_id TEXT, agent_group_id TEXT)"
    )
    connection.execute(
        "CREATE TABLE session_routing (id INTEGER PRIMARY KEY CHECK (id = 1), channel_type TEXT,"
        " platform_id TEXT, thread_id TEXT)"
    )
    for number in range(1, ROWS + 1):
        said = json.dumps({"text": f"old {number}"}, separators=(",", ":"))
        row = {"id": f"in-{number}", "seq": 2 * number, "kind": "chat", "content": said}
        row |= {"timestamp": "2026-01-02T03:04:05.678Z"}
        row["status"] = "completed" if number % 3 else "pending"
        if "series_id" in columns:
            row["series_id"] = row["id"]
        _insert(connection, "messages_in", row)


def _make_outbound(connection: sqlite3.Connection, version: int) -> None:
    tables = _OUT_TABLES if version == OUTBOUND_VERSIONS[0] else f"{_OUT_TABLES};{_MEMORY}"
    for statement in tables.split(";"):
        connection.execute(statement)
    for number in range(ROWS):
        said = json.dumps({"text": f"old {number}"}, separators=(",", ":"))
        row = {"id": f"out-{number}", "seq": 2 * number + 1, "kind": "chat", "content": said}
        _insert(connection, "messages_out", {**row, "timestamp": _AT})


def _insert(connection: sqlite3.Connection, table: str, row: dict[str, object]) -> None:
    names, marks = ", ".join(row), ", ".join("?" * len(row))
    connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(row.values()))
