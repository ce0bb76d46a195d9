"""snake_case at rest, camelCase on the wire."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from threadkeep.chat.wire.protocol import OPAQUE, from_wire, normalize_part, to_wire

SNAKE = st.from_regex(r"[a-z][a-z0-9]{0,3}(_[a-z][a-z0-9]{0,3}){0,2}", fullmatch=True)
RECORDS = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SNAKE, inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.parametrize(
    "stored,wire",
    [
        ("session_id", "sessionId"),
        ("tool_call_id", "toolCallId"),
        ("provider_id", "providerId"),
        ("model_id", "modelId"),
        ("parent_message_id", "parentMessageId"),
        ("started_at", "startedAt"),
        ("error_text", "errorText"),
        ("cache_read", "cacheRead"),
        ("sha256_digest", "sha256Digest"),
        ("id", "id"),
    ],
)
def test_the_rename_table_of_the_guide(stored: str, wire: str) -> None:
    assert to_wire({stored: 1}) == {wire: 1}
    assert from_wire({wire: 1}) == {stored: 1}


@pytest.mark.parametrize(
    "name", ["x_1", "_private", "a__b", "HTTPStatus", "tool-bash", "", "é_x", "A"]
)
def test_names_that_would_not_come_back_are_left_alone(name: str) -> None:
    assert to_wire({name: 1}) == {name: 1}
    assert from_wire({name: 1}) == {name: 1}


@given(RECORDS)
def test_a_record_comes_back_from_the_wire(record: Any) -> None:
    assert from_wire(to_wire(record)) == record


def test_records_are_renamed_at_every_level() -> None:
    stored = {
        "session_id": "ses_1",
        "model": {"provider_id": "p", "model_id": "m"},
        "permissions": [{"permission": "bash", "added_at": 1}],
        "trigger": {"fired_at": 1, "headers": {"x_request_id": "1"}},
    }
    assert to_wire(stored) == {
        "sessionId": "ses_1",
        "model": {"providerId": "p", "modelId": "m"},
        "permissions": [{"permission": "bash", "addedAt": 1}],
        "trigger": {"firedAt": 1, "headers": {"x_request_id": "1"}},
    }


PAYLOAD = {"file_path": 1, "fileName": [{"deep_er": 1, "deepEr": 2}]}


@pytest.mark.parametrize("name", sorted(OPAQUE))
def test_what_others_own_is_passed_through_untouched(name: str) -> None:
    wire = to_wire({"outer_field": {name: PAYLOAD}})
    ((renamed, payload),) = wire["outerField"].items()
    assert payload == PAYLOAD
    assert from_wire(wire) == {"outer_field": {name: PAYLOAD}}
    assert from_wire({renamed: PAYLOAD}) == {name: PAYLOAD}


def test_camel_case_counts_where_both_are_there() -> None:
    for record in ({"session_id": 1, "sessionId": 2}, {"sessionId": 2, "session_id": 1}):
        assert to_wire(record) == {"sessionId": 2}
        assert from_wire(record) == {"session_id": 2}


def test_the_given_record_is_not_changed() -> None:
    record = {"model": {"model_id": 1}}
    to_wire(record)["model"]["x"] = 1
    assert record == {"model": {"model_id": 1}}


def test_an_old_part_is_read_under_the_sdks_names() -> None:
    old = {
        "type": "tool-bash",
        "tool_call_id": "c1",
        "state": "output-error",
        "input": {"tool_call_id": "not mine"},
        "error_text": "no",
        "provider_executed": True,
        "call_provider_metadata": {"x_y": 1},
    }
    assert normalize_part(old) == {
        "type": "tool-bash",
        "toolCallId": "c1",
        "state": "output-error",
        "input": {"tool_call_id": "not mine"},
        "errorText": "no",
        "providerExecuted": True,
        "callProviderMetadata": {"x_y": 1},
    }


@pytest.mark.parametrize(
    "part",
    [
        {"type": "text", "text": "x", "state": "done"},
        {"type": "data-x", "id": "1", "data": {"tool_call_id": 1}, "tool_call_id": "kept"},
        {"type": "file", "mediaType": "image/png", "url": "u"},
        {"type": "unknown-new", "some_field": 1},
        {"type": None, "x": 1},
        {},
    ],
)
def test_a_part_that_needs_nothing_comes_back_equal(part: dict[str, Any]) -> None:
    assert normalize_part(part) == part
    assert list(normalize_part(part)) == list(part)


def test_camel_case_wins_inside_a_part() -> None:
    for part in (
        {"error_text": "old", "errorText": "new"},
        {"errorText": "new", "error_text": "old"},
    ):
        assert normalize_part(part) == {"errorText": "new"}
