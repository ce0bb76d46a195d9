"""The texts of a block: a line of JSON is one, and all lines between two of those are one.

So a key that a program printed line by line is one text, and its lines are masked together.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from threadkeep.redact.spans import MaskPlace, is_json

# How far a secret may go on from one piece to the next: more than the longest token, and for keys
# in lines more than the longest of those.
_TOKEN: Final = 8 * 1024
_KEY: Final = 64 * 1024
_BEGINNING: Final = b"PRIVATE KEY"


class TextBlock(NamedTuple):
    """A piece of a block that is masked as one."""

    start: int
    end: int
    as_json: bool

    def __len__(self) -> int:
        return self.end - self.start


def texts_at(data: bytes, places: Sequence[int]) -> Iterator[TextBlock]:
    """Give the texts in which these places lie, in their order, each once."""
    done = 0
    for place in places:
        if place >= done:
            start = data.rfind(b"\n", done, place) + 1 or done
            end = data.find(b"\n", place) + 1 or len(data)
            text = TextBlock(start, end, as_json=True)
            if not is_json(data[start:end]):
                text = TextBlock(_back(data, start, done), _on(data, end), as_json=False)
            yield text
            done = text.end


def _on(data: bytes, end: int) -> int:
    """Give where the lines that are no JSON end."""
    while end < len(data):
        following = data.find(b"\n", end) + 1 or len(data)
        if _is_json(data, end, following):
            return end
        end = following
    return end


def _back(data: bytes, start: int, done: int) -> int:
    while start > done:
        previous = data.rfind(b"\n", done, start - 1) + 1 or done
        if _is_json(data, previous, start):
            return start
        start = previous
    return start


def _is_json(data: bytes, start: int, end: int) -> bool:
    return data[start : start + 1] in {b"{", b"[", b'"', b" ", b"\t"} and is_json(data[start:end])


def edges(before: bytes, data: bytes, after: bytes) -> Iterator[tuple[bytes, int]]:
    """Give what lies around both ends of a piece, and where in it the piece begins."""
    if before := beginning_of(before):
        yield before + data[:_KEY], len(before)
    if after:
        start = max(0, len(data) - _TOKEN)
        yield data[start:] + after[:_TOKEN], -start


def beginning_of(before: bytes) -> bytes:
    """Give the end of what came before a piece, as far as a secret may have begun there."""
    key = before.rfind(_BEGINNING, max(0, len(before) - _KEY))
    if key >= 0 and (start := before.rfind(b"-----BEGIN", 0, key)) >= 0:
        return before[start:]
    return b"" if before.endswith(b"\n") else before[-_TOKEN:]


def lines_of(data: bytes, marks: Sequence[MaskPlace]) -> Iterator[tuple[str, int, int]]:
    """Give the rule, the line and the place in the line of each mark."""
    line = start = done = 0
    for mark in marks:
        line += data.count(b"\n", done, mark.place)
        start = data.rfind(b"\n", done, mark.place) + 1 or start
        done = mark.place
        yield mark.rule, line, mark.place - start
