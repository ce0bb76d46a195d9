"""Parts of older writers are read under the AI SDK's names."""

from typing import Any

import pytest

from threadkeep.chat.wire.protocol import normalize_part


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
