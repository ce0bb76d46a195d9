"""Verify: damage that SQLite cannot see is found, and other programs' writes are no damage."""

import sqlite3
from pathlib import Path

import pytest

from tests.support.chats import (
    contents,
    new_session,
    open_store,
    plain,
    record,
    rows,
    text_chunks,
    tool_chunks,
    turn,
)
from threadkeep.chat.records import Session
from threadkeep.chat.store import ChatStore
from threadkeep.errors import Damaged


def busy_store(store: ChatStore, session: Session) -> None:
    """Use every verb that writes."""
    asked, answer = turn(store, session, "question", "answer", usage={"input": 3})
    store.set_title(session, "title")
    store.set_metadata(session, {"k": "v"})
    store.set_permissions(session, [{"permission": "bash", "pattern": "*", "action": "ask"}])
    record(store, session, [{"type": "start"}, *tool_chunks("c1"), {"type": "abort"}])
    store.repair_orphans(session)
    store.put_message(session, {"id": "put", "role": "assistant", "parts": []})
    store.put_message(
        session, {"id": "put", "role": "assistant", "parts": [{"type": "text", "text": "again"}]}
    )
    store.cancel(session, store.enqueue(session, "never"))
    store.enqueue(session, "later")
    fired = store.fire(session)
    assert fired is not None
    store.unfire(session, fired)
    store.compact(session, "summary", tail_turns=1)
    store.rewind(session, asked)
    store.unrewind(session)
    store.fork(session, answer)
    store.archive(session)
    store.unarchive(session)
    record(store, session, text_chunks("more"), model="acme/small", system_prompt="p")


def test_every_verb_leaves_a_store_that_verifies(store: ChatStore, session: Session) -> None:
    busy_store(store, session)
    report = store.verify()
    assert report.problems == []
    assert report.ok
    assert report.unhashed == 0
    known = sum(len(found) for name, found in contents(store.path).items() if name[:5] == "chat_")
    assert report.checked >= known


def test_store_verifies_while_a_reply_grows(store: ChatStore, session: Session) -> None:
    with store.record(session) as recorder:
        for chunk in text_chunks("a growing reply"):
            recorder.feed(chunk)
            assert store.verify().problems == []


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


@pytest.mark.parametrize("damage", DAMAGES)
def test_any_change_behind_the_stores_back_is_found_and_named(
    store: ChatStore, session: Session, damage: str
) -> None:
    _, answer = turn(store, session, "question", "answer", usage={"input": 3})
    table, change = DAMAGES[damage]
    key = "message_id" if table == "chat_parts" else "id"
    target = session.id if table == "chat_sessions" else answer
    with plain(store.path) as other:
        quietly(other, table, f"UPDATE {table} SET {change} WHERE {key} = '{target}'")
    report = store.verify()
    assert not report.ok
    named = [row["id"] for row in rows(store.path, f"SELECT id FROM {table}")]
    assert any(name in problem for problem in report.problems for name in named)
    assert not store.verify().ok, "looking at the damage must not bless it"


@pytest.mark.parametrize("table", ["chat_parts", "chat_messages"])
def test_row_that_vanished_is_missed(store: ChatStore, session: Session, table: str) -> None:
    turn(store, session, "question", "answer")
    with plain(store.path) as other:
        lost = other.execute(f"SELECT id FROM {table} LIMIT 1").fetchone()[0]
        quietly(other, table, f"DELETE FROM {table} WHERE id = '{lost}'")
    report = store.verify()
    assert any(lost in problem and "missing" in problem for problem in report.problems)


def test_flipped_byte_in_the_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    with open_store(path) as store:
        session = new_session(store)
        store.say(session, "the platypus is real")
    before = path.read_bytes()
    assert before.count(b"platypus") == 1
    path.write_bytes(before.replace(b"platypus", b"platyqus"))
    with open_store(path) as store:
        assert store.ui_messages(session)[0]["parts"][0]["text"] == "the platyqus is real"
        report = store.verify()
        assert not report.ok
        with pytest.raises(Damaged):
            store.backup(tmp_path / "copy.db")
        assert not (tmp_path / "copy.db").exists()


