"""Log files, opened to be read from any place on, in pieces of whole lines and bounded memory."""

import os
import stat
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import BinaryIO, Final, NamedTuple, Self

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


class LogFile:
    """A log open for reading; compressed ones (.zst) are read as if they were not."""

    def __init__(self, path: str) -> None:
        """Open a regular file; a pipe or a device in its place is refused, not waited for."""
        self._compressed = path.endswith(".zst")
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._file: BinaryIO = os.fdopen(descriptor, "rb", buffering=0)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            self._file.close()
            raise Invalid(f"{path} is not a regular file", hint="it is passed over")
        self.stamp = stamp_of(status)

    def between(self, start: int, end: int) -> bytes:
        """Give the bytes from one place to another, fewer if the log is shorter."""
        if not self._compressed:
            self._file.seek(start)
            return self._file.read(end - start)
        return b"".join(_from(self._raw(0), start))[: end - start]

    def pieces(self, start: int) -> Iterator[Piece]:
        """Yield everything from a place on, cut behind line feeds."""
        raw = _from(self._raw(0), start) if self._compressed else self._raw(start)
        return _whole_lines(raw)

    def _raw(self, start: int) -> Iterator[bytes]:
        self._file.seek(start)
        if self._compressed:
            yield from decompressed(self._file, PIECE_BYTES)
            return
        while data := self._file.read(PIECE_BYTES):
            yield data

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()


def _from(pieces: Iterable[bytes], start: int) -> Iterator[bytes]:
    for data in pieces:
        if start < len(data):
            yield data[start:]
        start = max(0, start - len(data))


def _whole_lines(raw: Iterable[bytes]) -> Iterator[Piece]:
    held: list[bytes] = []
    length = 0
    for data in raw:
        end = data.rfind(b"\n") + 1
        if end:
            yield Piece(b"".join([*held, data[:end]]), complete=True)
            held, length = [], 0
        if end < len(data):
            held.append(data[end:])
            length += len(held[-1])
        if length >= LONGEST_LINE:
            yield Piece(b"".join(held), complete=False)
            held, length = [], 0
    if held:
        yield Piece(b"".join(held), complete=False)
