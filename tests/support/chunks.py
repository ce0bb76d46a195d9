"""Short ways to write chunks, and the parts that they make."""

from typing import Any

from threadkeep.chat.wire.reduce import reduce_chunks

Chunk = dict[str, Any]


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
