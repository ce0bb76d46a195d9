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