def test_page_that_is_torn_is_found(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    with open_store(path) as store:
        session = new_session(store)
        for number in range(40):
            store.say(session, f"{number} " + "x" * 500)
    content = bytearray(path.read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    content[middle : middle + 4096] = b"\0" * 4096
    path.write_bytes(content)
    try:
        with open_store(path) as store:
            assert not store.verify().ok
    except Damaged:
        pass  # the torn page was needed to open the file


def test_rows_of_other_programs_are_counted_then_kept_an_eye_on(
    store: ChatStore, session: Session
) -> None:
    message = store.say(session, "ours")
    with plain(store.path) as other:
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
    with plain(store.path) as other:
        quietly(other, "chat_messages", "UPDATE chat_messages SET role = 'system'")
    problems = store.verify().problems
    assert any(message.id in problem for problem in problems)
    assert any("theirs" in problem for problem in problems)


@pytest.mark.parametrize(
    "insert,clause",
    [
        ("INSERT OR REPLACE", ""),
        ("REPLACE", ""),
        ("INSERT", "ON CONFLICT(id) DO UPDATE SET data_json = excluded.data_json"),
        (
            "INSERT",
            'ON CONFLICT(message_id, "index") DO UPDATE SET data_json = excluded.data_json',
        ),
    ],
)
def test_upserts_of_other_programs_are_no_damage(
    store: ChatStore, session: Session, insert: str, clause: str
) -> None:
    store.say(session, "a bilby")
    store.search("bilby")
    with plain(store.path) as other:
        other.execute("CREATE TEMP TABLE changed AS SELECT * FROM chat_parts")
        other.execute("UPDATE changed SET data_json = replace(data_json, 'bilby', 'quoll')")
        other.execute(f"{insert} INTO chat_parts SELECT * FROM changed WHERE true {clause}")
    assert store.verify().problems == []
    assert len(store.search("quoll")) == 1
    assert store.search("bilby") == []


def test_whole_rows_replaced_by_another_program_are_no_damage(
    store: ChatStore, session: Session
) -> None:
    store.say(session, "x")
    with plain(store.path) as other:
        other.execute("PRAGMA foreign_keys = OFF")
        for table in ("chat_sessions", "chat_messages"):
            other.execute(f"CREATE TEMP TABLE copy_{table} AS SELECT * FROM {table}")
            other.execute(f"UPDATE copy_{table} SET updated_at = 99")
            other.execute(f"INSERT OR REPLACE INTO {table} SELECT * FROM copy_{table}")
    assert store.verify().problems == []


def test_read_only_verification_changes_nothing(store: ChatStore, session: Session) -> None:
    store.say(session, "x")
    with plain(store.path) as other:
        other.execute("UPDATE chat_sessions SET title = 'theirs'")
    before = contents(store.path)
    with open_store(store.path, read_only=True) as reader:
        report = reader.verify()
        assert report.ok
        assert report.unhashed == 1
    assert contents(store.path) == before


def test_backup_made_during_writes_verifies_and_is_one_moment(
    store: ChatStore, session: Session, tmp_path: Path
) -> None:
    for number in range(30):
        store.say(session, f"{number} " + "x" * 2000)
    written = []

    def write_meanwhile(_done: int, _total: int) -> None:
        written.append(store.say(session, "during the backup").id)

    copy = store.backup(tmp_path / "copy.db", progress=write_meanwhile)
    assert written
    with open_store(copy, read_only=True) as backup:
        assert backup.verify().ok
        texts = [message["parts"][0]["text"] for message in backup.ui_messages(session)]
    assert len(texts) == 30
    assert len(store.ui_messages(session)) == 30 + len(written)
