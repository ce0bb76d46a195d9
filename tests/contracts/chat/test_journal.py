"""The journal as a live feed: whoever tails a session sees every chunk, then waits."""

import json
import subprocess
import sys
import threading
from typing import Any

import pytest

from tests.contracts.chat.test_recorder import TEXT, journal_rows
from tests.support.chats import Factory, text_chunks
from tests.support.chunks import reduce_chunks
from threadkeep.chat import tail
from threadkeep.chat.records import Event, Session
from threadkeep.chat.store import ChatStore
from threadkeep.errors import Damaged, NotFound

Json = dict[str, Any]


@pytest.fixture
def session(store: ChatStore) -> Session:
    return store.create_session(agent="tester", model="acme/large")


def chunks_of(events: list[Event]) -> list[Json]:
    return [event.data for event in events if event.kind == "chunk"]


def test_tail_gives_every_chunk_once_and_from_any_number(
    store: ChatStore, session: Session
) -> None:
    with store.record(session) as recorder:
        for chunk in TEXT[:6]:
            recorder.feed(chunk)
        events = list(store.tail(session, follow=False))
        assert chunks_of(events) == TEXT[:6]
        assert [event.seq for event in events] == [1, 2, 3, 4, 5, 6]
        assert chunks_of(list(store.tail(session, after=4, follow=False))) == TEXT[4:6]


def test_tail_in_a_thread_sees_all_and_ends_when_idle(store: ChatStore, session: Session) -> None:
    seen: list[Event] = []
    first = threading.Event()

    def follow() -> None:
        for event in store.tail(session, until_idle=True):
            seen.append(event)
            first.set()

    with store.record(session) as recorder:
        recorder.feed(TEXT[0])
        thread = threading.Thread(target=follow)
        thread.start()
        assert first.wait(10)
        for chunk in TEXT[1:]:
            recorder.feed(chunk)
    thread.join(10)
    assert not thread.is_alive()
    assert chunks_of(seen) == TEXT


