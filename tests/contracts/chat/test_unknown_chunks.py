"""Chunks of types that nobody knows yet: kept with their message, shown, and passed on."""

import csv
import io
import json
from typing import Any

import pytest

from tests.support.chats import Factory, new_session, record, text_chunks
from tests.support.chunks import reduce_chunks
from threadkeep.chat.records import Session
from threadkeep.chat.store import ChatStore
from threadkeep.errors import Invalid
from threadkeep.testing import ManualClock

Json = dict[str, Any]

FUTURE: Json = {"type": "hologram", "id": "h1", "beams": [1, 2.5, None], "text": "naïve 😀"}
STEERING: Json = {
    "type": "steering-message",
    "id": "u1",
    "parts": [{"type": "text", "text": "Rather in marmalade"}],
}


@pytest.fixture
def other(factory: Factory) -> ChatStore:
    return factory.open(clock=ManualClock(1))


def told(message_id: str | None = None, unknown: Json = FUTURE) -> list[Json]:
    """Make a reply with an unknown chunk in the middle, and one at its end."""
    chunks = text_chunks("hello", message_id)
    return [*chunks[:4], unknown, *chunks[4:], {**unknown, "id": "last"}]


def kept(store: ChatStore, session: Session | str) -> list[Json]:
    """Return the unknown chunks that a tail of the session shows."""
    events = store.tail(session, follow=False)
    return [event.data for event in events if event.data.get("type") == FUTURE["type"]]


BOTH = [FUTURE, {**FUTURE, "id": "last"}]


