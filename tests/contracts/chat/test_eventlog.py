"""The event log: complete enough to rebuild the three tables, small once messages are done."""

import random
from typing import Any

import pytest

from tests.contracts.chat.test_recorder import TEXT
from tests.support.chats import Factory
from tests.support.streams import random_case
from threadkeep.chat.store import ChatStore
from threadkeep.errors import Conflict

Json = dict[str, Any]
Tables = dict[str, list[tuple[Any, ...]]]


@pytest.fixture
def store(factory: Factory) -> ChatStore:
    return factory.open(event_log=True)


def tables(factory: Factory, store: ChatStore) -> Tables:
    with factory.raw(store) as other:
        return {
            table: [tuple(row) for row in other.execute(f"SELECT * FROM {table} ORDER BY id")]
            for table in ("chat_sessions", "chat_messages", "chat_parts")
        }


def kinds(store: ChatStore, session_id: str) -> list[str]:
    return [event.kind for event in store.tail(session_id, follow=False)]


def record(
    store: ChatStore, session: Any, chunks: list[Json], message_id: str | None, protocol: int = 7
) -> str:
    with store.record(session, message_id, protocol=protocol) as recorder:
        for chunk in chunks:
            recorder.feed(chunk)
    return str(recorder.message_id)


def use_every_verb(store: ChatStore, seed: int) -> None:
    rnd = random.Random(seed)
    session = store.create_session(agent="a", model="m", title="first")
    for turn in range(4):
        asked = store.say(session, f"question {turn}", model=f"m/{turn}")
        case = random_case(rnd.randrange(10**6), 6 + turn % 2)
        chunks = [chunk for chunk in case["chunks"] if chunk.get("type") != "start"]
        reply = record(store, session, chunks, f"r{seed}-{turn}", case["version"])
        if chunks:
            store.record_usage(session, {"input": turn + 1, "output": 2}, message=reply)
        if turn == 2:
            store.rewind(session, asked)
            store.unrewind(session)
    store.compact(session, "so far", tail_turns=1, summary_tokens=3)
    store.set_title(session, "second")
    store.set_permissions(
        session, [{"permission": "*", "pattern": "*", "action": "ask", "source": "session"}]
    )
    waiting = [store.enqueue(session, f"later {n}") for n in range(3)]
    store.fire(session)
    store.cancel(session, waiting[1])
    branch = store.fork(session)
    store.archive(branch)
    gone = store.create_session(agent="b", model="m")
    store.say(gone, "secret")
    store.delete(gone)
    store.put_message(
        session, {"id": f"p{seed}", "role": "system", "parts": [{"type": "text", "text": "x"}]}
    )
    record(
        store,
        session,
        [{"type": "tool-input-available", "toolCallId": "c", "toolName": "t", "input": 1}],
        f"open{seed}",
    )
    record(
        store, session, [{"type": "tool-output-available", "toolCallId": "c", "output": 2}], None
    )
    store.repair_orphans()


@pytest.mark.parametrize("seed", range(12))
def test_rebuild_recreates_the_three_tables(store: ChatStore, seed: int, factory: Factory) -> None:
    use_every_verb(store, seed)
    before = tables(factory, store)
    assert store.rebuild() > 20
    assert tables(factory, store) == before
    assert store.verify().problems == []


@pytest.mark.parametrize("seed", range(6))
def test_rebuild_after_the_log_was_shrunk(store: ChatStore, seed: int, factory: Factory) -> None:
    use_every_verb(store, seed)
    before = tables(factory, store)
    size = store.size().rows["chat_events"]
    assert store.compact_log(before=10**15) > 0
    assert store.size().rows["chat_events"] < size
    store.rebuild()
    assert tables(factory, store) == before


def test_log_turned_on_later_begins_with_what_is_there(factory: Factory) -> None:
    with factory.open() as store:
        session = store.create_session(agent="a", model="m")
        record(store, session, TEXT, None)
    with factory.reopen(store, event_log=True) as store:
        record(store, session, [{**TEXT[0], "messageId": "two"}, *TEXT[1:]], None)
        before = tables(factory, store)
        store.rebuild()
        assert tables(factory, store) == before


