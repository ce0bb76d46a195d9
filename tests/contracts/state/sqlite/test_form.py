"""A file is judged by its tables, and any file reads in the newest form."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.faults.old_state_files import make_old_state
from tests.support.hermes_today import make_hermes_state, run
from threadkeep.base.tx import Sql
from threadkeep.errors import ReadOnly
from threadkeep.state.context import TODAY, V6, newest_columns, survey
from threadkeep.state.hermes_state import SessionDB


def columns(path: Path, table: str) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]


def test_a_new_file_answers_as_version_6_until_it_is_widened(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with SessionDB(path) as db:
        db.create_session("s", "cli")
        db.set_session_archived("s", archived=True)
        assert db.context.form.answers is V6
        with db.context.db.write() as tx:
            db.context.widen(tx)
        assert db.context.form.answers is TODAY
        assert db.context.form.is_newest
    for table, known in newest_columns().items():
        assert {column.name for column in known} <= set(columns(path, table))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT archived FROM sessions").fetchone() == (1,)
        assert connection.execute("SELECT version FROM schema_version").fetchall() == [(6,)]


def test_a_widening_that_is_rolled_back_is_forgotten(tmp_path: Path) -> None:
    with SessionDB(tmp_path / "state.db") as db:

        def fail() -> None:
            with db.context.db.write() as tx:
                db.context.widen(tx)
                raise KeyError

        with pytest.raises(KeyError):
            fail()
        db.create_session("s", "cli")
        assert db.context.form.answers is V6


@pytest.mark.parametrize("version", [1, 4, 6])
def test_any_file_reads_in_the_newest_form(tmp_path: Path, version: int) -> None:
    path = tmp_path / "state.db"
    make_old_state(path, version)
    with SessionDB(path, read_only=True) as db, db.context.db.read() as tx:
        text = db.context.db.queries.text  # type: ignore[attr-defined]
        for table, known in newest_columns().items():
            (row,) = tx.dicts(
                Sql(text(f"SELECT f.* FROM (SELECT 1) LEFT JOIN full.{table} AS f LIMIT 1"))
            )
            assert {column.name for column in known} <= row.keys()
        assert survey(tx).answers is V6


def test_columns_of_any_name_come_along(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    make_hermes_state(
        path,
        """ALTER TABLE sessions ADD COLUMN "odd ""name, 'really'" TEXT DEFAULT 'kept'""",
        "INSERT INTO sessions(id, source, started_at) VALUES ('s', 'cli', 1)",
        number=999,
    )
    with SessionDB(path) as db:
        session = db.get_session("s")
    assert session is not None
    assert session["odd \"name, 'really'"] == "kept"


def test_a_file_that_hermes_is_just_bringing_further_is_read(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with SessionDB(path) as db:
        db.create_session("s", "cli", system_prompt="be kind")
        with closing(sqlite3.connect(path)) as hermes:  # new tables come before new columns
            hermes.execute("CREATE TABLE system_prompts (hash TEXT PRIMARY KEY, prompt TEXT)")
            hermes.commit()
        assert [row["system_prompt"] for row in db.list_sessions_rich()] == ["be kind"]
        db.create_session("t", "cli", system_prompt="be brief")
        session = db.get_session("t")
        assert session is not None
        assert session["system_prompt"] == "be brief"


def test_marks_are_carried_over_as_their_columns_come(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with SessionDB(path) as db:
        for name in ("pinned", "archived"):
            db.create_session(name, "cli")
        db.set_session_pinned("pinned")
        db.set_session_archived("archived")
        db.set_session_title("pinned", "mine")
    for column in ("archived INTEGER DEFAULT 0", "pinned INTEGER DEFAULT 0", "title_source TEXT"):
        run(path, [f"ALTER TABLE sessions ADD COLUMN {column}"])  # versions 16, 22 and 26
        SessionDB(path).close()
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT id, archived, pinned, title_source FROM sessions")
        assert set(rows) == {("pinned", 0, 1, "user"), ("archived", 1, 0, None)}


def test_a_view_in_the_place_of_any_table_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    make_hermes_state(
        path,
        "INSERT INTO sessions(id, source, started_at) VALUES ('s', 'cli', 1)",
        "DROP TABLE gateway_routing",
        "CREATE VIEW gateway_routing AS SELECT 1 AS scope",
    )
    with SessionDB(path) as db:
        assert [row["id"] for row in db.list_sessions_rich()] == ["s"]
        with pytest.raises(ReadOnly, match="gateway_routing is not an ordinary table"):
            db.append_message("s", "user", "x")
