"""The mark on records that a hand-off wrote: which session has them, and which is continued.

It stands in the log itself, so that a copy is known as one on every machine, and after its store
was lost. Programs pass over it: most read the fields of a record that they know, OpenCode and gptme
keep what is in its `metadata`. Notices that no model is shown are in the mark of the record before
or after them where a program has no record of its own for them.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from threadkeep.base.json import decode_line
from threadkeep.errors import Invalid
from threadkeep.knowledge.records import Entry
from threadkeep.sources.common import rows, table, text

MARK: Final = "threadkeep"  # the field
_ANYWHERE: Final = b'"threadkeep"'
_INSIDE: Final = ("data", "metadata")  # where in a record a mark may stand, or one in the other


Notice = tuple[str, bool]  # what it says, and whether it is of a failure


class CopyMark(NamedTuple):
    """Both are names of sessions, as `agent:session_id`."""

    origin: str  # where it was said
    continues: str  # where it was handed over from: the same, unless that was a copy, too
    is_note: bool = False  # the hand-off says it in the person's name


def copy_mark(origin: str, continues: str) -> dict[str, Any]:
    """Return the field that marks a record as copied."""
    told = {"origin": origin}
    return {MARK: told if continues == origin else {**told, "continues": continues}}


def as_note(record: dict[str, Any]) -> dict[str, Any]:
    """Say in a record's mark that nobody typed it, for programs that cannot tell."""
    return {**record, MARK: {**record[MARK], "note": True}}


def read_mark(record: dict[str, Any]) -> CopyMark | None:
    """Read the mark of a record, or of a part's metadata; None if it has none."""
    told = record.get(MARK)
    if told is None:
        return None
    origin = text(table(told).get("origin"))
    continues, is_note = text(table(told).get("continues")), table(told).get("note") is True
    return CopyMark(origin, continues or origin, is_note) if origin else None


def unmarked(record: dict[str, Any], depth: int = 2) -> dict[str, Any]:
    """Return a record as it is without its marks."""
    bare = {name: value for name, value in record.items() if name != MARK}
    for name in _INSIDE if depth else ():
        inside = table(bare.get(name))
        if next(_places(inside, depth - 1), None) is not None:
            bare[name] = unmarked(inside, depth - 1)
    return bare


def marks_in(record: dict[str, Any]) -> Iterator[CopyMark]:
    """Return the marks of a record, wherever a hand-off puts them."""
    for place in _places(record):
        mark = read_mark(place)
        if mark is not None:
            yield mark


def _places(record: dict[str, Any], depth: int = 2) -> Iterator[dict[str, Any]]:
    """Return the objects that have the field of a mark: the record, and what is inside of it."""
    if record.get(MARK) is not None:
        yield record
    for name in _INSIDE if depth else ():
        yield from _places(table(record.get(name)), depth - 1)


def with_notices(
    mark: dict[str, Any], before: Iterable[Notice], after: Iterable[Notice] = ()
) -> dict[str, Any]:
    """Return the field of a mark with the notices that stand around its record."""
    told = {"before": list(before), "after": list(after)}
    return {MARK: {**mark[MARK], **{side: said for side, said in told.items() if said}}}


def notices_in(record: dict[str, Any]) -> tuple[list[Entry], list[Entry]]:
    """Return the notices that stand in a record's mark: those before it, and those behind it."""
    told = next((table(place[MARK]) for place in _places(record)), {})
    return _notices(told.get("before"), "before"), _notices(told.get("after"), "after")


def _notices(told: object, side: str) -> list[Entry]:
    found = []
    for number, one in enumerate(rows(told)):
        said, failed = (*rows(one), None, None)[:2]
        key = f"{side}{number}"
        found.append(Entry(key, "system", "note", None, text(said), error=failed is True))
    return found


def may_be_marked(line: bytes) -> bool:
    """Tell whether to look for a mark in a line: decoding takes most of the time."""
    return _ANYWHERE in line


def marked(entries: list[Entry], mark: CopyMark | None) -> list[Entry]:
    """Note in the entries of a record what its mark says."""
    if mark is not None:
        for entry in entries:
            entry.origin = mark.origin
            if mark.is_note and entry.kind == "prompt":
                entry.kind = "note"
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
