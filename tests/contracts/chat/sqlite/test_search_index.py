"""The full text index when it is damaged, missing, or behind."""

import logging

import pytest

from tests.support.chats import found_in, reply
from threadkeep.chat.records import Session
from threadkeep.chat.store import ChatStore
from threadkeep.testing import raw

BREAKS = {
    "dropped": "DROP TABLE tk_search",
    "emptied": "DELETE FROM tk_search_data",
    "garbled": "UPDATE tk_search_data SET block = x'00ff00ff'",
}


@pytest.mark.parametrize("damage", BREAKS.values(), ids=BREAKS)
def test_damaged_index_loses_no_message_and_is_built_anew(
    store: ChatStore, session: Session, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    asked = store.say(session, "the bandicoot digs")
    store.say(session, "unrelated")
    store.search("bandicoot")
    with raw(store) as other:
        other.execute(damage)
    with caplog.at_level(logging.WARNING):
        later = store.say(session, "another bandicoot")
        reply(store, session, "a reply in spite of it")
        assert found_in(store.search("bandicoot")) == {asked.id, later.id}
    store.reindex()
    assert store.verify().ok
    assert found_in(store.search("bandicoot")) == {asked.id, later.id}


def test_part_that_cannot_be_read_is_skipped_and_named(
    store: ChatStore, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = store.say(session, "a zeppelin"), store.say(session, "another zeppelin")
    with raw(store) as other:
        other.execute("UPDATE chat_parts SET type = x'ff' WHERE message_id = ?", (bad.id,))
        ((bad_part,),) = other.execute("SELECT id FROM chat_parts WHERE message_id = ?", (bad.id,))
    with caplog.at_level(logging.WARNING):
        assert found_in(store.search("zeppelin")) == {good.id}
    assert [bad_part in record.getMessage() for record in caplog.records] == [True]
    caplog.clear()
    assert found_in(store.search("zeppelin")) == {good.id}
    assert caplog.records == []
    store.reindex()
    store.vacuum()
    with raw(store) as other:
        assert list(other.execute("SELECT * FROM tk_search_dirty")) == []


def test_reading_without_the_index_leaves_out_what_is_excluded(
    store: ChatStore, session: Session
) -> None:
    fox = store.say(session, "fox alone").id
    store.say(session, "fox with hippopotamus")
    with raw(store) as other:
        other.execute("DROP TABLE tk_search")
    assert fox in found_in(store.search("fox NOT hippopotamus"))
