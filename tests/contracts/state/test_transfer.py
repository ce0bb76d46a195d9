"""Sessions out and in again: exactly what they were, and nothing of what is no session."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.support.states import Clock, Factory
from threadkeep.errors import Invalid
from threadkeep.state.export import line, read_lines
from threadkeep.state.session_db import SessionDB

Make = Callable[..., list[int]]

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["$bytes", "$value", "text"]), inner, max_size=2)
    ),
    max_leaves=5,
)


@given(_VALUES | st.binary())
def test_a_line_holds_any_value_exactly(value: Any) -> None:
    written = [line({"session": {"id": "s"}}), line({"message": {"role": "u", "content": value}})]
    (session,) = read_lines(written)
    assert session["messages"] == [{"role": "u", "content": value}]
    (session,) = read_lines([line({"id": "s", "messages": [{"content": value}]})])
    assert session["messages"] == [{"content": value}]


def exported(db: SessionDB) -> list[Any]:
    """Everything but the ids of messages, which a store gives out itself, and the user's pins."""
    sessions = db.export_all()
    for session in sessions:
        del session["pinned"]
        for message in session["messages"]:
            del message["id"]
    return sessions


def test_what_only_json_text_can_hold_comes_back_as_the_same_text(
    db: SessionDB, make: Make, factory: Factory
) -> None:
    make("a", "one")
    db.set_session_title("a", "half \ud800")
    with factory.raw(db) as other:
        other.execute(
            "UPDATE messages SET reasoning_details = ?, codex_reasoning_items = ?",
            ('{"a": 1,"a":2 }', "no json"),
        )
    db.append_message("a", "user", {"$bytes": "zz"})
    with factory.open() as other:
        other.import_sessions(db.iter_export())
        assert exported(other) == exported(db)
        assert other.check() == []
        again = other.import_sessions(db.iter_export())
        counts = {name: again[name] for name in ("added", "skipped", "replaced", "messages")}
        assert counts == {"added": 0, "skipped": 1, "replaced": 0, "messages": 0}


def test_replacing_leaves_nothing_of_the_old_session(
    db: SessionDB, make: Make, factory: Factory
) -> None:
    db.create_session("a", "cli", model="m\ud800", system_prompt="s\ud800")
    ids = make("a", "one", "two")
    db.rewind_to_message("a", ids[1], any_role=True)
    db.set_session_pinned("a")
    with factory.open() as other:
        other.create_session("a", "web", model="n", system_prompt="s\ufffd")
        other.append_message("a", "user", "new")
        db.import_sessions(other.iter_export(), on_conflict="replace")
        assert exported(db) == exported(other)
    assert db.undo_rewind("a") == 0
    assert db.prune_candidates(-1) == []  # a pin is the user's, not the export's
    assert db.check() == []


def test_an_import_that_stopped_is_completed_by_the_next(db: SessionDB) -> None:
    child = {"id": "child", "parent_session_id": "parent", "messages": []}
    with pytest.raises(Invalid):
        db.import_sessions([json.dumps(child), json.dumps({"id": 5})])
    db.import_sessions([child, {"id": "parent"}])
    assert [node["id"] for node in db.get_lineage("child")] == ["parent", "child"]


def test_sessions_that_claim_to_be_each_others_parents_stay_visible(db: SessionDB) -> None:
    pair = [{"id": "a", "parent_session_id": "b"}, {"id": "b", "parent_session_id": "a"}]
    for conflict in ("skip", "replace"):
        db.import_sessions(pair, on_conflict=conflict)
        assert len(db.list_sessions_rich()) == 1
    db.import_sessions([{"id": "c", "parent_session_id": "c"}])
    db.import_sessions([{"id": "c", "parent_session_id": "c"}], on_conflict="replace")
    assert "c" in [one["id"] for one in db.list_sessions_rich()]


def test_titles_and_configurations_are_redacted_on_their_way_in(
    factory: Factory, clock: Clock
) -> None:
    session = {
        "id": "a",
        "title": "key 123",
        "model_config": '{"k": "123"}',
        "messages": [{"role": "user", "reasoning_details": '["123"]'}],
    }
    with factory.open(clock=clock, redact=lambda t: t.replace("123", "***")) as db:
        db.import_sessions([session])
        assert "123" not in json.dumps(db.export_all())


@pytest.mark.parametrize(
    "bad",
    [
        '{"session":5}',
        '{"session":{"id":"a"},"side":[1]}',
        '{"session":{"id":"a"},"side":{"pinned_at":"x"}}',
        '{"session":{"id":"a"},"side":{"title_source":[1]}}',
        '{"id":"a","messages":5}',
        '{"id":"a","messages":"abc"}',
        '{"id":"a","messages":{"role":"user"}}',
        '{"id":"a","messages":[{"role":"u","timestamp":"x"}]}',
        '{"id":"a","messages":[{"role":"u","timestamp":NaN}]}',
        '{"id":"a","messages":[{"role":"u","timestamp":[1]}]}',
        '{"id":"a","messages":[{"role":"u","timestamp":1' + "0" * 400 + "}]}",
        '{"id":"a","messages":[{"role":"u","token_count":[1]}]}',
        '{"id":"a","messages":[{"role":"u","content":{"$bytes":"0g"}}]}',
        '{"id":"a","messages":[{"role":"u","content":{"$bytes":5}}]}',
        '{"id":"a","started_at":NaN}',
        '{"id":"a","input_tokens":99999999999999999999}',
        '{"id":"a","end_reason":[1]}',
        '{"id":"a","parent_session_id":[1]}',
        '{"id":["a"]}',
    ],
)
def test_what_is_no_session_is_refused_whole(db: SessionDB, bad: str) -> None:
    with pytest.raises(Invalid):
        db.import_sessions([bad])
    assert db.session_count() == 0


def test_a_message_of_another_program_may_have_more_fields(db: SessionDB) -> None:
    message = {"role": "user", "content": "x", "created_at": "2026-01-15", "display_count": "many"}
    assert db.import_sessions([{"id": "a", "messages": [message]}])["messages"] == 1
