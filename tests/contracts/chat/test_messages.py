"""Messages: what the user says, whole messages put in, and reading them back as they were."""

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.lengths import examples
from tests.support.chats import (
    Factory,
    new_session,
    record,
    reply,
    text_chunks,
    texts,
    turn,
)
from tests.support.ids import is_id
from threadkeep.chat.records import Session
from threadkeep.chat.store import ChatStore
from threadkeep.errors import Conflict, NotFound
from threadkeep.testing import NOON, ManualClock

Json = dict[str, Any]


# ---------------------------------------------------------------------- saying


def test_what_the_user_says_is_one_row_and_one_part(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    message = store.say(session, "Hello")
    assert is_id(message.id, "msg")
    (row,) = factory.rows(store, "SELECT * FROM chat_messages")
    assert (row["id"], row["session_id"], row["role"]) == (message.id, session.id, "user")
    assert json.loads(row["metadata_json"]) == {"schema_version": 1}
    assert row["created_at"] == row["updated_at"] > NOON
    assert row["hidden_at"] is None
    (part,) = factory.rows(store, "SELECT * FROM chat_parts")
    assert is_id(part["id"], "prt")
    assert (part["message_id"], part["session_id"]) == (message.id, session.id)
    assert (part["index"], part["type"]) == (0, "text")
    assert json.loads(part["data_json"]) == {"type": "text", "text": "Hello"}
    assert part["tool_call_id"] is part["tool_state"] is part["continuation_run_id"] is None


def test_turn_says_who_which_model_and_what_fired_it(store: ChatStore, session: Session) -> None:
    trigger = {
        "source": "webhook",
        "fired_at": 5,
        "delivery_id": "d1",
        "headers": {"X-Kind": "push"},
    }
    message = store.say(
        session,
        "go",
        metadata={"client": "web", "nothing": None},
        agent="planner",
        model="acme/small",
        trigger=trigger,
        snapshot_id="snap1",
        schema_version=2,
    )
    assert message.metadata == {
        "client": "web",
        "nothing": None,
        "agent": "planner",
        "model": {"provider_id": "acme", "model_id": "small"},
        "trigger": trigger,
        "snapshot_id": "snap1",
        "schema_version": 2,
    }
    assert message.role == "user"


def test_schema_version_in_the_metadata_is_the_writers_word(
    store: ChatStore, session: Session
) -> None:
    assert store.say(session, "hi", metadata={"schema_version": 7}).metadata == {
        "schema_version": 7
    }


PARTS: list[Json] = [
    {"type": "text", "text": "a"},
    {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AAAA"},
    {"type": "data-editor-context", "data": {"open": ["a.py"]}, "id": "e1"},
    {"type": "mention", "unknown_field": {"deep": [1, 2.5, True, None]}},
    {"type": "tool-search", "toolCallId": "c1", "state": "output-available", "input": {}},
    {"type": "dynamic-tool", "toolName": "mcp", "toolCallId": "c2", "state": "input-streaming"},
    {"type": "tool-search", "toolCallId": "c1", "state": "some-state-of-tomorrow"},
    {"type": "step-start"},
    {"type": "reasoning", "text": "", "providerMetadata": {"p": {"signature": "x"}}},
    {"type": "text", "text": "", "toolCallId": 5},
]


def test_parts_of_every_kind_come_back_verbatim(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    message = store.say(session, PARTS)
    assert store.message(session, message)["parts"] == PARTS
    stored = factory.rows(store, 'SELECT * FROM chat_parts ORDER BY "index"')
    assert [row["index"] for row in stored] == list(range(len(PARTS)))
    assert [row["type"] for row in stored] == [part["type"] for part in PARTS]
    assert [row["tool_call_id"] for row in stored][4:7] == ["c1", "c2", "c1"]
    assert [row["tool_state"] for row in stored][4:7] == [
        "output-available",
        "input-streaming",
        "some-state-of-tomorrow",
    ]
    assert {row["tool_state"] for row in (*stored[:4], *stored[7:])} == {None}


def test_one_part_may_be_given_alone(store: ChatStore, session: Session) -> None:
    message = store.say(session, {"type": "text", "text": "alone"})
    assert store.message(session, message)["parts"] == [{"type": "text", "text": "alone"}]


@pytest.mark.parametrize(
    "text",
    ["", "\0", "a\0b", "\ud83d", "\ude00\ud83d", "😀", "\ufeff", "x" * 100_000, "'\"\\;--\n\r\t"],
    ids=ascii,
)
def test_any_text_is_kept(store: ChatStore, session: Session, text: str) -> None:
    message = store.say(session, text, metadata={"also": text, text: 1})
    shaped = store.ui_messages(session)[0]
    assert shaped["parts"] == [{"type": "text", "text": text}]
    assert shaped["metadata"]["also"] == text
    assert shaped["metadata"][text] == 1
    assert store.verify().ok
    assert store.message(session, message) == shaped


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), inner)
    ),
    max_leaves=12,
)


