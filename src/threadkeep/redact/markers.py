"""The marker `<private>…</private>`: what stands between is replaced, to the end if it is open."""

import re
from typing import Final

PRIVATE: Final = "[PRIVATE]"
# What every opening marker ends with, in lower case. Go writes < and > in JSON as six letters.
ENDINGS: Final = (b"private>", rb"private\u003e")

_OPENING: Final = re.compile(rb"(?:<|\\u003c)private(?:>|\\u003e)", re.IGNORECASE)
_CLOSING: Final = re.compile(rb"(?:<|\\u003c)\\?/private(?:>|\\u003e)", re.IGNORECASE)


def private_spans(
    data: bytes, start: int, end: int, *, lines: bool = False
) -> list[tuple[int, int]]:
    """Give where the private parts between two places begin and end.

    With `lines` these are the lines of a log: an open part ends with its line, for nobody wrote
    all that follows into it.
    """
    spans: list[tuple[int, int]] = []
    while (opening := _OPENING.search(data, start, end)) is not None:
        closing = _CLOSING.search(data, opening.end(), end)
        rest = data.find(b"\n", opening.end(), end) if lines else -1
        start = closing.end() if closing is not None else (rest if rest >= 0 else end)
        spans.append((opening.start(), start))
    return spans
