"""Orphan repair: open tool calls of dead runs are answered, those that wait for a person stay."""

import json
from typing import Any

import pytest

from tests.support.chats import Factory, new_session, record, tool_chunks
from threadkeep.chat.records import Session
from threadkeep.chat.store import ChatStore
from threadkeep.errors import NotFound

Json = dict[str, Any]


def call(state: str, name: str = "bash", **more: Any) -> Json:
    return {"type": f"tool-{name}", "toolCallId": f"{name}-{state}", "state": state, **more}


def put(store: ChatStore, session: Session, *parts: Json, message_id: str = "m") -> None:
    store.put_message(
        session, {"id": message_id, "role": "assistant", "parts": [{"type": "step-start"}, *parts]}
    )


@pytest.mark.parametrize("state", ["input-streaming", "input-available", "approval-responded"])
def test_open_call_becomes_an_error_and_keeps_its_input(
    store: ChatStore, session: Session, state: str, factory: Factory
) -> None:
    given = call(state, input={"cmd": "ls"}, providerExecuted=True, title="List")
    put(store, session, given)
    before = store.session(session)
    (repaired,) = store.repair_orphans(session)
    (row,) = factory.rows(store, "SELECT * FROM chat_parts WHERE tool_call_id IS NOT NULL")
    assert row["id"] == repaired
    assert row["tool_state"] == "output-error"
    assert store.message(session, "m")["parts"][1] == {
        **given,
        "state": "output-error",
        "errorText": "aborted by host restart",
    }
    assert store.session(session).updated_at > before.updated_at
    assert store.verify().ok
    assert store.repair_orphans(session) == []


@pytest.mark.parametrize(
    "part",
    [
        call("approval-requested", approval={"id": "ap1"}),
        call("output-available", output=1),
        call("output-error", errorText="own words"),
        call("output-denied"),
        call("a-state-of-tomorrow"),
        call("input-available", "question"),
        call("input-available", "design_search"),
        {
            "type": "dynamic-tool",
            "toolName": "question",
            "toolCallId": "c",
            "state": "input-available",
        },
        {"type": "text", "text": "streaming", "state": "streaming"},
    ],
)
def test_what_is_done_or_waits_for_a_person_is_left(
    store: ChatStore, session: Session, part: Json, factory: Factory
) -> None:
    put(store, session, part)
    before = factory.contents(store)
    assert store.repair_orphans() == []
    assert factory.contents(store) == before


def test_question_that_never_was_complete_is_repaired(store: ChatStore, session: Session) -> None:
    put(store, session, call("input-streaming", "question"))
    assert len(store.repair_orphans()) == 1


def test_host_may_name_its_own_human_tools(store: ChatStore, session: Session) -> None:
    put(store, session, call("input-available", "ask_me"), call("input-available", "question"))
    assert len(store.repair_orphans(human_tools=["ask_me"])) == 1
    states = [part.get("state") for part in store.message(session, "m")["parts"]]
    assert states == [None, "input-available", "output-error"]


def test_all_sessions_are_repaired_unless_one_is_named(store: ChatStore, session: Session) -> None:
    other = new_session(store)
    put(store, session, call("input-available"))
    put(store, other, call("input-available"), message_id="m2")
    assert len(store.repair_orphans(other)) == 1
    assert len(store.repair_orphans()) == 1
    with pytest.raises(NotFound, match="nope"):
        store.repair_orphans("nope")


def test_calls_of_a_run_that_lives_are_left(store: ChatStore, session: Session) -> None:
    with store.record(session) as recorder:
        for chunk in tool_chunks("c1"):
            recorder.feed(chunk)
        assert store.repair_orphans() == []
        recorder.feed({"type": "tool-output-available", "toolCallId": "c1", "output": "done"})
    assert store.ui_messages(session)[0]["parts"][0]["state"] == "output-available"


def test_aborted_run_keeps_its_calls_frozen_until_repair(
    store: ChatStore, session: Session
) -> None:
    record(store, session, [{"type": "start"}, *tool_chunks("c1"), {"type": "abort"}])
    assert store.ui_messages(session)[0]["parts"][0]["state"] == "input-available"
    assert len(store.repair_orphans(session)) == 1


