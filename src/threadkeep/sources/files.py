"""Log files, opened to be read from any place on, in pieces of whole lines and bounded memory."""

import os
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self
from zlib import crc32

import msgspec

from threadkeep.base.compression import decompressed
from threadkeep.base.files import translate_os
from threadkeep.base.json import decode_line
from threadkeep.base.nofollow import open_plain
from threadkeep.errors import Invalid, NotFound, TooLarge
from threadkeep.knowledge.archive import TAIL_BYTES
from threadkeep.sources.folders import stamp_of

PIECE_BYTES: Final = 1024 * 1024
# A longer line is read as several: nothing that a program wrote on purpose is so long, and a
# file without any line feed must not fill the memory.
LONGEST_LINE: Final = 16 * 1024 * 1024
# What comes behind this much of one line is left out, and told: somebody's core dump, or a bomb.
LONGEST_KEPT: Final = 4 * LONGEST_LINE
LARGEST_DOCUMENT: Final = 64 * 1024 * 1024


class LogChunk(NamedTuple):
    """Bytes of a log: whole lines with their line feeds, or what is behind the last one."""

    data: bytes
    complete: bool
    kept: bool = True  # False: of a line too long to be kept whole


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

    def __init__(self, path: str, root: str = "") -> None:
        """Open a regular file below a root, on the way from which nothing may be a link.

        Without a root the path is followed wherever it leads: somebody named it. A pipe or a
        device in its place is refused, not waited for.
        """
        self._path = path
        self._compressed = path.endswith(".zst")
        self._descriptor = open_plain(path, root)
        self.stamp = stamp_of(os.fstat(self._descriptor))
        self.cut = ""  # why something of it is left out

    def between(self, start: int, end: int) -> bytes:
        """Return the bytes from one place to another, fewer if the log is shorter."""
        if end <= start:
            return b""
        if not self._compressed:
            return os.pread(self._descriptor, end - start, start)
        found = b""
        for data in _from(self._raw(0), start):
            found += data
            if len(found) >= end - start:
                break
        return found[: end - start]

    def summed(self, end: int) -> tuple[int, bytes]:
        """Return the sum of everything before a place, and the last bytes before it, in one pass.

        Two texts of the same length with the same sum (CRC-32) are the same but once in four
        billion. It can be carried on from one byte to the next, and takes 0.25 ms a megabyte.
        """
        total, last = 0, b""
        for data in _until(self._raw(0), end):
            total = crc32(data, total)
            last = (last + data)[-TAIL_BYTES:] if len(data) < TAIL_BYTES else data[-TAIL_BYTES:]
        return total, last

    def whole(self) -> bytes:
        """Return everything; a document too large to be held is refused."""
        data = b"".join(_until(self._raw(0), LARGEST_DOCUMENT + 1))
        if len(data) > LARGEST_DOCUMENT or self.cut:
            raise TooLarge(
                f"{self._path} has more than {LARGEST_DOCUMENT:,} bytes", hint="it was skipped"
            )
        return data

    def pieces(self, start: int) -> Iterator[LogChunk]:
        """Yield everything from a place on, cut behind line feeds.

        The end of a compressed log that unpacks to too much is left out, as is that of a line
        that is too long; `cut` says so afterwards.
        """
        raw = _from(self._raw(0), start) if self._compressed else self._raw(start)
        for piece in _whole_lines(raw, self._begun(start)):
            if not piece.kept and not self.cut:
                self.cut = f"a line has more than {LONGEST_KEPT:,} bytes; its end is left out"
            yield piece

    def _begun(self, start: int) -> int:
        """Tell how many bytes of the line at a place stand before it, as far as that matters."""
        at = start
        while not self._compressed and at > 0 and start - at < LONGEST_KEPT:
            if self.between(at - 1, at) == b"\n":
                break
            begin = max(0, at - PIECE_BYTES)
            at = begin + self.between(begin, at).rfind(b"\n") + 1
        return start - at

    def _raw(self, start: int) -> Iterator[bytes]:
        cursor = _Cursor(self._descriptor, start)
        if self._compressed:
            try:
                yield from decompressed(cursor, PIECE_BYTES, self.stamp.size)
            except TooLarge as error:
                self.cut = error.message
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


