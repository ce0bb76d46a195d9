"""The module's paths and its raw connection, and a file of version 2."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from threadkeep.state import hermes_state
from threadkeep.state.hermes_state import SessionDB


def sql(db: SessionDB, statement: str, *parameters: object) -> list[Any]:
    """Run a statement on the connection that programs of Hermes's time use."""
    connection = db._conn
    assert connection is not None
    return connection.execute(statement, parameters).fetchall()


# ---------------------------------------------------------------------- places


@pytest.mark.parametrize(
    "home, wanted", [("kept/here", "kept/here/state.db"), (None, "user/.hermes/state.db")]
)
def test_default_path_follows_hermes_home(tmp_path: Path, home: str | None, wanted: str) -> None:
    script = (
        "from threadkeep.state.hermes_state import DEFAULT_DB_PATH, SessionDB\n"
        "with SessionDB() as db:\n"
        "    assert db.db_path == DEFAULT_DB_PATH\n"
        "    db.create_session('s', 'cli')\n"
        "print(DEFAULT_DB_PATH)\n"
    )
    source = str(Path(hermes_state.__file__).parents[2])
    env = {"HOME": str(tmp_path / "user"), "PYTHONPATH": source}
    if home:
        env["HERMES_HOME"] = str(tmp_path / home)
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(tmp_path / wanted)
    assert (tmp_path / wanted).is_file()


def test_folders_on_the_way_are_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "state.db"
    with SessionDB(db_path=path) as db:
        assert db.db_path == path
    assert path.is_file()


@pytest.mark.parametrize("kind", [str, Path])
def test_path_may_be_text_or_a_path(tmp_path: Path, kind: type[Any]) -> None:
    with SessionDB(kind(tmp_path / "state.db")) as db:
        db.create_session("s", "cli")
        assert db.db_path == tmp_path / "state.db"
    with SessionDB(db_path=tmp_path / "state.db") as db:
        assert db.session_count() == 1


# ---------------------------------------------------------------------- connection, lock


def test_connection_tells_the_truth_about_the_file(db: SessionDB) -> None:
    assert sql(db, "PRAGMA journal_mode")[0][0] == "wal"
    assert sql(db, "PRAGMA foreign_keys")[0][0] == 1
    assert [row[0] for row in sql(db, "SELECT version FROM schema_version")] == [6]
    tables = {row[0] for row in sql(db, "SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert {"sessions", "messages", "schema_version", "messages_fts"} <= tables
    assert "title" in {row[1] for row in sql(db, "PRAGMA table_info(sessions)")}


def test_raw_write_is_seen_by_the_next_call(db: SessionDB) -> None:
    db.create_session("s", "cli")
    db.append_message("s", "user", "hello")
    assert db.get_session("s")["ended_at"] is None  # type: ignore[index]
    statement = "UPDATE sessions SET started_at=?, ended_at=?, end_reason=? WHERE id=?"
    sql(db, statement, 100.0, 200.0, "done", "s")
    db._conn.commit()  # type: ignore[union-attr]
    session = db.get_session("s")
    assert session is not None
    assert (session["started_at"], session["ended_at"]) == (100.0, 200.0)
    assert session["end_reason"] == "done"
    assert db.list_sessions_rich()[0]["started_at"] == 100.0
    assert db.search_sessions()[0]["end_reason"] == "done"


def test_raw_message_is_read_listed_and_found(db: SessionDB) -> None:
    db.create_session("s", "cli")
    db.list_sessions_rich()
    insert = "INSERT INTO messages(session_id, role, content, timestamp) VALUES (?, ?, ?, ?)"
    sql(db, insert, "s", "user", "a zebra crossing", 9e9)
    assert [message["content"] for message in db.get_messages("s")] == ["a zebra crossing"]
    [listed] = db.list_sessions_rich()
    assert (listed["preview"], listed["last_active"]) == ("a zebra crossing", 9e9)
    assert [hit["session_id"] for hit in db.search_messages("zebra")] == ["s"]


def test_raw_rows_are_indexed_by_place_and_by_name(db: SessionDB) -> None:
    db.create_session("s", "cli")
    [row] = sql(db, "SELECT id, source FROM sessions")
    assert (row[0], row["source"]) == ("s", "cli")


def test_lock_can_be_held_around_calls(db: SessionDB) -> None:
    with db._lock:
        db.create_session("s", "cli")
        assert sql(db, "SELECT count(*) FROM sessions")[0][0] == 1


# ---------------------------------------------------------------------- an old file

V2 = """
CREATE TABLE schema_version (version INTEGER NOT NULL);
INSERT INTO schema_version VALUES (2);
CREATE TABLE sessions (
  id TEXT PRIMARY KEY, source TEXT NOT NULL, user_id TEXT, model TEXT, model_config TEXT,
  system_prompt TEXT, parent_session_id TEXT, started_at REAL NOT NULL, ended_at REAL,
  end_reason TEXT, message_count INTEGER DEFAULT 0, tool_call_count INTEGER DEFAULT 0,
  input_tokens INTEGER DEFAULT 0, output_tokens INTEGER DEFAULT 0);
CREATE TABLE messages (
  id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, role TEXT NOT NULL, content TEXT,
  tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, timestamp REAL NOT NULL, token_count INTEGER,
  finish_reason TEXT);
INSERT INTO sessions(id, source, started_at, input_tokens) VALUES ('old', 'cli', 1000.0, 7);
INSERT INTO messages(session_id, role, content, timestamp) VALUES ('old', 'user', 'ancient', 1.0);
"""


def test_hand_made_file_of_version_2_becomes_one_of_version_6(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as made:
        made.executescript(V2)
    with SessionDB(db_path=path) as db:
        assert [row[0] for row in sql(db, "SELECT version FROM schema_version")] == [6]
        session = db.get_session("old")
        assert session is not None
        assert (session["title"], session["input_tokens"]) == (None, 7)
        assert (session["reasoning_tokens"], session["actual_cost_usd"]) == (0, None)
        assert [message["content"] for message in db.get_messages("old")] == ["ancient"]
        assert [hit["session_id"] for hit in db.search_messages("ancient")] == ["old"]
        assert db.set_session_title("old", "Found again") is True
        assert db.append_message("old", "assistant", "new", reasoning="because") == 2


def test_close_lets_go_of_the_connection(db: SessionDB) -> None:
    db.close()
    db.close()
    assert db._conn is None
