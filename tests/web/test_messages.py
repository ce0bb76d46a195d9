"""How messages are shown, as pure functions: nothing is lost, results stand beneath their calls."""

import re
from html import unescape
from typing import Any, get_type_hints

import msgspec
import pytest
from hypothesis import given, strategies as st

from threadkeep.knowledge.records import CapturedSession, Image
from threadkeep.knowledge.results import SessionSummary, TranscriptMessage, TurnSum
from threadkeep.web.code import LANGUAGES, Piece, code, lines_of, parted, pieces
from threadkeep.web.diffs import changes_of, colored, compare
from threadkeep.web.messages import (
    CUT,
    Aside,
    Ran,
    bars,
    headline,
    piece_of,
    prose_of,
    subagent_of,
    view,
    views,
    without_header,
)
from threadkeep.web.words import span

KINDS = ["prompt", "text", "reasoning", "tool_call", "tool_result", "summary", "note", "unheard"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


def message(position: int, kind: str, **more: Any) -> TranscriptMessage:
    given = {"role": "user", "at": None, "text": f"text {position}", **more}
    return TranscriptMessage(position=position, ref="", key=f"k{position}", part=kind, **given)


def listed(**more: str) -> SessionSummary:
    texts = dict.fromkeys(get_type_hints(CapturedSession), "") | more
    numbers = {"id": 0, "entries": 1, "prompts": 0, "tool_calls": 0, "errors": 0}
    marks = {"is_subagent": True, "hidden": False, "started_at": None, "ended_at": None}
    session = msgspec.convert({**texts, **numbers, **marks}, CapturedSession)
    return SessionSummary(session, ref="", tokens=0, cost=None, live=False, children=0)


@st.composite
def transcripts(draw: st.DrawFn) -> list[TranscriptMessage]:
    kinds = draw(st.lists(st.sampled_from(KINDS), max_size=20))
    ids = st.sampled_from(["", "a", "b", "c"])
    return [
        message(at, kind, call_id=draw(ids), input=draw(JSON), turn=at // 4)
        for at, kind in enumerate(kinds)
    ]


@given(transcripts())
def test_every_block_is_shown_once(messages: list[TranscriptMessage]) -> None:
    shown = views(messages)
    positions = [one.message.position for one in shown]
    beneath = [one.result.message.position for one in shown if one.result]
    assert sorted(positions + beneath) == list(range(len(messages)))
    for one in shown:
        if one.result:
            assert one.result.message.call_id == one.message.call_id
            assert one.result.message.position > one.message.position


def test_a_result_stands_beneath_the_last_call_of_its_id_alone() -> None:
    kinds = ("tool_call", "tool_call", "tool_result")
    first, second = views([message(at, kind, call_id="a") for at, kind in enumerate(kinds)])
    assert first.result is None
    assert second.result is not None


def test_a_call_shows_the_subagent_that_begins_with_its_task_or_is_named_as_it() -> None:
    call = message(0, "tool_call", input={"prompt": "Look at the tide", "description": "Tide"})
    by_prompt, by_title = listed(first_prompt="Look at the tide"), listed(title="Tide")
    other = listed(title="Quay")
    assert subagent_of(call, [other, by_prompt]) == by_prompt
    assert subagent_of(call, [other, by_title]) == by_title
    assert subagent_of(call, [other]) is None


@given(st.text() | st.text(alphabet="ab\n", max_size=400).map(lambda text: text * 100))
def test_a_text_is_parted_and_not_changed(text: str) -> None:
    whole = piece_of(text, whole=True)
    assert whole.head + whole.rest == text
    assert whole.missing == 0
    part = piece_of(text)
    assert part.head + part.rest == text[:CUT]
    assert part.missing == max(0, len(text) - CUT)


def test_only_the_last_answer_of_a_turn_is_final() -> None:
    kinds = ["prompt", "text", "tool_call", "text", "prompt", "text"]
    turns = [0, 0, 0, 0, 1, 1]
    shown = views([message(at, kind, turn=turns[at]) for at, kind in enumerate(kinds)])
    assert [one.message.position for one in shown if one.final] == [3, 5]


def test_a_call_is_named_by_what_it_does() -> None:
    assert headline({"description": "Run", "command": "pytest -q"}, "") == "pytest -q"
    assert headline({"command": ["bash", "-lc", "ls  -la"]}, "") == "ls -la"
    assert headline({"path": "src", "pattern": "def "}, "") == "def"
    assert headline(None, "said\nso") == "said so"
    assert len(headline({"prompt": "x" * 500}, "")) == 160


def test_pictures_are_shown_from_their_own_bytes_and_of_known_types_only() -> None:
    images = (
        Image("image/png", "QUJD"),
        Image("image/svg+xml", "QUJD"),
        Image("image/png", 'QUJD" onerror="x'),
        Image("image/png", url="https://example.org/a.png"),
    )
    shown = view(message(0, "prompt", images=images))
    assert shown.pictures == ("data:image/png;base64,QUJD",)
    assert shown.hidden_pictures == 3


@given(st.text(alphabet="ab\n", max_size=60), st.text(alphabet="ab\n", max_size=60))
def test_a_change_counts_what_it_shows(old: str, new: str) -> None:
    change = compare("f", old, new)
    signs = [line.sign for line in change.lines]
    assert (change.added, change.removed) == (signs.count("+"), signs.count("-"))
    kept = len(old.splitlines()) - change.removed
    assert len(new.splitlines()) - change.added == kept
    if old.splitlines() == new.splitlines():
        assert change.added == change.removed or not old


def test_changes_are_known_by_the_shape_of_the_arguments() -> None:
    given: list[tuple[str, Any]] = [
        ("Edit", {"file_path": "a", "old_string": "x", "new_string": "y"}),
        ("edit", {"filePath": "a", "oldString": "x", "newString": "y"}),
        (
            "str_replace_editor",
            {"path": "a", "command": "str_replace", "old_str": "x", "new_str": "y"},
        ),
        ("MultiEdit", {"file_path": "a", "edits": [{"old_string": "x", "new_string": "y"}]}),
        ("apply_patch", "*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n*** End Patch"),
        ("shell", {"command": ["apply_patch", "*** Begin Patch\n*** Update File: a\n-x\n+y\n"]}),
        ("patch", {"patch": "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n"}),
    ]
    for tool, arguments in given:
        [change] = changes_of(tool, arguments)
        assert change.path == "a"
        assert [(one.sign, one.text) for one in change.lines if one.sign in "+-"] == [
            ("-", "x"),
            ("+", "y"),
        ]
    [written] = changes_of("Write", {"file_path": "a", "content": "x\ny\n"})
    assert (written.added, written.removed) == (2, 0)
    assert changes_of("Read", {"file_path": "a", "content": "x"}) == []


@given(st.text(max_size=10), JSON)
def test_any_arguments_are_read(tool: str, arguments: Any) -> None:
    for change in changes_of(tool, arguments):
        assert change.added >= 0


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9))))
def test_bars_stay_within_their_rail(given: list[tuple[int, int]]) -> None:
    turns = [
        TurnSum(at, at, "", "", 0, took, tokens, 0, 0, 0, None, 0, 0)
        for at, (tokens, took) in enumerate(given)
    ]
    for bar, (tokens, took) in zip(bars(turns), given, strict=True):
        assert 0 <= bar.token_width <= 100
        assert (bar.token_width > 0) is (tokens > 0)
        assert (bar.time_width > 0) is (took > 0)


