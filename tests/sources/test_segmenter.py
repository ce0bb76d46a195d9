"""How conversations are cut: gaps, sizes, and the same result however it is read."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from threadkeep.knowledge.records import Entry, Segment, SessionFacts
from threadkeep.sources.common import (
    GAP_MS,
    MAX_CHARACTERS,
    OpenSegment,
    Segmenter,
    last_component,
    summarise,
)
from threadkeep.sources.records import Log, Stamp

LOG = Log("/h/s.jsonl", Stamp(0, 0, 0, 0), "s", "fallback")
FACTS = SessionFacts(cwd="/u/app", git_branch="main", model="m-1", title="named")


def entry(kind: Any, at: int | None = 0, text: str = "text", tool: str = "") -> Entry:
    return Entry("k", "user", kind, at, text, tool=tool)


def cut(*entries: Entry, facts: SessionFacts = FACTS) -> list[Segment]:
    segmenter = Segmenter(LOG, "Toy")
    for one in entries:
        segmenter.add(one, facts)
    return segmenter.take("s", facts)


def test_nothing_counts_before_the_first_prompt() -> None:
    assert cut(entry("text"), entry("tool_call"), entry("note")) == []
    (segment,) = cut(entry("text"), entry("prompt", 5), entry("text", 7))
    assert (segment.messages, segment.start, segment.end) == (2, 5, 7)


@pytest.mark.parametrize("gap, count", [(GAP_MS, 1), (GAP_MS + 1, 2)])
def test_a_pause_before_a_prompt_begins_a_new_slice(gap: int, count: int) -> None:
    assert len(cut(entry("prompt", 0), entry("prompt", gap))) == count
    assert len(cut(entry("prompt", 0), entry("text", gap * 9))) == 1


def test_the_pause_is_counted_from_prompt_to_prompt() -> None:
    found = cut(entry("prompt", 0), entry("text", GAP_MS), entry("prompt", GAP_MS + 5))
    assert [one.index for one in found] == [0, 1]
    assert [one.start for one in found] == [0, GAP_MS + 5]


def test_a_full_slice_ends_at_the_next_prompt() -> None:
    long = [entry("tool_call", 0, "x" * 120, "T") for _ in range(MAX_CHARACTERS // 121)]
    room = MAX_CHARACTERS - 121 * len(long)
    assert len(cut(entry("prompt", 0, "p" * room), *long, entry("prompt"))) == 1
    assert len(cut(entry("prompt", 0, "p" * (room + 1)), *long, entry("prompt"))) == 2


def test_texts_are_cut_to_their_lengths() -> None:
    (segment,) = cut(
        entry("prompt", 0, "p" * 900),
        entry("text", 0, "t" * 900),
        entry("tool_call", 0, "c" * 900, "Bash"),
        entry("text", 0, "   "),
        entry("tool_result", 0, "never"),
    )
    assert segment.prompts == ["p" * 500]
    assert segment.texts == ["t" * 300]
    assert segment.tools == [("Bash", "c" * 120)]
    assert segment.messages == 5


def test_times_that_are_missing_or_go_back_do_no_harm() -> None:
    (segment,) = cut(entry("prompt", 100), entry("text", 50), entry("text", None))
    assert (segment.start, segment.end) == (100, 100)
    (segment,) = cut(entry("prompt", None), entry("text", 50))
    assert (segment.start, segment.end) == (0, 50)


def test_a_slice_belongs_to_the_folder_it_began_in() -> None:
    segmenter = Segmenter(LOG, "Toy")
    segmenter.add(entry("prompt", 0), SessionFacts(cwd="/u/one"))
    segmenter.add(entry("text", 1), SessionFacts(cwd="/u/two"))
    (segment,) = segmenter.take("s", SessionFacts(cwd="/u/two"))
    assert (segment.project_dir, segment.cwd) == ("one", "/u/two")
    (nowhere,) = cut(entry("prompt"), facts=SessionFacts())
    assert nowhere.project_dir == "fallback"


kinds = st.sampled_from(["prompt", "text", "tool_call", "tool_result", "note"])
entries = st.builds(
    entry,
    kinds,
    st.none() | st.integers(0, 5 * GAP_MS),
    st.text(max_size=5) | st.just("y" * 600),
    st.sampled_from(["", "Bash"]),
)


@given(st.lists(entries, max_size=60), st.lists(st.integers(0, 60), max_size=4))
def test_slices_do_not_depend_on_when_they_are_taken(told: list[Entry], cuts: list[int]) -> None:
    once = {one.index: one for one in cut(*told)}
    state: OpenSegment | None = None
    pieces: dict[int, Segment] = {}
    places = sorted({0, *(min(at, len(told)) for at in cuts), len(told)})
    for start, end in zip(places, [*places[1:], len(told)], strict=True):
        segmenter = Segmenter(LOG, "Toy", state)
        for one in told[start:end]:
            segmenter.add(one, FACTS)
        pieces |= {one.index: one for one in segmenter.take("s", FACTS)}
        state = msgspec.json.decode(msgspec.json.encode(segmenter.open), type=OpenSegment)
    assert pieces == once
    assert sorted(once) == list(range(len(once)))


def test_a_summary_shows_the_first_and_counts_the_rest() -> None:
    slice_ = OpenSegment(
        cwd="/u/app",
        prompts=[f"p{n}" for n in range(33)],
        tools=[("Bash", f"c{n}") for n in range(61)],
        texts=[f"t{n}" for n in range(9)],
    )
    lines = summarise("Toy", slice_, is_subagent=False).split("\n")
    assert lines[0] == "Toy session (project: /u/app)"
    assert '  30. "p29"' in lines
    assert "  … (+3 more)" in lines
    assert "  - Bash: c59" in lines
    assert "  … (+1 more)" in lines
    assert lines[-1] == '  - "t4"'
    assert summarise("Toy", OpenSegment(cwd="/x"), is_subagent=True) == (
        "Toy session (subagent, project: /x)"
    )


@pytest.mark.parametrize(
    "path, name",
    [("/u/app", "app"), ("/u/app/", "app"), ("C:\\work\\app", "app"), ("", ""), ("/", "")],
)
def test_the_last_part_of_a_path(path: str, name: str) -> None:
    assert last_component(path) == name
