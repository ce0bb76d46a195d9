"""In the place of Hermes's module: default paths, damaged text, files made at the same time."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.faults.old_state_files import FULL_TEXT, TITLE_INDEX, tables
from tests.support.states import Clock, open_state, talk
from threadkeep.errors import Invalid, SchemaMismatch
from threadkeep.state import hermes_state
from threadkeep.state.hermes_state import SessionDB

# ---------------------------------------------------------------------- what tests replace


def test_a_default_path_put_into_the_module_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hermes_state, "DEFAULT_DB_PATH", tmp_path / "elsewhere" / "state.db")
    with SessionDB() as db:
        assert db.db_path == tmp_path / "elsewhere" / "state.db"
    assert (tmp_path / "elsewhere" / "state.db").exists()


def test_a_clock_put_into_the_time_module_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SessionDB(tmp_path / "state.db") as db:
        monkeypatch.setattr(time, "time", lambda: 1234.5)
        db.create_session("s", "cli")
        db.append_message("s", "user", "hello")
        assert (db.get_session("s") or {})["started_at"] == 1234.5
        assert db.get_messages("s")[0]["timestamp"] == 1234.5


# ---------------------------------------------------------------------- damaged text


def test_one_damaged_text_does_not_hide_the_others(
    db: SessionDB, caplog: pytest.LogCaptureFixture
) -> None:
    """A flipped bit, or another program, leaves text that is no UTF-8."""
    talk(db, "s", "one", "two", "three")
    talk(db, "t", "four")
    connection = db._conn
    assert connection is not None
    connection.execute("UPDATE messages SET content = CAST(x'74ff6f' AS TEXT) WHERE id = 2")
    connection.execute("UPDATE sessions SET system_prompt = CAST(x'ff' AS TEXT) WHERE id = 't'")
    wanted = ["one", "t\ufffdo", "three"]
    assert [m["content"] for m in db.get_messages("s")] == wanted
    assert [m["content"] for m in db.get_messages_as_conversation("s")] == wanted
    assert [m["content"] for m in db.iter_messages("s", page=2)] == wanted
    assert [m["content"] for m in db.get_messages_around("s", 2)["window"]] == wanted
    assert {row["id"] for row in db.list_sessions_rich()} == {"s", "t"}
    assert (db.get_session("t") or {})["system_prompt"] == "\ufffd"
    assert len(db.export_all()) == 2
    assert caplog.text.count("decode") == 1
    assert "t\ufffdo" not in caplog.text
    db.append_message("s", "user", "more")
    assert [problem.split(" cannot")[0] for problem in db.check()] == ["message 2", "session 't'"]


# ---------------------------------------------------------------------- made at the same time


STEPS = (*tables(6), "INSERT INTO schema_version(version) VALUES (6)", TITLE_INDEX, *FULL_TEXT)


@pytest.mark.parametrize("done", range(len(STEPS) + 1))
def test_a_file_that_hermes_is_about_to_make_is_finished(tmp_path: Path, done: int) -> None:
    """Hermes commits each statement; one of ours may open between any two, or after a crash."""
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as hermes:
        hermes.execute("PRAGMA journal_mode = WAL")
        for statement in STEPS[:done]:
            hermes.execute(statement)
        with open_state(path, Clock()) as db:
            for statement in STEPS[done:]:  # Hermes goes on where it was
                later = statement.replace("INSERT INTO", "INSERT OR IGNORE INTO")
                assert "IF NOT EXISTS" in later or later.startswith("INSERT")
                hermes.execute(later)
            db.create_session("s", "cli")
            db.append_message("s", "user", "hello there")
            assert [hit["session_id"] for hit in db.search_messages("hello")] == ["s"]
            assert db.check() == []
        assert {row[0] for row in hermes.execute("SELECT version FROM schema_version")} == {6}
    with open_state(path) as db:
        assert db.message_count() == 1


def test_a_store_in_memory_is_refused_and_no_file_of_that_name_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Invalid, match="memory"):
        SessionDB(":memory:")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_loses_a_column_while_it_is_open_is_written_no_more(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with open_state(path) as db:
        talk(db, "s", "hello")
        with closing(sqlite3.connect(path)) as newer:
            newer.execute("ALTER TABLE sessions RENAME COLUMN pricing_version TO pricing_edition")
            newer.execute("UPDATE schema_version SET version = 99")
            newer.commit()
        with pytest.raises(SchemaMismatch, match="sessions has no column pricing_version"):
            db.append_message("s", "user", "too late")
        assert [message["content"] for message in db.get_messages("s")] == ["hello"]
