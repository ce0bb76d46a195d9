"""Version 6 by hand: the contract's tables, its one full-text index, and plain sqlite3.

It does what the contract's own writer does for a message, statement by statement: encode, insert,
count, commit. No hashes, no lock of its own, no second index.
"""

import json
import random
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.state_corpus import Session
from threadkeep.state.schema import HEAD

Json = dict[str, Any]
Row = tuple[Any, ...]

_INDEX: Final = """
CREATE VIRTUAL TABLE messages_fts USING fts5(content, content=messages, content_rowid=id);
CREATE TRIGGER messages_fts_insert AFTER INSERT ON messages BEGIN
  INSERT INTO messages_fts(rowid, content) VALUES (new.id, new.content);
END;
CREATE TRIGGER messages_fts_delete AFTER DELETE ON messages BEGIN
  INSERT INTO messages_fts(messages_fts, rowid, content) VALUES ('delete', old.id, old.content);
END;
CREATE TRIGGER messages_fts_update AFTER UPDATE ON messages BEGIN
  INSERT INTO messages_fts(messages_fts, rowid, content) VALUES ('delete', old.id, old.content);
  INSERT INTO messages_fts(rowid, content) VALUES (new.id, new.content);
END;
INSERT INTO schema_version VALUES (6);
"""
_SESSION: Final = """
INSERT OR IGNORE INTO sessions(id, source, model, system_prompt, started_at) VALUES (?, ?, ?, ?, ?)
"""
_END: Final = "UPDATE sessions SET ended_at = ?, end_reason = 'user_exit' WHERE id = ?"
_MESSAGE: Final = """
INSERT INTO messages(
  session_id, role, content, tool_call_id, tool_calls, tool_name, timestamp, token_count,
  finish_reason, reasoning, reasoning_details, codex_reasoning_items)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_COUNT: Final = """
UPDATE sessions SET message_count = message_count + 1, tool_call_count = tool_call_count + ?
WHERE id = ?
"""
_CHECKPOINT_EVERY = 50
_PATIENCE = 1.0
_TRIES, _PAUSE = 15, (0.020, 0.150)


class Plain:
    """A version 6 file, opened as its contract says: WAL, FULL, foreign keys, one second."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode = WAL").fetchone()
        self.connection.execute("PRAGMA foreign_keys = ON")
        self._writes = 0

    @classmethod
    def create(cls, path: Path) -> "Plain":
        """Make an empty file."""
        made = cls(path)
        made.connection.executescript(HEAD + _INDEX)
        return made

    def begin_session(self, session: Session) -> None:
        """Store a session without its messages."""
        values = (session.id, session.source, session.model, session.system_prompt)
        self.connection.execute(_SESSION, (*values, session.started_at))

    def end_session(self, session: Session) -> None:
        """Note that it has ended."""
        self.connection.execute(_END, (session.messages[-1]["timestamp"] + 1, session.id))

    def append(self, session_id: str, message: Mapping[str, Any]) -> int:
        """Store one message in a transaction of its own."""
        return self.append_all(session_id, (message,))

    def append_all(self, session_id: str, messages: Iterable[Mapping[str, Any]]) -> int:
        """Store messages in one transaction; give the id of the last."""
        execute = self.connection.execute
        execute("BEGIN IMMEDIATE")
        message_id = 0
        for message in messages:
            message_id = execute(_MESSAGE, _row(session_id, message)).lastrowid or 0
            execute(_COUNT, (len(message.get("tool_calls") or ()), session_id))
        execute("COMMIT")
        self._writes += 1
        if self._writes % _CHECKPOINT_EVERY == 0:
            execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        return message_id

    def close(self) -> None:
        """Empty the log and close."""
        self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        self.connection.close()


