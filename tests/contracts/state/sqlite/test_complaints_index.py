"""What users of Hermes complain about: a damaged index that blocks, or hides, everything else.

Issues #33865, #45383, #52798, #66296, #66724, #97940 and #105790 of NousResearch/hermes-agent: one
user lost the messages of ten hours.
"""

import logging
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from threadkeep.state.hermes_state import SessionDB

Make = Callable[..., list[int]]

DAMAGE = {
    "blocks overwritten": "UPDATE messages_fts_data SET block = x'deadbeefdeadbeefdeadbeef'",
    "blocks gone": "DELETE FROM messages_fts_data",
    "structure gone": "DELETE FROM messages_fts_data WHERE id IN (1, 10)",
    "sizes gone": "DELETE FROM messages_fts_docsize",
    "settings gone": "DELETE FROM messages_fts_config",
    "settings of the future": "UPDATE messages_fts_config SET v = 99 WHERE k = 'version'",
    "shadow table dropped": "DROP TABLE messages_fts_data",
    "all shadow tables dropped": "DROP TABLE messages_fts_data; DROP TABLE messages_fts_idx;"
    "DROP TABLE messages_fts_docsize; DROP TABLE messages_fts_config",
    "index dropped": "DROP TABLE messages_fts",
    "triggers dropped": "DROP TRIGGER messages_fts_insert; DROP TRIGGER messages_fts_delete;"
    "DROP TRIGGER messages_fts_update",
    "our blocks overwritten": "UPDATE tk_search_data SET block = x'deadbeefdeadbeefdeadbeef'",
    "our shadow table dropped": "DROP TABLE tk_search_data",
    "our index dropped": "DROP TABLE tk_search",
}
TEXTS = ("the walrus swims", "一只海象在游泳", "a walrus sleeps", "the seal watches")


@pytest.fixture(params=DAMAGE)
def damaged(request: pytest.FixtureRequest, db: SessionDB, make: Make, tmp_path: Path) -> SessionDB:
    """An open store whose index is damaged by somebody."""
    make("s", *TEXTS)
    db.reindex()  # so that ours has something to lose
    damage(tmp_path / "state.db", DAMAGE[str(request.param)])
    return db


def damage(path: Path, script: str) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA defensive = OFF")
        other.executescript(script)


def contents(db: SessionDB) -> list[Any]:
    return [message["content"] for message in db.get_messages("s")]


def found(db: SessionDB, query: str) -> set[int]:
    return {hit["id"] for hit in db.search_messages(query)}


def test_index_damage_never_blocks_a_message(damaged: SessionDB) -> None:
    first = damaged.append_message("s", "user", "a message after the damage")
    ids = damaged.append_messages("s", [{"role": "user", "content": "and two"}] * 2)
    assert [first, *ids] == [5, 6, 7]
    session = damaged.get_session("s")
    assert session is not None
    assert session["message_count"] == 7
    assert contents(damaged) == [*TEXTS, "a message after the damage", "and two", "and two"]


def test_index_damage_does_not_stop_deletion(damaged: SessionDB) -> None:
    assert damaged.rewind_to_message("s", 4, any_role=True)["rewound_count"] == 1
    assert damaged.undo_rewind("s") == 1
    damaged.clear_messages("s")
    assert contents(damaged) == []
    assert damaged.delete_session("s") is True
    assert damaged.session_count() == 0


def test_index_damage_search_still_answers(damaged: SessionDB) -> None:
    damaged.append_message("s", "user", "a walrus after the damage")
    assert found(damaged, "walrus") == {1, 3, 5}
    assert found(damaged, "海象") == {2}
    assert damaged.search_messages("nowhere") == []


