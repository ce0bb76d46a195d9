"""Messages: their rows, the conventions of their metadata, usage, rewinding, the queue."""

import hashlib
import json
from typing import Any

import pytest

from threadkeep.testing.chat_suite.conversation import (
    MODEL,
    Factory,
    Json,
    new_session,
    record,
    table,
    text_chunks,
    texts,
    turn,
)

MESSAGE_COLUMNS = {"id", "session_id", "role", "metadata_json", "created_at", "updated_at"}
USAGE = {"input": 1, "output": 20, "reasoning": 300, "cache_read": 4000, "cache_write": 50000}


def _metadata(row: Json) -> Json:
    found: Json = json.loads(row["metadata_json"])
    return found


def test_a_message_is_a_row_with_the_columns_of_the_guide(chat_factory: Factory) -> None:
    """chat_messages: the columns are there by their names; metadata is a JSON object."""
    store = chat_factory.open()
    session = new_session(store)
    before = chat_factory.clock.now
    asked, answer = turn(store, session, "q", "a")
    rows = table(chat_factory, store, "chat_messages")
    assert set(rows[0]) >= MESSAGE_COLUMNS
    assert [(row["id"], row["role"]) for row in rows] == [(asked, "user"), (answer, "assistant")]
    assert {row["session_id"] for row in rows} == {session.id}
    assert all(isinstance(_metadata(row), dict) for row in rows)
    for row in rows:
        assert before < row["created_at"] <= row["updated_at"] <= chat_factory.clock.now


@pytest.mark.parametrize("role", ["user", "assistant", "system"])
def test_a_message_has_one_of_three_roles(chat_factory: Factory, role: str) -> None:
    """chat_messages: user, assistant and system; a message is read back as it was given."""
    store = chat_factory.open()
    session = new_session(store)
    given = {"id": "m1", "role": role, "parts": [{"type": "text", "text": "hi"}]}
    store.put_message(session, given)
    assert store.ui_messages(session) == [given]


def test_another_role_is_refused(chat_factory: Factory) -> None:
    """chat_messages: a role that the guide does not have is refused whole."""
    store = chat_factory.open()
    session = new_session(store)
    with pytest.raises(chat_factory.refused):
        store.put_message(session, {"id": "m1", "role": "robot", "parts": []})
    assert table(chat_factory, store, "chat_messages") == []


def test_what_the_user_says_is_stored_at_once(chat_factory: Factory) -> None:
    """Save policy: a user message is persisted before it reaches the model."""
    store = chat_factory.open()
    session = new_session(store)
    store.say(session, "question")
    assert texts(chat_factory.reopen(store), session) == ["question"]


def test_messages_are_in_the_order_of_saying(chat_factory: Factory) -> None:
    """chat_messages, index: the order of a session is that of insertion, at equal times too."""
    chat_factory.clock.step = 0
    store = chat_factory.open()
    session = new_session(store)
    for number in range(4):
        turn(store, session, f"q{number}", f"a{number}")
    wanted = [f"{kind}{number}" for number in range(4) for kind in "qa"]
    assert texts(store, session) == wanted


def test_metadata_mirrors_that_of_the_ui_message(chat_factory: Factory) -> None:
    """chat_messages: `metadata_json` mirrors UIMessage.metadata, whatever keys it has."""
    store = chat_factory.open()
    session = new_session(store)
    metadata = {"client": "web", "nested": {"a": [1, None]}}
    parts = [{"type": "text", "text": "hi"}]
    given = {"id": "m1", "role": "assistant", "metadata": metadata, "parts": parts}
    store.put_message(session, given)
    (row,) = table(chat_factory, store, "chat_messages")
    assert _metadata(row) == metadata
    assert store.ui_messages(session) == [given]


@pytest.mark.parametrize(
    "key, value",
    [
        ("model", {"provider_id": "acme", "model_id": "small", "variant": "fast"}),
        ("agent", "planner"),
        ("snapshot_id", "snap1"),
        ("trigger", {"source": "webhook", "fired_at": 5, "delivery_id": "d1"}),
    ],
)
def test_a_turn_says_what_it_was_made_with(chat_factory: Factory, key: str, value: Any) -> None:
    """Metadata conventions: model, agent, snapshot_id and trigger stand on the user message."""
    store = chat_factory.open()
    session = new_session(store)
    options: dict[str, Any] = {key: value}
    store.say(session, "go", **options)
    (row,) = table(chat_factory, store, "chat_messages")
    assert row["role"] == "user"
    assert _metadata(row)[key] == value


def test_a_reply_says_its_model(chat_factory: Factory) -> None:
    """Metadata conventions: model stands on the assistant message, too."""
    store = chat_factory.open()
    session = new_session(store)
    record(store, session, text_chunks("hello"), model=MODEL)
    (row,) = table(chat_factory, store, "chat_messages")
    assert _metadata(row)["model"] == MODEL


