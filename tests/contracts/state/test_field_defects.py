"""What people met in the field, each as one test."""

import logging

import pytest

from tests.support.states import talk
from threadkeep.base.tx import Sql
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


def test_the_first_search_of_a_new_store_warns_of_nothing_and_real_damage_is_told(
    db: SessionDB, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert found(db, "docker") == []
        assert caplog.text == ""
        talk(db, "s", "docker")
        with db.context.db.write() as tx:
            tx.run(Sql("INSERT INTO messages_fts(messages_fts) VALUES ('delete-all')"))
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
