"""What a command printed, kept in bounded memory: its first and its last lines, as plain text."""

import re
from collections import deque
from typing import Final, NamedTuple

from threadkeep.knowledge.observed import Output

SIDE_BYTES: Final = 64 << 10  # of UTF-8, at most, before and behind the omission

_ESCAPE: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]?"  # colours, cursor moves, erasing
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, links and other strings
    r"|\x1b[ -/]*[0-~]?"  # two-character escapes, and an escape that was cut
)
_CONTROL: Final = re.compile(r"[\x01-\x08\x0a-\x1f\x7f-\x9f]+")
_MARK_ROOM: Final = 64  # bytes for the mark of what was cut out of a line


def plain_text(raw: bytes) -> str:
    """Give what a line shows: no control sequences, other than text replaced by U+FFFD."""
    text = raw.decode("utf-8", "replace")
    if text.isprintable():
        return text
    text = _ESCAPE.sub("", text)
    shown = _overstruck(text) if "\b" in text else text
    return _CONTROL.sub("", shown).replace("\0", "\ufffd")


def _overstruck(text: str) -> str:
    """Let a backspace take away the character before it, as in a page of `man`."""
    first, *more = text.split("\b")
    shown = [first]
    for part in more:
        while shown and not shown[-1]:
            shown.pop()
        if shown:
            shown[-1] = shown[-1][:-1]
        shown.append(part)
    return "".join(shown)


class _Raw(NamedTuple):
    """A line as it was printed; `missing` bytes between its two ends are gone."""

    front: bytes
    missing: int = 0
    back: bytes = b""

    @property
    def size(self) -> int:
        return len(self.front) + len(self.back) + 1


class _Shown(NamedTuple):
    text: str
    size: int  # in UTF-8, with its line feed
    cut: bool = False


class _Line:
    """The line that is being printed: its first and its last bytes, if it is long."""

    def __init__(self, half: int) -> None:
        self._half = half
        self._front = bytearray()
        self._back = bytearray()
        self._length = 0
        self._returned = False

    def add(self, data: bytes) -> None:
        """Print on; what comes behind a carriage return takes the place of what was before."""
        body = data.rstrip(b"\r")
        if body:
            if self._returned or b"\r" in body:
                self._clear()
            self._append(body.rpartition(b"\r")[2])
        self._returned = len(body) < len(data) or (self._returned and not body)

    def _clear(self) -> None:
        self._front.clear()
        self._back.clear()
        self._length = 0

    def _append(self, data: bytes) -> None:
        room = self._half - len(self._front)
        self._front += data[:room]
        self._back += data[room:][-self._half :]
        if len(self._back) > 2 * self._half:  # now and then, so that few bytes are moved
            del self._back[: -self._half]
        self._length += len(data)

    def is_empty(self) -> bool:
        """Tell whether nothing was printed on it, not even a carriage return."""
        return not self._length and not self._returned

    def raw(self) -> _Raw:
        """Give what is kept of it."""
        back = bytes(self._back[-self._half :])
        missing = self._length - len(self._front) - len(back)
        front = bytes(self._front)
        return _Raw(front, missing, back) if missing else _Raw(front + back)


class HeadTail:
    """Keeps the first and the last lines of what it is fed with, and counts the others.

    Each side holds at most `side_bytes` (at least 256), so there may be fewer lines than asked for.
    What is kept is made readable when somebody asks for it: most lines only pass through.
    """

    def __init__(self, head_lines: int, tail_lines: int, side_bytes: int = SIDE_BYTES) -> None:
        self._head_lines = head_lines
        self._tail_lines = tail_lines
        self._limit = side_bytes
        self._head: list[_Raw] = []
        self._head_room = side_bytes
        self._head_open = head_lines > 0
        self._tail: deque[_Raw] = deque()
        self._tail_size = 0
        self._line = self._new_line()
        self._lines = 0
        self._bytes = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes that were printed."""
        self._bytes += len(data)
        at = 0
        while self._head_open and (end := data.find(b"\n", at)) >= 0:
            self._end_line(data[at:end])
            at = end + 1
        *lines, unfinished = self._latest(data[at:]).split(b"\n")
        for line in lines:
            self._end_line(line)
        self._line.add(unfinished)

    def output(self) -> Output:
        """Give what is kept so far."""
        raw_head, raw_tail, lines = self._head, list(self._tail), self._lines
        unfinished = not self._line.is_empty()
        if unfinished:
            raw_head, raw_tail = self._with(self._line.raw())
            lines += 1
        head = _fitting(raw_head, self._limit)
        tail = _fitting(raw_tail[::-1], self._limit)[::-1]
        omitted = lines - len(head) - len(tail)
        marker = [f"... ({omitted} lines omitted) ..."] if omitted else []
        texts = [*(line.text for line in head), *marker, *(line.text for line in tail)]
        return Output(
            content="\n".join(texts) + ("\n" if texts and not unfinished else ""),
            truncated=omitted > 0 or any(line.cut for line in [*head, *tail]),
            original_bytes=self._bytes,
        )

    def _new_line(self) -> _Line:
        return _Line((self._limit - 1) // 2)

    def _end_line(self, data: bytes) -> None:
        self._line.add(data)
        self._keep(self._line.raw())
        self._line = self._new_line()

    def _latest(self, data: bytes) -> bytes:
        """Leave out at once what could only pass through the last lines: most of a long output."""
        count = 0 if self._head_open else data.count(b"\n")
        if count <= self._tail_lines:
            return data
        at = len(data)
        for _ in range(self._tail_lines + 1):
            at = data.rfind(b"\n", 0, at)
        self._lines += count - self._tail_lines
        self._line = self._new_line()
        self._tail.clear()
        self._tail_size = 0
        return data[at + 1 :]

    def _keep(self, line: _Raw) -> None:
        self._lines += 1
        if self._fits_head(line):
            self._head.append(line)
            self._head_room -= line.size
            self._head_open = len(self._head) < self._head_lines
            return
        self._head_open = False
        self._tail.append(line)
        self._tail_size += line.size
        while len(self._tail) > self._tail_lines or self._tail_size > self._limit:
            self._tail_size -= self._tail.popleft().size

    def _fits_head(self, line: _Raw) -> bool:
        return self._head_open and line.size <= self._head_room

    def _with(self, line: _Raw) -> tuple[list[_Raw], list[_Raw]]:
        """Give both sides as if this line had ended."""
        if self._fits_head(line):
            return [*self._head, line], []
        tail = [*self._tail, line][-self._tail_lines :] if self._tail_lines else []
        return self._head, tail


def _fitting(lines: list[_Raw], limit: int) -> list[_Shown]:
    """Make lines readable, as many as a side holds."""
    fitting: list[_Shown] = []
    size = 0
    for line in lines:
        shown = _shown(line, limit)
        size += shown.size
        if size > limit:
            break
        fitting.append(shown)
    return fitting


def _shown(line: _Raw, limit: int) -> _Shown:
    """Make a line readable; a mark says how many bytes are missing in a long one."""
    front, back = plain_text(line.front).encode(), plain_text(line.back).encode()
    if not line.missing and len(front) < limit:
        return _Shown(front.decode(), len(front) + 1)
    room = (limit - _MARK_ROOM) // 2
    head, tail = front[:room], (back if line.missing else front)[-room:]
    lost = len(front) + line.missing + len(back) - len(head) - len(tail)
    mark = f"…[{lost} bytes omitted]…"
    text = head.decode("utf-8", "ignore") + mark + tail.decode("utf-8", "ignore")
    return _Shown(text, len(text.encode()) + 1, cut=True)
