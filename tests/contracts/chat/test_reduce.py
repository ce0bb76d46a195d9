"""What each kind of chunk makes of a message, trap by trap; tools have a file of their own."""

from typing import Any

import pytest

from tests.support.chunks import (
    FINISH_STEP,
    START_STEP,
    Chunk,
    chunk,
    delta,
    parts_of,
    reduce_chunks,
    tool,
)
from threadkeep.chat.wire.reduce import Change, StreamState, merge_metadata
from threadkeep.errors import Invalid, ProtocolViolation

# Messages, metadata and steps


def test_a_stream_without_start_or_steps() -> None:
    chunks = [chunk("text-start", id="1"), chunk("text-delta", id="1", delta="hi")]
    assert reduce_chunks(chunks) == {
        "id": "",
        "role": "assistant",
        "parts": [{"type": "text", "text": "hi", "state": "streaming"}],
    }


def test_a_user_message_is_not_continued() -> None:
    user = {"id": "u", "role": "user", "parts": [{"type": "text", "text": "hi"}]}
    assert reduce_chunks([START_STEP], user)["parts"] == [{"type": "step-start"}]


def test_continuing_keeps_parts_metadata_and_unknown_keys() -> None:
    text = {"type": "text", "text": "a"}
    initial = {"id": "m", "role": "assistant", "parts": [text], "metadata": {"a": 1}, "x": 2}
    chunks = [chunk("start", messageId="m", messageMetadata={"b": 2}), START_STEP]
    assert reduce_chunks(chunks, initial) == {
        **initial,
        "parts": [text, {"type": "step-start"}],
        "metadata": {"a": 1, "b": 2},
    }
    assert initial["metadata"] == {"a": 1}
    assert initial["parts"] == [text]


def test_another_message_id_starts_from_nothing() -> None:
    state = StreamState()
    assert not state.apply(chunk("start", messageId="m1", messageMetadata={"a": 1})).restarted
    state.apply(START_STEP)
    assert not state.apply(chunk("start", messageId="m1")).restarted
    assert not state.apply(chunk("start")).restarted
    state.apply(chunk("finish", finishReason="stop"))
    change = state.apply(chunk("start", messageId="m2", messageMetadata={"b": 2}))
    assert change == Change(restarted=True, metadata={"b": 2})
    assert state.message() == {
        "id": "m2",
        "metadata": {"b": 2},
        "role": "assistant",
        "parts": [],
    }
    assert state.finish_reason is None


def test_finish_reason_is_kept_beside_the_message() -> None:
    state = StreamState()
    state.apply(chunk("finish", finishReason="length"))
    state.apply(chunk("finish"))
    assert state.finish_reason == "length"
    assert state.message() == {"id": "", "role": "assistant", "parts": []}


def test_metadata_merges_deeply() -> None:
    base = {"a": {"x": 1, "y": [1, 2]}, "b": 1, "n": {"k": 1}}
    override = {"a": {"y": [3], "z": None}, "n": None, "b": {"c": 2}}
    assert merge_metadata(base, override) == {
        "a": {"x": 1, "y": [3], "z": None},
        "b": {"c": 2},
        "n": None,
    }
    assert base == {"a": {"x": 1, "y": [1, 2]}, "b": 1, "n": {"k": 1}}


def test_metadata_that_is_null_is_ignored_and_prototype_keys_are_not_merged() -> None:
    first = {"constructor": 1, "a": {"prototype": 2}}
    later = {"constructor": 3, "__proto__": 4, "a": {"prototype": 5, "b": 6}}
    state = StreamState()
    assert state.apply(chunk("message-metadata", messageMetadata=first)).metadata == first
    assert state.apply(chunk("message-metadata", messageMetadata=None)) == Change()
    state.apply(chunk("finish", messageMetadata=later))
    assert state.metadata == {"constructor": 1, "a": {"prototype": 2, "b": 6}}


def test_metadata_may_be_nested_deeper_than_python_recurses() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"d": deep}
    assert merge_metadata(deep, deep) is not None


