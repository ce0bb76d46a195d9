"""What Hermes Agent at schema 6 does to a state file, in as few lines as tell it.

Written from the manual's schema and from what was observed of it; not Hermes's code. It knows
nothing of side tables or of our lock: it waits a second for SQLite's own lock, tries a write
fifteen times with random pauses, and folds the log into the file after every fiftieth write.

    hermes_v6.py append  PATH SESSION COUNT     append messages, one transaction each
    hermes_v6.py replace PATH SESSION COUNT     append, delete the session, begin it again
"""

import json
import random
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TypeVar

REPO = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO / "src"), str(REPO)]

from tests.faults.old_state_files import FULL_TEXT, TITLE_INDEX, tables  # noqa: E402

R = TypeVar("R")
Row = dict[str, Any]

TRIES = 15
PAUSE = (0.020, 0.150)
CHECKPOINT_EVERY = 50
NOW = 1_760_000_000.0

_SEARCH = """
SELECT m.id, m.session_id, m.role,
  snippet(messages_fts, 0, '>>>', '<<<', '...', 40) AS snippet,
  m.content, m.timestamp, m.tool_name, s.source, s.model, s.started_at AS session_started
FROM messages_fts
JOIN messages m ON m.id = messages_fts.rowid
JOIN sessions s ON s.id = m.session_id
WHERE messages_fts MATCH ? ORDER BY rank LIMIT ? OFFSET 0"""
_LIST = """
SELECT s.*,
  COALESCE((SELECT substr(replace(m.content, char(10), ' '), 1, 63) FROM messages m
    WHERE m.session_id = s.id AND m.role = 'user' AND m.content IS NOT NULL
    ORDER BY m.timestamp, m.id LIMIT 1), '') AS preview,
  COALESCE((SELECT max(m.timestamp) FROM messages m WHERE m.session_id = s.id), s.started_at)
    AS last_active
FROM sessions s WHERE s.parent_session_id IS NULL ORDER BY s.started_at DESC LIMIT 20"""


class HermesV6:
    """One connection in autocommit mode, as a Hermes process has it."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, timeout=1.0, isolation_level=None)
        self.connection.row_factory = sqlite3.Row
        self.writes = 0
        self.closed = False
        self.connection.execute("PRAGMA journal_mode=WAL").fetchone()
        self.connection.execute("PRAGMA foreign_keys=ON")
        self._make_schema()

    def _make_schema(self) -> None:
        for statement in tables(6):
            self.connection.execute(statement)
        if self.connection.execute("SELECT version FROM schema_version LIMIT 1").fetchone() is None:
            self.connection.execute("INSERT INTO schema_version(version) VALUES (6)")
        self.connection.execute(TITLE_INDEX)
        try:
            self.connection.execute("SELECT * FROM messages_fts LIMIT 0")
        except sqlite3.OperationalError:
            for statement in FULL_TEXT:
                self.connection.execute(statement)

    def write(self, act: Callable[[sqlite3.Connection], R]) -> R:
        """Run one write transaction, again and again while somebody else has the lock."""
        for attempt in range(TRIES):
            try:
                result = self._transaction(act)
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) and "busy" not in str(error):
                    raise
                if attempt == TRIES - 1:
                    raise
                time.sleep(random.uniform(*PAUSE))
                continue
            self.writes += 1
            if self.writes % CHECKPOINT_EVERY == 0:
                self.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            return result
        raise AssertionError

    def _transaction(self, act: Callable[[sqlite3.Connection], R]) -> R:
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            result = act(self.connection)
            self.connection.commit()
        except BaseException:
            self.connection.rollback()
            raise
        return result

    # -------------------------------------------------------------- verbs

    def create_session(
        self, session_id: str, source: str = "cli", parent: str | None = None
    ) -> None:
        self.write(
            lambda c: c.execute(
                "INSERT OR IGNORE INTO sessions (id, source, parent_session_id, started_at)"
                " VALUES (?, ?, ?, ?)",
                (session_id, source, parent, NOW),
            )
        )

    def append(self, session_id: str, role: str, content: str | None, **columns: Any) -> int:
        calls = columns.get("tool_calls")
        row = {"session_id": session_id, "role": role, "content": content, "timestamp": NOW}
        row |= columns | ({"tool_calls": json.dumps(calls)} if calls else {})
        names, marks = ", ".join(row), ", ".join("?" * len(row))

        def act(connection: sqlite3.Connection) -> int:
            sql = f"INSERT INTO messages ({names}) VALUES ({marks})"
            rowid = connection.execute(sql, tuple(row.values())).lastrowid
            connection.execute(
                "UPDATE sessions SET message_count = message_count + 1,"
                " tool_call_count = tool_call_count + ? WHERE id = ?",
                (len(calls or ()), session_id),
            )
            return int(rowid or 0)

        return self.write(act)

    def set_title(self, session_id: str, title: str | None) -> None:
        sql = "UPDATE sessions SET title = ? WHERE id = ?"
        self.write(lambda c: c.execute(sql, (title, session_id)))

    def end_session(self, session_id: str, reason: str) -> None:
        sql = "UPDATE sessions SET ended_at = ?, end_reason = ? WHERE id = ? AND ended_at IS NULL"
        self.write(lambda c: c.execute(sql, (NOW, reason, session_id)))

    def add_tokens(self, session_id: str, count: int) -> None:
        sql = "UPDATE sessions SET input_tokens = input_tokens + ? WHERE id = ?"
        self.write(lambda c: c.execute(sql, (count, session_id)))

    def clear_messages(self, session_id: str) -> None:
        def act(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM messages WHERE session_id = ?", (session_id,))
            sql = "UPDATE sessions SET message_count = 0, tool_call_count = 0 WHERE id = ?"
            connection.execute(sql, (session_id,))

        self.write(act)

    def delete_session(self, session_id: str) -> None:
        def act(connection: sqlite3.Connection) -> None:
            sql = "UPDATE sessions SET parent_session_id = NULL WHERE parent_session_id = ?"
            connection.execute(sql, (session_id,))
            connection.execute("DELETE FROM messages WHERE session_id = ?", (session_id,))
            connection.execute("DELETE FROM sessions WHERE id = ?", (session_id,))

        self.write(act)

    def search(self, query: str, limit: int = 20) -> list[Row]:
        return [dict(row) for row in self.connection.execute(_SEARCH, (query, limit))]

    def list_sessions(self) -> list[Row]:
        return [dict(row) for row in self.connection.execute(_LIST)]

    def messages(self, session_id: str) -> list[Row]:
        sql = "SELECT * FROM messages WHERE session_id = ? ORDER BY timestamp, id"
        return [dict(row) for row in self.connection.execute(sql, (session_id,))]

    def close(self) -> None:
        if not self.closed:
            self.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            self.connection.close()
        self.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def append_many(hermes: HermesV6, session_id: str, count: int) -> None:
    hermes.create_session(session_id, "telegram")
    for number in range(count):
        hermes.append(session_id, "user", f"hermes{number} said in {session_id}")


def replace_many(hermes: HermesV6, session_id: str, count: int) -> None:
    for _ in range(3):
        hermes.delete_session(session_id)
        append_many(hermes, session_id, count)


def main() -> None:
    command, path, session_id, count = sys.argv[1:]
    with HermesV6(Path(path)) as hermes:
        {"append": append_many, "replace": replace_many}[command](hermes, session_id, int(count))


if __name__ == "__main__":
    main()
