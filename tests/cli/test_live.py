"""The live rendering: what each event adds to the text on the screen."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.cli.conftest import HOSTILE
from threadkeep import Event
from threadkeep.cli.chat.follow import EventText

Json = dict[str, Any]

TOOL = {"toolCallId": "c", "toolName": "bash"}


def shown(*chunks: Json, message_id: str = "m1") -> str:
    """Render chunks of one message, without its heading."""
    live = EventText()
    events = [Event(n, "chunk", message_id, chunk, 0) for n, chunk in enumerate(chunks, 1)]
    text = "".join(piece.text for event in events for piece in live.take(event))
    return text.partition("\n")[2]


def delta(text: str, part: str = "0", kind: str = "text") -> Json:
    return {"type": f"{kind}-delta", "id": part, "delta": text}


def test_a_message_begins_with_a_heading() -> None:
    (role, facts) = EventText().take(Event(1, "chunk", "m1", {"type": "start"}, 0))
    assert (role.text, facts.text) == ("assistant", "  1970-01-01T00:00:00.000Z · m1\n")


def test_text_grows_in_place() -> None:
    assert shown(delta("Hel"), delta("lo\nthere"), {"type": "text-end"}) == "  Hello\n  there\n"


def test_another_part_begins_a_new_line() -> None:
    text = shown(delta("a", "0"), delta("b", "1"), delta("c", "0"), {"type": "finish"})
    assert text == "  a\n  b\n  c\n  — finished\n"


def test_thinking_is_marked_as_such() -> None:
    assert shown(delta("hm", kind="reasoning"), delta("so")) == "  thinking: hm\n  so"


def test_a_character_cut_in_half_is_shown_whole() -> None:
    assert shown(delta("a\ud83d"), delta("\ude00b")) == "  a😀b"


def test_line_ends_wait_for_what_follows() -> None:
    assert shown(delta("a\n\n"), delta("b\n"), {"type": "text-end"}) == "  a\n  \n  b\n"


def test_a_tool_call_shows_its_input_once() -> None:
    streamed = shown(
        {"type": "tool-input-start", **TOOL},
        {"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": '{"a":'},
        {"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": "1}"},
        {"type": "tool-input-available", **TOOL, "input": {"a": 1}},
        {"type": "tool-output-available", "toolCallId": "c", "output": {"ok": True}},
    )
    whole = shown(
        {"type": "tool-input-available", **TOOL, "input": {"a": 1}},
        {"type": "tool-output-available", "toolCallId": "c", "output": {"ok": True}},
    )
    assert streamed == whole == '  ▸ bash {"a":1}\n    → {"ok":true}\n'


@pytest.mark.parametrize(
    "chunk, text",
    [
        ({"type": "tool-output-error", "toolCallId": "c", "errorText": "no"}, "    ✗ no\n"),
        ({"type": "tool-output-denied", "toolCallId": "c"}, "    ✗ denied\n"),
        (
            {"type": "tool-output-available", "toolCallId": "c", "output": 1, "preliminary": True},
            "",
        ),
        (
            {"type": "tool-approval-request", "approvalId": "a", "toolCallId": "c"},
            "  ? bash is waiting for approval\n",
        ),
        (
            {"type": "tool-input-error", **TOOL, "input": 1, "errorText": "bad"},
            "  ▸ bash 1\n    ✗ bad\n",
        ),
        ({"type": "file", "url": "u", "mediaType": "image/png"}, "  [file] image/png u\n"),
        ({"type": "source-url", "sourceId": "s", "url": "u"}, "  [source-url] u\n"),
        ({"type": "data-mood", "data": {"calm": 1}}, '  [data-mood] {"calm":1}\n'),
        ({"type": "abort", "reason": "user"}, "  — stopped: user\n"),
        ({"type": "error", "errorText": "overloaded"}, "  — error: overloaded\n"),
        ({"type": "finish", "finishReason": "length"}, "  — finished: length\n"),
        ({"type": "start-step"}, ""),
        ({"type": "of-tomorrow", "x": 1}, '  [of-tomorrow] {"x":1}\n'),
        (
            {"type": "steering-message", "id": "u", "parts": [{"type": "text", "text": "Stop"}]},
            "  user, meanwhile:\n  Stop\n",
        ),
    ],
)
def test_every_kind_of_chunk(chunk: Json, text: str) -> None:
    assert shown({"type": "tool-input-start", **TOOL}, chunk) == text


def test_a_finished_message_is_shown_whole() -> None:
    parts = [{"type": "text", "text": "all of it"}]
    event = Event(9, "snapshot", "m1", {"id": "m1", "role": "assistant", "parts": parts}, 0)
    assert EventText().take(event)[-1].text == "  all of it\n"


def test_verbs_of_the_event_log_are_named_or_left_out() -> None:
    live = EventText()
    live.take(Event(1, "chunk", "m1", delta("x"), 0))
    pieces = live.take(Event(2, "rewind", None, {"put": [], "deleted": []}, 0))
    assert "".join(piece.text for piece in pieces) == "\n· rewind\n"
    assert live.take(Event(3, "usage", None, {}, 0)) == []


def test_the_same_part_id_in_the_next_message_starts_afresh() -> None:
    live = EventText()
    live.take(Event(1, "chunk", "m1", delta("a\n"), 0))
    pieces = live.take(Event(2, "chunk", "m2", delta("b"), 0))
    assert "".join(piece.text for piece in pieces).endswith("m2\n  b")


@given(st.lists(st.text(st.characters(exclude_characters="\n"), min_size=1), min_size=1))
def test_all_the_text_is_shown_however_it_is_cut(pieces: list[str]) -> None:
    whole = "".join(pieces)
    joined = whole.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    text = shown(*(delta(piece) for piece in pieces), delta("."))
    assert text == f"  {joined}."


@given(st.text(), st.text())
def test_any_text_in_any_chunk_is_taken(one: str, other: str) -> None:
    tool = {"toolCallId": one, "toolName": other}
    shown(
        delta(one, other),
        delta(other, one, "reasoning"),
        {"type": "tool-input-start", **tool},
        {"type": "tool-input-delta", "toolCallId": one, "inputTextDelta": other},
        {"type": "tool-input-available", **tool, "input": {one: other}},
        {"type": "tool-output-error", "toolCallId": one, "errorText": other},
        {"type": f"data-{one}", "data": other},
        {"type": "error", "errorText": HOSTILE},
    )
