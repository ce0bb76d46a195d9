"""Log files, opened to be read from any place on, in pieces of whole lines and bounded memory."""

import os
import stat
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Final, NamedTuple, Self

from threadkeep.base.compression import decompressed
from threadkeep.errors import Invalid
from threadkeep.sources.common import stamp_of

PIECE_BYTES: Final = 1024 * 1024
# A longer line is read as several: nothing that a program wrote on purpose is so long, and a
# file without any line feed must not fill the memory.
LONGEST_LINE: Final = 16 * 1024 * 1024


class Piece(NamedTuple):
    """Bytes of a log: whole lines with their line feeds, or what is behind the last one."""

    data: bytes
    complete: bool


class _Cursor:
    """Reads an open file from a place of its own: two readers do not move each other."""

    def __init__(self, descriptor: int, start: int) -> None:
        self._descriptor = descriptor
        self._at = start

    def read(self, size: int) -> bytes:
        data = os.pread(self._descriptor, size, self._at)
        self._at += len(data)
        return data


class LogFile:
    """A log open for reading; compressed ones (.zst) are read as if they were not.

    `between` may be asked while `pieces` is read: each keeps its own place in the file.
    """

    def __init__(self, path: str) -> None:
        """Open a regular file; a pipe or a device in its place is refused, not waited for."""
        self._compressed = path.endswith(".zst")
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        status = os.fstat(self._descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(self._descriptor)
            raise Invalid(f"{path} is not a regular file", hint="it is passed over")
        self.stamp = stamp_of(status)

    def between(self, start: int, end: int) -> bytes:
        """Give the bytes from one place to another, fewer if the log is shorter."""
        if not self._compressed:
            return os.pread(self._descriptor, end - start, start)
        found = b""
        for data in _from(self._raw(0), start):
            found += data
            if len(found) >= end - start:
                break
        return found[: end - start]

    def pieces(self, start: int) -> Iterator[Piece]:
        """Yield everything from a place on, cut behind line feeds."""
        raw = _from(self._raw(0), start) if self._compressed else self._raw(start)
        return _whole_lines(raw)

    def _raw(self, start: int) -> Iterator[bytes]:
        cursor = _Cursor(self._descriptor, start)
        if self._compressed:
            yield from decompressed(cursor, PIECE_BYTES)
            return
        while data := cursor.read(PIECE_BYTES):
            yield data

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._descriptor)


def _from(pieces: Iterable[bytes], start: int) -> Iterator[bytes]:
    for data in pieces:
        if start < len(data):
            yield data[start:]
        start = max(0, start - len(data))


def _whole_lines(raw: Iterable[bytes]) -> Iterator[Piece]:
    held: list[bytes] = []
    length = 0
    for piece in raw:
        data, first = piece, piece.find(b"\n")
        if length + (first if first >= 0 else len(data)) > LONGEST_LINE:
            # Cut at the same place whenever it is read, so that its parts are always the same.
            room = LONGEST_LINE - length
            yield Piece(b"".join([*held, data[:room]]), complete=False)
            held, length, data = [], 0, data[room:]
        end = data.rfind(b"\n") + 1
        if end:
            yield Piece(b"".join([*held, data[:end]]), complete=True)
            held, length = [], 0
        if end < len(data):
            held.append(data[end:])
            length += len(held[-1])
    if held:
        yield Piece(b"".join(held), complete=False)
