"""Verify: damage that SQLite cannot see is found, and other programs' writes are no damage."""

from tests.support.chats import (
    Factory,
    record,
    text_chunks,
    tool_chunks,
    turn,
)
from threadkeep.chat.records import Session
from threadkeep.chat.store import ChatStore


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


def test_every_verb_leaves_a_store_that_verifies(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    busy_store(store, session)
    report = store.verify()
    assert report.problems == []
    assert report.ok
    assert report.unhashed == 0
    known = sum(
        len(found) for name, found in factory.contents(store).items() if name[:5] == "chat_"
    )
    assert report.checked >= known


def test_store_verifies_while_a_reply_grows(store: ChatStore, session: Session) -> None:
    with store.record(session) as recorder:
        for chunk in text_chunks("a growing reply"):
            recorder.feed(chunk)
            assert store.verify().problems == []


def test_read_only_verification_changes_nothing(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    store.say(session, "x")
    with factory.raw(store) as other:
        other.execute("UPDATE chat_sessions SET title = 'theirs'")
    before = factory.contents(store)
    with factory.reopen(store, read_only=True) as reader:
        report = reader.verify()
        assert report.ok
        assert report.unhashed == 1
    assert factory.contents(store) == before
