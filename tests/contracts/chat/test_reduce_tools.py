"""What tool chunks make of a message, trap by trap."""

from contextlib import suppress
from typing import Any

import pytest

from tests.support.chunks import START_STEP, Chunk, chunk, delta, parts_of, reduce_chunks, tool
from threadkeep.chat.wire.parts import late_tool_output
from threadkeep.chat.wire.reduce import Change, StreamState
from threadkeep.errors import Invalid, ProtocolViolation


def test_the_input_of_a_tool_arrives_in_pieces() -> None:
    state = StreamState()
    assert state.apply(tool("tool-input-start", title="T")) == Change(parts=(0,))
    base = {"type": "tool-search", "toolCallId": "c", "state": "input-streaming", "title": "T"}
    assert state.part(0) == base
    assert state.apply(delta("")) == Change(delta_of=0)
    assert state.part(0) == {**base, "rawInput": ""}
    assert state.apply(delta('{"q": "\ud83d')) == Change(delta_of=0, grew=8)
    assert state.apply(delta("\ude00")) == Change(delta_of=0)
    assert state.part(0) == {**base, "input": {"q": "😀"}, "rawInput": '{"q": "😀'}
    assert state.size_of(0) == 8
    state.apply(tool("tool-input-available", input={"q": 1}, providerMetadata={"v": {}}))
    available = {**base, "state": "input-available", "input": {"q": 1}}
    assert state.part(0) == {**available, "callProviderMetadata": {"v": {}}}


def test_input_that_is_plain_text() -> None:
    assert parts_of(tool("tool-input-start", inputEncoding="text"), delta("{a")) == [
        {
            "type": "tool-search",
            "toolCallId": "c",
            "state": "input-streaming",
            "inputEncoding": "text",
            "input": "{a",
            "rawInput": "{a",
        }
    ]


def test_outputs_keep_input_title_and_approval() -> None:
    state = StreamState()
    state.apply(tool("tool-input-available", input={"q": 1}, title="T", providerExecuted=True))
    state.apply(tool("tool-approval-request", approvalId="a", inputSchemaInput=None, signature="s"))
    approval = {"id": "a", "inputSchemaInput": None, "signature": "s"}
    base: Chunk = {"type": "tool-search", "toolCallId": "c", "title": "T", "input": {"q": 1}}
    base |= {"providerExecuted": True, "approval": approval}
    assert state.part(0) == {**base, "state": "approval-requested"}
    state.apply(tool("tool-output-available", output=[1], preliminary=True))
    assert state.part(0) == {
        **base,
        "state": "output-available",
        "output": [1],
        "preliminary": True,
    }
    state.apply(tool("tool-output-available", output=None, providerMetadata={"v": {"r": 1}}))
    done = {**base, "state": "output-available", "resultProviderMetadata": {"v": {"r": 1}}}
    assert state.part(0) == {**done, "output": None}
    state.apply(tool("tool-output-error", errorText="no", toolMetadata={"m": 1}))
    failed = {**done, "state": "output-error", "errorText": "no", "toolMetadata": {"m": 1}}
    assert state.part(0) == failed
    state.apply(tool("tool-output-denied"))
    assert state.part(0) == {**failed, "state": "output-denied"}


@pytest.mark.parametrize("dynamic", [False, True])
def test_an_output_error_keeps_the_raw_input_of_a_static_tool_only(dynamic: bool) -> None:  # noqa: FBT001
    (part,) = parts_of(
        tool("tool-input-start", dynamic=dynamic),
        delta('{"q": [1'),
        tool("tool-output-error", errorText="no"),
    )
    assert part["input"] == {"q": [1]}
    assert ("rawInput" in part) is not dynamic


def test_an_input_error_follows_the_kind_of_the_part_that_is_there() -> None:
    failed = tool("tool-input-error", input="bad", errorText="no", title="dropped")
    outcome = {"toolCallId": "c", "state": "output-error", "errorText": "no"}
    static = {"type": "tool-search", **outcome, "input": "bad"}
    dynamic = {"type": "dynamic-tool", "toolName": "search", **outcome, "input": "bad"}
    assert parts_of(failed) == [static]
    assert parts_of({**failed, "dynamic": True}) == [dynamic]
    assert parts_of(tool("tool-input-start"), {**failed, "dynamic": True}) == [static]
    assert parts_of(tool("tool-input-start", dynamic=True), failed) == [dynamic]


def test_version_6_keeps_the_bad_input_of_a_static_tool_as_raw_input() -> None:
    failed = tool("tool-input-error", input="bad", errorText="no")
    (part,) = reduce_chunks([failed], protocol=6)["parts"]
    assert (part["rawInput"], "input" in part) == ("bad", False)


