"""Parts: rows that hold the AI SDK's parts verbatim, with their place, type and state hoisted."""

from typing import Any

import pytest

from threadkeep.testing.chat_suite.conversation import (
    Factory,
    Json,
    data_of,
    new_session,
    record,
    table,
    text_chunks,
    turn,
)

PART_COLUMNS = {
    *("id", "message_id", "session_id", "index", "type", "data_json", "tool_call_id"),
    *("tool_state", "created_at", "updated_at"),
}
PARTS: list[Json] = [
    {"type": "text", "text": "a"},
    {"type": "reasoning", "text": "b", "providerMetadata": {"p": {"signature": "x"}}},
    {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AAAA"},
    {"type": "source-url", "sourceId": "s1", "url": "https://example.org/"},
    {"type": "source-document", "sourceId": "s2", "mediaType": "text/plain", "title": "T"},
    {"type": "data-editor-context", "data": {"open": ["a.py"]}, "id": "e1"},
    {"type": "tool-search", "toolCallId": "c1", "state": "input-available", "input": {"q": 1}},
    {
        "type": "dynamic-tool",
        "toolName": "mcp",
        "toolCallId": "c2",
        "state": "output-available",
        "input": {},
        "output": [1, None],
    },
]


def test_a_part_is_a_row_with_the_columns_of_the_guide(chat_factory: Factory) -> None:
    """chat_parts: the columns are there by their names; `session_id` is that of the message."""
    store = chat_factory.open()
    session = new_session(store)
    asked, answer = turn(store, session, "q", "a")
    rows = table(chat_factory, store, "chat_parts")
    assert set(rows[0]) >= PART_COLUMNS
    assert {row["message_id"] for row in rows} == {asked, answer}
    assert {row["session_id"] for row in rows} == {session.id}
    assert all(row["created_at"] <= row["updated_at"] for row in rows)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: str(part["type"]))
def test_a_part_is_stored_verbatim(chat_factory: Factory, part: Json) -> None:
    """chat_parts: `data_json` is the full UIMessagePart, to be hydrated as it is."""
    store = chat_factory.open()
    session = new_session(store)
    store.put_message(session, {"id": "m", "role": "assistant", "parts": [part]})
    (row,) = table(chat_factory, store, "chat_parts")
    assert row["type"] == part["type"]
    assert data_of(row) == part
    assert store.ui_messages(session)[0]["parts"] == [part]


def test_the_index_is_the_place_in_the_message(chat_factory: Factory) -> None:
    """chat_parts: `index` is the position within the message."""
    store = chat_factory.open()
    store.put_message(new_session(store), {"id": "m", "role": "assistant", "parts": PARTS})
    rows = table(chat_factory, store, "chat_parts")
    assert [row["index"] for row in rows] == list(range(len(PARTS)))
    assert [row["type"] for row in rows] == [part["type"] for part in PARTS]


def test_call_and_state_of_a_tool_are_hoisted(chat_factory: Factory) -> None:
    """chat_parts: `tool_call_id` and `tool_state` are those of the part, NULL without a tool."""
    store = chat_factory.open()
    store.put_message(new_session(store), {"id": "m", "role": "assistant", "parts": PARTS})
    rows = table(chat_factory, store, "chat_parts")
    hoisted = {row["type"]: (row["tool_call_id"], row["tool_state"]) for row in rows}
    assert hoisted.pop("tool-search") == ("c1", "input-available")
    assert hoisted.pop("dynamic-tool") == ("c2", "output-available")
    assert set(hoisted.values()) == {(None, None)}


@pytest.mark.parametrize(
    "part",
    [
        {"type": "media-clip", "frames": [1, 2.5, True, None]},
        {"type": "tool-input-progress", "toolCallId": "c", "state": "state-of-tomorrow"},
        {"type": "text", "text": "x", "field_of_tomorrow": {"deep": "ü"}},
    ],
    ids=lambda part: str(part["type"]),
)
def test_new_types_of_parts_need_no_migration(chat_factory: Factory, part: Any) -> None:
    """JSON column discipline: part types and fields of the future are kept as they are."""
    store = chat_factory.open()
    session = new_session(store)
    store.put_message(session, {"id": "m", "role": "assistant", "parts": [part]})
    (row,) = table(chat_factory, store, "chat_parts")
    assert (row["type"], data_of(row)) == (part["type"], part)
    assert store.ui_messages(session)[0]["parts"] == [part]


def test_parts_are_only_appended(chat_factory: Factory) -> None:
    """chat_parts: `index` is append-monotonic: a message that continues keeps its rows."""
    store = chat_factory.open()
    session = new_session(store)
    answer = record(store, session, text_chunks("first"))
    before = table(chat_factory, store, "chat_parts")
    record(store, session, text_chunks("second")[1:], message_id=answer)
    after = table(chat_factory, store, "chat_parts")
    places = {row["id"]: row["index"] for row in after}
    assert {row["id"]: places[row["id"]] for row in before} == {
        row["id"]: row["index"] for row in before
    }
    assert sorted(places.values()) == list(range(len(after)))


def test_a_compaction_is_a_part_of_its_own(chat_factory: Factory) -> None:
    """chat_parts: `data-compaction` is reserved for what stands for the messages before it."""
    store = chat_factory.open()
    session = new_session(store)
    turn(store, session, "q", "a")
    store.compact(session, "they talked")
    (row,) = [one for one in table(chat_factory, store, "chat_parts") if one["type"][:5] == "data-"]
    assert row["type"] == data_of(row)["type"] == "data-compaction"
    assert data_of(row)["data"]["summary"] == "they talked"
