"""Session files as newer Hermes programs make them: none of our tables, maybe more columns."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.support.states import Clock, Factory
from threadkeep.base.sql import load_text
from threadkeep.state.context import PACKAGE
from threadkeep.state.session_db import SessionDB

_SEARCH = """
CREATE TABLE schema_version (version INTEGER NOT NULL);
CREATE VIRTUAL TABLE messages_fts USING fts5(
  content, tool_name, tool_calls, content='messages', content_rowid='id');
CREATE TRIGGER messages_fts_insert AFTER INSERT ON messages BEGIN
  INSERT INTO messages_fts(rowid, content, tool_name, tool_calls)
  VALUES (new.id, new.content, new.tool_name, new.tool_calls);
END;
CREATE TRIGGER messages_fts_delete AFTER DELETE ON messages BEGIN
  INSERT INTO messages_fts(messages_fts, rowid, content, tool_name, tool_calls)
  VALUES ('delete', old.id, old.content, old.tool_name, old.tool_calls);
END;
CREATE TRIGGER messages_fts_update AFTER UPDATE OF content, tool_name, tool_calls ON messages BEGIN
  INSERT INTO messages_fts(messages_fts, rowid, content, tool_name, tool_calls)
  VALUES ('delete', old.id, old.content, old.tool_name, old.tool_calls);
  INSERT INTO messages_fts(rowid, content, tool_name, tool_calls)
  VALUES (new.id, new.content, new.tool_name, new.tool_calls);
END;
"""
# What nobody has heard of yet: columns, a table, a trigger that writes.
_MADE_UP = """
ALTER TABLE sessions ADD COLUMN mood TEXT DEFAULT 'calm';
ALTER TABLE messages ADD COLUMN weather BLOB;
ALTER TABLE session_model_usage ADD COLUMN joules REAL NOT NULL DEFAULT 0;
CREATE TABLE moods (session_id TEXT PRIMARY KEY, mood TEXT NOT NULL);
CREATE TRIGGER note_mood AFTER INSERT ON sessions BEGIN
  INSERT OR IGNORE INTO moods VALUES (new.id, new.mood);
END;
"""


def make_newer_state(path: Path, number: int = 26) -> None:
    """Make an empty file of that number; one above 30 has more in it than anybody knows."""
    made_up = _MADE_UP if number > 30 else ""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(load_text(PACKAGE, "newest.sql") + _SEARCH + made_up)
        connection.execute("INSERT INTO schema_version VALUES (?)", (number,))
        connection.commit()


def objects_of(path: Path) -> list[tuple[str, str, str | None]]:
    """Return what a file is made of, but for Telegram's tables and SQLite's own statistics."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    return sorted(row for row in rows if not ("telegram" in row[1] or row[1].startswith("sqlite_")))


@contextmanager
def opened_form(factory: Factory, form: str | int, clock: Clock) -> Iterator[SessionDB]:
    """Open an empty store: `ours`, or a file of that number, which must keep its form."""
    if form == "ours":
        yield factory.open(clock=clock)
        return
    path = Path(factory.place())
    path.parent.mkdir(parents=True)
    make_newer_state(path, int(form))
    before = objects_of(path)
    with factory.connect(str(path), clock=clock) as opened:
        yield opened
    assert objects_of(path) == before
