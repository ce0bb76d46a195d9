"""Messages as version 6 has them, and the values that it lost."""

import json
import logging
from sqlite3 import IntegrityError
from typing import Any

import pytest

from tests.support.states import Clock, Factory
from threadkeep.state.hermes_state import SessionDB

COLUMNS = [
    "id",
    "session_id",
    "role",
    "content",
    "tool_call_id",
    "tool_calls",
    "tool_name",
    "timestamp",
    "token_count",
    "finish_reason",
    "reasoning",
    "reasoning_details",
    "codex_reasoning_items",
]
CALL = {"id": "call_1", "function": {"name": "terminal", "arguments": '{"command": "ls"}'}}


@pytest.fixture
def s(db: SessionDB) -> SessionDB:
    db.create_session("s", "cli")
    return db


def counts(db: SessionDB) -> tuple[int, int]:
    session = db.get_session("s")
    assert session is not None
    return session["message_count"], session["tool_call_count"]


def stored(factory: Factory, db: SessionDB, column: str) -> list[Any]:
    return [row[column] for row in factory.rows(db, f"SELECT {column} FROM messages ORDER BY id")]


# ---------------------------------------------------------------------- appending


def test_message_is_stored_with_everything(s: SessionDB, clock: Clock) -> None:
    before = clock.now
    first = s.append_message("s", "user", "hello")
    second = s.append_message(
        session_id="s",
        role="assistant",
        content="hi",
        tool_name="t",
        tool_calls=[CALL],
        tool_call_id="call_0",
        token_count=12,
        finish_reason="stop",
        reasoning="thinking",
        reasoning_details=[{"type": "text", "text": "deep"}],
        codex_reasoning_items=[{"id": "r1"}],
    )
    assert (first, second) == (1, 2)
    message = s.get_messages("s")[1]
    assert list(message)[: len(COLUMNS)] == COLUMNS
    assert before < message.pop("timestamp") <= clock.now
    assert message.pop("reasoning_details") == json.dumps([{"type": "text", "text": "deep"}])
    assert message.pop("codex_reasoning_items") == json.dumps([{"id": "r1"}])
    assert {name: message[name] for name in COLUMNS if name in message} == {
        "id": 2,
        "session_id": "s",
        "role": "assistant",
        "content": "hi",
        "tool_call_id": "call_0",
        "tool_calls": [CALL],
        "tool_name": "t",
        "token_count": 12,
        "finish_reason": "stop",
        "reasoning": "thinking",
    }


def test_message_may_be_given_by_place(s: SessionDB) -> None:
    s.append_message("s", "tool", "out", "terminal", None, "call_1", 3, "stop", "why", None, None)
    [message] = s.get_messages("s")
    assert (message["tool_name"], message["tool_call_id"]) == ("terminal", "call_1")
    assert (message["token_count"], message["finish_reason"]) == (3, "stop")
    assert message["reasoning"] == "why"


@pytest.mark.parametrize(
    "calls, count, column",
    [
        (None, 0, None),
        ([], 0, None),
        ([CALL], 1, json.dumps([CALL])),
        ([CALL, CALL], 2, json.dumps([CALL, CALL])),
        (CALL, 1, json.dumps(CALL)),
        ({}, 1, None),
        ("[1]", 1, '"[1]"'),
    ],
)
def test_tool_calls_are_counted(
    s: SessionDB, calls: Any, count: int, column: str | None, factory: Factory
) -> None:
    s.append_message("s", "assistant", tool_calls=calls)
    assert counts(s) == (1, count)
    assert stored(factory, s, "tool_calls") == [column]


@pytest.mark.parametrize("field", ["reasoning_details", "codex_reasoning_items"])
@pytest.mark.parametrize("nothing", [[], {}, "", 0])
def test_empty_structures_are_null(
    s: SessionDB, field: str, nothing: Any, factory: Factory
) -> None:
    given: dict[str, Any] = {field: nothing}
    s.append_message("s", "assistant", "x", **given)
    assert stored(factory, s, field) == [None]


def test_unknown_session_is_an_integrity_error(s: SessionDB) -> None:
    with pytest.raises(IntegrityError):
        s.append_message("nobody", "user", "x")
    assert s.message_count() == 0


def test_message_without_role_is_an_integrity_error(s: SessionDB) -> None:
    with pytest.raises(IntegrityError):
        s.append_message("s", None, "x")  # type: ignore[arg-type]
    assert (s.message_count(), counts(s)) == (0, (0, 0))


# ---------------------------------------------------------------------- reading


def test_order_is_that_of_writing_whatever_the_clock_does(s: SessionDB, clock: Clock) -> None:
    for text, step in (("one", 0), ("two", -2), ("three", 1), ("four", -5)):
        clock.pass_days(step)
        s.append_message("s", "user", text)
    wanted = ["one", "two", "three", "four"]
    assert [message["content"] for message in s.get_messages("s")] == wanted
    assert [turn["content"] for turn in s.get_messages_as_conversation("s")] == wanted
    times = [message["timestamp"] for message in s.get_messages("s")]
    assert times != sorted(times)