def test_approval_keeps_why_it_was_asked_for_and_what_was_answered() -> None:
    call = tool("tool-input-available", input=1)
    asked = tool("tool-approval-request", approvalId="a", reason="why", isAutomatic=True)
    answer = chunk("tool-approval-response", approvalId="a", approved=False, reason="no")
    (part,) = parts_of(call, asked, answer)
    approval = {"id": "a", "requestReason": "why", "isAutomatic": True}
    assert part["approval"] == {**approval, "approved": False, "reason": "no"}
    (part,) = parts_of(call, {**asked, "reason": None, "isAutomatic": False})
    assert part["approval"] == {"id": "a"}
    (part,) = reduce_chunks([call, asked], protocol=6)["parts"]
    assert part["approval"] == {"id": "a"}


def test_static_and_dynamic_calls_with_one_id_are_two_parts() -> None:
    state = StreamState()
    state.apply(tool("tool-input-start"))
    state.apply(delta("[1"))
    assert state.apply(tool("tool-input-start", dynamic=True)).parts == (0, 1)
    assert state.apply(delta("[2")) == Change(delta_of=1, grew=2)
    assert [part["rawInput"] for part in state.message()["parts"]] == ["[1", "[2"]
    assert state.apply(START_STEP).parts == (1, 2)  # the first one ended long ago


def test_a_repaired_name_renames_the_part() -> None:
    renamed = tool("tool-input-available", input=1) | {"toolName": "find-it"}
    (part,) = parts_of(tool("tool-input-start"), renamed)
    assert part["type"] == "tool-find-it"


def test_one_call_id_in_two_steps_is_two_parts_and_outputs_find_the_right_one() -> None:
    used = (tool("tool-input-available", input=1), tool("tool-output-available", output="a"))
    again = (START_STEP, tool("tool-input-available", input=2))
    parts = parts_of(*used, *again, tool("tool-output-available", output="b"))
    assert [(part.get("input"), part.get("output")) for part in parts] == [
        *((1, "a"), (None, None), (2, "b")),
    ]
    late = parts_of(*used, *again, START_STEP, tool("tool-output-available", output="late"))
    assert [part.get("output") for part in late] == ["a", None, "late", None]


def test_a_delta_after_the_input_was_complete_reopens_the_part() -> None:
    state = StreamState()
    state.apply(tool("tool-input-start"))
    state.apply(delta("[1"))
    state.apply(tool("tool-input-available", input=[1]))
    assert state.target_of(delta(",2")) is None
    assert state.apply(delta(",2")) == Change(parts=(0,), grew=2)
    assert state.part(0) == {
        "type": "tool-search",
        "toolCallId": "c",
        "state": "input-streaming",
        "input": [1, 2],
        "rawInput": "[1,2",
    }
    assert state.apply(delta(",3")) == Change(delta_of=0, grew=2)


def test_a_delta_in_a_later_step_opens_another_part() -> None:
    state = StreamState()
    state.apply(tool("tool-input-start", dynamic=True))
    state.apply(delta("[1"))
    assert state.apply(START_STEP) == Change(parts=(0, 1))
    assert state.apply(delta(",2")) == Change(parts=(2,), grew=2)
    assert state.part(0)["rawInput"] == "[1"
    assert "rawInput" not in state.part(2)  # the SDK writes it from the second delta on
    assert state.part(2)["input"] == [1, 2]
    assert state.apply(delta(",3")) == Change(parts=(2,), grew=2)
    assert state.part(2)["rawInput"] == "[1,2,3"


def test_an_unfinished_input_of_a_continued_message_goes_on() -> None:
    unfinished = {
        "type": "tool-search",
        "toolCallId": "c",
        "state": "input-streaming",
        "title": "T",
        "input": [1],
        "rawInput": "[1,",
    }
    initial = {"id": "m", "role": "assistant", "parts": [{"type": "step-start"}, unfinished]}
    assert parts_of(delta("2]"), message=initial)[1] == {
        **unfinished,
        "input": [1, 2],
        "rawInput": "[1,2]",
    }
    initial["parts"] = [unfinished, {"type": "step-start"}]
    with pytest.raises(ProtocolViolation):
        StreamState(initial).apply(delta("2]"))


ODD: list[Any] = [5, 0, True, None, "text", "", [], ["a", "b"], {}, {"id": ["a"]}, 1.5]


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize("field", ["toolCallId", "toolName", "rawInput", "input", "approval"])
def test_a_stored_part_of_any_shape_can_be_continued(field: str, odd: Any) -> None:
    for kind in ("tool-search", "dynamic-tool"):
        part = {"type": kind, "toolCallId": "c", "toolName": "t", "state": "input-streaming"}
        state = StreamState({"id": "m", "role": "assistant", "parts": [{**part, field: odd}]})
        for made in (
            delta("[1]"),
            delta("[1]", "None"),
            chunk("tool-approval-response", approvalId="a", approved=True),
            tool("tool-output-available", output=1),
            START_STEP,
            delta("[2]"),
        ):
            with suppress(ProtocolViolation):
                state.apply(made)
            restored = StreamState.restore(state.message(), state.dump_open())
            assert restored.message() == state.message()


