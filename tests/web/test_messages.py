"""How messages are shown, as pure functions: nothing is lost, results stand beneath their calls."""

from typing import Any, get_type_hints

import msgspec
from hypothesis import given, strategies as st

from threadkeep.knowledge.records import CapturedSession, Image
from threadkeep.knowledge.results import SessionSummary, TranscriptMessage, TurnSum
from threadkeep.web.messages import (
    CUT,
    bars,
    changes_of,
    compare,
    headline,
    piece_of,
    subagent_of,
    view,
    views,
)

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
