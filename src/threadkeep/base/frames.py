"""Frames: a length of four bytes, then so many bytes of JSON.

Sockets count big-endian, browsers (native messaging) in the byte order of the machine. The length
is judged before anything of the frame is kept, so a wrong one costs no memory.
"""

import sys
from typing import Final, Literal

from threadkeep.errors import TooLarge

HEAD: Final = 4
SOCKET_LIMIT: Final = 10 << 20
NATIVE_LIMIT: Final = 1 << 20

Order = Literal["big", "native"]


def encode_frame(body: bytes, *, limit: int = SOCKET_LIMIT, order: Order = "big") -> bytes:
    """Put the length in front of a body; one over the limit is refused."""
    if len(body) > limit:
        raise _too_large(len(body), limit)
    return len(body).to_bytes(HEAD, _byte_order(order)) + body


class FrameDecoder:
    """Takes bytes as they come and gives whole frames; after an error the stream has no meaning.

    A frame of no bytes is given as such: the stream is still in order, it is only no JSON.
    """

    def __init__(self, *, limit: int = SOCKET_LIMIT, order: Order = "big") -> None:
        self._limit = limit
        self._order = _byte_order(order)
        self._buffer = bytearray()

    @property
    def held(self) -> int:
        """How many bytes of unfinished or untaken frames are in memory."""
        return len(self._buffer)

    def feed(self, data: bytes) -> None:
        """Add what came; then ask `take` until it has no more."""
        self._buffer += data

    def take(self) -> bytes | None:
        """Return the next whole frame, None if it has not come yet; TooLarge if it never may."""
        if len(self._buffer) < HEAD:
            return None
        length = int.from_bytes(self._buffer[:HEAD], self._order)
        if length > self._limit:
            raise _too_large(length, self._limit)
        end = HEAD + length
        if len(self._buffer) < end:
            return None
        body = bytes(memoryview(self._buffer)[HEAD:end])
        del self._buffer[:end]
        return body


def _byte_order(order: Order) -> Literal["little", "big"]:
    return "big" if order == "big" else sys.byteorder


def _too_large(length: int, limit: int) -> TooLarge:
    msg = f"a frame of {length} bytes is over the limit of {limit}"
    return TooLarge(msg, hint="send less at once; check the byte order of the length")