def test_an_input_that_is_no_text_begins_anew() -> None:
    part = {"type": "tool-x", "toolCallId": "c", "state": "input-streaming", "rawInput": 5}
    initial = {"id": "m", "role": "assistant", "parts": [part]}
    (continued,) = parts_of(delta("[1]"), message=initial)
    assert (continued["input"], continued["rawInput"]) == ([1], "[1]")


@pytest.mark.parametrize("approval", ["a", 5, ["a"]])
def test_an_approval_that_is_no_object_is_none(approval: Any) -> None:
    part = {"type": "tool-x", "toolCallId": "c", "state": "x", "approval": approval}
    initial = {"id": "m", "role": "assistant", "parts": [part]}
    response = chunk("tool-approval-response", approvalId="a", approved=True)
    with pytest.raises(ProtocolViolation, match="never requested"):
        StreamState(initial).apply(response)
    answered = late_tool_output(part, response)
    assert answered["approval"] == {"id": "a", "approved": True}


@pytest.mark.parametrize("odd", [5, 0, ["a", "b"], {}], ids=repr)
def test_an_open_text_that_is_no_text_is_not_restored(odd: Any) -> None:
    for made, field in (
        (chunk("text-start", id="1"), "text"),
        (tool("tool-input-start"), "rawInput"),
    ):
        state = StreamState()
        state.apply(made)
        message = state.message()
        message["parts"][0][field] = odd
        with pytest.raises(TypeError):
            StreamState.restore(message, state.dump_open())


# Version 7


def test_reset_step_removes_the_parts_of_the_step() -> None:
    state = StreamState()
    for made in (chunk("data-x", id="1", data=1), tool("tool-input-available", input=1)):
        state.apply(made)
    state.apply(chunk("text-start", id="open"))
    for made in (START_STEP, tool("tool-input-start"), chunk("data-x", id="2", data=2)):
        state.apply(made)
    assert state.apply(chunk("reset-step")) == Change(parts=(2,), truncated_to=4)
    assert state.apply(chunk("reset-step")) == Change()
    assert state.part_count == 4
    assert state.apply(tool("tool-output-available", output="found")).parts == (1,)
    assert state.apply(chunk("data-x", id="2", data=3)).parts == (4,)
    for gone in (delta("["), chunk("text-delta", id="open", delta="x")):
        with pytest.raises(ProtocolViolation):
            state.apply(gone)


def test_an_approval_response_finds_its_request() -> None:
    response = chunk("tool-approval-response", approvalId="a", approved=False, reason="no")
    (part,) = parts_of(
        tool("tool-input-available", input=1),
        tool("tool-approval-request", approvalId="a", approvalDescriptor={"d": 1}),
        {**response, "providerExecuted": True, "providerMetadata": {"v": {}}},
    )
    assert part["state"] == "approval-responded"
    assert part["approval"] == {
        "id": "a",
        "descriptor": {"d": 1},
        "approved": False,
        "reason": "no",
    }
    assert part["providerExecuted"] is True
    assert part["callProviderMetadata"] == {"v": {}}


def test_reasoning_files_custom_content_and_citations() -> None:
    cited = [{"type": "url"}]
    assert parts_of(
        chunk("reasoning-file", url="u", mediaType="m"),
        chunk("custom", kind="v.k", providerMetadata={"v": {}}, extra=1),
        chunk("text-start", id="1"),
        chunk("text-end", id="1", citations=cited),
    ) == [
        {"type": "reasoning-file", "mediaType": "m", "url": "u"},
        {"type": "custom", "kind": "v.k", "providerMetadata": {"v": {}}},
        {"type": "text", "text": "", "state": "done", "citations": cited},
    ]


# Outputs for an earlier message


def test_late_output_changes_a_stored_part() -> None:
    stored = {"type": "tool-x", "toolCallId": "c", "state": "input-available", "input": 1}
    kept = dict(stored)
    done = {**stored, "state": "output-available", "output": 2}
    assert late_tool_output(stored, tool("tool-output-available", output=2)) == done
    denied = late_tool_output(stored, tool("tool-output-denied"))
    assert denied == {**stored, "state": "output-denied"}
    asked = late_tool_output(stored, tool("tool-approval-request", approvalId="a"))
    assert asked == {**stored, "state": "approval-requested", "approval": {"id": "a"}}
    failed = late_tool_output(done, tool("tool-output-error", errorText="no"))
    assert failed == {**stored, "state": "output-error", "errorText": "no"}
    assert stored == kept


def test_only_outputs_and_approvals_reach_back() -> None:
    stored = {"type": "tool-x", "toolCallId": "c", "state": "input-available", "input": 1}
    with pytest.raises(Invalid, match="tool-input-start"):
        late_tool_output(stored, tool("tool-input-start"))
    with pytest.raises(Invalid, match="text part"):
        late_tool_output({"type": "text", "text": ""}, tool("tool-output-denied"))