def test_tail_misses_nothing_of_a_recorder_that_ends_while_it_looks(
    store: ChatStore, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = store.record(session)
    recorder.feed(TEXT[0])
    following = store.tail(session, until_idle=True)
    seen = [next(following)]

    def ends(*_: object) -> bool:
        for chunk in TEXT[1:]:
            recorder.feed(chunk)
        recorder.close()
        return False

    monkeypatch.setattr(tail, "is_running", ends)
    assert chunks_of([*seen, *following]) == TEXT


FOLLOWER = """
import json, sys
from threadkeep.chat.store import ChatStore
with ChatStore.open(sys.argv[1]) as store:
    for event in store.tail(sys.argv[2], until_idle=True):
        print(json.dumps([event.seq, event.kind, event.data]), flush=True)
"""


def test_tail_in_another_process_sees_every_chunk_of_a_recording(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    with store.record(session) as recorder:
        recorder.feed(TEXT[0])
        follower = subprocess.Popen(
            [sys.executable, "-c", FOLLOWER, factory.place(store), session.id],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert follower.stdout is not None
        seen = [json.loads(follower.stdout.readline())]  # it follows now: nothing may be dropped
        for chunk in TEXT[1:]:
            recorder.feed(chunk)
    rest, _ = follower.communicate(timeout=30)
    seen += [json.loads(line) for line in rest.splitlines()]
    assert [data for _, kind, data in seen if kind == "chunk"] == TEXT


def test_finished_message_comes_as_a_snapshot(store: ChatStore, session: Session) -> None:
    with store.record(session) as recorder:
        for chunk in TEXT:
            recorder.feed(chunk)
    (event,) = store.tail(session, follow=False)
    assert event.kind == "snapshot"
    assert event.data == reduce_chunks(TEXT)
    with store.record(session, "next") as recorder:
        recorder.feed(TEXT[1])
        (following,) = store.tail(session, after=event.seq, follow=False)
        assert following.seq == event.seq + 1


def test_rows_a_follower_may_not_have_read_are_kept_until_it_leaves(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    with store.record(session) as recorder:
        for chunk in TEXT[:3]:
            recorder.feed(chunk)
        tail = store.tail(session, until_idle=True)
        next(tail)
        for chunk in TEXT[3:]:
            recorder.feed(chunk)
    assert journal_rows(factory, store) == len(TEXT)
    assert chunks_of(list(tail)) == TEXT[1:]
    with store.record(session, "next") as recorder:
        recorder.feed(TEXT[1])
    assert journal_rows(factory, store) == 0


def test_continued_message_replays_from_its_base(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    with store.record(session) as recorder:
        for chunk in TEXT:
            recorder.feed(chunk)
    base = store.message(session, "reply")
    with store.record(session, "reply") as recorder:
        for chunk in TEXT[1:4]:
            recorder.feed(chunk)
        first, *rest = store.tail(session, follow=False)
        assert (first.kind, first.data) == ("snapshot", base)
        assert chunks_of(rest) == TEXT[1:4]
        assert reduce_chunks(chunks_of(rest), first.data) == store.message(session, "reply")
    assert journal_rows(factory, store) == 0


def test_late_result_is_seen_by_whoever_comes_later(store: ChatStore, session: Session) -> None:
    call = {"type": "tool-input-available", "toolCallId": "c", "toolName": "t", "input": {}}
    with store.record(session, "one") as recorder:
        recorder.feed(call)
    (done,) = store.tail(session, follow=False)
    with store.record(session, "two") as recorder:
        recorder.feed(TEXT[1])
        recorder.feed({"type": "tool-output-available", "toolCallId": "c", "output": 7})
    seen = list(store.tail(session, after=done.seq, follow=False))
    assert {event.message_id for event in seen} == {"one", "two"}
    (answered,) = [event for event in seen if event.message_id == "one"]
    assert answered.data["parts"][0]["output"] == 7


def test_snapshots_come_in_pages(store: ChatStore, session: Session) -> None:
    for number in range(1203):
        with store.record(session, f"m{number}", save_on="turn") as recorder:
            recorder.feed(TEXT[1])
    seen = list(store.tail(session, follow=False))
    assert [event.message_id for event in seen] == [f"m{number}" for number in range(1203)]


def test_numbers_rise_across_messages(store: ChatStore, session: Session) -> None:
    last = 0
    for number in range(3):
        with store.record(session, f"m{number}") as recorder:
            recorder.feed(TEXT[1])
            events = list(store.tail(session, after=last, follow=False))
            assert [event.seq for event in events] == [last + 1]
            last = events[-1].seq


def test_two_recorders_of_a_session_never_share_a_number(
    store: ChatStore, session: Session
) -> None:
    """Each thinks that it knows the next number; the other's rows may even be gone again."""
    deltas = [{"type": "text-delta", "id": "t", "delta": f"{number} "} for number in range(9)]
    with store.record(session, "long") as long:
        for chunk in [*text_chunks("")[:3], *deltas[:3]]:
            long.feed(chunk)
        with store.record(session, "short") as short:
            for chunk in text_chunks("")[:3]:
                short.feed(chunk)
            for chunk in deltas[3:6]:
                long.feed(chunk)
                short.feed(chunk)
        for chunk in deltas[6:]:
            long.feed(chunk)
        kept = list(store.tail(session, follow=False))
        numbers = [event.seq for event in kept if event.kind == "chunk"]
        assert numbers == sorted(set(numbers))
        assert numbers[-1] == 3 + 3 + 3 + 3 + 3 + 3  # those of the finished one are not given again
    texts = {one["id"]: one["parts"][-1]["text"] for one in store.ui_messages(session)}
    assert texts == {"long": "0 1 2 3 4 5 6 7 8 ", "short": "3 4 5 "}
    assert store.verify().ok


def test_tail_ends_after_a_silence(store: ChatStore, session: Session) -> None:
    assert list(store.tail(session, timeout=0.01)) == []


def test_tail_of_an_unknown_session_is_refused(store: ChatStore) -> None:
    with pytest.raises(NotFound):
        next(store.tail("ses_nowhere"))


def test_damaged_chunk_is_noticed(store: ChatStore, session: Session, factory: Factory) -> None:
    with store.record(session) as recorder:
        for chunk in TEXT[:4]:
            recorder.feed(chunk)
        with factory.raw(store) as other:
            other.execute("UPDATE chat_events SET data_json = replace(data_json, 'Hello', 'Jello')")
        with pytest.raises(Damaged, match="event 4"):
            list(store.tail(session, follow=False))
        assert not store.verify().ok


# ---------------------------------------------------------------------- left behind

KILLED = """
import json, os, signal, sys
from threadkeep.chat.store import ChatStore
store = ChatStore.open(sys.argv[1])
recorder = store.record(sys.argv[2])
for chunk in json.loads(sys.argv[3]):
    recorder.feed(chunk)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("count", range(1, len(TEXT) + 1))
def test_killed_recorder_leaves_the_state_of_its_last_chunk(
    store: ChatStore, session: Session, count: int, factory: Factory
) -> None:
    store.close()
    chunks = json.dumps(TEXT[:count])
    subprocess.run(
        [sys.executable, "-c", KILLED, factory.place(store), session.id, chunks], check=False
    )
    with factory.reopen(store) as reopened:
        assert reopened.message(session, "reply")["parts"] == reduce_chunks(TEXT[:count])["parts"]
        assert reopened.runs(session)[0].end_reason == "crash"
        assert journal_rows(factory, reopened) == 0
        assert reopened.verify().ok
        assert factory.rows(reopened, "SELECT * FROM tk_recordings") == []


def test_read_only_store_sees_the_exact_state_without_repairing(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    store.close()
    chunks = json.dumps(TEXT[:5])
    subprocess.run(
        [sys.executable, "-c", KILLED, factory.place(store), session.id, chunks], check=False
    )
    with factory.reopen(store, read_only=True) as reader:
        assert reader.message(session, "reply")["parts"] == reduce_chunks(TEXT[:5])["parts"]
        assert journal_rows(factory, reader) == 5