@settings(max_examples=examples(60))
@given(data=JSON_VALUES)
def test_any_json_in_a_part_survives(lasting_store: ChatStore, data: object) -> None:
    session = new_session(lasting_store)
    part = {"type": "data-x", "data": data}
    lasting_store.say(session, [part])
    assert lasting_store.ui_messages(session)[0]["parts"] == [part]


# ---------------------------------------------------------------------- order


def test_order_is_insertion_order_at_equal_times_and_when_the_clock_steps_back(
    store: ChatStore, session: Session, clock: ManualClock, factory: Factory
) -> None:
    said = []
    for place, jump in enumerate((0, 0, -5_000_000, 0, -1, 10, -100, 0)):
        clock.step = 0
        clock.now += jump
        if place % 2:
            reply(store, session, str(place))
        else:
            # A foreign id that sorts before all others must not move its message.
            store.say(session, str(place), message_id=f"{99 - place}")
        said.append(str(place))
    assert texts(store, session) == said
    times = [
        row["created_at"]
        for row in factory.rows(
            store, "SELECT created_at FROM chat_messages ORDER BY created_at, id"
        )
    ]
    assert times == sorted(set(times))


def test_order_holds_behind_a_message_of_another_program_in_the_future(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    with factory.raw(store) as other:
        other.execute(
            "INSERT INTO chat_messages(id, session_id, role, created_at, updated_at)"
            " VALUES ('zzz', ?, 'user', ?, 1)",
            (session.id, NOON * 2),
        )
    later = store.say(session, "later")
    assert [message["id"] for message in store.ui_messages(session)] == ["zzz", later.id]


# ---------------------------------------------------------------------- whole messages


ASSISTANT: Json = {
    "id": "m1",
    "role": "assistant",
    "metadata": {"usage": {"input": 3, "output": 4}, "model": {"provider_id": "acme"}},
    "parts": [
        {"type": "step-start"},
        {"type": "text", "text": "hi", "state": "done"},
        {"type": "tool-x", "toolCallId": "c", "state": "output-available", "output": None},
    ],
}


@pytest.mark.parametrize(
    "message",
    [
        ASSISTANT,
        {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "q"}]},
        {"id": "s1", "role": "system", "parts": [{"type": "text", "text": "be kind"}]},
        {"id": "e1", "role": "assistant", "parts": []},
    ],
)
def test_message_put_in_comes_back_equal(store: ChatStore, session: Session, message: Json) -> None:
    store.put_message(session, message)
    assert store.ui_messages(session) == [message]
    store.put_message(session, store.ui_messages(session)[0])
    assert store.ui_messages(session) == [message]
    assert store.verify().ok


