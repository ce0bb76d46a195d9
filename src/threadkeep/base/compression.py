"""Compression of what is kept for good.

Zstandard, because of these figures for 44 MB of transcripts in blocks of 256 KB: its level 3 takes
2.2 ms a megabyte and leaves 0.16 of it; zlib takes 8.7 ms and leaves 0.23.
"""

from collections.abc import Iterator
from typing import IO, Protocol, cast

import zstandard

from threadkeep.errors import Damaged

_LEVEL = 3


def compress(data: bytes) -> bytes:
    """Compress a block; the same bytes always give the same result."""
    return zstandard.ZstdCompressor(level=_LEVEL).compress(data)


def decompress(data: bytes, size: int) -> bytes:
    """Give a block back; raises Damaged if it is not what was compressed."""
    try:
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=size)
    except zstandard.ZstdError as error:
        raise Damaged(
            f"a compressed block cannot be read: {error}", hint="restore a backup"
        ) from error


class Readable(Protocol):
    """Something that gives its bytes piece by piece."""

    def read(self, size: int, /) -> bytes:
        """Give at most so many bytes, none at the end."""
        ...


def decompressed(stream: Readable, piece: int) -> Iterator[bytes]:
    """Yield the text of a compressed stream in pieces of at most so many bytes."""
    try:
        source = cast("IO[bytes]", stream)  # only its `read` is ever called
        with zstandard.ZstdDecompressor().stream_reader(source, read_across_frames=True) as reader:
            while data := reader.read(piece):
                yield data
    except zstandard.ZstdError as error:
        raise Damaged(f"not a Zstandard file: {error}", hint="it was left as it is") from error
