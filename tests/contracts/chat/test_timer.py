"""While the model pauses: what waits is written though no chunk comes, by one thread for all."""

import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.chats import Factory, new_session, text_chunks
from tests.support.children import exit_code, fork, wait_until
from threadkeep.chat.recorder import Recorder
from threadkeep.chat.records import Session
from threadkeep.chat.store import ChatStore
from threadkeep.errors import StorageFull

Json = dict[str, Any]

START: Json = {"type": "text-start", "id": "1"}
LONG = "x" * 1000


def delta(text: str) -> Json:
    return {"type": "text-delta", "id": "1", "delta": text}


def threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "threadkeep-recorders"]


def text_in(factory: Factory, store: ChatStore, message_id: str) -> str:
    """Read the text of a message as a program does that knows only the three tables."""
    sql = "SELECT json_extract(data_json, '$.text') AS text FROM chat_parts WHERE message_id = ?"
    return "".join(row["text"] or "" for row in factory.rows(store, sql, message_id))


def chunks_in(factory: Factory, store: ChatStore) -> int:
    (found,) = factory.rows(store, "SELECT count(*) AS n FROM chat_events")
    return int(found["n"])


def behind(recorder: Recorder) -> None:
    """Leave a short tail of a long text that is not worth rewriting the row for."""
    recorder._monotonic = lambda: 0.0
    recorder.feed(START)
    recorder.feed(delta(LONG))
    recorder.feed(delta("y"))


def let_time_pass(recorder: Recorder, seconds: float) -> None:
    recorder._monotonic = lambda: seconds


def test_reader_of_the_tables_catches_up_without_another_chunk(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    with store.record(session, "m") as recorder:
        behind(recorder)
        assert text_in(factory, store, "m") == LONG
        let_time_pass(recorder, 0.2)
        wait_until(lambda: text_in(factory, store, "m") == LONG + "y")
        recorder.feed(delta("z"))
        let_time_pass(recorder, 0.41)
        wait_until(lambda: text_in(factory, store, "m") == LONG + "yz")


@pytest.mark.parametrize("options", [{"save_buffer_ms": 50}, {"save_buffer_size": 10_000}])
def test_buffered_chunks_are_written_without_another_chunk(
    store: ChatStore, session: Session, options: Any, factory: Factory
) -> None:
    with store.record(session, "m", **options) as recorder:
        recorder._monotonic = lambda: 0.0
        recorder.feed(START)
        for word in ("Hel", "lo, ", "world"):
            recorder.feed(delta(word))
        assert chunks_in(factory, store) == 1
        let_time_pass(recorder, 0.2)
        wait_until(lambda: chunks_in(factory, store) == 4)
        let_time_pass(recorder, 0.4)
        wait_until(lambda: text_in(factory, store, "m") == "Hello, world")


def test_time_that_has_not_passed_writes_nothing(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    with store.record(session, "m", save_buffer_ms=5000) as recorder:
        recorder._monotonic = lambda: 0.0
        recorder.feed(START)
        recorder.feed(delta("a"))
        (thread,) = threads()
        with store.record(session, "n") as other:  # looked after later, and written earlier
            behind(other)
            let_time_pass(other, 0.2)
            wait_until(lambda: text_in(factory, store, "n") == LONG + "y")
            assert threads() == [thread]
        assert text_in(factory, store, "m") == ""


@pytest.mark.parametrize("policy", ["step", "turn"])
def test_steps_and_turns_wait_for_their_end(
    store: ChatStore, session: Session, policy: Any, factory: Factory
) -> None:
    with store.record(session, "m", save_on=policy) as recorder:
        behind(recorder)
        assert recorder._left() is None
        let_time_pass(recorder, 10.0)
        assert recorder._catch_up() is None
        assert chunks_in(factory, store) == 0


def test_one_thread_for_all_and_none_when_nothing_waits(store: ChatStore, session: Session) -> None:
    wait_until(lambda: threads() == [])
    recorders = [store.record(session, f"m{number}") for number in range(8)]
    for recorder in recorders:
        behind(recorder)
    assert len(threads()) == 1
    for recorder in recorders:
        recorder.close()
    wait_until(lambda: threads() == [])
    with store.record(session) as recorder:
        for chunk in text_chunks("short"):
            recorder.feed(chunk)
    wait_until(lambda: threads() == [])


def test_abandoned_recorder_is_not_kept_alive(store: ChatStore, session: Session) -> None:
    recorder = store.record(session, "m")
    behind(recorder)
    del recorder
    gc.collect()
    with store.record(session, "m") as again:  # refused if the first were still at it
        again.feed({"type": "finish"})
    assert store.message(session, "m")["parts"][0]["text"] == LONG + "y"


def test_failure_in_the_pause_loses_nothing_and_is_told_with_the_next_chunk(
    store: ChatStore, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = store.context.db.write
    tried = threading.Event()

    def full(**_: object) -> Any:
        tried.set()
        raise StorageFull("no room")

    with store.record(session, "m", save_buffer_ms=50) as recorder:
        recorder._monotonic = lambda: 0.0
        recorder.feed(START)
        recorder.feed(delta("a"))
        monkeypatch.setattr(store.context.db, "write", full)
        let_time_pass(recorder, 1.0)
        assert tried.wait(60)
        with pytest.raises(StorageFull):
            recorder.feed(delta("b"))
        monkeypatch.setattr(store.context.db, "write", write)
        recorder.feed(delta("c"))
    assert store.message(session, "m")["parts"][0]["text"] == "ac"


def test_closed_store_is_left_alone(factory: Factory) -> None:
    store = factory.open()
    recorder = store.record(new_session(store), "m")
    behind(recorder)
    store.close()
    let_time_pass(recorder, 1.0)
    wait_until(lambda: threads() == [])


def test_forked_child_has_no_timer_and_the_parent_keeps_its_own(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    def in_the_child() -> None:
        assert threads() == []
        with factory.reopen(store) as own, own.record(session, "child") as recorder:
            behind(recorder)
            assert len(threads()) == 1
            let_time_pass(recorder, 0.2)
            wait_until(lambda: text_in(factory, store, "child") == LONG + "y")

    with store.record(session, "parent") as recorder:
        behind(recorder)
        assert exit_code(fork(in_the_child)) == 0
        let_time_pass(recorder, 0.2)
        wait_until(lambda: text_in(factory, store, "parent") == LONG + "y")


def test_feeding_and_the_timer_take_turns(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    """Whatever the timer writes in between, the message is that of the chunks."""
    now = [0.0]

    def later() -> float:
        now[0] += 0.15  # something is always overdue
        return now[0]

    with store.record(session, "m", save_buffer_ms=100) as recorder:
        recorder._monotonic = later
        recorder.feed(START)
        ended = threading.Event()
        look: Callable[[], float | None] = recorder._catch_up

        def hurry() -> None:
            while not ended.is_set():
                look()

        thread = threading.Thread(target=hurry)
        thread.start()
        for number in range(300):
            recorder.feed(delta(f"{number} "))
            recorder.feed({"type": "data-n", "id": "d", "data": number})
        ended.set()
        thread.join()
    told = "".join(f"{number} " for number in range(300))
    parts = store.message(session, "m")["parts"]
    assert [parts[0]["text"], parts[1]["data"]] == [told, 299]
    assert text_in(factory, store, "m") == told
    assert store.verify().problems == []
