"""Shared by tests of sources: a pass over records in pieces, documents, and broken records."""

import copy
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from hypothesis import strategies as st

from threadkeep.base.json import decode_line
from threadkeep.knowledge.records import Entry, Segment, SessionFacts, Usage
from threadkeep.sources.records import Log, Source

any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


class Result(msgspec.Struct):
    """What one or several looks gave, put together by key."""

    entries: list[Entry] = []
    facts: dict[str, SessionFacts] = {}
    usage: dict[str, Usage] = {}
    segments: dict[tuple[str, int], Segment] = {}
    unknown: dict[str, int] = {}

    def of(self, kind: str) -> list[str]:
        return [entry.text for entry in self.entries if entry.kind == kind]


def feed(source: Source, log: Log, records: list[Any], cuts: Iterable[int] = ()) -> Result:
    """Feed records to parsers; at each cut a new one goes on from the state of the last."""
    result, unknown = Result(), Counter[str]()
    parser = source.parser(log, None)
    start = 0
    for end in sorted({*cuts, len(records)}):
        for number in range(start, end):
            result.entries += parser.feed(copy.deepcopy(records[number]), b"", number)
        harvest = parser.harvest()
        result.facts.update(harvest.facts)
        result.usage.update({usage.key: usage for usage in harvest.usage})
        result.segments.update({(one.session_id, one.index): one for one in harvest.segments})
        unknown.update(harvest.unknown)
        parser, start = source.parser(log, parser.state() or None), end
    result.unknown = dict(unknown)
    return result


def lines_of(raw: bytes) -> list[Any]:
    return [value for line in raw.split(b"\n") for value in decode_line(line)]


def document(source: Source, log: Log, item: str) -> list[Any]:
    """Read the records of a document; each is one line, and no key comes twice."""
    records = list(source.records(log, item))
    keys = [key for key, _ in records]
    assert len(set(keys)) == len(keys)
    assert all(b"\n" not in line for _, line in records)
    return [value for _, line in records for value in decode_line(line)]


def only(logs: Iterator[Log]) -> Log:
    (log,) = logs
    return log


@st.composite
def broken(draw: st.DrawFn, records: list[Any]) -> Any:
    """Take a record and put any value in the place of one that is somewhere in it."""
    record = copy.deepcopy(draw(st.sampled_from(records)))
    places = list(_places(record))
    if not places:
        return draw(any_json)
    holder, key = draw(st.sampled_from(places))
    holder[key] = draw(any_json)
    return record


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for key, below in list(inside):
        yield value, key
        if isinstance(below, (dict, list)):
            yield from _places(below)
