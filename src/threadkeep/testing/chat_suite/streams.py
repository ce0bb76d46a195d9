"""Streams: every chunk is saved as it comes, into rows that change in place."""

from typing import Any

import pytest

from threadkeep.chat.records import Session
from threadkeep.chat.store import ChatStore
from threadkeep.testing.chat_suite.conversation import (
    Factory,
    Json,
    data_of,
    new_session,
    record,
    table,
    text_chunks,
)

CALL: Json = {"toolCallId": "c1", "toolName": "search"}
TOOL: list[tuple[Json, str]] = [
    ({"type": "tool-input-start", **CALL}, "input-streaming"),
    (
        {"type": "tool-input-delta", "toolCallId": "c1", "inputTextDelta": '{"q":'},
        "input-streaming",
    ),
    ({"type": "tool-input-available", **CALL, "input": {"q": 1}}, "input-available"),
    ({"type": "tool-output-available", "toolCallId": "c1", "output": [2]}, "output-available"),
]


def _parts(store: ChatStore, session: Session) -> list[Json]:
    """Return the parts of the last message, without the beginnings of steps."""
    parts: list[Json] = store.ui_messages(session)[-1]["parts"]
    return [part for part in parts if part["type"] != "step-start"]


def test_a_reply_has_no_row_before_its_first_chunk(chat_factory: Factory) -> None:
    """Save policy: the row of an assistant message is created on the first chunk, by its id."""
    store = chat_factory.open()
    session = new_session(store)
    with store.record(session) as recorder:
        assert table(chat_factory, store, "chat_messages") == []
        for chunk in text_chunks("hello", "reply-1")[:3]:
            recorder.feed(chunk)
        (row,) = table(chat_factory, store, "chat_messages")
        assert (row["id"], row["role"]) == ("reply-1", "assistant")


@pytest.mark.parametrize("kind", ["text", "reasoning"])
def test_text_grows_in_place(chat_factory: Factory, kind: str) -> None:
    """Mutable-mid-stream parts: start, deltas and end are one part whose text grows."""
    store = chat_factory.open()
    session = new_session(store)
    with store.record(session) as recorder:
        recorder.feed({"type": f"{kind}-start", "id": "1"})
        assert _parts(store, session)[0]["text"] == ""
        for number, delta in enumerate(("one ", "two ", "three"), 1):
            recorder.feed({"type": f"{kind}-delta", "id": "1", "delta": delta})
            (part,) = _parts(store, session)
            assert (part["type"], len(part["text"].split())) == (kind, number)
        recorder.feed({"type": f"{kind}-end", "id": "1"})
    (row,) = table(chat_factory, store, "chat_parts")
    assert (row["type"], data_of(row)["text"]) == (kind, "one two three")


def test_a_call_goes_through_its_states_on_one_row(chat_factory: Factory) -> None:
    """Mutable-mid-stream parts: a tool call advances on a single row, keyed by its id."""
    store = chat_factory.open()
    session = new_session(store)
    seen = set()
    with store.record(session) as recorder:
        for chunk, state in TOOL:
            recorder.feed(chunk)
            (row,) = table(chat_factory, store, "chat_parts")
            assert (row["type"], row["tool_call_id"]) == ("tool-search", "c1")
            assert row["tool_state"] == _parts(store, session)[0]["state"] == state
            seen.add(row["id"])
    assert len(seen) == 1
    assert (data_of(row)["input"], data_of(row)["output"]) == ({"q": 1}, [2])


def test_a_call_that_fails_says_why(chat_factory: Factory) -> None:
    """Mutable-mid-stream parts: tool-output-error is a state of the same row, with its text."""
    store = chat_factory.open()
    session = new_session(store)
    failed = {"type": "tool-output-error", "toolCallId": "c1", "errorText": "no such file"}
    record(store, session, [*(chunk for chunk, _ in TOOL[:3]), failed])
    (row,) = table(chat_factory, store, "chat_parts")
    assert row["tool_state"] == data_of(row)["state"] == "output-error"
    assert data_of(row)["errorText"] == "no such file"
    assert data_of(row)["input"] == {"q": 1}


