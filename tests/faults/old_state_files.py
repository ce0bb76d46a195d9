"""State files as Hermes Agent left them, at each version of its schema from 1 to 6.

Made with plain sqlite3 from the table of migrations in Hermes's own manual, with its index, its
triggers, and rows that are hard to carry over: no content, a clock that stepped back, two
sessions of one title (version 3 allowed that), unspaced scripts, tool calls.
"""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

VERSIONS: Final = (1, 2, 3, 4, 5, 6)
# Numbers for the two odd ones among old files, beside the versions.
UNNUMBERED: Final = 0
WITHOUT_INDEX: Final = 20

SESSION_COUNT: Final = 6
MESSAGES_EACH: Final = 12

_SESSION_COLUMNS = (
    "id TEXT PRIMARY KEY",
    "source TEXT NOT NULL",
    *(f"{name} TEXT" for name in ("user_id", "model", "model_config", "system_prompt")),
    "parent_session_id TEXT",
    "started_at REAL NOT NULL",
    "ended_at REAL",
    "end_reason TEXT",
    "message_count INTEGER DEFAULT 0",
    "tool_call_count INTEGER DEFAULT 0",
    "input_tokens INTEGER DEFAULT 0",
    "output_tokens INTEGER DEFAULT 0",
)
_BILLING_COLUMNS = (
    *(f"{name}_tokens INTEGER DEFAULT 0" for name in ("cache_read", "cache_write", "reasoning")),
    *(f"billing_{name} TEXT" for name in ("provider", "base_url", "mode")),
    *(f"{name}_cost_usd REAL" for name in ("estimated", "actual")),
    *(f"{name} TEXT" for name in ("cost_status", "cost_source", "pricing_version")),
)
_MESSAGE_COLUMNS = (
    "id INTEGER PRIMARY KEY AUTOINCREMENT",
    "session_id TEXT NOT NULL REFERENCES sessions(id)",
    "role TEXT NOT NULL",
    *(f"{name} TEXT" for name in ("content", "tool_call_id", "tool_calls", "tool_name")),
    "timestamp REAL NOT NULL",
    "token_count INTEGER",
)
_REASONING_COLUMNS = ("reasoning TEXT", "reasoning_details TEXT", "codex_reasoning_items TEXT")
INDEXES: Final = (
    "CREATE INDEX IF NOT EXISTS idx_sessions_source ON sessions(source)",
    "CREATE INDEX IF NOT EXISTS idx_sessions_parent ON sessions(parent_session_id)",
    "CREATE INDEX IF NOT EXISTS idx_sessions_started ON sessions(started_at DESC)",
    "CREATE INDEX IF NOT EXISTS idx_messages_session ON messages(session_id, timestamp)",
)
TITLE_INDEX: Final = (
    "CREATE UNIQUE INDEX IF NOT EXISTS idx_sessions_title_unique"
    " ON sessions(title) WHERE title IS NOT NULL"
)
_OUT = (
    "INSERT INTO messages_fts(messages_fts, rowid, content) VALUES ('delete', old.id, old.content);"
)
_IN = "INSERT INTO messages_fts(rowid, content) VALUES (new.id, new.content);"
_FTS5 = "fts5(content, content=messages, content_rowid=id)"
_AFTER = {
    "insert": f"AFTER INSERT ON messages BEGIN {_IN} END",
    "delete": f"AFTER DELETE ON messages BEGIN {_OUT} END",
    "update": f"AFTER UPDATE ON messages BEGIN {_OUT} {_IN} END",
}
FULL_TEXT: Final = (
    f"CREATE VIRTUAL TABLE IF NOT EXISTS messages_fts USING {_FTS5}",
    *(f"CREATE TRIGGER IF NOT EXISTS messages_fts_{kind} {do}" for kind, do in _AFTER.items()),
)


