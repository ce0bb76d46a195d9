"""The masks of a log: its lines without their secrets, and a note of each mask."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from threadkeep.base.tx import Tx
from threadkeep.capture.context import CaptureContext, Mask
from threadkeep.knowledge.masks import Marks, exempt_rules
from threadkeep.redact.engine import Redactor
from threadkeep.redact.markers import PRIVATE
from threadkeep.redact.rules import MASK

CONTEXT_BYTES: Final = 64 * 1024  # how much of a log before a piece may matter: a key in lines
MARKERS: Final = (MASK.encode(), PRIVATE.encode())


class MaskedLines(NamedTuple):
    """The lines of a piece, masked; the masks of those that have one; which of them changed."""

    lines: Sequence[bytes]
    marks: Mapping[int, Marks]
    changed: Sequence[int]


def mask_of(tx: Tx, around: CaptureContext, harness: str, session_id: str) -> Mask:
    """Give what masks the lines of a session: all rules, but those that were undone there."""
    undone = exempt_rules(tx, harness, session_id)
    return redactor_of(around).sparing(undone).piece if undone else around.mask


def redactor_of(around: CaptureContext) -> Redactor:
    """Give the redactor of a home; without one, our own rules."""
    return around.redactor or Redactor.default()


def masked_lines(mask: Mask, data: bytes, before: bytes = b"", after: bytes = b"") -> MaskedLines:
    """Mask the lines of a piece; `before` and `after` are what stands beside it in the log."""
    masked = mask(data, before, after)
    lines = masked.data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    if masked.data is data:
        return MaskedLines(lines, {}, ())
    marks: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for note in masked.notes:
        marks[note.line].append((note.rule, note.place))
    before_and_after = enumerate(zip(data.split(b"\n"), lines, strict=False))
    return MaskedLines(lines, marks, [row for row, (old, new) in before_and_after if old != new])


def tail_of(before: bytes, piece: bytes) -> bytes:
    """Give the end of what was read of a log, after one more piece."""
    if len(piece) >= CONTEXT_BYTES:
        return piece[-CONTEXT_BYTES:]
    return (before + piece)[-CONTEXT_BYTES:]


def markers_in(line: bytes) -> list[int]:
    """Give where the masks of a line begin."""
    places = []
    for marker in MARKERS:
        place = line.find(marker)
        while place >= 0:
            places.append(place)
            place = line.find(marker, place + 1)
    return sorted(places)


def noted_again(line: bytes, fresh: Marks, noted: Marks) -> Marks:
    """Give the masks of a line that was masked once more: the fresh ones, and the old ones anew.

    The old ones have moved, but are still in their order; where they cannot be told, they are left
    out.
    """
    known = {place for _, place in fresh}
    old = [place for place in markers_in(line) if place not in known]
    moved = zip((rule for rule, _ in noted), old, strict=True) if len(old) == len(noted) else ()
    return sorted([*fresh, *moved], key=lambda mark: mark[1])