# ------------------------------------------------------------------------------------ code, diffs


@given(
    st.text() | st.text(alphabet="ab=\"'#\n 1→\t", max_size=200), st.sampled_from([*LANGUAGES, ""])
)
def test_colored_code_is_the_same_text(text: str, language: str) -> None:
    found = pieces(text, language)
    assert "".join(one.text for one in found) == text
    at = len(text) // 2
    head, rest = parted(found, at)
    assert "".join(one.text for one in head) == text[:at]
    assert "".join(one.text for one in rest) == text[at:]
    assert ["".join(one.text for one in line) for line in lines_of(text, language)] == (
        text.split("\n") if text else [""]
    )
    assert code("<b>", language).striptags() == "<b>"


def test_a_long_text_is_colored_at_its_beginning_only() -> None:
    found = pieces("x = 1\n" * 10_000, "python")
    assert "".join(one.text for one in found) == "x = 1\n" * 10_000
    assert len(found[-1].text) > 50_000


def test_numbers_of_a_listing_are_not_code() -> None:
    found = pieces("     1→def f():\n     2→    return 1\n", "python")
    assert [one.text for one in found if one.css == "hl-c"] == ["     1→", "     2→"]
    assert Piece("def", "hl-k") in [Piece(one.text.strip(), one.css) for one in found]


