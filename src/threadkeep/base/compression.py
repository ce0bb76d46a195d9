"""Compression of what is kept for good.

Zstandard, because of these figures for 44 MB of transcripts in blocks of 256 KB: its level 3 takes
2.2 ms a megabyte and leaves 0.16 of it; zlib takes 8.7 ms and leaves 0.23.
"""

from collections.abc import Iterator
from typing import IO, Final, Protocol, cast

import zstandard

from threadkeep.errors import Damaged, TooLarge

_LEVEL: Final = 3
# What a stranger's file may unpack to: so many times its size, and this much in any case. Logs
# come to 6 to 30 times their packed size; 131 KB made to hurt came to 4 GB.
_MOST_TIMES: Final = 100
_ANY_CASE: Final = 64 * 1024 * 1024
# What is remembered of the text while it is unpacked: a stranger's file says how much that is.
_WINDOW: Final = 64 * 1024 * 1024


def compress(data: bytes) -> bytes:
    """Compress a block; the same bytes always give the same result."""
    return zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(data)


def has_checksum(data: bytes) -> bool:
    """Tell whether `decompress` finds damage in a block by itself; those of old versions do not."""
    return zstandard.get_frame_parameters(data).has_checksum


def decompress(data: bytes, size: int) -> bytes:
    """Return a block of this many bytes back; raises Damaged if it is not what was compressed."""
    try:
        # A frame may say that it is larger, and that much memory would be taken for it; in a
        # stranger's file so may the row that it stands in.
        told = zstandard.frame_content_size(data)
        if told not in {size, -1} or size > most_unpacked(len(data)):
            raise Damaged(f"it is not of {size:,} bytes", hint="restore a backup")
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=size)
    except zstandard.ZstdError as error:
        raise Damaged(
            f"a compressed block cannot be read: {error}", hint="restore a backup"
        ) from error


def is_compressed(data: bytes) -> bool:
    """Tell whether bytes begin as what `compress` gives does."""
    return data[: len(zstandard.FRAME_HEADER)] == zstandard.FRAME_HEADER


def compressed_size(data: bytes) -> int:
    """Return how many bytes a block says that it was of; -1 if it does not say."""
    try:
        return zstandard.frame_content_size(data)
    except zstandard.ZstdError:
        return -1


class Readable(Protocol):
    """Something that gives its bytes piece by piece."""

    def read(self, size: int, /) -> bytes:
        """Return at most so many bytes, none at the end."""
        ...


def most_unpacked(packed: int) -> int:
    """Return how many bytes a compressed stream of this size may unpack to."""
    return max(_ANY_CASE, _MOST_TIMES * packed)


def decompressed(stream: Readable, piece: int, packed: int) -> Iterator[bytes]:
    """Yield the text of a compressed stream in pieces of at most so many bytes.

    `packed` is the size of the stream: one that unpacks to far more raises TooLarge, after it has
    given what it may.
    """
    left = most_unpacked(packed)
    unpacker = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
    try:
        source = cast("IO[bytes]", stream)  # only its `read` is ever called
        with unpacker.stream_reader(source, read_across_frames=True) as reader:
            while data := reader.read(min(piece, left + 1)):
                if len(data) > left:
                    break
                left -= len(data)
                yield data
    except zstandard.ZstdError as error:
        raise Damaged(f"not a Zstandard file: {error}", hint="it was left unchanged") from error
    if data:
        if left:
            yield data[:left]
        msg = f"it unpacks to more than {most_unpacked(packed):,} bytes; the rest is left out"
        raise TooLarge(msg, hint="unpack it by hand if it is what you expect")