@pytest.mark.parametrize("kind", ["abort", "error", "from-the-future", "finish-step"])
def test_chunks_that_change_nothing(kind: str) -> None:
    state = StreamState()
    unknown = kind == "from-the-future"
    assert state.apply(chunk(kind, errorText="x", id="1")) == Change(unknown=unknown)
    assert state.message() == {"id": "", "role": "assistant", "parts": []}


# Text, reasoning, files, sources and data


@pytest.mark.parametrize("kind", ["text", "reasoning"])
def test_a_text_from_start_to_end(kind: str) -> None:
    own_id = {"id": "1"} if kind == "reasoning" else {}
    signed = {"vendor": {"signature": "s"}}
    state = StreamState()
    assert state.apply(chunk(f"{kind}-start", id="1")) == Change(parts=(0,))
    assert state.apply(chunk(f"{kind}-delta", id="1", delta="a\x00")) == Change(delta_of=0, grew=2)
    changed = state.apply(chunk(f"{kind}-delta", id="1", delta="b", providerMetadata=signed))
    assert changed == Change(parts=(0,), grew=1)
    again = state.apply(chunk(f"{kind}-delta", id="1", delta="", providerMetadata=signed))
    assert again == Change(delta_of=0)
    assert state.apply(chunk(f"{kind}-end", id="1", providerMetadata=None)) == Change(parts=(0,))
    part = {"type": kind, **own_id, "text": "a\x00b", "providerMetadata": signed, "state": "done"}
    assert state.part(0) == part
    assert state.size_of(0) == 3


def test_halves_of_a_surrogate_pair_meet() -> None:
    state = StreamState()
    state.apply(chunk("text-start", id="1"))
    pieces = ("a\ud83d", "", "\ude00\ud83d", "b\ude00")
    grown = [state.apply(chunk("text-delta", id="1", delta=piece)).grew for piece in pieces]
    assert grown == [2, 0, 1, 2]
    assert state.part(0)["text"] == "a😀\ud83db\ude00"  # halves that never met stay as they are
    assert state.size_of(0) == 5


def test_chunks_of_version_7_are_unknown_to_version_6() -> None:
    state = StreamState(protocol=6)
    for kind in ("steering-message", "custom", "reasoning-file", "reset-step"):
        new = chunk(kind, id="s", parts=[], kind="a.b", url="data:,x", mediaType="image")
        assert state.apply(new) == Change(unknown=True)
    assert state.part_count == 0


def test_steering_is_a_part_at_its_place_without_what_does_not_belong_to_it() -> None:
    said = [{"type": "text", "text": "Stop!", "more": 1}, {"type": "from-the-future", "x": 2}]
    steer = chunk("steering-message", id="u1", parts=said, providerMetadata={"a": {}}, extra=1)
    assert parts_of(chunk("custom", kind="a.b"), steer, START_STEP) == [
        {"type": "custom", "kind": "a.b"},
        {"type": "steering-message", "id": "u1", "parts": said},
        {"type": "step-start"},
    ]


def test_version_7_lets_texts_grow_after_the_end_of_their_step() -> None:
    state = StreamState()
    for kind in ("reasoning", "text"):
        state.apply(chunk(f"{kind}-start", id="1"))
    state.apply(FINISH_STEP)
    state.apply(START_STEP)
    assert state.apply(chunk("text-delta", id="1", delta="x")) == Change(delta_of=1, grew=1)
    state.apply(chunk("text-start", id="1"))  # takes the id over; the first one stays open
    state.apply(chunk("text-end", id="1"))
    assert [part.get("state") for part in state.message()["parts"]] == [
        *("streaming", "streaming", None, "done"),
    ]


def test_finish_step_of_version_6_forgets_open_texts_and_reports_them() -> None:
    state = StreamState(protocol=6)
    for kind in ("reasoning", "text"):
        state.apply(chunk(f"{kind}-start", id="1"))
        state.apply(chunk(f"{kind}-delta", id="1", delta="x"))
    assert state.apply(FINISH_STEP) == Change(parts=(0, 1))
    assert state.part(1) == {"type": "text", "text": "x", "state": "streaming"}
    with pytest.raises(ProtocolViolation):
        state.apply(chunk("text-delta", id="1", delta="y"))