def _until(pieces: Iterable[bytes], end: int) -> Iterator[bytes]:
    for data in pieces:
        if len(data) >= end:
            yield data[:end]
            return
        end -= len(data)
        yield data


def _whole_lines(raw: Iterable[bytes], begun: int = 0) -> Iterator[LogChunk]:
    """Cut behind line feeds; `begun` bytes of the first line stand before what is given."""
    held: list[bytes] = []
    length, given = 0, begun
    for piece in raw:
        data, first = piece, piece.find(b"\n")
        if length + (first if first >= 0 else len(data)) > LONGEST_LINE:
            # Cut at the same place whenever it is read, so that its parts are always the same.
            room = LONGEST_LINE - length
            yield LogChunk(
                b"".join([*held, data[:room]]), complete=False, kept=given < LONGEST_KEPT
            )
            held, length, data = [], 0, data[room:]
            given += LONGEST_LINE
        if given >= LONGEST_KEPT and (first := data.find(b"\n") + 1):
            yield LogChunk(b"".join([*held, data[:first]]), complete=True, kept=False)
            held, length, given, data = [], 0, 0, data[first:]
        end = data.rfind(b"\n") + 1
        if end:
            yield LogChunk(b"".join([*held, data[:end]]), complete=True)
            held, length, given = [], 0, 0
        if end < len(data):
            held.append(data[end:])
            length += len(held[-1])
    if held:
        yield LogChunk(b"".join(held), complete=False, kept=given < LONGEST_KEPT)


# ------------------------------------------------------------------------------
# JSON that other programs stored, made one line of a record without being rewritten.

_check = msgspec.json.Decoder(msgspec.Raw)
# Inside JSON these bytes are white space between values, never a part of one.
_BREAKS: Final = bytes.maketrans(b"\r\n", b"  ")


def one_line(stored: str | bytes) -> bytes:
    """Return stored JSON as one line; what is no JSON becomes a JSON text, so nothing is lost."""
    raw = stored.encode("utf-8", "replace") if isinstance(stored, str) else bytes(stored)
    try:
        _check.decode(raw)
        raw.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return msgspec.json.encode(raw.decode("utf-8", "replace"))
    return raw.translate(_BREAKS) if b"\n" in raw or b"\r" in raw else raw


def unpacked(stored: object) -> bytes:
    """Unpack a Zstandard blob of another program; one that grows beyond reason raises TooLarge."""
    data = stored if isinstance(stored, bytes) else b""
    return b"".join(decompressed(BytesIO(data), PIECE_BYTES, len(data)))


def wrap(about: dict[str, Any], name: str, stored: bytes) -> bytes:
    """Write `about` as an object with one line of stored JSON as its last member."""
    head = msgspec.json.encode(about)
    comma = b"," if about else b""
    return b"".join((head[:-1], comma, msgspec.json.encode(name), b":", stored, b"}"))


def stored_object(stored: object) -> dict[str, Any]:
    """Read a stored JSON object; empty if it is none."""
    if isinstance(stored, str):
        stored = stored.encode("utf-8", "replace")
    if not isinstance(stored, bytes):
        return {}
    try:
        found = decode_line(stored)
    except Invalid:
        return {}
    return found[0] if found and isinstance(found[0], dict) else {}


def file_bytes(path: Path, root: str) -> bytes:
    """Read a whole file of another program; nothing on the way from the root may be a link."""
    try:
        with LogFile(str(path), root) as file:
            return file.whole()
    except FileNotFoundError:
        raise NotFound(f"{path} is gone", hint="what was read of it is kept") from None
    except OSError as error:
        raise translate_os(error, path, "cannot read") from error
