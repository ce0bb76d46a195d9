"""What users of Hermes complain about: duplicates, lost messages, undo, clocks, odd values.

Issue numbers are those of NousResearch/hermes-agent unless a test says otherwise.
"""

import json
from collections.abc import Callable
from sqlite3 import IntegrityError
from typing import Any

import pytest

from tests.support.states import Clock, Factory
from threadkeep.errors import Invalid
from threadkeep.state.hermes_state import SessionDB

Make = Callable[..., list[int]]
Json = dict[str, Any]


def contents(db: SessionDB, session_id: str = "s") -> list[Any]:
    return [message["content"] for message in db.get_messages(session_id)]


def count_of(db: SessionDB, session_id: str = "s") -> int:
    session = db.get_session(session_id)
    assert session is not None
    return int(session["message_count"])


@pytest.fixture
def s(db: SessionDB) -> SessionDB:
    db.create_session("s", "cli")
    return db


TURN: list[Json] = [
    {"role": "user", "content": "q", "idempotency_key": "k1"},
    {"role": "assistant", "tool_calls": [{"id": "c"}], "idempotency_key": "k2"},
    {"role": "tool", "content": "r", "tool_call_id": "c", "idempotency_key": "k3"},
]

# ---------------------------------------------------------------------- duplicates


def test_duplicates_batch_is_stored_whole_with_one_count(s: SessionDB) -> None:
    """#12563, #19407, #104673, #92231, #99477."""
    ids = s.append_messages("s", TURN)
    assert [message["id"] for message in s.get_messages("s")] == ids
    session = s.get_session("s")
    assert session is not None
    assert (session["message_count"], session["tool_call_count"]) == (3, 1)


@pytest.mark.parametrize(
    "bad, error",
    [
        ({"role": None, "content": "no role"}, IntegrityError),
        ({"role": "user", "contents": "a typo"}, Invalid),
        ("not a dict", Invalid),
        ({"role": "user", "reasoning_details": object()}, Invalid),
    ],
)
def test_duplicates_failed_batch_leaves_nothing_behind(
    s: SessionDB, bad: Any, error: type[Exception]
) -> None:
    """#12563, #19407: a partial flush is what the next flush doubles."""
    with pytest.raises(error):
        s.append_messages("s", [*TURN, bad])
    assert (contents(s), count_of(s)) == ([], 0)
    assert s.append_messages("s", TURN) != []
    assert len(contents(s)) == 3


def test_duplicates_batch_for_an_unknown_session_is_refused(s: SessionDB) -> None:
    """#12563."""
    with pytest.raises(IntegrityError):
        s.append_messages("nobody", TURN)
    assert s.message_count() == 0


def test_duplicates_retry_with_keys_stores_nothing_twice(s: SessionDB) -> None:
    """#104673, #92231, #99477."""
    first = s.append_messages("s", TURN)
    assert s.append_messages("s", TURN) == first
    assert (len(contents(s)), count_of(s)) == (3, 3)
    again = s.append_message("s", "user", "q", idempotency_key="k1")
    assert again == first[0]
    assert len(contents(s)) == 3


def test_duplicates_retry_after_a_partial_flush_adds_the_rest(s: SessionDB) -> None:
    """#12563, #104673: 468 messages had become 15,962 rows."""
    first = s.append_messages("s", TURN[:2])
    every = s.append_messages("s", TURN)
    assert every[:2] == first
    assert [message["role"] for message in s.get_messages("s")] == ["user", "assistant", "tool"]
    assert count_of(s) == 3


def test_duplicates_retry_works_after_reopening(s: SessionDB, factory: Factory) -> None:
    """#99477: the process that retries is another one."""
    first = s.append_messages("s", TURN)
    s.close()
    again = factory.reopen(s)
    assert again.append_messages("s", TURN) == first
    assert again.message_count() == 3


def test_duplicates_key_belongs_to_its_session(s: SessionDB) -> None:
    """#92231."""
    s.create_session("t", "cli")
    s.append_messages("s", TURN)
    s.append_messages("t", TURN)
    assert s.message_count() == 6


def test_duplicates_same_text_without_a_key_is_two_messages(s: SessionDB) -> None:
    """#12563: 'yes' said twice was said twice."""
    s.append_message("s", "user", "yes")
    s.append_message("s", "user", "yes")
    assert contents(s) == ["yes", "yes"]


# ---------------------------------------------------------------------- rewind


def test_rewind_can_be_undone(s: SessionDB, make: Make) -> None:
    """#70516, #80763, #82756: rewinding deleted rows for good."""
    ids = make("s", "one", "two", "three", "four")
    before = s.export_session("s")
    assert s.rewind_to_message("s", ids[2], any_role=True)["rewound_count"] == 2
    assert contents(s) == ["one", "two"]
    assert count_of(s) == 2
    assert s.search_messages("three") == []
    assert s.undo_rewind("s") == 2
    assert s.export_session("s") == before
    assert [hit["id"] for hit in s.search_messages("three")] == [ids[2]]


