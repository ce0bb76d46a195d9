"""The module and the object that stand in for Hermes's: names, constants, connection, old files."""

import inspect
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.states import Clock
from threadkeep.errors import Closed
from threadkeep.state import hermes_state
from threadkeep.state.hermes_state import SessionDB

METHODS = {
    "close": "",
    "create_session": "session_id source model model_config system_prompt user_id "
    "parent_session_id",
    "ensure_session": "session_id source model",
    "end_session": "session_id end_reason",
    "reopen_session": "session_id",
    "update_system_prompt": "session_id system_prompt",
    "update_token_counts": "session_id input_tokens output_tokens model cache_read_tokens "
    "cache_write_tokens reasoning_tokens estimated_cost_usd actual_cost_usd cost_status "
    "cost_source pricing_version billing_provider billing_base_url billing_mode "
    "api_call_count absolute",  # the place it has since version 8
    "get_session": "session_id",
    "resolve_session_id": "session_id_or_prefix",
    "set_session_title": "session_id title",
    "get_session_title": "session_id",
    "get_session_by_title": "title",
    "resolve_session_by_title": "title",
    "get_next_title_in_lineage": "base_title",
    "get_compression_tip": "session_id",
    "list_sessions_rich": "source sources exclude_sources cwd_prefix limit offset "
    "include_children min_message_count project_compression_tips order_by_last_active "
    "include_archived archived_only id_query search_query compact_rows include_pinned "
    "session_key include_hidden",
    "append_message": "session_id role content tool_name tool_calls tool_call_id token_count "
    "finish_reason reasoning",  # what follows stands in the order of today's Hermes
    "get_messages": "session_id",
    "get_messages_as_conversation": "session_id",
    "search_messages": "query source_filter exclude_sources role_filter limit offset",
    "search_sessions": "source limit offset",
    "session_count": "source",
    "message_count": "session_id",
    "export_session": "session_id",
    "export_all": "source",
    "clear_messages": "session_id",
    "delete_session": "session_id",
    "prune_sessions": "older_than_days source",
}
DEFAULTS: dict[str, dict[str, Any]] = {
    "ensure_session": {"source": "unknown", "model": None},
    "update_token_counts": {
        "input_tokens": 0,
        "reasoning_tokens": 0,
        "estimated_cost_usd": None,
        "actual_cost_usd": None,
        "billing_mode": None,
        "absolute": False,
    },
    "list_sessions_rich": {
        "source": None,
        "exclude_sources": None,
        "limit": 20,
        "offset": 0,
        "include_children": False,
        "project_compression_tips": True,
    },
    "append_message": {"content": None, "tool_name": None, "codex_reasoning_items": None},
    "search_messages": {
        "source_filter": None,
        "exclude_sources": None,
        "role_filter": None,
        "limit": 20,
        "offset": 0,
    },
    "search_sessions": {"source": None, "limit": 20, "offset": 0},
    "session_count": {"source": None},
    "message_count": {"session_id": None},
    "export_all": {"source": None},
    "prune_sessions": {"older_than_days": 90, "source": None},
}
CONSTANTS = {
    "_WRITE_MAX_RETRIES": 15,
    "_WRITE_RETRY_MIN_S": 0.020,
    "_WRITE_RETRY_MAX_S": 0.150,
    "_CHECKPOINT_EVERY_N_WRITES": 50,
    "MAX_TITLE_LENGTH": 100,
}


def sql(db: SessionDB, statement: str, *parameters: object) -> list[Any]:
    """Run a statement on the connection that programs of Hermes's time use."""
    connection = db._conn
    assert connection is not None
    return connection.execute(statement, parameters).fetchall()


# ---------------------------------------------------------------------- names


@pytest.mark.parametrize("name", [*METHODS, "sanitize_title"])
def test_every_public_name_of_version_6_is_there(name: str) -> None:
    assert callable(getattr(SessionDB, name))


@pytest.mark.parametrize("name", METHODS)
def test_arguments_come_in_the_order_of_version_6(name: str) -> None:
    wanted = METHODS[name].split()
    parameters = list(inspect.signature(getattr(SessionDB, name)).parameters.values())[1:]
    assert [p.name for p in parameters][: len(wanted)] == wanted
    for parameter in parameters[: len(wanted)]:
        assert parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    for parameter in parameters[len(wanted) :]:
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            continue
        assert parameter.default is not inspect.Parameter.empty, f"{name} needs {parameter.name}"


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults_are_those_of_version_6(name: str) -> None:
    parameters = inspect.signature(getattr(SessionDB, name)).parameters
    assert {key: parameters[key].default for key in DEFAULTS[name]} == DEFAULTS[name]


@pytest.mark.parametrize("name", ["model", "model_config", "system_prompt", "user_id"])
def test_create_session_needs_an_id_and_a_source_only(name: str) -> None:
    assert inspect.signature(SessionDB.create_session).parameters[name].default is None


@pytest.mark.parametrize("name, value", CONSTANTS.items())
def test_constants_are_on_the_class_and_on_the_module(name: str, value: float) -> None:
    assert getattr(SessionDB, name) == value
    assert getattr(hermes_state, name) == value


def test_schema_version_is_6() -> None:
    assert hermes_state.SCHEMA_VERSION == 6


def test_init_states_its_patience_of_30_seconds() -> None:
    assert inspect.isfunction(SessionDB.__init__)
    source = inspect.getsource(SessionDB.__init__)
    assert "30" in source
    assert "second" in source


def test_waiting_writer_has_30_seconds_unless_told_otherwise() -> None:
    assert inspect.signature(SessionDB).parameters["timeout"].default == 30.0


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


def test_one_object_serves_many_threads(db: SessionDB) -> None:
    db.create_session("s", "cli")

    def work(name: str) -> None:
        for number in range(10):
            db.append_message("s", "user", f"{name} {number}")
            db.get_messages("s", limit=1)

    threads = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert db.message_count("s") == 40
    assert db.get_session("s")["message_count"] == 40  # type: ignore[index]


# ---------------------------------------------------------------------- the end


def test_close_twice_is_fine(tmp_path: Path) -> None:
    db = SessionDB(tmp_path / "state.db")
    db.close()
    db.close()
    assert db._conn is None


@pytest.mark.parametrize(
    "call",
    [
        lambda db: db.create_session("s", "cli"),
        lambda db: db.append_message("s", "user", "x"),
        lambda db: db.get_session("s"),
        lambda db: db.search_messages("x"),
        lambda db: db.list_sessions_rich(),
        lambda db: db.prune_sessions(),
        lambda db: db.export_all(),
    ],
)
def test_use_after_close_says_closed_and_which_file(tmp_path: Path, call: Any) -> None:
    db = SessionDB(tmp_path / "state.db")
    db.close()
    with pytest.raises(Closed, match=r"state\.db was closed"):
        call(db)


def test_with_block_closes(tmp_path: Path) -> None:
    with SessionDB(tmp_path / "state.db") as db:
        db.create_session("s", "cli")
    with pytest.raises(Closed):
        db.session_count()


def test_everything_is_there_after_reopening(tmp_path: Path, clock: Clock) -> None:
    with SessionDB(tmp_path / "state.db", clock=clock) as db:
        db.create_session("s", "cli", model="m")
        db.append_message("s", "user", "hello")
        before = db.export_all()
    with SessionDB(tmp_path / "state.db") as db:
        assert db.export_all() == before


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
