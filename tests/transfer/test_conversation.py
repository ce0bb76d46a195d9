"""From entries to the neutral form: who said what, which result is of which call."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.cli.conftest import HOSTILE
from tests.transfer.exports import NOW, flat, new, written
from threadkeep.knowledge.records import Entry, Image, Kind
from threadkeep.transfer.conversation import (
    Conversation,
    ConversationInfo,
    ExportMessage,
    ExportNote,
    ExportText,
    Picture,
    Reasoning,
    Summary,
    ToolCall,
    ToolResult,
    embedded,
    from_entries,
    without_branches,
    without_marks,
)
from threadkeep.transfer.hand_off import WRITERS, resumable

ABOUT = ConversationInfo("pi", "s1", "a title", "/home/demo/code", "main", "large", NOW)
PNG = Image("image/png", "aGk=")


def entry(kind: Kind, text: str = "", **more: Any) -> Entry:
    roles = {"prompt": "user", "tool_result": "tool", "summary": "system", "note": "system"}
    fields: dict[str, Any] = {"role": roles.get(kind, "assistant"), "key": f"k{id(more)}", **more}
    return Entry(kind=kind, at=NOW, text=text, **fields)


def told(*entries: Entry) -> Conversation:
    return from_entries(ABOUT, entries)


def test_what_one_side_says_without_a_break_is_one_message() -> None:
    found = told(
        entry("prompt", "fix it"),
        entry("reasoning", "hm", model="large"),
        entry("text", "looking", model="large"),
        entry("tool_call", "ls", tool="bash", call_id="c1", input={"command": "ls"}),
        entry("tool_result", "a.py", call_id="c1"),
        entry("text", "done", model="large"),
        entry("prompt", "thanks"),
        entry("prompt", "and now?"),
    )
    call = ToolCall("bash", "c1", {"command": "ls"})
    assert found.messages == (
        ExportMessage("user", (ExportText("fix it"),), NOW),
        ExportMessage("assistant", (Reasoning("hm"), ExportText("looking"), call), NOW, "large"),
        ExportMessage("tool", (ToolResult("c1", "a.py"),), NOW),
        ExportMessage("assistant", (ExportText("done"),), NOW, "large"),
        ExportMessage("user", (ExportText("thanks"),), NOW),
        ExportMessage("user", (ExportText("and now?"),), NOW),
    )


def test_notes_are_of_the_user_or_of_the_program() -> None:
    found = told(
        entry("note", "context", role="user"),
        entry("note", "overloaded", role="assistant", error=True),
        entry("summary", "all of it"),
    )
    assert flat(found) == [
        ("user", "note", "context", False),
        ("system", "note", "overloaded", True),
        ("user", "summary", "all of it"),
    ]


def test_calls_without_an_id_of_their_own_get_one() -> None:
    found = told(
        entry("prompt", "go"),
        entry("tool_call", "a", tool="read", input="a"),
        entry("tool_call", "b", tool="bash", input="b"),
        entry("tool_result", "of bash", tool="bash"),
        entry("tool_result", "of read", tool="read"),
        entry("tool_call", "c", tool="read", call_id="same"),
        entry("tool_result", "1", call_id="same"),
        entry("tool_call", "d", tool="read", call_id="same"),
        entry("tool_result", "2", call_id="same"),
        entry("tool_result", "3", call_id="same"),
    )
    named = [
        (block[1], block[2] if block[1] == "result" else block[3]) for block in flat(found)[1:]
    ]
    assert named == [
        *(("call", "call-1"), ("call", "call-2"), ("result", "call-2"), ("result", "call-1")),
        *(("call", "same"), ("result", "same"), ("call", "same-2"), ("result", "same-2")),
        ("result", "same"),
    ]


def test_pictures_take_the_place_of_their_marks() -> None:
    shown = Image("image/png", url="data:image/png;base64,aGk=")
    found = told(
        entry("prompt", "look\n[image]\n[image]", images=(shown,)),
        entry("tool_result", "[image]", call_id="c", images=(PNG,)),
    )
    assert flat(found) == [
        ("user", "text", "look\n[image]"),
        ("user", "image", PNG),
        ("tool", "result", "c", "", False, (PNG,)),
    ]
    assert embedded(Image("image/png", url="https://example.org/x.png")).data == ""


@given(st.text(), st.integers(0, 3))
def test_only_marks_are_taken_away(text: str, pictures: int) -> None:
    marked = "\n".join([text, *["[image]"] * pictures])
    assert without_marks(marked, pictures) == text
    assert without_marks(text, 0) == text


def test_a_branch_that_was_given_up_is_left_out() -> None:
    entries = [
        entry("prompt", "start", key="a", parent=""),
        entry("text", "answer", key="b", parent="a"),
        entry("prompt", "first try", key="c", parent="b"),
        entry("text", "no", key="d", parent="c"),
        entry("prompt", "second try", key="e", parent="b"),
        entry("tool_call", "x", key="f", parent="e"),
        entry("tool_call", "y", key="g", parent="e"),
    ]
    kept = [one.key for one in without_branches(entries)]
    assert kept == ["a", "b", "e", "f", "g"]


# ---------------------------------------------------------------------- loose ends

NESTED: Any = []
for _ in range(400):
    NESTED = [NESTED]
LOOSE = Conversation(
    ConversationInfo("pi", "s1", HOSTILE, "/home/demo/code"),
    (
        ExportMessage("user", (ExportText(f"prompt {HOSTILE} \ud800 </script><!--"), Picture(PNG))),
        ExportMessage("assistant", (ToolCall(HOSTILE, "open", NESTED), Picture(PNG)), NOW, HOSTILE),
        ExportMessage(
            "tool", (ToolResult("nobody", f"lost {HOSTILE}", error=True, images=(PNG,)),)
        ),
        ExportMessage("assistant", (ToolCall("t", "n", {"x": float("nan"), "y": "deed"}),)),
        ExportMessage("user", (Summary("in short"), ExportNote("context"))),
        ExportMessage(
            "system", (ExportNote("trouble", error=True), Picture(Image("image/png", url="a.png")))
        ),
        ExportMessage("assistant", (Reasoning("thought"), ExportText("```\nfence\n````"))),
    ),
)
SAID = ("prompt", "</script>", "owned", "lost", "deed", "in short", "context", "trouble")


@pytest.mark.parametrize("form", WRITERS)
def test_loose_ends_and_hostile_text_are_written_somehow(form: str) -> None:
    for one in (LOOSE, resumable(LOOSE, "/x")):
        text = written(form, one)
        assert all(word in text for word in (*SAID, "thought", "fence"))
        text.encode()  # half a character would be refused by every file


@pytest.mark.parametrize("form", WRITERS)
def test_an_empty_session_is_written_as_such(form: str) -> None:
    text = written(form, Conversation(ABOUT))
    assert "a title" in text or form in {
        "openai",
        "ai-sdk",
        "gptme",
        "copilot-cli",
        "cline",
        "grok-build",
        "mistral-vibe",
    }  # it stands beside
    if form in {"openai", "ai-sdk"}:
        assert json.loads(text) == []


def test_lines_hold_every_block_as_it_is() -> None:
    result = ToolResult("c", "out", error=True, name="bash", images=(PNG,))
    one = Conversation(
        ABOUT, (ExportMessage("tool", (result,), NOW), ExportMessage("user", (Picture(PNG),)))
    )
    lines = [json.loads(line) for line in WRITERS["jsonl"](one, new()).splitlines()]
    picture = {"media_type": "image/png", "data": "aGk=", "url": ""}
    assert lines[0]["type"] == "session"
    assert lines[0]["session_id"] == "s1"
    assert lines[1] == {
        "type": "tool_result",
        "role": "tool",
        "at": NOW,
        "model": "",
        "id": "c",
        "output": "out",
        "error": True,
        "name": "bash",
        "images": [picture],
    }
    assert lines[2]["image"] == picture


def test_markdown_fences_what_tools_gave() -> None:
    call = ToolCall("ba`sh", "c", {"command": "cat x", "n": 1})
    one = Conversation(
        ABOUT,
        (
            ExportMessage("user", (ExportText("go"),), NOW),
            ExportMessage("assistant", (ExportText("well"), call), NOW, "large"),
            ExportMessage("tool", (ToolResult("c", "```\n# no heading\n```"),), NOW),
        ),
    )
    text = WRITERS["markdown"](one, new())
    assert text.startswith("# a title\n\n- session: pi:s1\n")
    assert "## Assistant · 2026-09-21T" in text
    assert "**Call** `bash`\n\n```\ncommand: cat x\nn: 1\n```" in text
    assert "**Result**\n\n````\n```\n# no heading\n```\n````" in text