def test_conversation_has_what_a_model_needs_and_no_more(s: SessionDB) -> None:
    s.append_message("s", "user", "list files", token_count=3, reasoning="not mine")
    s.append_message(
        "s",
        "assistant",
        tool_calls=[CALL],
        finish_reason="tool_calls",
        reasoning="look first",
        reasoning_details=[{"a": 1}],
        codex_reasoning_items=[{"b": 2}],
    )
    s.append_message("s", "tool", "a.txt", tool_name="terminal", tool_call_id="call_1")
    assert s.get_messages_as_conversation("s") == [
        {"role": "user", "content": "list files"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [CALL],
            "reasoning": "look first",
            "reasoning_details": [{"a": 1}],
            "codex_reasoning_items": [{"b": 2}],
        },
        {
            "role": "tool",
            "content": "a.txt",
            "tool_call_id": "call_1",
            "tool_name": "terminal",
        },
    ]


def spoil(factory: Factory, db: SessionDB) -> None:
    with factory.raw(db) as other:
        for field in ("tool_calls", "reasoning_details", "codex_reasoning_items"):
            other.execute(f"UPDATE messages SET {field} = '{{broken'")


def test_broken_json_is_left_out_with_a_warning(
    s: SessionDB, caplog: pytest.LogCaptureFixture, factory: Factory
) -> None:
    s.append_message("s", "assistant", "x", tool_calls=[CALL])
    spoil(factory, s)
    with caplog.at_level(logging.WARNING):
        [message] = s.get_messages("s")
        [turn] = s.get_messages_as_conversation("s")
    assert message["tool_calls"] == []
    assert message["reasoning_details"] == "{broken"
    assert turn["content"] == "x"
    assert not turn.get("tool_calls")
    assert turn.get("reasoning_details") is None
    assert turn.get("codex_reasoning_items") is None
    assert any("tool_calls" in record.getMessage() for record in caplog.records)


# ---------------------------------------------------------------------- any value


@pytest.mark.parametrize(
    "content",
    [
        "half \ud83d of a pair",
        "\udcff",
        "nul \0 inside",
        [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:,x"}}],
        [{"type": "text", "text": "half \ud800"}],
        [],
        {"type": "text", "text": "a dict"},
        {},
        42,
        False,
        1.5,
        b"bytes \xff",
        "𝔘nicode 👩‍👩‍👧 نص 한국어",
    ],
)
def test_any_content_comes_back_as_it_was(s: SessionDB, content: Any) -> None:
    s.append_message("s", "user", content)
    s.append_message("s", "assistant", "and the next one is stored, too")
    assert s.get_messages("s")[0]["content"] == content
    assert s.get_messages_as_conversation("s")[0] == {"role": "user", "content": content}
    assert type(s.get_messages("s")[0]["content"]) is type(content)
    assert counts(s) == (2, 0)
    exported = s.export_session("s")
    assert exported is not None
    assert exported["messages"][0]["content"] == content


def test_column_holds_readable_valid_text(s: SessionDB, factory: Factory) -> None:
    s.append_message("s", "user", "half \ud83d pair")
    s.append_message("s", "user", [{"type": "text", "text": "look here"}])
    half, parts = stored(factory, s, "content")
    assert half == "half \ufffd pair"
    assert "look here" in parts
    assert stored(factory, s, "typeof(content)") == ["text", "text"]


@pytest.mark.parametrize("field", ["tool_name", "tool_call_id", "finish_reason", "reasoning"])
def test_half_characters_are_kept_in_every_text(s: SessionDB, field: str) -> None:
    given: dict[str, Any] = {field: "x\ud800y"}
    s.append_message("s", "assistant", "hello", **given)
    assert s.get_messages("s")[0][field] == "x\ud800y"


def test_half_characters_are_kept_in_structures(s: SessionDB) -> None:
    calls = [{"id": "c", "function": {"name": "f", "arguments": "\ud800"}}]
    s.append_message("s", "assistant", tool_calls=calls, reasoning_details=[{"t": "\udfff"}])
    assert s.get_messages("s")[0]["tool_calls"] == calls
    assert s.get_messages_as_conversation("s")[0]["reasoning_details"] == [{"t": "\udfff"}]


def test_half_characters_in_prompt_and_title_are_kept(s: SessionDB) -> None:
    s.update_system_prompt("s", "be \ud800 brief")
    s.set_session_title("s", "odd \udc00 one")
    session = s.get_session("s")
    assert session is not None
    assert (session["system_prompt"], session["title"]) == ("be \ud800 brief", "odd \udc00 one")
    assert s.get_session_title("s") == "odd \udc00 one"