def test_rewind_twice_is_undone_step_by_step(s: SessionDB, make: Make) -> None:
    """#80763."""
    ids = make("s", "one", "two", "three", "four")
    assert s.rewind_to_message("s", ids[3], any_role=True)["rewound_count"] == 1
    assert s.rewind_to_message("s", ids[1], any_role=True)["rewound_count"] == 2
    assert contents(s) == ["one"]
    assert s.undo_rewind("s") == 2
    assert contents(s) == ["one", "two", "three"]
    assert s.undo_rewind("s") == 1
    assert contents(s) == ["one", "two", "three", "four"]
    assert s.undo_rewind("s") == 0


def test_rewind_brings_every_value_back(s: SessionDB) -> None:
    """#82756: also what no text column can hold."""
    s.append_message("s", "user", "keep")
    odd = s.append_message(
        "s",
        "assistant",
        [{"type": "text", "text": "half \ud800"}],
        tool_calls=[{"id": "c"}],
        reasoning="why",
        reasoning_details=[{"a": 1}],
        timestamp=123.5,
    )
    before = s.get_messages("s")
    assert s.rewind_to_message("s", odd, any_role=True)["rewound_count"] == 1
    assert s.undo_rewind("s") == 1
    assert s.get_messages("s") == before
    assert s.get_session("s")["tool_call_count"] == 1  # type: ignore[index]


def test_rewound_messages_are_out_of_sight_of_other_programs(
    s: SessionDB, make: Make, factory: Factory
) -> None:
    """#70516: Hermes must not replay what was taken back."""
    ids = make("s", "one", "two")
    s.rewind_to_message("s", ids[1], any_role=True)
    assert factory.rows(s, "SELECT content FROM messages") == [{"content": "one"}]


def test_rewind_leaves_other_sessions_alone(s: SessionDB, make: Make) -> None:
    """#70516."""
    [first, _] = make("s", "one", "two")
    make("t", "mine")
    assert s.rewind_to_message("s", first, any_role=True)["rewound_count"] == 2
    assert (contents(s, "s"), contents(s, "t")) == ([], ["mine"])


def test_rewind_new_messages_are_kept(s: SessionDB, make: Make) -> None:
    """#80763: going on after a rewind loses neither the old nor the new."""
    ids = make("s", "one", "two")
    s.rewind_to_message("s", ids[1], any_role=True)
    make("s", "other")
    assert contents(s) == ["one", "other"]
    assert s.undo_rewind("s") == 1
    assert contents(s) == ["one", "two"]
    assert s.undo_rewind("s") == 1
    assert contents(s) == ["one", "other"]


# ---------------------------------------------------------------------- clocks


def test_clock_steps_do_not_reorder_replay(s: SessionDB, clock: Clock) -> None:
    """#25589, #47669, #56276: a tool result before its call is an HTTP 400."""
    s.append_message("s", "user", "list")
    s.append_message("s", "assistant", tool_calls=[{"id": "c"}])
    clock.pass_days(-1)
    s.append_message("s", "tool", "a.txt", tool_call_id="c")
    s.append_message("s", "assistant", "one file")
    roles = ["user", "assistant", "tool", "assistant"]
    assert [turn["role"] for turn in s.get_messages_as_conversation("s")] == roles
    assert [message["role"] for message in s.iter_messages("s", page=1)] == roles
    exported = s.export_session("s")
    assert exported is not None
    assert [message["role"] for message in exported["messages"]] == roles


def test_clock_a_given_timestamp_is_kept(s: SessionDB) -> None:
    """#47669: messages of another platform bring their own time."""
    s.append_message("s", "user", "late", timestamp=200.0)
    s.append_message("s", "user", "early", timestamp=100.0)
    assert contents(s) == ["late", "early"]
    assert [message["timestamp"] for message in s.get_messages("s")] == [200.0, 100.0]


# ---------------------------------------------------------------------- values


def test_odd_values_do_not_lose_later_saves(s: SessionDB) -> None:
    """Commits 81d461970 and 531ac2040: lone surrogates and list content."""
    picture = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]
    turn: list[Json] = [
        {"role": "user", "content": "bad \udce2 byte"},
        {"role": "user", "content": picture},
        {"role": "assistant", "content": "after"},
    ]
    s.append_messages("s", turn)
    assert contents(s) == [message["content"] for message in turn]


def test_odd_values_are_valid_text_to_other_programs(s: SessionDB, factory: Factory) -> None:
    """Commit 81d461970: any reader of the file must be able to read it."""
    s.append_message("s", "user", "bad \udce2 byte")
    s.append_message("s", "user", [{"type": "text", "text": "hello"}])
    sql = "SELECT content AS text, CAST(content AS BLOB) AS bytes FROM messages"
    assert all(row["bytes"].decode() == row["text"] for row in factory.rows(s, sql))


def test_odd_values_survive_export_and_import(s: SessionDB, factory: Factory) -> None:
    """Commit 531ac2040: also over the way out and in."""
    s.append_message("s", "user", "bad \udce2 byte")
    s.append_message("s", "user", [{"type": "text", "text": "hello"}])
    lines = list(s.iter_export())
    assert all(json.loads(line) for line in lines)
    other = factory.open()
    other.import_sessions(lines)
    assert contents(other) == contents(s)


def test_odd_values_list_content_is_found_by_its_text(s: SessionDB) -> None:
    """Commit 531ac2040."""
    s.append_message("s", "user", [{"type": "text", "text": "the walrus in the picture"}])
    assert [hit["session_id"] for hit in s.search_messages("walrus")] == ["s"]
