"""The mark on records that a hand-off wrote: which session has them, and which is continued.

It stands in the log itself, so that a copy is known as one on every machine, and after its store
was lost. Programs pass over it: Claude Code and Codex read the fields of a record that they know,
and OpenCode keeps what is in a part's `metadata`.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from threadkeep.base.json import decode_line
from threadkeep.errors import Invalid
from threadkeep.knowledge.records import Entry
from threadkeep.sources.common import table, text

_FIELD: Final = "threadkeep"
_ANYWHERE: Final = b'"threadkeep"'


class CopyMark(NamedTuple):
    """Both are names of sessions, as `agent:session_id`."""

    origin: str  # where it was said
    continues: str  # where it was handed over from: the same, unless that was a copy, too


def copy_mark(origin: str, continues: str) -> dict[str, Any]:
    """Give the field that marks a record as copied."""
    told = {"origin": origin}
    return {_FIELD: told if continues == origin else {**told, "continues": continues}}


def read_mark(record: dict[str, Any]) -> CopyMark | None:
    """Read the mark of a record, or of a part's metadata; None if it has none."""
    told = record.get(_FIELD)
    if told is None:
        return None
    origin = text(table(told).get("origin"))
    return CopyMark(origin, text(table(told).get("continues")) or origin) if origin else None


def unmarked(record: dict[str, Any]) -> dict[str, Any]:
    """Give a record as it is without its mark."""
    bare = {name: value for name, value in record.items() if name != _FIELD}
    data = table(bare.get("data"))
    metadata = table(data.get("metadata"))
    if _FIELD in metadata:
        bare["data"] = {**data, "metadata": {**metadata, _FIELD: None}}
    return bare


def marks_in(record: dict[str, Any]) -> Iterator[CopyMark]:
    """Give the marks of a record, wherever a hand-off puts them."""
    for place in (record, table(table(record.get("data")).get("metadata"))):
        mark = read_mark(place)
        if mark is not None:
            yield mark


def may_be_marked(line: bytes) -> bool:
    """Tell whether to look for a mark in a line: decoding takes most of the time."""
    return _ANYWHERE in line


def marked(entries: list[Entry], mark: CopyMark | None) -> list[Entry]:
    """Note in the entries of a record what its mark says."""
    if mark is not None:
        for entry in entries:
            entry.origin = mark.origin
    return entries


def origins_in(line: bytes) -> set[str]:
    """Name the sessions that an archived line says it was copied from."""
    if not may_be_marked(line):
        return set()
    try:
        records = decode_line(line)
    except Invalid:
        return set()
    return {mark.origin for one in records for mark in marks_in(table(one))}
