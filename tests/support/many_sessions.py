"""Rows of sessions, entries and answers, written straight into a knowledge store."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.support.worlds import World
from threadkeep.knowledge.library import Browse
from threadkeep.knowledge.store import KnowledgeStore

NOW = 1_800_000_000_000
DAY = 86_400_000


class Many:
    """A store whose sessions are made of rows alone; they have no log and no text."""

    def __init__(self, folder: Path) -> None:
        world = World(folder)
        with world.history():  # puts an empty store in its place
            self.path = world.database
        self._answers = 0

    def add(self, name: str, **columns: Any) -> int:
        """Add a session that one person had, unless the columns say otherwise."""
        values = {
            "harness": "codex",
            "session_id": name,
            "project": "app",
            "cwd": "/u/app",
            "model": "gpt-5",
            "git_branch": "main",
            "started_at": NOW - DAY,
            "ended_at": NOW - DAY,
            "entries": 3,
            **columns,
        }
        return self._insert("tk_sessions", values)

    def answer(self, session: int, at: int | None, **columns: Any) -> None:
        """Add what one answer of a model took."""
        self._answers += 1
        values = {
            "harness": "codex",
            "key": f"a{self._answers}",
            "session": session,
            "at": at,
            "model": "gpt-5",
            "final": 1,
            **dict.fromkeys(("input", "output", "cache_read", "cache_write"), 0),
            **dict.fromkeys(("cache_write_1h", "reasoning"), 0),
            **columns,
        }
        self._insert("tk_usage", values)

    def say(self, session: int, text: str, **columns: Any) -> int:
        """Add an entry that is found by the words of a text."""
        place = {"log_id": 0, "line": 0, "part": 0, "hash": 0, "at": NOW}
        values = {"role": "user", "kind": "prompt", "key": text, "session": session, **place}
        number = self._insert("tk_entries", {**values, **columns})
        self._insert("tk_entry_words", {"rowid": number, "text": text})
        return number

    def run(self, sql: str, *values: Any) -> int:
        """Run a statement of a test's own; give the number of the row it made."""
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = OFF")
            return connection.execute(sql, values).lastrowid or 0

    def _insert(self, table: str, values: dict[str, Any]) -> int:
        marks = ", ".join("?" for _ in values)
        return self.run(
            f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", *values.values()
        )

    def browse(self) -> Browse:
        """Open it to be browsed; close it after use."""
        return Browse(KnowledgeStore.open(self.path, read_only=True), {}, clock=lambda: NOW)
