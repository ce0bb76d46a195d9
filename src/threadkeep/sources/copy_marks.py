"""The mark on records that a hand-off wrote: which session has them, and which is continued.

It stands in the log itself, so that a copy is known as one on every machine, and after its store
was lost. Programs pass over it: Claude Code and Codex read the fields of a record that they know,
and OpenCode keeps what stands in a part's `metadata`.
"""

from typing import Any, Final, NamedTuple

from threadkeep.errors import Invalid
from threadkeep.sources.common import table, text
from threadkeep.sources.decoding import decode_line
from threadkeep.sources.records import Entry

_FIELD: Final = "threadkeep"
_ANYWHERE: Final = b'"threadkeep"'


class Mark(NamedTuple):
    """Both are names of sessions, as `harness:session_id`."""

    origin: str  # where it was said
    continues: str  # where it was handed over from: the same, unless that was a copy, too


def copy_mark(origin: str, continues: str) -> dict[str, Any]:
    """Give the field that marks a record as copied."""
    told = {"origin": origin}
    return {_FIELD: told if continues == origin else {**told, "continues": continues}}


def read_mark(record: dict[str, Any]) -> Mark | None:
    """Read the mark of a record, or of a part's metadata; None if it has none."""
    told = record.get(_FIELD)
    if told is None:
        return None
    origin = text(table(told).get("origin"))
    return Mark(origin, text(table(told).get("continues")) or origin) if origin else None


def marked(entries: list[Entry], mark: Mark | None) -> list[Entry]:
    """Note in the entries of a record what its mark says."""
    if mark is not None:
        for entry in entries:
            entry.origin = mark.origin
    return entries


def origins_in(line: bytes) -> set[str]:
    """Name the sessions that an archived line says it was copied from."""
    if _ANYWHERE not in line:
        return set()  # decoding takes most of the time
    try:
        records = decode_line(line)
    except Invalid:
        return set()
    places = [table(one) for one in records]
    places += [table(table(one.get("data")).get("metadata")) for one in places]
    found = (read_mark(place) for place in places)
    return {mark.origin for mark in found if mark is not None}
