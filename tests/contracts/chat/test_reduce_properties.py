"""What must hold for any stream: honest changes, exact restoring, linear work."""

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings, strategies as st

from tests.lengths import examples
from tests.support.chunks import Chunk, chunk, delta, tool
from tests.support.streams import random_case
from tests.support.work import calls_made, tracked_memory
from threadkeep.chat.journal import open_json
from threadkeep.chat.wire.reduce import Change, StreamState, merge_metadata
from threadkeep.errors import ProtocolViolation

any_case = st.builds(random_case, st.integers(0, 10**9), st.sampled_from((6, 7)))


def begin(case: dict[str, Any]) -> StreamState:
    return StreamState(case.get("initial_message"), protocol=case["version"])


def attempt(state: StreamState, made: Chunk) -> Change | None:
    """Apply a chunk; None when it is a violation."""
    try:
        return state.apply(made)
    except ProtocolViolation:
        return None


def applied(state: StreamState, chunks: list[Chunk]) -> Iterator[tuple[int, Chunk, Change]]:
    """Apply the chunks leniently, stopping after each one that fits."""
    for number, made in enumerate(chunks):
        change = attempt(state, made)
        if change is not None:
            yield number, made, change


def through_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


@given(any_case)
@settings(max_examples=examples(150))
def test_a_restored_state_goes_on_as_if_nothing_had_happened(case: dict[str, Any]) -> None:
    state = begin(case)
    twins: list[StreamState] = []
    for made in case["chunks"]:
        twins.append(
            StreamState.restore(through_json(state.message()), through_json(state.dump_open()))
        )
        change = attempt(state, made)
        for twin in twins:
            assert attempt(twin, made) == change
        message, hidden, reason = state.message(), state.dump_open(), state.finish_reason
        for twin in twins:
            assert twin.message() == message
            assert twin.dump_open() == hidden
            assert twin.finish_reason == reason


@given(any_case)
def test_a_change_tells_everything_that_changed(case: dict[str, Any]) -> None:
    state = begin(case)
    before = state.message()
    sizes = [state.size_of(index) for index in range(state.part_count)]
    for _number, made, change in applied(state, case["chunks"]):
        after = state.message()
        kept = before["parts"][: change.truncated_to]
        if change.restarted or before["id"] != after["id"]:
            assert made["type"] == "start"
            kept = []
        touched = {change.delta_of, *change.parts}
        for index, part in enumerate(after["parts"]):
            if index not in touched:
                assert part == kept[index]
        if change.delta_of is not None:
            assert change.parts == ()
            assert state.size_of(change.delta_of) == sizes[change.delta_of] + change.grew
        if change.metadata is None and not change.restarted:
            assert before.get("metadata") == after.get("metadata")
        before = after
        sizes = [state.size_of(index) for index in range(state.part_count)]


@given(any_case)
def test_the_target_of_a_delta_is_the_part_that_grows(case: dict[str, Any]) -> None:
    state = begin(case)
    for made in case["chunks"]:
        target = state.target_of(made)
        change = attempt(state, made)
        if change is None:
            assert target is None
        elif change.delta_of is not None:
            assert target == change.delta_of
        elif target is not None:  # a text with new provider metadata
            assert change.parts == (target,)


@given(any_case)
def test_rows_written_when_told_plus_the_deltas_since_are_the_state(case: dict[str, Any]) -> None:
    """A store writes the parts of `Change.parts` at once and growing parts whenever it likes."""
    state = begin(case)
    # Of each part: its row, and the number of the chunk that the row is up to date with.
    rows = [(part, -1) for part in state.message()["parts"]]
    first = 0
    for number, _made, change in applied(state, case["chunks"]):
        if change.restarted:
            rows, first = [], number
        if change.truncated_to is not None:
            del rows[change.truncated_to :]
        for index in change.parts:
            rows[index : index + 1] = [(state.part(index), number)]
        message = {**state.message(), "parts": [part for part, _written in rows]}
        twin = StreamState.restore(through_json(message), through_json(state.dump_open()))
        for past, made in enumerate(case["chunks"][first : number + 1], first):
            target = twin.target_of(made)
            if target is not None and past > rows[target][1]:
                twin.apply(made)
        assert twin.message() == state.message()


@given(any_case)
def test_what_is_passed_in_is_never_changed(case: dict[str, Any]) -> None:
    untouched = copy.deepcopy(case)
    state = begin(case)
    for _number, _made, _change in applied(state, case["chunks"]):
        state.message()
    assert case == untouched


