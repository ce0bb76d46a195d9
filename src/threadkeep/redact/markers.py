"""The marker `<private>…</private>`: what stands between is replaced, to the end if it is open."""

import re
from typing import Final

PRIVATE: Final = "[PRIVATE]"
# What every opening marker ends with, in lower case. Go writes < and > in JSON as six letters.
ENDINGS: Final = (b"private>", rb"private\u003e")

_OPENING: Final = re.compile(rb"(?:<|\\u003c)private(?:>|\\u003e)", re.IGNORECASE)
_CLOSING: Final = re.compile(rb"(?:<|\\u003c)\\?/private(?:>|\\u003e)", re.IGNORECASE)


def private_spans(data: bytes, start: int, end: int) -> list[tuple[int, int]]:
    """Give where the private parts between two places begin and end."""
    spans: list[tuple[int, int]] = []
    while (opening := _OPENING.search(data, start, end)) is not None:
        closing = _CLOSING.search(data, opening.end(), end)
        start = end if closing is None else closing.end()
        spans.append((opening.start(), start))
    return spans
