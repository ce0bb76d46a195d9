"""What messengers keep, on the connection of the caller and in tables made on demand."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.support.newer_states import opened_form
from tests.support.states import Clock, Factory
from threadkeep.state.session_db import SessionDB

KEY = "agent:main:telegram:dm:7"


@pytest.fixture
def db(factory: Factory, clock: Clock, form: str | int) -> Iterator[SessionDB]:
    with opened_form(factory, form, clock) as opened:
        yield opened


def talked(db: SessionDB, session_id: str, source: str = "telegram", **peer: Any) -> None:
    db.create_session(session_id, source)
    if peer:
        db.record_gateway_session_peer(session_id, source=source, **peer)
    db.append_message(session_id, "user", f"in {session_id}")


def test_values_are_kept_by_key_also_inside_a_transaction_of_the_caller(db: SessionDB) -> None:
    assert db.get_meta("loop:a") is None
    db.set_meta("loop:a", "1")
    db.set_meta("loop:a", "2")
    db.set_meta("loop_b", "3")
    cursor = db._conn.cursor()  # type: ignore[union-attr]
    db.set_meta("loop:c", "4", cursor=cursor)
    db._conn.commit()  # type: ignore[union-attr]
    assert (db.get_meta("loop:a"), db.get_meta("loop:c")) == ("2", "4")
    assert sorted(db.list_meta_prefix("loop:")) == [("loop:a", "2"), ("loop:c", "4")]
    assert db.list_meta_prefix("") == []


# ---------------------------------------------------------------------- Telegram


def topic(db: SessionDB, session_id: str, thread_id: str = "t1") -> None:
    db.bind_telegram_topic(
        chat_id="7", thread_id=thread_id, user_id="ada", session_key=KEY, session_id=session_id
    )


def test_asking_for_topics_makes_no_table(db: SessionDB) -> None:
    assert not db.is_telegram_topic_mode_enabled(chat_id="7", user_id="ada")
    assert db.get_telegram_topic_binding(chat_id="7", thread_id="t1") is None
    assert db.list_telegram_topic_bindings_for_chat(chat_id="7") == []
    db.disable_telegram_topic_mode(chat_id="7")
    assert db.delete_telegram_topic_binding(chat_id="7", thread_id="t1") == 0
    with closing(sqlite3.connect(db.db_path)) as connection:
        names = {str(row[0]) for row in connection.execute("SELECT name FROM sqlite_master")}
    assert not any("telegram" in name for name in names)


def test_a_binding_goes_with_its_session_also_where_it_was_made_by_the_first_version(
    db: SessionDB,
) -> None:
    talked(db, "a", session_key=KEY, user_id="ada")
    db.enable_telegram_topic_mode(chat_id="7", user_id="ada")
    topic(db, "a")
    with closing(sqlite3.connect(db.db_path)) as connection:  # as the first version had it
        (sql,) = connection.execute(
            "SELECT sql FROM sqlite_master WHERE name = 'telegram_dm_topic_bindings'"
        ).fetchone()
        connection.executescript(
            "ALTER TABLE telegram_dm_topic_bindings RENAME TO held;"
            "DROP INDEX idx_telegram_dm_topic_bindings_session;"
            + str(sql).replace(" ON DELETE CASCADE", "")
            + ";INSERT INTO telegram_dm_topic_bindings SELECT * FROM held; DROP TABLE held;"
            "UPDATE state_meta SET value = '1' WHERE key = 'telegram_dm_topic_schema_version';"
        )
    db.apply_telegram_topic_migration()
    assert db.is_telegram_session_linked_to_topic(session_id="a")
    assert db.get_meta("telegram_dm_topic_schema_version") == "2"
    assert db.delete_session("a")
    assert db.list_telegram_topic_bindings_for_chat(chat_id="7") == []
