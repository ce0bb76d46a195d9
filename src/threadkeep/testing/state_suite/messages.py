"""Messages: every column, in the order of writing, and as a conversation to replay."""

import json
from typing import Any

import pytest

from threadkeep.testing.state_suite.talk import CALL, Factory, session_of, talk

MESSAGE_COLUMNS = {
    *("id", "session_id", "role", "content", "tool_call_id"),
    *("tool_calls", "tool_name", "timestamp", "token_count", "finish_reason"),
    *("reasoning", "reasoning_details", "codex_reasoning_items"),
}


def test_a_message_has_the_columns_of_the_table(state_factory: Factory) -> None:
    """Messages table: a message is read with every column, `tool_calls` as a list again."""
    db = state_factory.open()
    db.create_session("s", "cli")
    first = db.append_message("s", "user", "hello")
    second = db.append_message(
        session_id="s",
        role="assistant",
        content="Here's the answer...",
        tool_calls=[CALL],
        token_count=150,
        finish_reason="stop",
        reasoning="Let me think about this...",
    )
    assert second > first
    message = db.get_messages("s")[1]
    assert set(message) >= MESSAGE_COLUMNS
    assert (message["id"], message["session_id"], message["role"]) == (second, "s", "assistant")
    assert message["content"] == "Here's the answer..."
    assert message["tool_calls"] == [CALL]
    assert (message["token_count"], message["finish_reason"]) == (150, "stop")
    assert message["reasoning"] == "Let me think about this..."


def test_structures_are_stored_as_json_text(state_factory: Factory) -> None:
    """Messages table, notes: `tool_calls` and both reasoning structures are JSON strings."""
    db = state_factory.open()
    db.create_session("s", "cli")
    given: dict[str, Any] = {
        "tool_calls": [CALL, CALL],
        "reasoning_details": [{"type": "text", "text": "deep"}],
        "codex_reasoning_items": [{"id": "r1"}],
    }
    db.append_message("s", "assistant", "x", **given)
    (row,) = state_factory.contents(db)["messages"]
    assert {name: json.loads(row[name]) for name in given} == given


def test_timestamps_are_epoch_seconds(state_factory: Factory) -> None:
    """Messages table, notes: timestamps are Unix epoch floats."""
    db = state_factory.open()
    before = state_factory.clock.now / 1000
    talk(db, "s", "hello")
    (message,) = db.get_messages("s")
    assert isinstance(message["timestamp"], float)
    assert before < message["timestamp"] <= state_factory.clock.now / 1000


@pytest.mark.parametrize("calls, count", [(None, 0), ([], 0), ([CALL], 1), ([CALL, CALL], 2)])
def test_messages_and_tool_calls_are_counted(
    state_factory: Factory, calls: list[Any] | None, count: int
) -> None:
    """Sessions table: `message_count` and `tool_call_count` follow what is appended."""
    db = state_factory.open()
    db.create_session("s", "cli")
    db.append_message("s", "assistant", "x", tool_calls=calls)
    db.append_message("s", "tool", "out", tool_name="terminal", tool_call_id="call_1")
    session = session_of(db, "s")
    assert (session["message_count"], session["tool_call_count"]) == (2, count)


def test_a_message_of_an_unknown_session_is_refused(state_factory: Factory) -> None:
    """Messages table: `session_id` references a session."""
    db = state_factory.open()
    with pytest.raises(state_factory.refused):
        db.append_message("nobody", "user", "x")
    assert db.message_count() == 0


def test_a_message_without_a_role_is_refused_whole(state_factory: Factory) -> None:
    """Messages table: `role` is required; a message that is refused is not counted."""
    db = state_factory.open()
    db.create_session("s", "cli")
    with pytest.raises(state_factory.refused):
        db.append_message("s", None, "x")  # type: ignore[arg-type]
    assert (db.message_count(), session_of(db, "s")["message_count"]) == (0, 0)


def test_ids_grow_and_are_never_used_again(state_factory: Factory) -> None:
    """Messages table: ids are AUTOINCREMENT."""
    db = state_factory.open()
    ids = talk(db, "s", "one", "two", "three")
    assert ids == sorted(set(ids))
    db.clear_messages("s")
    assert db.append_message("s", "user", "four") > ids[-1]


def test_content_may_be_missing_or_empty(state_factory: Factory) -> None:
    """Messages table: `content` may be NULL, which is not the empty text."""
    db = state_factory.open()
    db.create_session("s", "cli")
    db.append_message("s", "assistant")
    db.append_message("s", "assistant", "")
    assert [message["content"] for message in db.get_messages("s")] == [None, ""]


def test_no_session_has_no_messages(state_factory: Factory) -> None:
    """Retrieve messages: of a session that is not there, both forms are empty."""
    db = state_factory.open()
    assert db.get_messages("nobody") == []
    assert db.get_messages_as_conversation("nobody") == []


def test_messages_come_in_the_order_of_writing(state_factory: Factory) -> None:
    """Retrieve messages: both forms are in the order in which messages were said."""
    db = state_factory.open()
    said = ["one", "two", "three", "four"]
    talk(db, "s", *said)
    assert [message["content"] for message in db.get_messages("s")] == said
    assert [turn["content"] for turn in db.get_messages_as_conversation("s")] == said


def test_the_conversation_can_be_replayed(state_factory: Factory) -> None:
    """Retrieve messages: the conversation has roles, contents, calls and results as OpenAI's."""
    db = state_factory.open()
    db.create_session("s", "cli")
    db.append_message("s", "user", "list files", token_count=3)
    db.append_message("s", "assistant", tool_calls=[CALL])
    db.append_message("s", "tool", "a.txt", tool_name="terminal", tool_call_id="call_1")
    asked, called, result = db.get_messages_as_conversation("s")
    assert (asked["role"], asked["content"]) == ("user", "list files")
    assert "tool_calls" not in asked
    assert "token_count" not in asked
    assert (called["role"], called["tool_calls"]) == ("assistant", [CALL])
    assert (result["role"], result["content"]) == ("tool", "a.txt")
    assert (result["tool_call_id"], result["tool_name"]) == ("call_1", "terminal")


def test_the_conversation_keeps_what_a_model_thought(state_factory: Factory) -> None:
    """Messages table, notes: reasoning is kept for providers that want it back."""
    db = state_factory.open()
    db.create_session("s", "cli")
    db.append_message("s", "assistant", "x", reasoning="look first", reasoning_details=[{"a": 1}])
    (turn,) = db.get_messages_as_conversation("s")
    assert (turn["reasoning"], turn["reasoning_details"]) == ("look first", [{"a": 1}])
