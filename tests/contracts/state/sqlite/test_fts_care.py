"""Hermes's own full-text tables: a rebuild is carried on, merged and filled in their layout."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.newer_states import make_newer_state, objects_of
from tests.support.states import Clock, open_state
from threadkeep.state import check
from threadkeep.state.session_db import SessionDB


@pytest.fixture(params=[26, 999])
def db(tmp_path: Path, clock: Clock, request: pytest.FixtureRequest) -> Iterator[SessionDB]:
    path = tmp_path / "newer.db"
    make_newer_state(path, request.param)
    before = objects_of(path)
    with open_state(path, clock) as opened:
        opened.create_session("s", "cli")
        for number in range(5):
            opened.append_message("s", "user", f"word{number} common")
        yield opened
    assert objects_of(path) == before


def begin_rebuild(db: SessionDB) -> None:
    with closing(sqlite3.connect(db.db_path)) as connection:
        connection.execute("INSERT INTO messages_fts(messages_fts) VALUES ('delete-all')")
        connection.commit()
    db.set_meta("fts_rebuild_high_water", "5")
    db.set_meta("fts_rebuild_progress", "0")


def checked(db: SessionDB) -> list[Any]:
    with closing(sqlite3.connect(db.db_path)) as connection:
        connection.execute(
            "INSERT INTO messages_fts(messages_fts, rank) VALUES ('integrity-check', 1)"
        )
        sql = "SELECT rowid FROM messages_fts WHERE messages_fts MATCH 'common' ORDER BY 1"
        return [row[0] for row in connection.execute(sql)]


def test_a_rebuild_is_carried_on_step_by_step(
    db: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "_CHUNK", 2)
    assert db.fts_rebuild_status() is None
    assert not db.fts_rebuild_step()
    begin_rebuild(db)
    assert db.fts_optimize_available()
    assert db.fts_rebuild_step()
    assert db.fts_rebuild_status() == {"pending": True, "total": 5, "indexed": 2, "percent": 40}
    assert [db.fts_rebuild_step(), db.fts_rebuild_step()] == [True, False]
    assert db.fts_rebuild_status() is None
    assert checked(db) == [1, 2, 3, 4, 5]


def test_a_rebuild_is_carried_on_to_its_end(db: SessionDB) -> None:
    begin_rebuild(db)
    heard: list[dict[str, Any]] = []
    assert db.optimize_fts_storage(progress_cb=heard.append)["ok"]
    assert heard == [{"phase": "backfill", "percent": 100, "indexed": 0, "total": 0}]
    assert checked(db) == [1, 2, 3, 4, 5]
    assert not db.fts_optimize_available()
    assert db.optimize_fts_storage() == {"ok": True, "steps": 0, "vacuumed": False}


def test_tables_are_merged_and_filled_anew(db: SessionDB) -> None:
    assert db.optimize_fts() == 1
    with closing(sqlite3.connect(db.db_path)) as connection:
        connection.execute("INSERT INTO messages_fts(messages_fts) VALUES ('delete-all')")
        connection.commit()
    assert db.rebuild_fts() == 1
    assert checked(db) == [1, 2, 3, 4, 5]
    assert db.vacuum() == 1
    assert db.fts_cjk_rebuild_status() is None
    assert not db.fts_cjk_rebuild_step()


def test_a_store_of_ours_is_rebuilt_by_the_same_verb(tmp_path: Path) -> None:
    with SessionDB(tmp_path / "ours.db") as db:
        db.create_session("s", "cli")
        db.append_message("s", "user", "findable")
        assert db.rebuild_fts() == 1
        assert len(db.search_messages("findable")) == 1
        assert not db.fts_optimize_available()
    with SessionDB(tmp_path / "ours.db", read_only=True) as looking:
        assert looking.optimize_fts_storage() == {"ok": False, "reason": "read_only"}
