"""Short ways to write chunks, and the parts that they make."""

from collections.abc import Iterable
from typing import Any

from threadkeep.chat.wire.protocol import NEWEST, validate_chunk
from threadkeep.chat.wire.reduce import StreamState
from threadkeep.errors import Invalid

Chunk = dict[str, Any]


def reduce_chunks(
    chunks: Iterable[object],
    message: Chunk | None = None,
    *,
    strict: bool = False,
    protocol: int = NEWEST,
) -> Chunk:
    """Return the message that the chunks make of nothing, or of an initial message.

    Chunks that are malformed or do not fit are skipped, or raise when `strict`.
    """
    state = StreamState(message, message["id"] if message else "", protocol=protocol)
    for one in chunks:
        try:
            state.apply(validate_chunk(one, protocol))
        except Invalid:
            if strict:
                raise
    return state.message()


def chunk(kind: str, /, **fields: Any) -> Chunk:
    return {"type": kind, **fields}


def parts_of(*chunks: Chunk, message: Chunk | None = None) -> list[Chunk]:
    parts: list[Chunk] = reduce_chunks(chunks, message, strict=True)["parts"]
    return parts


def tool(kind: str, call: str = "c", **fields: Any) -> Chunk:
    """Make a tool chunk; those about an input also need a name."""
    named = {"toolName": "search"} if "-input-" in kind and kind != "tool-input-delta" else {}
    return {"type": kind, "toolCallId": call, **named, **fields}


def delta(text: str, call: str = "c") -> Chunk:
    return tool("tool-input-delta", call, inputTextDelta=text)


START_STEP, FINISH_STEP = chunk("start-step"), chunk("finish-step")
