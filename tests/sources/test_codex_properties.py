"""Codex: any split of a log gives the same, and nothing in it can break a parser."""

import json
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given, settings, strategies as st

from tests.lengths import examples
from tests.sources.codex_support import HOME, Fed, fed_from, log_of, read
from threadkeep.sources.codex.rollouts import SOURCE
from threadkeep.sources.codex.threads import SOURCE as INDEX

PATHS = sorted(HOME.glob("**/rollout-*.jsonl"))
RECORDS: list[Any] = [value for path in PATHS for value, _ in fed_from(path)]
NAMES = sorted({name for record in RECORDS for name in record} | {"type", "payload", "item"})
KINDS = sorted({str(record.get("type")) for record in RECORDS})

leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
values = st.recursive(
    leaves | st.sampled_from(KINDS),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """List the way to each value inside a value."""
    inside: list[tuple[Any, Any]] = list(value.items()) if isinstance(value, dict) else []
    if isinstance(value, list):
        inside = list(enumerate(value))
    return [path, *(way for key, item in inside for way in places(item, (*path, key)))]


def replaced(value: Any, way: tuple[Any, ...], new: Any) -> Any:
    if not way:
        return new
    copy = list(value) if isinstance(value, list) else dict(value)
    copy[way[0]] = replaced(value[way[0]], way[1:], new)
    return copy


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    record = draw(st.sampled_from(RECORDS))
    return replaced(record, draw(st.sampled_from(places(record))), draw(values))


@given(st.data())
def test_any_split_gives_the_same(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(PATHS))
    fed = fed_from(path)
    cuts = data.draw(st.lists(st.integers(0, len(fed)), max_size=6))
    assert read(log_of(path), fed, cuts) == read(log_of(path), fed)


@settings(max_examples=examples(300))
@given(st.lists(mutated() | values, max_size=6))
def test_no_value_breaks_a_parser(records: list[Any]) -> None:
    fed: list[Fed] = [(one, json.dumps(one).encode()) for one in records]
    result = read(log_of(Path("/logs/rollout-x.jsonl")), fed, range(len(fed)))
    msgspec.json.encode([result.entries, list(result.usage.values())])
    for number, (value, line) in enumerate(fed):
        SOURCE.entries(value, line, number)


@given(st.lists(values, max_size=6))
def test_no_value_breaks_the_index(records: list[Any]) -> None:
    parser = INDEX.parser(log_of(Path("/logs/session_index.jsonl")), None)
    for number, value in enumerate(records):
        assert parser.feed(value, b"", number) == []
    parser.harvest()


@given(st.sampled_from(PATHS))
def test_a_copy_of_a_line_has_the_same_keys(path: Path) -> None:
    log = log_of(path)
    fed = fed_from(path)
    moved = msgspec.structs.replace(log, path="/moved/" + Path(log.path).name)
    keys = [entry.key for entry in read(log, fed).entries]
    assert [entry.key for entry in read(moved, fed).entries] == keys


def test_asking_twice_changes_nothing() -> None:
    path = PATHS[-1]
    parser = SOURCE.parser(log_of(path), None)
    for number, (value, line) in enumerate(fed_from(path)):
        parser.feed(value, line, number)
    first = parser.harvest()
    again = parser.harvest()
    assert again.segments == first.segments[-1:]
    assert (again.facts, again.usage, again.unknown) == ({}, [], {})


def test_deep_nesting_is_survived() -> None:
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    payloads = [
        {"type": "web_search_call", "action": {"query": deep}},
        {"type": "function_call", "name": "x", "arguments": '{"a":' + "[" * 100_000},
        {"type": "function_call_output", "output": [{"content": deep}]},
        {"type": "message", "role": "user", "content": deep},
    ]
    fed: list[Fed] = [({"type": "response_item", "payload": one}, b"") for one in payloads]
    assert len(read(log_of(Path("/logs/rollout-x.jsonl")), fed).entries) == 3
