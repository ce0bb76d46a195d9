"""Pieces of a text to be replaced: joined where they overlap, kept inside the values of JSON."""

import json
import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

_STRING: Final = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*)"(\s*:)?', re.DOTALL)
_LINE: Final = re.compile(rb"[^\s][^\n]*(?<!\r)")
_FRAME: Final = re.compile(rb"[^A-Za-z]*-----(?:BEGIN|END)[ A-Z0-9]{0,60}-----\s*")
_ASCII: Final = 0x80
_UNICODE_ESCAPE: Final = 6  # a backslash, u, and four digits


class MaskSpan(NamedTuple):
    """A piece of a text, what takes its place, and the rule that found it."""

    start: int
    end: int
    rule: str
    mask: bytes

    def within(self, start: int, size: int) -> "MaskSpan | None":
        """Give the span as a text sees it that begins at a place; None if it lies outside."""
        first, last = max(0, self.start - start), min(size, self.end - start)
        return MaskSpan(first, last, self.rule, self.mask) if first < last else None

    def covers(self, match: re.Match[bytes], group: int | str) -> bool:
        """Tell whether the group of a match lies in this span."""
        return self.start <= match.start(group) and match.end(group) <= self.end


class MaskPlace(NamedTuple):
    """Where a mask stands in a text, and the rule that put it there."""

    rule: str
    place: int


def joined(spans: Iterable[MaskSpan]) -> list[MaskSpan]:
    """Sort spans and make one of those that overlap; the first one's mask is kept."""
    result: list[MaskSpan] = []
    for span in sorted(spans, key=_order):
        if result and span.start < result[-1].end:
            first = result[-1]
            if span.end > first.end:
                result[-1] = MaskSpan(first.start, span.end, first.rule, first.mask)
        else:
            result.append(span)
    return result


def _order(span: MaskSpan) -> tuple[int, int]:
    return span[0], -span[1]


def replaced(data: bytes, spans: Sequence[MaskSpan]) -> bytes:
    """Put the masks in place of the spans, which are in order and apart."""
    edges = [0, *(edge for span in spans for edge in (span.start, span.end)), len(data)]
    kept = [data[start:end] for start, end in list(pairwise(edges))[::2]]
    masks = [*(span.mask for span in spans), b""]
    return b"".join(piece + mask for piece, mask in zip(kept, masks, strict=True))


def apart(spans: Sequence[MaskSpan], spared: Collection[str]) -> list[MaskSpan]:
    """Give the spans that touch none of those that spared rules found."""
    free = joined(span for span in spans if span.rule in spared)
    starts = [span.start for span in free]
    result = []
    for span in spans:
        last = bisect_left(starts, span.end) - 1
        if last < 0 or free[last].end <= span.start:
            result.append(span)
    return result


def moved(marks: Sequence[MaskPlace], spans: Sequence[MaskSpan]) -> list[MaskPlace]:
    """Give the marks of a text after these spans of it were replaced, and theirs."""
    result: list[MaskPlace] = []
    shift = at = 0
    for span in [*spans, None]:
        while at < len(marks) and (span is None or marks[at].place < span.end):
            if span is None or marks[at].place < span.start:
                result.append(marks[at]._replace(place=marks[at].place + shift))
            at += 1
        if span is not None:
            result.append(MaskPlace(span.rule, span.start + shift))
            shift += len(span.mask) - (span.end - span.start)
    return result


def line_by_line(data: bytes, spans: Iterable[MaskSpan]) -> list[MaskSpan]:
    """Cut spans at the ends of lines, which stay; blanks and the frame of a key stay too.

    So a key in lines has the same masks in whatever pieces its lines arrive.
    """
    result: list[MaskSpan] = []
    for span in spans:
        if data.find(b"\n", *span[:2]) < 0 and data.find(b"-----", *span[:2]) < 0:
            result.append(span)
            continue
        lines = _LINE.finditer(data, span.start, span.end)
        kept = (line.span() for line in lines if _FRAME.fullmatch(line[0]) is None)
        result.extend(MaskSpan(*pair, span.rule, span.mask) for pair in kept)
    return result


def whole_letters(data: bytes, span: MaskSpan) -> MaskSpan:
    """Widen a span that begins or ends inside a letter of UTF-8."""
    start, end = span.start, span.end
    if data[start] < _ASCII and (end == len(data) or data[end] < _ASCII):
        return span
    while start > 0 and _continues(data, start):
        start -= 1
    while _continues(data, end):
        end += 1
    return MaskSpan(start, end, span.rule, span.mask)


def _continues(data: bytes, place: int) -> bool:
    return place < len(data) and data[place] & 0xC0 == 0x80  # noqa: PLR2004  (UTF-8)


def is_json(line: bytes) -> bool:
    """Tell whether a line is one JSON value that can hold text."""
    if line.lstrip()[:1] not in {b"{", b"[", b'"'}:
        return False
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def string_values(line: bytes) -> Iterator[tuple[int, int]]:
    """Yield where the texts of a JSON line begin and end; names of members are left out."""
    for string in _STRING.finditer(line):
        if string[2] is None:
            yield string.span(1)


def inside(
    line: bytes, spans: Sequence[MaskSpan], values: Iterable[tuple[int, int]]
) -> list[MaskSpan]:
    """Cut spans to the texts of a JSON line, and never through an escape."""
    cut: list[MaskSpan] = []
    place = 0
    for start, end in values:
        while place < len(spans) and spans[place].end <= start:
            place += 1
        at = place
        while at < len(spans) and spans[at].start < end:
            span = spans[at]
            at += 1
            first = _before_escape(line, max(span.start, start))
            last = _behind_escape(line, min(span.end, end))
            if first < last:
                cut.append(MaskSpan(first, last, span.rule, span.mask))
    return joined(cut)


def _before_escape(line: bytes, place: int) -> int:
    escape = _escape_around(line, place)
    return escape[0] if escape else place


def _behind_escape(line: bytes, place: int) -> int:
    escape = _escape_around(line, place)
    return escape[1] if escape else place


def _escape_around(line: bytes, place: int) -> tuple[int, int] | None:
    """Give both ends of the escape that a place lies in the middle of."""
    if line.find(b"\\", max(0, place - _UNICODE_ESCAPE), place) < 0:
        return None
    for start in range(place - 1, max(place - _UNICODE_ESCAPE, -1), -1):
        if line[start] == 0x5C and _backslashes_until(line, start) % 2 == 1:  # noqa: PLR2004
            end = start + (_UNICODE_ESCAPE if line[start + 1 : start + 2] == b"u" else 2)
            return (start, end) if end > place else None
    return None


def _backslashes_until(line: bytes, place: int) -> int:
    start = place
    while start >= 0 and line[start] == 0x5C:  # noqa: PLR2004
        start -= 1
    return place - start