def test_lines_of_a_change_are_numbered_and_their_words_marked() -> None:
    change = compare("a.py", "one\nx = 1\nlast", "one\nx = 2\nlast")
    assert [(one.sign, one.old, one.new) for one in change.lines] == [
        (" ", 1, 1),
        ("-", 2, None),
        ("+", None, 2),
        (" ", 3, 3),
    ]
    assert [one.marks for one in change.lines] == [(), ((4, 5),), ((4, 5),), ()]
    shown = [str(markup) for _, markup in colored(change)]
    assert shown[2] == 'x = <b><span class="hl-n">2</span></b>'
    [patch] = changes_of("patch", {"patch": "--- a/a\n+++ b/a\n@@ -7,2 +9,2 @@\n k\n-x\n+y\n"})
    assert patch.placed
    assert [(one.old, one.new) for one in patch.lines[1:]] == [(7, 9), (8, None), (None, 10)]


@given(st.text(alphabet="ab \n", max_size=80), st.text(alphabet="ab \n", max_size=80))
def test_a_colored_change_says_what_it_said(old: str, new: str) -> None:
    for line, shown in colored(compare("a.py", old, new)):
        assert unescape(re.sub("<[^>]*>", "", str(shown))) == line.text


def test_a_result_is_shown_in_the_language_of_what_was_read() -> None:
    call = message(0, "tool_call", call_id="a", input={"file_path": "/x/a.go"})
    result = message(1, "tool_result", call_id="a", text="package main")
    [shown] = views([call, result])
    assert shown.result is not None
    assert shown.result.piece.language == "go"
    assert view(message(1, "tool_result", text='{"a": 1}')).piece.language == "json"
    assert view(message(1, "tool_result", text="plain words")).piece.language == ""


def test_what_codex_writes_above_an_output_is_not_part_of_it() -> None:
    head = "Chunk ID: a1\nWall time: 61.5 seconds\nProcess exited with code 2\n"
    text, ran = without_header(f"{head}Original token count: 3\nOutput:\nhello\n")
    assert (text, ran) == ("hello\n", Ran(61_500, 2))
    assert without_header("Exit code: 0\nWall time: 1 seconds\nOutput:\n") == ("", Ran(1000, 0))
    wrapped = '{"output": "hi", "metadata": {"exit_code": 1, "duration_seconds": 0.5}}'
    assert without_header(wrapped.replace(" ", "", 1)) == ("hi", Ran(500, 1))
    for plain in ("Output:\nx", "Wall time: long", "Chunk ID: a\nhello", '{"output": ', ""):
        assert without_header(plain) == (plain, None)


def test_notes_of_programs_are_parted_from_what_was_said() -> None:
    text = "Fix it\n<system-reminder>be brief</system-reminder>\nplease"
    shown = view(message(0, "prompt", text=text))
    assert (shown.piece.head, shown.asides) == (
        "Fix it\n\nplease",
        (Aside("system-reminder", "be brief"),),
    )
    assert shown.raw.head == text
    result = view(message(0, "tool_result", text=f"<skill>x</skill>{text}"))
    assert result.piece.head == "<skill>x</skill>Fix it\n\nplease"


@given(st.lists(st.sampled_from(["word", "", "```", "- item", "~~~"]), max_size=90))
def test_a_long_prompt_is_folded_between_paragraphs(lines: list[str]) -> None:
    text = "\n".join(lines)
    piece = prose_of(text)
    assert piece.head + piece.rest == text
    if piece.rest:
        fences = sum(line.startswith(("```", "~~~")) for line in piece.head.split("\n"))
        assert fences % 2 == 0


@pytest.mark.parametrize(
    "took, said",
    [
        (None, ""),
        (12, "12 ms"),
        (1000, "1 s"),
        (5240, "5.2 s"),
        (59_000, "59 s"),
        (90_000, "1 min 30 s"),
        (3_600_000, "1 h"),
        (8_280_000, "2 h 18 min"),
        (273_600_000, "3 d 4 h"),
    ],
)
def test_durations_are_said_as_people_say_them(took: float | None, said: str) -> None:
    assert span(took) == said
