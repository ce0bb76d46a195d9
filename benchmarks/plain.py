"""Plain sqlite3, as one would write it by hand: the limit, and the naive way."""

import sqlite3
from pathlib import Path


def connect(path: Path, synchronous: str, schema: str = "") -> sqlite3.Connection:
    """Open a database with a write-ahead log; statements commit by themselves."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL").fetchone()
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.executescript(schema)
    return connection


MESSAGES = """
CREATE TABLE messages (
  id TEXT PRIMARY KEY, session_id TEXT NOT NULL, role TEXT NOT NULL, content TEXT NOT NULL,
  created_at INTEGER NOT NULL
);
CREATE INDEX messages_session ON messages(session_id, created_at);
"""

INSERT_MESSAGE = """
INSERT INTO messages(id, session_id, role, content, created_at) VALUES (?, ?, ?, ?, ?)
"""

# An index kept by a trigger inside the message's own transaction: the usual way to full text.
SEARCH = """
CREATE VIRTUAL TABLE found USING fts5(
  content, content='messages', content_rowid='rowid', tokenize='porter unicode61');
CREATE TRIGGER message_found AFTER INSERT ON messages BEGIN
  INSERT INTO found(rowid, content) VALUES (new.rowid, new.content);
END;
"""