def tables(version: int) -> list[str]:
    """Return the statements that make the two tables and the version's, as Hermes spells them."""
    sessions = (
        *_SESSION_COLUMNS,
        *(_BILLING_COLUMNS if version >= 5 else ()),
        *(("title TEXT",) if version >= 3 else ()),
        "FOREIGN KEY (parent_session_id) REFERENCES sessions(id)",
    )
    messages = (
        *_MESSAGE_COLUMNS,
        *(("finish_reason TEXT",) if version >= 2 else ()),
        *(_REASONING_COLUMNS if version >= 6 else ()),
    )
    return [
        "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)",
        f"CREATE TABLE IF NOT EXISTS sessions ({', '.join(sessions)})",
        f"CREATE TABLE IF NOT EXISTS messages ({', '.join(messages)})",
        *INDEXES,
    ]


def make_old_state(path: Path, version: int, *, journal: str = "WAL") -> None:
    """Make a file of a version of Hermes's schema; UNNUMBERED and WITHOUT_INDEX are odd ones."""
    number = {UNNUMBERED: 1, WITHOUT_INDEX: 2}.get(version, version)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA journal_mode = {journal}").fetchone()
        connection.execute("BEGIN")
        titles = [TITLE_INDEX] if number >= 4 else []
        index = () if version == WITHOUT_INDEX else FULL_TEXT
        for statement in [*tables(number), *titles, *index]:
            connection.execute(statement)
        connection.execute("INSERT INTO schema_version(version) VALUES (?)", (number,))
        for place in range(SESSION_COUNT):
            _fill_session(connection, place, number)
        if version == UNNUMBERED:
            connection.execute("DROP TABLE schema_version")
        connection.execute("COMMIT")


def _fill_session(connection: sqlite3.Connection, place: int, version: int) -> None:
    session: dict[str, object] = {
        "id": f"old{place}",
        "source": ("cli", "telegram", "cron")[place % 3],
        "model": "p/m",
        "model_config": json.dumps({"temperature": place}),
        "system_prompt": "Be brief.",
        "parent_session_id": "old0" if place == 1 else None,
        "started_at": 1_750_000_000.0 + 1000 * place,
        "ended_at": 1_750_000_900.0 if place == 0 else None,
        "end_reason": "compression" if place == 0 else None,
        "message_count": MESSAGES_EACH,
        "tool_call_count": MESSAGES_EACH // 3,
        "input_tokens": 7,
    }
    if version >= 3:
        session["title"] = _title(place, version)
    if version >= 5:
        session |= {"cache_read_tokens": 3, "estimated_cost_usd": 0.25, "billing_provider": "p"}
    insert(connection, "sessions", session)
    for number in range(MESSAGES_EACH):
        insert(connection, "messages", old_message(place, number, version))


def _title(place: int, version: int) -> str | None:
    if place < 2:
        return "Fix the build" if place == 0 or version == 3 else "Fix the build #2"
    return None if place % 2 else f"Talk {place}"


def old_message(place: int, number: int, version: int) -> dict[str, object]:
    """Return the columns of a message in such a file, as its version has them."""
    role = ("user", "assistant", "tool")[number % 3]
    call = {"id": f"call{number}", "function": {"name": "terminal", "arguments": "{}"}}
    message: dict[str, object] = {
        "session_id": f"old{place}",
        "role": role,
        "content": _content(place, number, role),
        "tool_call_id": f"call{number - 1}" if role == "tool" else None,
        "tool_calls": json.dumps([call]) if role == "assistant" else None,
        "tool_name": "terminal" if role == "tool" else None,
        # The clock stepped back in the middle: the order of replay is that of the ids.
        "timestamp": 1_750_000_000.0 + 1000 * place + number - (6 if number >= 6 else 0),
        "token_count": number,
    }
    if version >= 2:
        message["finish_reason"] = "stop" if role == "assistant" else None
    if version >= 6 and role == "assistant":
        message |= {"reasoning": "let me think", "reasoning_details": json.dumps([{"n": number}])}
    return message


def _content(place: int, number: int, role: str) -> str | None:
    if role == "assistant" and number % 2:
        return None
    if number == 3:
        return f"部署 docker 容器 {place} 失败了"
    return f"needle{place}x{number} " + "word " * 40


def insert(connection: sqlite3.Connection, table: str, row: dict[str, object]) -> int:
    """Insert a row given by its columns; give its rowid."""
    names, marks = ", ".join(row), ", ".join("?" * len(row))
    sql = f"INSERT INTO {table}({names}) VALUES ({marks})"
    return int(connection.execute(sql, tuple(row.values())).lastrowid or 0)
