"""The queue of pending turns: first in, first out, and exactly one fate for each message."""

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.support.chats import Factory, new_session, reply, texts
from threadkeep.chat import messages as turns
from threadkeep.chat.records import Message, Session, message_of
from threadkeep.chat.store import ChatStore
from threadkeep.errors import Conflict, NotFound
from threadkeep.testing import NOON, ManualClock


def ids(messages: list[Message]) -> list[str]:
    return [message.id for message in messages]


def need(message: Message | None) -> Message:
    assert message is not None
    return message


# ---------------------------------------------------------------------- waiting


def test_queued_message_is_a_user_row_outside_the_conversation(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    store.say(session, "now")
    waiting = store.enqueue(session, "later")
    (row,) = factory.rows(store, "SELECT * FROM chat_messages WHERE id = ?", waiting.id)
    metadata = json.loads(row["metadata_json"])
    assert row["role"] == "user"
    assert NOON < metadata["queued_at"] == metadata["queue_enqueued_at"]
    assert row["hidden_at"] is None
    assert texts(store, session) == texts(store, session, "model") == ["now"]
    assert texts(store, session, "all") == ["now", "later"]


def test_queue_survives_closing_the_store(factory: Factory) -> None:
    with factory.open() as store:
        session = new_session(store)
        waiting = store.enqueue(session, "later")
    with factory.reopen(store) as store:
        assert ids(store.queued(session)) == [waiting.id]


def test_first_in_first_out_for_people_and_triggers_whatever_the_clock_does(
    store: ChatStore, session: Session, clock: ManualClock
) -> None:
    clock.step = 0
    made = []
    for place, jump in enumerate((0, 0, -10_000, 0, 5)):
        clock.now += jump
        trigger = {"source": "schedule", "fired_at": clock.now} if place % 2 else None
        made.append(store.enqueue(session, str(place), trigger=trigger).id)
    assert ids(store.queued(session)) == made
    fired = [need(store.fire(session)).id for _ in made]
    assert fired == made
    assert texts(store, session) == ["0", "1", "2", "3", "4"]


def test_ties_of_another_program_go_by_id(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    with factory.raw(store) as other:
        for name, at in (("b", 7), ("a", 7), ("c", 3)):
            other.execute(
                "INSERT INTO chat_messages(id, session_id, role, metadata_json, created_at,"
                " updated_at) VALUES (?, ?, 'user', ?, 1, 1)",
                (name, session.id, json.dumps({"queued_at": at})),
            )
    assert ids(store.queued(session)) == ["c", "a", "b"]


def test_trigger_and_metadata_are_kept(store: ChatStore, session: Session) -> None:
    trigger = {"source": "webhook", "fired_at": 1, "delivery_id": "d"}
    waiting = store.enqueue(session, "go", metadata={"client": "web"}, trigger=trigger)
    fired = need(store.fire(session, waiting))
    assert fired.metadata["trigger"] == trigger
    assert fired.metadata["client"] == "web"
    assert fired.metadata["schema_version"] == 1


def test_queue_is_read_without_the_rest_of_the_session(
    store: ChatStore, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(5):
        store.say(session, str(n), metadata={"note": "n"})
        reply(store, session, f"about queued_at {n}")
    waiting = [store.enqueue(session, text).id for text in ("one", "two")]
    read: list[str] = []

    def reading(row: tuple[Any, ...]) -> Message:
        message = message_of(row)
        read.append(message.id)
        return message

    monkeypatch.setattr(turns, "message_of", reading)
    assert ids(store.queued(session)) == waiting == sorted(read)


def test_place_in_the_queue_may_be_spelled_with_escapes(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    said = store.say(session, "theirs")
    with factory.raw(store) as other:
        other.execute("UPDATE chat_messages SET metadata_json = ?", ('{"queued\\u005fat": 5}',))
    assert store.ui_messages(session) == []
    assert ids(store.queued(session)) == [said.id]
    assert need(store.fire(session)).id == said.id


def test_only_a_number_makes_a_message_wait(store: ChatStore, session: Session) -> None:
    for value in ("5", None, True, [5]):
        store.say(session, "said", metadata={"queued_at": value})
    assert store.queued(session) == []
    assert len(store.ui_messages(session)) == 4


# ---------------------------------------------------------------------- firing


def test_fired_message_becomes_the_newest_of_the_conversation(
    store: ChatStore, session: Session
) -> None:
    waiting = store.enqueue(session, "queued first")
    store.say(session, "said meanwhile")
    reply(store, session, "answered meanwhile")
    fired = need(store.fire(session))
    assert fired.id == waiting.id
    assert "queued_at" not in fired.metadata
    assert fired.metadata["queue_enqueued_at"] == waiting.metadata["queued_at"]
    assert texts(store, session) == ["said meanwhile", "answered meanwhile", "queued first"]
    assert store.queued(session) == []
    assert store.verify().ok


def test_named_message_is_fired_before_its_turn(store: ChatStore, session: Session) -> None:
    first, second = (store.enqueue(session, text) for text in ("one", "two"))
    assert need(store.fire(session, second)).id == second.id
    assert ids(store.queued(session)) == [first.id]


def test_fire_gives_none_when_there_is_nothing(store: ChatStore, session: Session) -> None:
    said = store.say(session, "never queued")
    waiting = store.enqueue(session, "later")
    assert store.fire(session, said) is None
    store.fire(session, waiting)
    assert store.fire(session, waiting) is None
    assert store.fire(session) is None


def test_fired_message_can_be_put_back_to_its_place(store: ChatStore, session: Session) -> None:
    first, second = (store.enqueue(session, text) for text in ("one", "two"))
    store.fire(session)
    assert store.unfire(session, first)
    assert ids(store.queued(session)) == [first.id, second.id]
    assert texts(store, session) == []
    assert not store.unfire(session, first)
    assert not store.unfire(session, store.say(session, "never queued"))


def test_message_queued_by_another_program_can_be_put_back_too(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    waiting = store.enqueue(session, "later")
    with factory.raw(store) as other:
        other.execute("UPDATE chat_messages SET metadata_json = '{\"queued_at\": 5}'")
    fired = need(store.fire(session))
    assert fired.metadata["queue_enqueued_at"] == 5
    assert store.unfire(session, waiting)
    assert store.queued(session)[0].metadata["queued_at"] == 5


# ---------------------------------------------------------------------- cancelling


def test_cancelled_message_is_a_hidden_tombstone(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    waiting = store.enqueue(session, "never")
    assert store.cancel(session, waiting)
    assert store.queued(session) == []
    assert texts(store, session) == []
    (row,) = factory.rows(store, "SELECT * FROM chat_messages")
    metadata = json.loads(row["metadata_json"])
    assert metadata["queue_canceled_at"] == metadata["hidden_at"] == row["hidden_at"] > NOON
    assert metadata["queue_enqueued_at"] == waiting.metadata["queued_at"]
    assert "queued_at" not in metadata
    assert store.verify().ok


def test_cancelled_message_never_comes_back(store: ChatStore, session: Session) -> None:
    asked = store.say(session, "q")
    waiting = store.enqueue(session, "never")
    store.cancel(session, waiting)
    assert not store.cancel(session, waiting)
    assert store.fire(session, waiting) is None
    assert not store.unfire(session, waiting)
    store.rewind(session, asked)
    assert store.unrewind(session) == []
    assert texts(store, session) == ["q"]


def test_message_that_was_fired_cannot_be_cancelled(store: ChatStore, session: Session) -> None:
    waiting = store.enqueue(session, "go")
    store.fire(session)
    assert not store.cancel(session, waiting)
    assert texts(store, session) == ["go"]


# ---------------------------------------------------------------------- the same again


@pytest.mark.parametrize("fate", ["waits", "fired", "cancelled"])
def test_repeated_enqueue_gives_the_first_message_back(
    store: ChatStore, session: Session, fate: str, factory: Factory
) -> None:
    parts: list[dict[str, Any]] = [
        {"type": "text", "text": "once"},
        {"type": "data-x", "data": {"pair": (1, 2)}},
    ]
    first = store.enqueue(session, parts, message_id="client-1")
    if fate == "fired":
        store.fire(session)
    elif fate == "cancelled":
        store.cancel(session, "client-1")
    before = factory.contents(store)
    again = store.enqueue(session, parts, message_id="client-1")
    assert again.id == first.id
    assert again.queued == (fate == "waits")
    assert factory.contents(store) == before


def test_same_id_with_other_content_is_a_conflict(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    store.enqueue(session, "once", message_id="client-1")
    said = store.say(session, "said")
    elsewhere = new_session(store)
    before = factory.contents(store)
    with pytest.raises(Conflict, match="client-1"):
        store.enqueue(session, "twice", message_id="client-1")
    with pytest.raises(Conflict, match=session.id):
        store.enqueue(elsewhere, "once", message_id="client-1")
    with pytest.raises(Conflict, match=said.id):
        store.enqueue(session, "said", message_id=said.id)
    assert factory.contents(store) == before


def test_queue_of_an_unknown_session_is_refused(store: ChatStore, session: Session) -> None:
    waiting = store.enqueue(session, "later")
    other = new_session(store)
    with pytest.raises(NotFound, match="nope"):
        store.fire("nope")
    with pytest.raises(Conflict, match=session.id):
        store.fire(other, waiting)
    with pytest.raises(Conflict, match=session.id):
        store.cancel(other, waiting)
    assert ids(store.queued(session)) == [waiting.id]


# ---------------------------------------------------------------------- races


RACER = """
import sys
from threadkeep.chat.store import ChatStore

path, session, verb = sys.argv[1:]
with ChatStore.open(path) as store:
    act = store.cancel if verb == "cancel" else store.fire
    print("ready", flush=True)
    waiting = sys.stdin.read().split()
    print(sum(bool(act(session, message)) for message in waiting))
"""


def start_racer(
    factory: Factory, store: ChatStore, session: Session, verb: str
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", RACER, factory.place(store), session.id, verb],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_of_cancel_and_fire_in_two_processes_exactly_one_wins(
    factory: Factory, store: ChatStore, session: Session
) -> None:
    waiting = [store.enqueue(session, str(n)).id for n in range(150)]
    with (
        start_racer(factory, store, session, "cancel") as canceller,
        start_racer(factory, store, session, "fire") as firer,
    ):
        for racer in (canceller, firer):
            assert racer.stdout is not None
            assert racer.stdout.readline() == "ready\n"
        # Both are up: each gets the same list, and they run through it side by side.
        for racer in (canceller, firer):
            assert racer.stdin is not None
            racer.stdin.write("\n".join(waiting))
            racer.stdin.close()
        cancelled, fired = (
            int(racer.stdout.read()) for racer in (canceller, firer) if racer.stdout
        )
    assert (canceller.returncode, firer.returncode) == (0, 0)
    assert cancelled + fired == len(waiting)
    assert len(store.ui_messages(session)) == fired
    assert store.queued(session) == []
    hidden = factory.rows(store, "SELECT id FROM chat_messages WHERE hidden_at IS NOT NULL")
    assert len(hidden) == cancelled
    assert store.verify().ok


APPENDER = """
import sys
from threadkeep.chat.store import ChatStore

path, own, shared = sys.argv[1:]
with ChatStore.open(path) as store:
    for n in range(40):
        store.say(own, f"{own} {n}")
        store.enqueue(shared, f"{own} {n}")
"""


def test_two_processes_write_one_file_and_nothing_is_lost_or_out_of_order(
    factory: Factory, store: ChatStore, session: Session
) -> None:
    own = [new_session(store, session_id=name).id for name in ("left", "right")]
    writers = [
        subprocess.Popen([sys.executable, "-c", APPENDER, factory.place(store), name, session.id])
        for name in own
    ]
    assert [writer.wait() for writer in writers] == [0, 0]
    for name in own:
        assert texts(store, name) == [f"{name} {n}" for n in range(40)]
    queued = [store.message(session, message) for message in store.queued(session)]
    assert len(queued) == 80
    times = [message["metadata"]["queued_at"] for message in queued]
    assert times == sorted(set(times))
    assert store.verify().ok