def test_an_id_that_starts_again_leaves_the_first_text_open() -> None:
    state = StreamState()
    state.apply(chunk("text-start", id="1"))
    state.apply(chunk("text-delta", id="1", delta="x"))
    assert state.apply(chunk("text-start", id="1")) == Change(parts=(0, 1))
    state.apply(chunk("text-delta", id="1", delta="y"))
    assert [part["text"] for part in state.message()["parts"]] == ["x", "y"]


def test_files_and_sources() -> None:
    assert parts_of(
        chunk("file", url="u", mediaType="m", providerMetadata=None, extra=1),
        chunk("source-url", sourceId="s", url="u", providerMetadata=None),
        chunk("source-document", sourceId="s", mediaType="m", title="t", filename="f"),
    ) == [
        {"type": "file", "mediaType": "m", "url": "u"},
        {"type": "source-url", "sourceId": "s", "url": "u", "providerMetadata": None},
        chunk("source-document", sourceId="s", mediaType="m", title="t", filename="f"),
    ]


def test_data_parts_replace_by_type_and_id() -> None:
    state = StreamState()
    changes = [
        state.apply(chunk("data-x", id="1", data={"a": 1}, transient=False)),
        state.apply(chunk("data-y", id="1", data=2)),
        state.apply(chunk("data-x", data=3)),
        state.apply(chunk("data-x", id="1", data=None, more=4)),
        state.apply(chunk("data-x", id="1", data=5, transient=True)),
    ]
    assert [change.parts for change in changes] == [(0,), (1,), (2,), (0,), ()]
    assert changes[-1].transient
    assert state.message()["parts"] == [
        chunk("data-x", id="1", data=None, transient=False),
        chunk("data-y", id="1", data=2),
        chunk("data-x", data=3),
    ]


def test_data_of_a_continued_message_is_replaced() -> None:
    initial = {"id": "m", "role": "assistant", "parts": [chunk("data-x", id="1", data=1)]}
    assert parts_of(chunk("data-x", id="1", data=2), message=initial) == [
        chunk("data-x", id="1", data=2)
    ]


# Violations

VIOLATIONS = [
    (chunk("text-delta", id="7", delta="x"), "text-start"),
    (chunk("text-end", id="7"), "text-start"),
    (chunk("reasoning-delta", id="7", delta="x"), "reasoning-start"),
    (chunk("reasoning-end", id="7"), "reasoning-start"),
    (delta("x", "7"), "tool-input-start"),
    (tool("tool-output-available", "7", output=1), "tool-input-available"),
    (tool("tool-output-error", "7", errorText="x"), "tool-input-available"),
    (tool("tool-output-denied", "7"), "tool-input-available"),
    (tool("tool-approval-request", "7", approvalId="a"), "tool-input-available"),
    (chunk("tool-approval-response", approvalId="7", approved=True), "tool-approval-request"),
]


@pytest.mark.parametrize("bad, must_come_first", VIOLATIONS)
def test_a_violation_names_the_chunk_and_changes_nothing(bad: Chunk, must_come_first: str) -> None:
    state = StreamState()
    for good in (chunk("text-start", id="1"), tool("tool-input-start"), delta("[")):
        state.apply(good)
    before = (state.message(), state.dump_open())
    with pytest.raises(ProtocolViolation) as caught:
        state.apply(bad)
    assert bad["type"] in caught.value.message
    assert '"7"' in caught.value.message
    assert must_come_first in caught.value.hint
    assert state.target_of(bad) is None
    assert (state.message(), state.dump_open()) == before


def test_lenient_reducing_skips_what_strict_refuses() -> None:
    chunks = [START_STEP, {"no": "type"}, chunk("text-end", id="1"), FINISH_STEP, START_STEP]
    assert len(reduce_chunks(chunks)["parts"]) == 2
    with pytest.raises(Invalid):
        reduce_chunks(chunks, strict=True)