def test_a_late_result_finds_its_call(chat_factory: Factory) -> None:
    """chat_parts: `tool_call_id` is hoisted so that a late tool output finds the row."""
    store = chat_factory.open()
    session = new_session(store)
    answer = record(store, session, [chunk for chunk, _ in TOOL[:3]])
    (before,) = table(chat_factory, store, "chat_parts")
    record(store, session, [TOOL[3][0]], message_id=answer)
    (after,) = table(chat_factory, store, "chat_parts")
    assert (after["id"], after["tool_state"]) == (before["id"], "output-available")
    assert data_of(after)["output"] == [2]


@pytest.mark.parametrize(
    "chunk",
    [
        {"type": "file", "mediaType": "image/png", "url": "data:,x"},
        {"type": "source-url", "sourceId": "s", "url": "https://example.org/", "title": "E"},
        {"type": "source-document", "sourceId": "s", "mediaType": "text/plain", "title": "T"},
        {"type": "data-weather", "id": "w", "data": {"degrees": 20}},
    ],
    ids=lambda chunk: str(chunk["type"]),
)
def test_files_sources_and_data_are_parts(chat_factory: Factory, chunk: Any) -> None:
    """Mutable-mid-stream parts: file, source and data chunks are parts with the type echoed."""
    store = chat_factory.open()
    session = new_session(store)
    record(store, session, [chunk])
    (row,) = table(chat_factory, store, "chat_parts")
    assert row["type"] == chunk["type"]
    assert data_of(row) == _parts(store, session)[0] == chunk


def test_a_second_client_reads_along(chat_factory: Factory) -> None:
    """Save policy: another reader sees every chunk in real time."""
    store = chat_factory.open()
    session = new_session(store)
    other = chat_factory.reopen(store)
    with store.record(session) as recorder:
        for chunk in text_chunks("hello"):
            recorder.feed(chunk)
            assert other.ui_messages(session) == store.ui_messages(session)
    assert other.ui_messages(session)[0]["parts"][-1]["text"] == "hello"


def _break_off(store: ChatStore, session: Session, chunks: list[Json]) -> None:
    with store.record(session) as recorder:
        for chunk in chunks:
            recorder.feed(chunk)
        raise KeyboardInterrupt


def test_a_run_that_breaks_off_leaves_what_was_seen(chat_factory: Factory) -> None:
    """Save policy: a crashed run leaves a truthful partial state."""
    store = chat_factory.open()
    session = new_session(store)
    with pytest.raises(KeyboardInterrupt):
        _break_off(store, session, text_chunks("half a sen")[:4])
    again = chat_factory.reopen(store)
    assert _parts(again, session)[0]["text"] == "half a sen"
    assert data_of(table(chat_factory, store, "chat_parts")[-1])["text"] == "half a sen"


@pytest.mark.parametrize("save_on, last", [("step", "finish-step"), ("turn", "finish")])
def test_a_host_may_save_later(chat_factory: Factory, save_on: Any, last: str) -> None:
    """Save policy: "step" saves at each finish-step, "turn" at the end only."""
    store = chat_factory.open()
    session = new_session(store)
    with store.record(session, save_on=save_on) as recorder:
        for chunk in text_chunks("hello"):
            recorder.feed(chunk)
            if chunk["type"] == last:
                break
            assert store.ui_messages(session) == []
        assert _parts(store, session)[0]["text"] == "hello"


def test_every_step_moves_the_session(chat_factory: Factory) -> None:
    """Save policy: `updated_at` of the session moves on with a reply."""
    store = chat_factory.open()
    session = new_session(store)
    before = store.session(session).updated_at
    record(store, session, text_chunks("hello"))
    assert store.session(session).updated_at > before


def test_a_reply_reads_back_as_it_was_streamed(chat_factory: Factory) -> None:
    """chat_parts: what is stored hydrates into the message that the stream made."""
    store = chat_factory.open()
    session = new_session(store)
    chunks = [*text_chunks("look", "m")[:5], *(chunk for chunk, _ in TOOL)]
    record(store, session, chunks)
    (message,) = store.ui_messages(session)
    assert (message["id"], message["role"]) == ("m", "assistant")
    rows = table(chat_factory, store, "chat_parts")
    assert [data_of(row) for row in rows] == message["parts"]
    assert [part["type"] for part in _parts(store, session)] == ["text", "tool-search"]