def test_index_damage_is_seen_by_check_and_repaired_by_reindex(
    damaged: SessionDB, tmp_path: Path
) -> None:
    damaged.append_message("s", "user", "a walrus after the damage")
    assert damaged.check() != []
    damaged.reindex()
    assert damaged.check() == []
    assert found(damaged, "walrus") == {1, 3, 5}
    assert found(damaged, "海象") == {2}
    with closing(sqlite3.connect(tmp_path / "state.db")) as other:
        asked = "SELECT rowid FROM messages_fts WHERE messages_fts MATCH 'walrus' ORDER BY rowid"
        assert other.execute(asked).fetchall() == [(1,), (3,), (5,)]
        other.execute("INSERT INTO messages_fts(messages_fts, rank) VALUES ('integrity-check', 1)")


def test_index_damage_is_not_mistaken_for_damage_of_messages(damaged: SessionDB) -> None:
    problems = damaged.check()
    assert problems
    assert [p for p in problems if not re.search("index|search|fts", p)] == []


def test_index_repair_keeps_every_message_after_it(damaged: SessionDB) -> None:
    damaged.reindex()
    damaged.append_message("s", "user", "one more walrus")
    assert found(damaged, "walrus") == {1, 3, 5}
    assert len(contents(damaged)) == 5
    assert damaged.check() == []


@pytest.mark.parametrize("kind", DAMAGE)
def test_index_damage_does_not_stop_opening(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "state.db"
    with SessionDB(path) as db:
        db.create_session("s", "cli")
        for text in TEXTS:
            db.append_message("s", "user", text)
        db.reindex()  # so that ours has something to lose
    damage(path, DAMAGE[kind])
    for number in range(2):
        with SessionDB(path) as db:
            db.append_message("s", "user", f"walrus after it {number}")
            assert {1, 3, 5} <= found(db, "walrus")
            assert len(contents(db)) == 5 + number
    with SessionDB(path, read_only=True) as db:
        assert found(db, "walrus") == {1, 3, 5, 6}
    with SessionDB(path) as db:
        db.reindex()
        assert db.check() == []


def test_index_damage_gives_one_clear_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "state.db"
    with SessionDB(path) as db:
        db.create_session("s", "cli")
        db.append_message("s", "user", "the walrus")
    damage(path, DAMAGE["shadow table dropped"])
    caplog.clear()
    with caplog.at_level(logging.WARNING), SessionDB(path) as db:
        for number in range(5):
            db.append_message("s", "user", f"walrus {number}")
            db.search_messages("walrus")
    warnings = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    about_index = [text for text in warnings if "reindex" in text]
    assert len(about_index) == 1
    assert "state.db" in about_index[0]


def test_index_gone_stale_is_seen_though_sqlite_sees_nothing(db: SessionDB, make: Make) -> None:
    make("s", "the walrus", "swims")
    connection = db._conn
    assert connection is not None
    connection.execute(
        "INSERT INTO messages_fts(messages_fts, rowid, content) VALUES ('delete', 1, 'the walrus')"
    )
    assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    assert db.check() != []
    db.reindex()
    assert db.check() == []
    assert [hit["id"] for hit in db.search_messages("walrus")] == [1]


def test_index_reindex_of_a_sound_store_changes_no_answer(db: SessionDB, make: Make) -> None:
    make("s", *TEXTS)
    queries = ("walrus", "海象", "seal OR 游泳", "nowhere")
    before = [db.search_messages(query) for query in queries]
    export = db.export_all()
    db.reindex()
    assert [db.search_messages(query) for query in queries] == before
    assert db.export_all() == export


def test_index_cannot_hide_real_damage(db: SessionDB, make: Make) -> None:
    """A changed letter in a message: no index and no integrity_check sees it."""
    make("s", "pay 100 to Ann")
    connection = db._conn
    assert connection is not None
    [trigger_sql] = connection.execute(
        "SELECT sql FROM sqlite_master WHERE name = 'tk_message_changed'"
    ).fetchone()
    connection.execute("DROP TRIGGER tk_message_changed")
    connection.execute("UPDATE messages SET content = 'pay 900 to Ann'")
    connection.execute(trigger_sql)
    assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    assert any("message 1" in problem for problem in db.check())