def test_setting_is_kept_in_the_file_and_can_be_turned_off(
    store: ChatStore, factory: Factory
) -> None:
    session = store.create_session(agent="a", model="m")
    with factory.reopen(store) as other:
        record(other, session, TEXT, None)
    assert kinds(store, session.id).count("chunk") == len(TEXT)
    with factory.reopen(store, event_log=False) as other:
        assert kinds(other, session.id) == ["snapshot"]
        with pytest.raises(Conflict, match="no event log"):
            other.rebuild()


def test_chunks_are_logged_once_each(store: ChatStore, factory: Factory) -> None:
    session = store.create_session(agent="a", model="m")
    deltas = [{"type": "text-delta", "id": "1", "delta": "x" * 50} for _ in range(400)]
    record(store, session, [*TEXT[:3], *deltas, *TEXT[5:]], None)
    with factory.raw(store) as other:
        (size,) = other.execute("SELECT sum(length(data_json)) FROM chat_events").fetchone()
    assert size < 400 * 120  # not the whole part again for every chunk


def test_deleted_session_leaves_only_the_fact(store: ChatStore, factory: Factory) -> None:
    session = store.create_session(agent="a", model="m")
    store.say(session, "forget this")
    store.delete(session)
    with factory.raw(store) as other:
        rows = other.execute("SELECT kind, data_json FROM chat_events").fetchall()
    assert [kind for kind, _ in rows] == ["delete"]
    assert "forget this" not in rows[0][1]


def test_rebuild_keeps_runs_usage_and_columns_of_others(store: ChatStore, factory: Factory) -> None:
    session = store.create_session(agent="a", model="m")
    with factory.raw(store) as other:
        other.execute('ALTER TABLE chat_messages ADD COLUMN "co""lor" TEXT')
    record(store, session, TEXT, None)
    store.record_usage(session, {"input": 3, "output": 4}, cost_usd=0.5)
    with factory.raw(store) as other:
        other.execute('UPDATE chat_messages SET "co""lor" = ?', (b"\xff\x00",))
    store.record_usage(session, {"input": 1})
    before, runs, spent = tables(factory, store), store.runs(session), store.spend(session)
    store.rebuild()
    assert tables(factory, store) == before
    assert store.runs(session) == runs
    assert store.spend(session) == spent


def test_rebuild_after_a_reset_step_and_a_message_put_in_twice(
    store: ChatStore, factory: Factory
) -> None:
    session = store.create_session(agent="a", model="m")
    record(store, session, [*TEXT[:5], {"type": "reset-step"}, *TEXT[2:]], None)
    for text in ("one", "two"):
        parts = [{"type": "text", "text": text}, {"type": "text", "text": "same"}]
        store.put_message(session, {"id": "whole", "role": "assistant", "parts": parts})
    record(store, session, TEXT[1:6], "reply")
    before = tables(factory, store)
    store.rebuild()
    assert tables(factory, store) == before


def test_rebuild_settles_what_an_abandoned_recorder_left(store: ChatStore) -> None:
    session = store.create_session(agent="a", model="m")
    left = store.record(session)
    for chunk in TEXT[:5]:
        left.feed(chunk)
    del left
    store.rebuild()
    assert store.message(session, "reply")["parts"][1]["text"] == "Hello, world"
    assert store.verify().problems == []


def test_whoever_follows_gets_a_shrunk_message_whole(store: ChatStore) -> None:
    session = store.create_session(agent="a", model="m")
    record(store, session, TEXT, None)
    store.compact_log(before=10**15)
    events = [event for event in store.tail(session, follow=False) if event.kind == "snapshot"]
    assert [event.data for event in events] == [store.message(session, "reply")]


def test_rebuild_is_refused_while_somebody_records(store: ChatStore) -> None:
    session = store.create_session(agent="a", model="m")
    with store.record(session) as recorder:
        recorder.feed(TEXT[0])
        with pytest.raises(Conflict, match="being recorded"):
            store.rebuild()
    assert store.rebuild() > 0
