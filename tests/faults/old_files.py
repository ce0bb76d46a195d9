"""Chat files as other programs left them: the guide's three tables, and its author's own versions.

Made with plain sqlite3 and spelled as the fresh schema spells it, so that a file brought up can be
compared with a fresh one word by word.
"""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

_SESSIONS = """
CREATE TABLE chat_sessions (
  id TEXT PRIMARY KEY,
  agent TEXT NOT NULL,
  workspace_root TEXT,
  model_json TEXT NOT NULL ON CONFLICT REPLACE DEFAULT '{{}}',
  parent_id TEXT,
  parent_message_id TEXT,
  permissions_json TEXT NOT NULL DEFAULT '[]',
  metadata_json TEXT NOT NULL DEFAULT '{{}}',
  prompt_tokens INTEGER NOT NULL DEFAULT 0,
  completion_tokens INTEGER NOT NULL DEFAULT 0,
  reasoning_tokens INTEGER NOT NULL DEFAULT 0,
  cache_read INTEGER NOT NULL DEFAULT 0,
  cache_write INTEGER NOT NULL DEFAULT 0,
  total_tokens INTEGER NOT NULL DEFAULT 0,
  cost_usd REAL NOT NULL DEFAULT 0,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  archived_at INTEGER{sessions}
)"""
_MESSAGES = """
CREATE TABLE chat_messages (
  id TEXT PRIMARY KEY,
  session_id TEXT NOT NULL REFERENCES chat_sessions(id) ON DELETE CASCADE,
  role TEXT NOT NULL,
  metadata_json TEXT NOT NULL DEFAULT '{{}}',
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL{messages}
)"""
_PARTS = """
CREATE TABLE chat_parts (
  id TEXT PRIMARY KEY,
  message_id TEXT NOT NULL REFERENCES chat_messages(id) ON DELETE CASCADE,
  session_id TEXT NOT NULL,
  "index" INTEGER NOT NULL,
  type TEXT NOT NULL,
  data_json TEXT NOT NULL,
  tool_call_id TEXT,
  tool_state TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL{parts}
)"""
_INDEXES = (
    "CREATE INDEX idx_chat_sessions_agent_updated ON chat_sessions(agent, updated_at)",
    "CREATE INDEX idx_chat_sessions_parent ON chat_sessions(parent_id)",
    "CREATE INDEX idx_chat_sessions_archived ON chat_sessions(archived_at)",
    "CREATE INDEX idx_chat_messages_session_created ON chat_messages(session_id, created_at)",
    'CREATE UNIQUE INDEX idx_chat_parts_message_index ON chat_parts(message_id, "index")',
    "CREATE INDEX idx_chat_parts_session ON chat_parts(session_id)",
    "CREATE INDEX idx_chat_parts_tool_call ON chat_parts(tool_call_id)",
)
_WORKSPACE_INDEX = (
    "CREATE INDEX idx_chat_sessions_workspace_updated ON chat_sessions(workspace_id, updated_at)"
)
_ROOT_INDEX = (
    "CREATE INDEX idx_chat_sessions_root_updated ON chat_sessions(workspace_root, updated_at)"
)
VERSIONS = (0, 1, 2, 3)
_SESSION_COUNT, _MESSAGES_EACH = 6, 12


def make_old_file(path: Path, version: int) -> None:
    """Make a file of the guide's columns alone (version 0), or of its author's version 1 to 3."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("BEGIN")
        for statement in _schema(version):
            connection.execute(statement)
        for number in range(_SESSION_COUNT):
            _fill_session(connection, number)
        connection.execute(f"PRAGMA user_version = {version}")
        connection.execute("COMMIT")


def _schema(version: int) -> list[str]:
    sessions = ("title TEXT", "workspace_id TEXT") if version >= 1 else ()
    added = {
        "sessions": (*sessions, "mode TEXT") if version >= 2 else sessions,
        "messages": ("hidden_at INTEGER",) if version >= 1 else (),
        "parts": ("continuation_run_id TEXT",) if version >= 3 else (),
    }
    columns = {table: "".join(f",\n  {column}" for column in new) for table, new in added.items()}
    tables = [text.format(**columns) for text in (_SESSIONS, _MESSAGES, _PARTS)]
    return [*tables, *_INDEXES, _WORKSPACE_INDEX if version >= 1 else _ROOT_INDEX]


def _fill_session(connection: sqlite3.Connection, number: int) -> None:
    session = f"ses_old{number}"
    connection.execute(
        "INSERT INTO chat_sessions(id, agent, model_json, created_at, updated_at, prompt_tokens)"
        " VALUES (?, 'coder', ?, ?, ?, 7)",
        (session, json.dumps({"provider_id": "p", "model_id": "m"}), 1000 + number, 2000 + number),
    )
    for place in range(_MESSAGES_EACH):
        _fill_message(connection, session, place)


def _fill_message(connection: sqlite3.Connection, session: str, place: int) -> None:
    role = "assistant" if place % 2 else "user"
    metadata: dict[str, object] = {"schema_version": 1} if role == "user" else {"usage": _USAGE}
    if place >= _MESSAGES_EACH - 2:
        metadata["hidden_at"] = 3000 + place  # the guide hides in the metadata only
    message, at = f"msg_{session}_{place}", 1000 + place
    connection.execute(
        "INSERT INTO chat_messages(id, session_id, role, metadata_json, created_at, updated_at)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (message, session, role, json.dumps(metadata), at, at),
    )
    for index, part in enumerate(_parts(role, place)):
        connection.execute(
            'INSERT INTO chat_parts(id, message_id, session_id, "index", type, data_json,'
            " tool_call_id, tool_state, created_at, updated_at) VALUES (?,?,?,?,?,?,?,?,?,?)",
            (
                *(f"prt_{message}_{index}", message, session, index, part["type"]),
                *(json.dumps(part), part.get("toolCallId"), part.get("state"), at, at),
            ),
        )


_USAGE = {"input": 10, "output": 5, "reasoning": 1, "cache_read": 2, "cache_write": 0}


def _parts(role: str, place: int) -> list[dict[str, object]]:
    text: dict[str, object] = {"type": "text", "text": f"message {place} " + "word " * 40}
    if role == "user":
        return [text]
    call: dict[str, object] = {
        "type": "tool-search",
        "toolCallId": f"call{place}",
        "state": "output-available",
        "input": {"q": place},
        "output": ["found"],
    }
    return [{"type": "step-start"}, call, text]
