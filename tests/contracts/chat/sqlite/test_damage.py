"""Rows that change as on a broken disk, unseen by the triggers, are found."""

import sqlite3

import pytest

from tests.support.chats import (
    turn,
)
from threadkeep.chat.records import Session
from threadkeep.chat.store import ChatStore
from threadkeep.testing import raw, rows

DAMAGES = {
    "a letter of a part": ("chat_parts", "data_json = replace(data_json, 'answer', 'Answer')"),
    "the state of a call": ("chat_parts", "tool_state = 'output-available'"),
    "the order of messages": ("chat_messages", "created_at = created_at + 1"),
    "a role": ("chat_messages", "role = 'system'"),
    "metadata": ("chat_messages", "metadata_json = '{}'"),
    "what is hidden": ("chat_messages", "hidden_at = 5"),
    "a sum of tokens": ("chat_sessions", "total_tokens = total_tokens + 1"),
    "a cost": ("chat_sessions", "cost_usd = 0.5"),
    "a title": ("chat_sessions", "title = 'other'"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_any_change_behind_the_stores_back_is_found_and_named(
    store: ChatStore, session: Session, damage: str
) -> None:
    _, answer = turn(store, session, "question", "answer", usage={"input": 3})
    table, change = DAMAGES[damage]
    key = "message_id" if table == "chat_parts" else "id"
    target = session.id if table == "chat_sessions" else answer
    with raw(store) as other:
        quietly(other, table, f"UPDATE {table} SET {change} WHERE {key} = '{target}'")
    report = store.verify()
    assert not report.ok
    named = [row["id"] for row in rows(store, f"SELECT id FROM {table}")]
    assert any(name in problem for problem in report.problems for name in named)
    assert not store.verify().ok, "looking at the damage must not bless it"


@pytest.mark.parametrize("table", ["chat_parts", "chat_messages"])
def test_row_that_vanished_is_missed(store: ChatStore, session: Session, table: str) -> None:
    turn(store, session, "question", "answer")
    with raw(store) as other:
        lost = other.execute(f"SELECT id FROM {table} LIMIT 1").fetchone()[0]
        quietly(other, table, f"DELETE FROM {table} WHERE id = '{lost}'")
    report = store.verify()
    assert any(lost in problem and "missing" in problem for problem in report.problems)


def quietly(connection: sqlite3.Connection, table: str, change: str) -> None:
    """Change rows as a broken disk does: without the triggers noticing."""
    triggers = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?", (table,)
    ).fetchall()
    for name, _ in triggers:
        connection.execute(f'DROP TRIGGER "{name}"')
    connection.execute(change)
    for _, sql in triggers:
        connection.execute(sql)


def test_rows_of_other_programs_are_counted_then_kept_an_eye_on(
    store: ChatStore, session: Session
) -> None:
    message = store.say(session, "ours")
    with raw(store) as other:
        other.execute("UPDATE chat_sessions SET title = 'theirs'")
        other.execute("UPDATE chat_messages SET updated_at = 5")
        other.execute(
            "INSERT INTO chat_messages(id, session_id, role, created_at, updated_at)"
            " VALUES ('theirs', ?, 'user', 1, 1)",
            (session.id,),
        )
    looked = store.verify(adopt=False)
    assert looked.ok
    assert looked.unhashed == 3
    assert store.verify(adopt=False).unhashed == 3
    assert store.verify().unhashed == 3
    assert store.verify().unhashed == 0
    with raw(store) as other:
        quietly(other, "chat_messages", "UPDATE chat_messages SET role = 'system'")
    problems = store.verify().problems
    assert any(message.id in problem for problem in problems)
    assert any("theirs" in problem for problem in problems)
