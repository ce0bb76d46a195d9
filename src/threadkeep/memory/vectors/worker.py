"""The child that makes vectors: reads texts from a pipe, writes vectors to another.

It ends by itself: when nobody asks for a while, and when the other end of its pipe is closed,
which the system also does for a parent that was killed.
"""

import os
import select
import sys
from pathlib import Path
from typing import Final

import msgspec

from threadkeep.base.frames import FrameDecoder, encode_frame
from threadkeep.errors import NotFound, ThreadkeepError
from threadkeep.memory.records import Embedder
from threadkeep.memory.vectors.builtin import look_for_weights, open_builtin

LIMIT: Final = 1 << 28  # bytes of one message
_PIECE: Final = 1 << 16


class EmbeddingReply(msgspec.Struct):
    """The vectors of the texts that were asked for, or why there are none."""

    vectors: list[bytes] = []
    error: str = ""
    hint: str = ""


def answer_until_idle(embedder: Embedder, asked: int, answers: int, idle_seconds: float) -> None:
    """Answer what comes on one descriptor on the other, until nothing comes for some time."""
    decoder = FrameDecoder(limit=LIMIT)
    while select.select([asked], [], [], idle_seconds)[0]:
        data = os.read(asked, _PIECE)
        if not data:
            return
        decoder.feed(data)
        while (body := decoder.take()) is not None:
            write_all(answers, encode_frame(_answer(embedder, body), limit=LIMIT))


def _answer(embedder: Embedder, body: bytes) -> bytes:
    try:
        texts = msgspec.msgpack.decode(body, type=list[str])
        answer = EmbeddingReply(vectors=embedder.embed(texts))
    except ThreadkeepError as error:
        answer = EmbeddingReply(error=error.message, hint=error.hint)
    return msgspec.msgpack.encode(answer)


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _open(cache: Path) -> Embedder:
    found = look_for_weights()
    if found.folder is None:
        raise NotFound(f"no vectors can be made: {found.reason}")
    return open_builtin(found.folder, cache, make=True)


def main(arguments: list[str]) -> int:
    """Run as the child: the folder of the table, and after how many idle seconds to end."""
    cache, idle_seconds = Path(arguments[0]), float(arguments[1])
    answers = os.dup(1)
    os.dup2(2, 1)  # what anything prints must not come between the answers
    try:
        embedder = _open(cache)
    except ThreadkeepError as error:
        failed = msgspec.msgpack.encode(EmbeddingReply(error=error.message, hint=error.hint))
        write_all(answers, encode_frame(failed, limit=LIMIT))
        return error.exit_code
    answer_until_idle(embedder, 0, answers, idle_seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