def test_they_outlive_their_message_and_are_no_part_of_it(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    record(store, session, told("reply"))
    assert store.message(session, "reply") == reduce_chunks(told("reply"))
    assert kept(store, session) == BOTH
    events = list(store.tail(session, follow=False))
    assert sorted(event.kind for event in events) == ["chunk", "chunk", "snapshot"]
    assert store.timeline(session).turns[0].chunks == BOTH
    assert store.verify().ok
    with factory.reopen(store) as again:  # opening clears what finished messages left
        assert kept(again, session) == BOTH


@pytest.mark.parametrize("form", ["jsonl", "json"])
def test_export_and_import_give_them_back(
    store: ChatStore, session: Session, other: ChatStore, form: str
) -> None:
    record(store, session, told())
    record(store, session, text_chunks("nothing unknown here"))
    text = "".join(store.export(session, form))
    assert other.import_sessions(text).imported == [session.id]
    assert kept(other, session.id) == BOTH
    assert "".join(other.export(session.id, form)) == text
    assert other.import_sessions(text).unchanged == [session.id]
    if form == "jsonl":
        without = "\n".join(line for line in text.split("\n") if '"type":"chunk"' not in line)
        (conflict,) = other.import_sessions(without).conflicts
        assert "chunk" in conflict.reason
        assert other.import_sessions(without, replace=True).replaced == [session.id]
        assert kept(other, session.id) == []


def test_update_brings_in_those_of_new_messages(
    store: ChatStore, session: Session, other: ChatStore
) -> None:
    record(store, session, text_chunks("first"))
    assert other.import_sessions("".join(store.export(session))).ok
    record(store, session, told())
    later = "".join(store.export(session))
    assert other.import_sessions(later, update=True).updated == [session.id]
    assert kept(other, session.id) == BOTH
    assert other.import_sessions(later, update=True).unchanged == [session.id]


def test_each_follows_its_message_in_the_export(store: ChatStore, session: Session) -> None:
    record(store, session, told("reply"))
    lines = [json.loads(line) for line in store.export(session)]
    assert [line["type"] for line in lines] == [
        *("session", "message", "part", "part", "chunk", "chunk"),
    ]
    data = lines[-2]["data"]
    assert json.loads(data["data_json"]) == FUTURE
    assert (data["message_id"], data["session_id"]) == ("reply", session.id)


def test_readable_formats_show_what_they_are(store: ChatStore, session: Session) -> None:
    record(store, session, [*told(), STEERING])
    shown = "".join(store.export(session, "markdown"))
    assert "hologram" in shown
    assert "> Rather in marmalade" in shown
    table = list(csv.DictReader(io.StringIO("".join(store.export(session, "csv")))))
    assert [row["type"] for row in table] == [
        *("step-start", "text", "steering-message", "hologram", "hologram"),
    ]


@pytest.mark.parametrize(
    "line, reason",
    [
        ({"message_id": "elsewhere"}, "message"),
        ({"data_json": "[]"}, "data_json"),
        ({"created_at": -1}, "created_at"),
    ],
)
def test_one_that_does_not_fit_is_refused_with_its_session(
    store: ChatStore, session: Session, other: ChatStore, line: Json, reason: str
) -> None:
    record(store, session, told())
    lines = [json.loads(text) for text in store.export(session)]
    lines[-1]["data"].update(line)
    with pytest.raises(Invalid, match=reason):
        other.import_sessions("\n".join(map(json.dumps, lines)))
    assert other.sessions().items == []


def test_fork_takes_them_along(store: ChatStore, session: Session, factory: Factory) -> None:
    record(store, session, told())
    branch = store.fork(session)
    assert kept(store, branch) == BOTH
    assert kept(store, session) == BOTH
    store.delete(branch)
    assert kept(store, session) == BOTH
    left = factory.rows(store, "SELECT DISTINCT stream_id FROM chat_events")
    assert left == [{"stream_id": session.id}]


def test_rebuild_shrinking_and_the_end_of_the_log_leave_them(factory: Factory) -> None:
    with factory.open(event_log=True) as store:
        session = new_session(store)
        record(store, session, told())
        before = list(store.export(session))
        store.rebuild()
        assert list(store.export(session)) == before
        assert store.compact_log(before=10**15) == 1
        assert kept(store, session) == BOTH
        store.rebuild()
        assert list(store.export(session)) == before
    with factory.reopen(store, event_log=False) as store:
        assert list(store.export(session)) == before
        assert kept(store, session) == BOTH


def test_one_that_a_dead_recorder_left_is_kept(factory: Factory) -> None:
    with factory.open() as store:
        session = new_session(store)
        recorder = store.record(session)
        for chunk in told()[:5]:
            recorder.feed(chunk)
        del recorder  # never closed
        store.say(session, "and then?")
    with factory.reopen(store) as store:
        assert kept(store, session) == [FUTURE]
        assert store.ui_messages(session)[0]["parts"] == reduce_chunks(told()[:5])["parts"]


def test_redaction_sees_them(other: ChatStore, factory: Factory) -> None:
    def hide(text: str) -> str:
        return text.replace("naïve", "***")

    with factory.open(redact=hide) as store:
        session = new_session(store)
        record(store, session, told())
        assert kept(store, session)[0]["text"] == "*** 😀"
    with factory.open() as store:
        session = new_session(store)
        record(store, session, told())
        text = "".join(store.export(session))
    with factory.open(redact=hide) as store:
        store.import_sessions(text)
        assert kept(store, session.id)[0]["text"] == "*** 😀"


def test_chunk_of_version_7_in_a_stream_of_version_6_is_kept_as_unknown(
    store: ChatStore, session: Session
) -> None:
    reply = record(store, session, told(unknown=STEERING), protocol=6)
    assert [part["type"] for part in store.message(session, reply)["parts"]] == [
        *("step-start", "text"),
    ]
    assert store.timeline(session).turns[0].chunks[0] == STEERING
    assert "marmalade" in "".join(store.export(session))


def test_steering_is_a_part_of_version_7_and_is_found_by_its_words(
    store: ChatStore, session: Session
) -> None:
    reply = record(store, session, told("reply", STEERING))
    kinds = [part["type"] for part in store.message(session, reply)["parts"]]
    assert kinds == ["step-start", "text", "steering-message", "steering-message"]
    assert [hit.type for hit in store.search("marmalade")] == ["steering-message"] * 2


@pytest.mark.parametrize("version", [5, 8, 0, "7", None, True, 7.0])
def test_there_is_no_other_version(store: ChatStore, session: Session, version: Any) -> None:
    with pytest.raises(Invalid, match="version"):
        store.record(session, protocol=version)