def test_message_without_an_id_gets_one(store: ChatStore, session: Session) -> None:
    first = store.put_message(session, {"role": "user", "parts": []})
    second = store.put_message(session, {"id": "", "role": "user", "parts": []})
    assert is_id(first.id, "msg")
    assert is_id(second.id, "msg")
    assert first.id != second.id


def test_message_of_the_same_id_is_replaced_in_its_place(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    store.put_message(session, ASSISTANT)
    store.say(session, "after")
    shorter = {"id": "m1", "role": "assistant", "parts": [{"type": "text", "text": "new"}]}
    store.put_message(session, shorter)
    assert store.ui_messages(session)[0]["id"] == "m1"
    assert store.message(session, "m1") == shorter
    assert len(factory.rows(store, "SELECT id FROM chat_parts WHERE message_id = 'm1'")) == 1
    assert store.verify().ok


def test_usage_of_a_message_put_in_is_in_the_sums(store: ChatStore, session: Session) -> None:
    store.put_message(session, ASSISTANT)
    assert store.session(session).total_tokens == 7
    changed = {**ASSISTANT, "metadata": {"usage": {"input": 1}}}
    store.put_message(session, changed)
    assert store.session(session).total_tokens == 1
    store.put_message(session, {**ASSISTANT, "metadata": None})
    assert store.session(session).total_tokens == 0


def test_recorded_usage_is_not_lost_when_the_message_is_put_again(
    store: ChatStore, session: Session
) -> None:
    _, answer = turn(store, session, "q", "a", usage={"input": 10, "output": 5})
    finished = {
        "id": answer,
        "role": "assistant",
        "metadata": {"usage": {"inputTokens": 10}, "client": "web"},
        "parts": [{"type": "text", "text": "a", "state": "done"}],
    }
    store.put_message(session, finished)
    metadata = store.message(session, answer)["metadata"]
    assert metadata["usage"]["input"] == 10
    assert metadata["client"] == "web"
    assert store.session(session).total_tokens == 15


def test_message_put_again_stays_hidden_and_stays_queued(
    store: ChatStore, session: Session
) -> None:
    asked, answer = turn(store, session, "q", "a")
    waiting = store.enqueue(session, "later")
    store.rewind(session, asked)
    edited = [{"type": "text", "text": "edited"}]
    store.put_message(session, {"id": answer, "role": "assistant", "parts": edited})
    store.put_message(session, {"id": waiting.id, "role": "user", "parts": edited})
    assert texts(store, session) == ["q"]
    assert [message.id for message in store.queued(session)] == [waiting.id]
    assert store.unrewind(session) == [answer]
    assert texts(store, session) == ["q", "edited"]


def test_role_of_a_message_cannot_change(store: ChatStore, session: Session) -> None:
    store.put_message(session, ASSISTANT)
    with pytest.raises(Conflict, match="m1"):
        store.put_message(session, {**ASSISTANT, "role": "user"})


def test_message_that_is_being_recorded_cannot_be_replaced(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    with store.record(session) as recorder:
        for chunk in text_chunks("growing", "m1")[:4]:
            recorder.feed(chunk)
        before = factory.contents(store)
        with pytest.raises(Conflict, match="m1"):
            store.put_message(session, ASSISTANT)
        assert factory.contents(store) == before


# ---------------------------------------------------------------------- reading


def test_reader_understands_older_field_names_and_writes_nothing(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    message = store.say(session, "x")
    old = {
        "type": "tool-run",
        "tool_call_id": "c1",
        "state": "output-error",
        "input": {"tool_call_id": "inside stays"},
        "error_text": "boom",
        "provider_executed": True,
    }
    with factory.raw(store) as other:
        other.execute("UPDATE chat_parts SET type = 'tool-run', data_json = ?", (json.dumps(old),))
    assert store.message(session, message)["parts"] == [
        {
            "type": "tool-run",
            "toolCallId": "c1",
            "state": "output-error",
            "input": {"tool_call_id": "inside stays"},
            "errorText": "boom",
            "providerExecuted": True,
        }
    ]
    (row,) = factory.rows(store, "SELECT data_json FROM chat_parts")
    assert json.loads(row["data_json"]) == old


def test_hidden_in_either_place_is_hidden(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    kept, column, metadata = (store.say(session, text).id for text in ("kept", "c", "m"))
    with factory.raw(store) as other:
        other.execute("UPDATE chat_messages SET hidden_at = 5 WHERE id = ?", (column,))
        other.execute(
            "UPDATE chat_messages SET metadata_json = '{\"hidden_at\": 5}' WHERE id = ?",
            (metadata,),
        )
    assert [message["id"] for message in store.ui_messages(session)] == [kept]
    assert [message["id"] for message in store.ui_messages(session, "model")] == [kept]
    assert len(store.ui_messages(session, "all")) == 3


def test_one_message_is_read_as_in_the_list_while_it_grows(
    store: ChatStore, session: Session
) -> None:
    with store.record(session) as recorder:
        for chunk in text_chunks("growing")[:4]:
            recorder.feed(chunk)
        assert recorder.message_id is not None
        shaped = store.message(session, recorder.message_id)
        assert store.ui_messages(session) == [shaped]
        assert shaped["parts"][-1] == {"type": "text", "text": "growing", "state": "streaming"}


def test_message_of_another_session_is_named_with_its_owner(
    store: ChatStore, session: Session
) -> None:
    other = new_session(store)
    theirs = store.say(other, "mine")
    with pytest.raises(Conflict, match=other.id):
        store.message(session, theirs)
    with pytest.raises(NotFound, match="msg_none"):
        store.message(session, "msg_none")


# ---------------------------------------------------------------------- redaction


def hide_secret(text: str) -> str:
    return text.replace("hunter2", "[redacted]")


def test_every_way_in_passes_the_redaction_hook(factory: Factory) -> None:
    secret = "the key is hunter2"
    with factory.open(redact=hide_secret) as store:
        session = store.create_session(
            agent="a", model={"model_id": secret}, title=secret, metadata={"k": secret}
        )
        store.set_title(session, secret)
        store.set_metadata(session, {"deep": [{"k": secret}]})
        asked = store.say(session, secret, metadata={"k": secret}, trigger={"headers": [secret]})
        store.put_message(
            session,
            {
                "role": "assistant",
                "metadata": {"k": secret},
                "parts": [
                    {"type": "tool-x", "toolCallId": "c", "input": {"k": secret}, "output": secret}
                ],
            },
        )
        waiting = store.enqueue(session, secret, trigger={"source": secret})
        again = store.enqueue(session, secret, message_id=waiting.id)
        assert again.id == waiting.id
        record(
            store,
            session,
            text_chunks(secret),
            system_prompt=secret,
            tools=[{"description": secret}],
        )
        run = store.runs(session)[-1]
        store.judge(session, "bash", f"echo {secret}", run_id=run.id)
        store.compact(session, secret, tail_start=asked)
        store.fork(session)
        store.put_system_prompt(secret)
        everything = json.dumps(factory.contents(store), default=repr)
    assert "[redacted]" in everything
    assert "hunter2" not in everything


def test_redaction_leaves_names_alone(factory: Factory) -> None:
    """A hook that takes every long word for a key must not break what ties parts together."""
    parts = [
        {
            "type": "tool-search",
            "toolCallId": "call_AbCdEf0123456789",
            "state": "output-available",
            "output": "call_AbCdEf0123456789",
        }
    ]
    with factory.open(redact=lambda text: "*" * len(text)) as store:
        session = new_session(store)
        store.put_message(session, {"id": "m", "role": "assistant", "parts": parts})
        (part,) = store.message(session, "m")["parts"]
    assert part["type"] == "tool-search"
    assert part["toolCallId"] == "call_AbCdEf0123456789"
    assert part["state"] == "output-available"
    assert part["output"] == "*" * 21