@given(any_case)
def test_the_hidden_state_holds_no_text_of_an_open_part(case: dict[str, Any]) -> None:
    long = "growing " * 100
    case["chunks"] += [
        *(chunk("text-start", id="z"), chunk("reasoning-start", id="z")),
        *(chunk("text-delta", id="z", delta=long), chunk("reasoning-delta", id="z", delta=long)),
        *(tool("tool-input-start", "z"), delta(f'["{long}', "z")),
    ]
    state = begin(case)
    for _applied in applied(state, case["chunks"]):
        pass
    assert long not in json.dumps(state.dump_open())


@given(any_case)
def test_what_is_open_now_is_what_the_whole_dump_says_is_open(case: dict[str, Any]) -> None:
    state = begin(case)
    for _applied in applied(state, case["chunks"]):
        whole, short = state.dump_open(), state.dump_open(finished_calls=False)
        open_calls = [call for call in whole["calls"] if "part" in call]
        assert sorted(short["calls"], key=repr) == sorted(open_calls, key=repr)
        assert {**short, "calls": []} == {**whole, "calls": []}


def test_call_that_a_reset_made_unknown_is_not_open() -> None:
    state = StreamState()
    for made in (tool("tool-input-start", "c"), chunk("start-step"), chunk("reset-step")):
        state.apply(made)
    assert state.dump_open(finished_calls=False) == state.dump_open()
    assert state.dump_open()["calls"] == []


objects = st.recursive(
    st.dictionaries(st.sampled_from("abc"), st.none() | st.integers(0, 3) | st.lists(st.none())),
    lambda inner: st.dictionaries(st.sampled_from("abc"), st.integers(0, 3) | inner),
    max_leaves=8,
)


@given(objects, objects)
def test_merging_metadata(base: dict[str, Any], override: dict[str, Any]) -> None:
    before = copy.deepcopy((base, override))
    merged = merge_metadata(base, override)
    assert (base, override) == before
    assert merged is not None
    assert merge_metadata(merged, override) == merged
    assert merge_metadata(base, {}) == base
    assert merge_metadata({}, override) == override
    for key in base.keys() | override.keys():
        if key not in override:
            assert merged[key] == base[key]
        elif isinstance(override[key], dict) and isinstance(base.get(key), dict):
            assert merged[key] == merge_metadata(base[key], override[key])
        else:
            assert merged[key] == override[key]


def test_a_delta_costs_the_same_however_long_the_message() -> None:
    state = StreamState()
    for made in (chunk("text-start", id="1"), tool("tool-input-start"), delta('["')):
        state.apply(made)

    def feed(count: int) -> None:
        for _ in range(count):
            state.apply(chunk("text-delta", id="1", delta="ten chars "))
            state.apply(delta("ten chars "))

    early = calls_made(lambda: feed(500))
    feed(18_000)
    late = calls_made(lambda: feed(500))
    assert late <= early * 1.01  # a garbage collection may call something too
    with tracked_memory() as peak_of:
        peaks = [peak_of(lambda: feed(1)) for _ in range(1000)]
    # Each text has 200,000 characters by now; only the lists of pieces may be moved at times.
    assert sum(peak > 4_000 for peak in peaks) <= 5
    assert state.size_of(0) == 200_000
    assert state.part(1)["input"] == ["ten chars " * 20_000]


def test_finding_a_call_costs_the_same_however_many_there_are() -> None:
    state = StreamState()

    def use(first: int, count: int) -> None:
        for number in range(first, first + count):
            state.apply(chunk("start-step"))
            state.apply(tool("tool-input-available", f"c{number}", input=1))
            state.apply(tool("tool-output-available", f"c{number // 2}", output=1))
            state.apply(chunk("data-x", id=f"d{number // 2}", data=1))

    use(0, 100)
    early = calls_made(lambda: use(100, 100))
    use(200, 5000)
    assert calls_made(lambda: use(5200, 100)) <= early * 1.01


def test_noting_what_is_open_costs_the_same_however_many_calls_there_were() -> None:
    state = StreamState()

    def use(first: int, count: int) -> None:
        for number in range(first, first + count):
            state.apply(tool("tool-input-start", f"c{number}"))
            state.apply(delta("{}", f"c{number}"))
            if number % 2:
                state.apply(tool("tool-input-available", f"c{number}", input={}))
            state.apply(tool("tool-output-available", f"c{number}", output=1))

    use(0, 10)
    state.apply(tool("tool-input-start", "open"))
    early = calls_made(lambda: open_json(state, 1, {}))
    use(10, 2000)
    assert calls_made(lambda: open_json(state, 1, {})) == early
    (still_open,) = state.dump_open(finished_calls=False)["calls"]
    assert still_open["toolCallId"] == "open"
