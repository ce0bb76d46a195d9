"""What people met in the field, each as one test."""

import logging
import sqlite3
from pathlib import Path

import pytest

from tests.support.states import open_state, talk
from threadkeep.errors import Busy, Closed, Damaged
from threadkeep.state.session_db import SessionDB


def found(db: SessionDB, query: str) -> list[int]:
    return [hit["id"] for hit in db.search_messages(query)]


def test_the_beginning_of_an_identifier_is_found_where_the_whole_is_not(db: SessionDB) -> None:
    first, second = talk(db, "s", "call sp_new1 first", "nothing of it")
    assert found(db, "sp_new") == [first]
    assert found(db, "sp_n") == found(db, "new1 noth") == []
    assert db.search_messages("sp_new", offset=1) == []
    (exact,) = talk(db, "s", "call sp_new first")
    assert found(db, "sp_new") == [exact]
    assert found(db, "noth") == [second]


def test_a_session_without_a_source_is_stored(db: SessionDB) -> None:
    assert db.create_session("x", None) == "x"
    assert (db.get_session("x") or {})["source"] == "unknown"


def test_a_file_of_zeros_is_set_aside_and_the_store_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(bytes(40_960))
    with pytest.raises(Damaged), open_state(path, read_only=True):
        pass
    assert path.read_bytes() == bytes(40_960)
    with open_state(path) as db:
        talk(db, "s", "hello")
    (aside,) = tmp_path.glob("state.db.zeroed-*")
    assert aside.read_bytes() == bytes(40_960)
    assert "nothing but zeros" in caplog.text


def test_the_first_search_of_a_new_store_warns_of_nothing_and_real_damage_is_told(
    db: SessionDB, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert found(db, "docker") == []
        assert caplog.text == ""
        talk(db, "s", "docker")
        with db.context.db.write() as tx:
            tx.execute("INSERT INTO messages_fts(messages_fts) VALUES ('delete-all')")
        assert found(db, "docker") == [1]
    assert "is damaged" in caplog.text


def test_the_column_of_the_contract_may_be_named(db: SessionDB) -> None:
    first, second, _ = talk(db, "s", "docker things", "content of docker", "content")
    assert set(found(db, "content:docker")) == {first, second}
    assert found(db, 'content:"of docker"') == [second]
    assert found(db, '"content:docker"') == []


def test_what_was_typed_ranks_before_its_pieces(db: SessionDB) -> None:
    exact, pieces, _ = talk(db, "s", "进度 100%完成 了", "100 完成 " * 5, "完成")
    assert found(db, "100%完成") == [exact, pieces]


def test_a_continuation_takes_its_base_title_back(db: SessionDB) -> None:
    talk(db, "a", "hello")
    db.set_session_title("a", "Base")
    db.compress_session("a", "b")
    assert db.set_session_title("b", "Base #2")
    assert db.set_session_title("b", "Base")
    assert db.get_session_title("b") == "Base"


def test_errors_of_ours_are_errors_of_sqlite_too(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with open_state(path, timeout=0.05) as db:
        db.create_session("a", "cli")
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="locked") as locked:
            db.append_message("a", "user", "x")
        assert isinstance(locked.value, Busy)
        other.close()
        with db.context.db.write(), pytest.raises(RuntimeError):
            db.append_message("a", "user", "x")
    with pytest.raises(sqlite3.ProgrammingError) as closed:
        db.get_session("a")
    assert isinstance(closed.value, Closed)
    (tmp_path / "no.db").write_bytes(b"no database at all" * 1000)
    with pytest.raises(sqlite3.DatabaseError) as damaged:
        open_state(tmp_path / "no.db")
    assert isinstance(damaged.value, Damaged)