def test_a_reply_names_its_system_prompt_by_digest(chat_factory: Factory) -> None:
    """Metadata conventions: `system_prompt_digest` is the SHA-256 of the assembled prompt."""
    store = chat_factory.open()
    session = new_session(store)
    record(store, session, text_chunks("hello"), system_prompt="be brief")
    (row,) = table(chat_factory, store, "chat_messages")
    assert _metadata(row)["system_prompt_digest"] == hashlib.sha256(b"be brief").hexdigest()


# ---------------------------------------------------------------------- usage


def test_usage_has_five_counts_on_the_reply(chat_factory: Factory) -> None:
    """Metadata conventions: usage is input, output, reasoning, cache_read and cache_write."""
    store = chat_factory.open()
    session = new_session(store)
    _, answer = turn(store, session, "q", "a")
    store.record_usage(session, USAGE, message=answer)
    rows = {row["id"]: row for row in table(chat_factory, store, "chat_messages")}
    assert _metadata(rows[answer])["usage"] == USAGE


def test_the_session_has_the_sums_of_its_replies(chat_factory: Factory) -> None:
    """chat_sessions: the five columns are the sums over the assistant messages."""
    store = chat_factory.open()
    session = new_session(store)
    for _ in range(2):
        _, answer = turn(store, session, "q", "a")
        store.record_usage(session, USAGE, message=answer)
    (row,) = table(chat_factory, store, "chat_sessions")
    columns = ("prompt_tokens", "completion_tokens", "reasoning_tokens")
    assert [row[name] for name in columns] == [2, 40, 600]
    assert (row["cache_read"], row["cache_write"]) == (8000, 100_000)
    assert row["total_tokens"] == 2 * sum(USAGE.values())


def test_steps_of_a_reply_add_up(chat_factory: Factory) -> None:
    """Save policy: the sums of the session follow every finish-step."""
    store = chat_factory.open()
    session = new_session(store)
    _, answer = turn(store, session, "q", "a")
    store.record_usage(session, {"input": 5, "output": 1}, message=answer)
    assert store.session(session).total_tokens == 6
    store.record_usage(session, {"input": 5, "reasoning": 2}, message=answer)
    assert store.session(session).total_tokens == 13


def test_the_store_never_computes_cost(chat_factory: Factory) -> None:
    """chat_sessions: `cost_usd` is 0 until a writer reports it."""
    store = chat_factory.open()
    session = new_session(store)
    _, answer = turn(store, session, "q", "a")
    store.record_usage(session, {"input": 10**6}, message=answer)
    assert store.session(session).cost_usd == 0
    store.record_usage(session, {}, message=answer, cost_usd=0.25)
    assert store.session(session).cost_usd == 0.25


# ---------------------------------------------------------------------- hidden, queued


def test_a_rewind_hides_and_deletes_nothing(chat_factory: Factory) -> None:
    """Metadata conventions: hidden messages have `hidden_at` and stay in the database."""
    store = chat_factory.open()
    session = new_session(store)
    asked, _ = turn(store, session, "q1", "a1")
    turn(store, session, "q2", "a2")
    store.rewind(session, asked)
    rows = table(chat_factory, store, "chat_messages")
    hidden = [isinstance(_metadata(row).get("hidden_at"), int) for row in rows]
    assert hidden == [False, True, True, True]


def test_the_model_is_not_told_what_is_hidden(chat_factory: Factory) -> None:
    """Metadata conventions: the loop skips hidden messages on the next call."""
    store = chat_factory.open()
    session = new_session(store)
    asked, _ = turn(store, session, "q1", "a1")
    store.rewind(session, asked)
    record(store, session, text_chunks("another answer"))
    assert texts(store, session, "model") == ["q1", "another answer"]
    assert texts(store, session, "all") == ["q1", "a1", "another answer"]


def test_a_queued_message_waits_outside_the_conversation(chat_factory: Factory) -> None:
    """Metadata conventions: `queued_at` is on a user message behind a running turn."""
    store = chat_factory.open()
    session = new_session(store)
    waiting = store.enqueue(session, "later")
    (row,) = table(chat_factory, store, "chat_messages")
    assert (row["id"], row["role"]) == (waiting.id, "user")
    assert isinstance(_metadata(row)["queued_at"], int)
    assert texts(store, session) == texts(store, session, "model") == []


def test_a_fired_message_is_queued_no_more(chat_factory: Factory) -> None:
    """Metadata conventions: `queued_at` is cleared when the loop fires the message."""
    store = chat_factory.open()
    session = new_session(store)
    for text in ("one", "two"):
        store.enqueue(session, text)
    fired = store.fire(session)
    assert fired is not None
    rows = {row["id"]: row for row in table(chat_factory, store, "chat_messages")}
    assert "queued_at" not in _metadata(rows[fired.id])
    assert texts(store, session) == ["one"]
    assert len(store.queued(session)) == 1
