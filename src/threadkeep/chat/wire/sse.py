"""Server-sent events, as an AI SDK response streams its chunks.

data: {"type":"text-delta","id":"0","delta":"Hel"}

data: [DONE]
"""

import re
from typing import Any, Final

from threadkeep.base.json import decode, encode
from threadkeep.errors import Closed, Invalid, TooLarge

DONE: Final = b"data: [DONE]\n\n"
BUFFER_LIMIT: Final = 64 * 1024 * 1024

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_BOM: Final = b"\xef\xbb\xbf"


def encode_sse(chunk: dict[str, Any]) -> bytes:
    """Write one chunk as an event."""
    return b"data: " + encode(chunk).encode() + b"\n\n"


class SseParser:
    """Cuts a byte stream into the data of its events, however the packets fall.

    `done` turns true at `[DONE]`; `cut` when the stream ended within an event that was thrown away.
    """

    def __init__(self, limit: int = BUFFER_LIMIT) -> None:
        self.done = False
        self.cut = False
        self._limit = limit
        self._rest = bytearray()  # the line that has no end yet
        self._data: list[bytes] = []  # the data lines of the event that has no end yet
        self._held = 0
        self._after_cr = False
        self._at_start = True
        self._closed = False

    def feed(self, packet: bytes) -> list[str]:
        """Take the next bytes; give the data of every event that is now complete."""
        if self._closed:
            raise Closed("this event stream was closed")
        if not packet:
            return []
        if self._after_cr:  # the line ended with \r: its \n may come now
            self._after_cr = False
            packet = packet.removeprefix(b"\n")
        scanned = len(self._rest)
        self._rest += packet
        events = self._take_lines(scanned)
        # Events that are complete are given out first; the next packet then meets the limit.
        if not events and len(self._rest) + self._held > self._limit:
            raise TooLarge(
                f"an event of the stream is larger than {self._limit} bytes",
                hint="send large files by reference, not inside a chunk",
            )
        return events

    def close(self) -> list[str]:
        """End the stream; an event without its blank line counts if it is a whole JSON object.

        A JSON object cannot be the beginning of a longer one, so nothing half-sent gets through.
        """
        if self._closed:
            return []
        self._closed = True
        self._take_line(bytes(self._rest))
        text = self._joined()
        if _is_object(text):
            return [text]
        if text == "[DONE]":
            self.done = True
        else:
            self.cut = bool(self._data or self._rest)
        return []

    def _take_lines(self, scanned: int) -> list[str]:
        events: list[str] = []
        start = 0
        for end in _LINE_END.finditer(self._rest, scanned):
            if self._take_line(bytes(self._rest[start : end.start()])):
                self._dispatch(events)
            start = end.end()
        self._after_cr = start == len(self._rest) and self._rest[-1:] == b"\r"
        del self._rest[:start]
        return events

    def _take_line(self, line: bytes) -> bool:
        """Keep a data line; tell whether the line was blank, which ends the event."""
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(_BOM)
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
            self._held += len(value)
        return not line

    def _dispatch(self, events: list[str]) -> None:
        text = self._joined()
        self._data.clear()
        self._held = 0
        if text == "[DONE]":
            self.done = True
        elif text:
            events.append(text)

    def _joined(self) -> str:
        # The standard asks for U+FFFD in place of broken bytes; the AI SDK's decoder does the same.
        return b"\n".join(self._data).decode("utf-8", "replace")


def _is_object(text: str) -> bool:
    if not text.lstrip().startswith("{"):
        return False
    try:
        decode(text)
    except Invalid:
        return False
    return True