def _row(session_id: str, message: Mapping[str, Any]) -> Row:
    get = message.get
    calls, details, items = (
        json.dumps(value) if (value := get(name)) else None
        for name in ("tool_calls", "reasoning_details", "codex_reasoning_items")
    )
    stamp = time.time() if get("timestamp") is None else message["timestamp"]
    return (
        session_id,
        message["role"],
        get("content"),
        get("tool_call_id"),
        calls,
        get("tool_name"),
        stamp,
        get("token_count"),
        get("finish_reason"),
        get("reasoning"),
        details,
        items,
    )


# ------------------------------------------------------------------ waiting for the lock


def with_retries(step: Callable[[], Any], chance: random.Random) -> None:
    """Run a write the contract's way: fifteen tries, a random pause between them."""
    for left in reversed(range(_TRIES)):
        try:
            step()
            return
        except sqlite3.OperationalError as error:
            if not left or "locked" not in str(error):
                raise
        time.sleep(chance.uniform(*_PAUSE))


# ------------------------------------------------------------------ its statements


_SEARCH: Final = """
SELECT m.id, m.session_id, m.role,
  snippet(messages_fts, 0, '>>>', '<<<', '...', 40) AS snippet,
  m.content, m.timestamp, m.tool_name, s.source, s.model, s.started_at
FROM messages_fts
JOIN messages m ON m.id = messages_fts.rowid
JOIN sessions s ON s.id = m.session_id
WHERE messages_fts MATCH ? ORDER BY rank LIMIT ?
"""
_SCAN: Final = """
SELECT m.id, m.session_id, m.role, substr(m.content, max(1, instr(m.content, ?) - 40), 120),
  m.content, m.timestamp, m.tool_name, s.source, s.model, s.started_at
FROM messages m JOIN sessions s ON s.id = m.session_id
WHERE m.content LIKE ? ORDER BY m.timestamp DESC LIMIT ?
"""
_LIST: Final = """
SELECT s.*,
  coalesce((SELECT substr(replace(m.content, char(10), ' '), 1, 63) FROM messages m
    WHERE m.session_id = s.id AND m.role = 'user' AND m.content IS NOT NULL
    ORDER BY m.timestamp, m.id LIMIT 1), '') AS preview,
  coalesce((SELECT max(m.timestamp) FROM messages m WHERE m.session_id = s.id), s.started_at)
    AS last_active
FROM sessions s WHERE s.parent_session_id IS NULL ORDER BY s.started_at DESC LIMIT ?
"""
_GET: Final = """
SELECT id, session_id, role, content, tool_call_id, tool_calls, tool_name, timestamp, token_count,
  finish_reason, reasoning, reasoning_details, codex_reasoning_items
FROM messages WHERE session_id = ? ORDER BY timestamp, id
"""


def search(connection: sqlite3.Connection, expression: str, limit: int) -> list[Row]:
    """Rank every match, as version 6 does."""
    return connection.execute(_SEARCH, (expression, limit)).fetchall()


def scan(connection: sqlite3.Connection, text: str, limit: int) -> list[Row]:
    """Look for a text in every message, as version 6 does for Chinese."""
    return connection.execute(_SCAN, (text, f"%{text}%", limit)).fetchall()


def listing(connection: sqlite3.Connection, limit: int) -> list[Row]:
    """List the newest sessions with preview and last activity."""
    return connection.execute(_LIST, (limit,)).fetchall()


def rows_of(connection: sqlite3.Connection, session_id: str) -> list[Row]:
    """Read the messages of a session as they are stored."""
    return connection.execute(_GET, (session_id,)).fetchall()


def messages_of(connection: sqlite3.Connection, session_id: str) -> list[Json]:
    """Read the messages of a session as dicts, tool calls decoded."""
    cursor = connection.execute(_GET, (session_id,))
    names = [column[0] for column in cursor.description]
    found = [dict(zip(names, row, strict=True)) for row in cursor]
    for message in found:
        if message["tool_calls"]:
            message["tool_calls"] = json.loads(message["tool_calls"])
    return found
