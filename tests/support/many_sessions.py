"""Rows of sessions, entries and answers, written straight into a knowledge store."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from weakref import finalize

from tests.support.tickets import insert, put
from tests.support.worlds import World
from threadkeep.base.tx import Tx
from threadkeep.knowledge.library import Browse
from threadkeep.knowledge.schema import ENTRY_WORDS
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.testing import KnowledgeFactory

NOW = 1_800_000_000_000
DAY = 86_400_000


class Many:
    """A store whose sessions are made of rows alone; they have no log and no text."""

    def __init__(self, folder: Path, factory: KnowledgeFactory | None = None) -> None:
        self._world = World(folder, factory)
        self._store = self._world.store()
        finalize(self, self._store.close)
        self._answers = 0

    @property
    def path(self) -> Path:
        """The file of the store, for tests of files."""
        return self._world.database

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
        return self.insert("tk_sessions", **values)

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
        with self.write() as tx:
            put(tx, "tk_usage", **values)

    def say(self, session: int, text: str, **columns: Any) -> int:
        """Add an entry that is found by the words of a text."""
        place = {"log_id": 0, "line": 0, "part": 0, "hash": 0, "at": NOW}
        values = {"role": "user", "kind": "prompt", "key": text, "session": session, **place}
        with self.write() as tx:
            number = insert(tx, "tk_entries", **{**values, **columns})
            ENTRY_WORDS.put(tx, [(number, text)])
        return number

    def insert(self, table: str, **values: Any) -> int:
        """Add a row of a test's own; give its number."""
        with self.write() as tx:
            return insert(tx, table, **values)

    def write(self) -> AbstractContextManager[Tx]:
        """Begin a transaction of a test's own."""
        return self._store.context.db.write(durable=False)

    def store(self) -> KnowledgeStore:
        """Open the store to look; close it after use."""
        return KnowledgeStore.open(self._world.place, read_only=True, clock=lambda: NOW)

    def browse(self) -> Browse:
        """Open it to be browsed; close it after use."""
        return Browse(self.store(), {}, clock=lambda: NOW)
