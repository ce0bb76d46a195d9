"""Every way in which other programs replace rows in SQLite is no damage."""

import pytest

from threadkeep.chat.records import Session
from threadkeep.chat.store import ChatStore
from threadkeep.testing import raw


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
    with raw(store) as other:
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
    with raw(store) as other:
        other.execute("PRAGMA foreign_keys = OFF")
        for table in ("chat_sessions", "chat_messages"):
            other.execute(f"CREATE TEMP TABLE copy_{table} AS SELECT * FROM {table}")
            other.execute(f"UPDATE copy_{table} SET updated_at = 99")
            other.execute(f"INSERT OR REPLACE INTO {table} SELECT * FROM copy_{table}")
    assert store.verify().problems == []


def test_messages_that_another_program_gave_one_time_come_by_their_ids(
    store: ChatStore, session: Session
) -> None:
    """As SQLite compares them: half a character is kept as bytes, and bytes are behind texts."""
    names = ["\ud800", "zz", "é", "a", "Z", "b"]
    for name in names:
        store.say(session, "hello", message_id=name)
    with raw(store) as other:
        other.execute("UPDATE chat_messages SET created_at = 7")
        other.execute("UPDATE chat_messages SET created_at = 6 WHERE id = 'b'")
        order = other.execute("SELECT id FROM chat_messages ORDER BY created_at, id").fetchall()
    loaded = store.ui_messages(session)
    assert [message["id"] for message in loaded] == ["b", "Z", "a", "zz", "é", "\ud800"]
    assert [row[0] for row in order[:5]] == ["b", "Z", "a", "zz", "é"]


def test_parts_come_by_their_place_whatever_the_order_they_were_written_in(
    store: ChatStore, session: Session
) -> None:
    message = store.say(session, [{"type": "text", "text": text} for text in "abc"])
    with raw(store) as other:
        other.execute('UPDATE chat_parts SET "index" = 9 - "index"')
    assert [part["text"] for part in store.message(session, message)["parts"]] == ["c", "b", "a"]
    assert [part["text"] for part in store.ui_messages(session)[0]["parts"]] == ["c", "b", "a"]
