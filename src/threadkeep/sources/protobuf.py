"""Protocol buffers without their schema: the fields of a message as they lie in its bytes."""

from collections.abc import Iterator
from typing import Final

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT: Final = 10


def byte_fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the numbers and contents of the length-delimited fields, up to what is no field."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if at < 0:
            return
        wire = tag & 7
        if wire == _BYTES:
            length, at = _varint(data, at)
            if at < 0 or length > len(data) - at:
                return
            yield tag >> 3, data[at : at + length]
            at += length
        elif wire == _VARINT:
            _, at = _varint(data, at)
            if at < 0:
                return
        elif wire in {_FIXED32, _FIXED64}:
            at += 4 if wire == _FIXED32 else 8
        else:
            return


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a number; the place behind it is -1 if there is none."""
    value = 0
    for position, byte in enumerate(data[at : at + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * position)
        if byte < 0x80:  # noqa: PLR2004  (the top bit says that more follows)
            return value, at + position + 1
    return 0, -1
