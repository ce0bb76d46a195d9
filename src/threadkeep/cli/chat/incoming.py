"""What comes in on stdin: JSONL chunks or an SSE body, told apart by the first character."""

import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NamedTuple, Self

from threadkeep.errors import Invalid

_PIECE = 65536
_BOM = b"\xef\xbb\xbf"
# A body of events begins with a field (data, event, id, retry) or a comment.
_SSE_BEGINS = b"deir:"
_SHOWN = 40
_DATA = b"data: "


class Numbered(NamedTuple):
    """Bytes of an event stream, and the line of JSONL that they come from."""

    line: int | None
    data: bytes


class StreamInput:
    """Gives the input back as server-sent events, whichever of the two it is."""

    def __init__(self) -> None:
        self._blank = b""
        self._is_jsonl: bool | None = None
        self._line = 1

    def take(self, data: bytes) -> Iterator[Numbered]:
        """Take the next bytes; nothing comes back before it is clear what they are."""
        lead = b""
        if self._is_jsonl is None:
            data = (self._blank + data).removeprefix(_BOM)
            self._blank = data
            words = data.lstrip()
            if not words or _BOM.startswith(data):
                return
            self._is_jsonl = self._decide(words, words[:1])
            if self._is_jsonl:
                self._line += data[: -len(words)].count(b"\n")
                lead, data = _DATA, words
        yield from self._as_events(lead + data) if self._is_jsonl else [Numbered(None, data)]

    def _as_events(self, data: bytes) -> Iterator[Numbered]:
        """Each line becomes an event; an empty one has no data and does not count."""
        *whole, begun = data.split(b"\n")
        for line in whole:
            yield Numbered(self._line, line + b"\n\n" + _DATA)
            self._line += 1
        if begun:
            yield Numbered(self._line, begun)

    def _decide(self, data: bytes, first: bytes) -> bool:
        if first == b"{":
            return True
        if first in _SSE_BEGINS:
            return False
        shown = data[:_SHOWN].decode("utf-8", "replace")
        raise Invalid(
            f"the input is neither JSON lines nor server-sent events; it begins with {shown!r}",
            hint='send one chunk a line, {"type": …}, or the body of an AI SDK stream response',
        )


class Interruptible:
    """Reads input until it ends; a signal is heard between two pieces, never inside a write.

    So Ctrl-C cannot cut a chunk in half, and the recorder can still write down why it ended.
    """

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._waiting = False
        self._stopped = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        """Listen to Ctrl-C, to `kill`, and to a terminal that goes away."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the signals as they were."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        self._stopped = True
        if self._waiting:
            raise KeyboardInterrupt

    def pieces(self) -> Iterator[bytes]:
        """Yield what comes in, as soon as it does."""
        while data := self._next():
            yield data

    def _next(self) -> bytes:
        if self._stopped:
            raise KeyboardInterrupt
        self._waiting = True
        try:
            return self._read(_PIECE)
        finally:
            self._waiting = False