def test_call_of_an_older_writer_is_repaired_in_the_sdks_names(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    put(store, session, call("input-available"))
    old = {"type": "tool-bash", "tool_call_id": "x", "state": "input-available", "input": {}}
    with factory.raw(store) as other:
        other.execute(
            "UPDATE chat_parts SET data_json = ? WHERE tool_call_id IS NOT NULL",
            (json.dumps(old),),
        )
    store.repair_orphans()
    part = store.message(session, "m")["parts"][1]
    assert part["errorText"] == "aborted by host restart"
    assert part["toolCallId"] == "x"
    (row,) = factory.rows(store, "SELECT * FROM chat_parts WHERE tool_state = 'output-error'")
    assert row["tool_call_id"] == "x"


def test_column_of_another_program_is_carried_along(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    put(store, session, call("input-available"))
    with factory.raw(store) as other:
        other.execute("ALTER TABLE chat_parts ADD COLUMN theirs TEXT")
        other.execute("UPDATE chat_parts SET theirs = 'kept'")
    store.repair_orphans()
    (row,) = factory.rows(store, "SELECT * FROM chat_parts WHERE tool_state = 'output-error'")
    assert row["theirs"] == "kept"


def test_part_that_cannot_be_read_does_not_stop_the_others(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    put(store, session, call("input-available"), call("input-available", "other"))
    with factory.raw(store) as other:
        other.execute("UPDATE chat_parts SET data_json = '{broken' WHERE \"index\" = 1")
    assert len(store.repair_orphans()) == 2
    parts = store.message(session, "m")["parts"]
    assert [part.get("state") for part in parts] == [None, "output-error", "output-error"]
    (row,) = factory.rows(store, 'SELECT * FROM chat_parts WHERE "index" = 1')
    assert row["tool_call_id"] == "bash-input-available"


# ---------------------------------------------------------------------- as the author has it


def mark(factory: Factory, store: ChatStore, run: str | None = "run_theirs") -> None:
    """Let the guide author's host begin to go on after a person's answer."""
    with factory.raw(store) as connection:
        connection.execute(
            "UPDATE chat_parts SET continuation_run_id = ? WHERE tool_call_id IS NOT NULL", (run,)
        )


def hide(store: ChatStore, session: Session) -> None:
    asked = store.say(session, "once more")
    put(store, session, call("input-available"), message_id="later")
    store.rewind(session, asked)


def open_calls(factory: Factory, store: ChatStore) -> list[tuple[str, str, str | None]]:
    found = factory.rows(store, "SELECT * FROM chat_parts WHERE tool_call_id IS NOT NULL")
    return [(row["message_id"], row["tool_state"], row["continuation_run_id"]) for row in found]


def test_hidden_messages_are_left_alone(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    hide(store, session)
    assert store.repair_orphans() == []
    assert open_calls(factory, store) == [("later", "input-available", None)]
    store.unrewind(session)
    assert len(store.repair_orphans()) == 1


def test_message_hidden_in_its_metadata_alone_is_left_alone(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    put(store, session, call("input-available"))
    with factory.raw(store) as connection:
        connection.execute("""UPDATE chat_messages SET metadata_json = '{"hidden_at": 5}'""")
    assert store.repair_orphans() == []


@pytest.mark.parametrize(
    "part",
    [
        call("approval-responded", approval={"id": "a", "approved": True}),
        call("approval-requested", approval={"id": "a"}),
        call("input-available", "question"),
        call("output-available", "question", output="the answer"),
    ],
)
@pytest.mark.parametrize("hidden", [False, True])
def test_continuation_that_died_has_ended(
    store: ChatStore, session: Session, part: Json, factory: Factory, *, hidden: bool
) -> None:
    asked = store.say(session, "q")
    put(store, session, part)
    if hidden:
        store.rewind(session, asked)
    mark(factory, store)
    (repaired,) = store.repair_orphans()
    assert open_calls(factory, store) == [("m", "output-error", None)]
    fixed = store.message(session, "m")["parts"][1]
    assert (fixed["state"], "output" in fixed) == ("output-error", False)
    assert store.verify().problems == []
    assert store.repair_orphans() == []
    assert repaired


def test_part_without_a_state_is_no_call(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    put(store, session, {"type": "text", "text": "x"})
    with factory.raw(store) as connection:
        connection.execute("UPDATE chat_parts SET continuation_run_id = 'r'")
    assert store.repair_orphans() == []
