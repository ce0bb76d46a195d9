"""Pi: a tree of entries, of which a hand-off writes the one branch."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from threadkeep.knowledge.records import Image
from threadkeep.sources.pi import NOTICE
from threadkeep.transfer import conversation

_VERSION: Final = 3  # of the format
_ELSEWHERE: Final = "threadkeep"  # the provider of what was said in another program

Record = dict[str, Any]


def pi(told: conversation.Conversation, new: conversation.NewSession) -> str:
    """Write a conversation as a session that Pi can resume."""
    return conversation.json_lines(_entries(told, new))


def _entries(told: conversation.Conversation, new: conversation.NewSession) -> Iterator[Record]:
    about = told.about
    header = {"type": "session", "version": _VERSION, "id": new.session_id, "cwd": about.cwd}
    yield header | {"timestamp": conversation.stamp(new.now)}
    contents: list[tuple[int, Record, Record]] = []
    if about.title:
        contents.append((new.now, {"type": "session_info", "name": about.title}, told.mark()))
    for message, at in conversation.timed(told, new.now):
        contents += [(at, content, told.mark(message)) for content in _contents(message, at)]
    last: str | None = None
    for at, content, mark in contents:
        own = new.digits()
        if content["type"] == "compaction":  # of what comes before it nothing is kept
            content["firstKeptEntryId"] = own
        yield {"id": own, "parentId": last, "timestamp": conversation.stamp(at)} | content | mark
        last = own


def _contents(message: conversation.ExportMessage, at: int) -> Iterator[Record]:
    """Return the entries of a message, without what all entries share."""
    if message.role == "assistant":
        yield _message(_answer(message), at)
        return
    shown = conversation.pictures_in(message)
    for block in message.blocks:
        match block:
            case conversation.ToolResult():
                yield _message(_result(block), at)
            case conversation.Summary(text=said):
                yield {"type": "compaction", "summary": said, "tokensBefore": 0}
            case conversation.ExportNote(text=said, error=error) if message.role == "system":
                told = {"text": said, "error": error}
                yield {"type": "custom", "customType": NOTICE, "data": told}
            case conversation.ExportNote(text=said):
                own = {"customType": _ELSEWHERE, "content": said, "display": True}
                yield {"type": "custom_message", **own}
            case conversation.ExportText(text=said):
                yield _message({"role": "user", "content": _content(said, shown)}, at)
                shown = []
    if shown:
        yield _message({"role": "user", "content": _content("", shown)}, at)


def _message(message: Record, at: int) -> Record:
    return {"type": "message", "message": {**message, "timestamp": at}}


def _content(said: str, images: Sequence[Image] = ()) -> list[Record]:
    words = [{"type": "text", "text": said}] if said else []
    return [*words, *map(_picture, images)]


def _picture(image: Image) -> Record:
    if image.data:
        return {"type": "image", "data": image.data, "mimeType": image.media_type}
    return {"type": "text", "text": conversation.described(image)}


def _answer(message: conversation.ExportMessage) -> Record:
    blocks = [_block(block) for block in message.blocks]
    asks = any(isinstance(block, conversation.ToolCall) for block in message.blocks)
    cost = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "total"), 0)
    counts = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "totalTokens"), 0)
    return {
        "role": "assistant",
        "content": blocks,
        "api": _ELSEWHERE,
        "provider": _ELSEWHERE,
        "model": message.model,
        "usage": {**counts, "cost": cost},
        "stopReason": "toolUse" if asks else "stop",
    }


def _block(block: conversation.Block) -> Record:
    match block:
        case conversation.Reasoning(text=said):
            return {"type": "thinking", "thinking": said}
        case conversation.ToolCall():
            given = conversation.as_object(block.input)
            return {"type": "toolCall", "id": block.id, "name": block.name, "arguments": given}
        case conversation.Picture(image=image):
            return {"type": "text", "text": conversation.described(image)}
        case conversation.ToolResult():
            return {"type": "text", "text": conversation.loose_result(block)}
        case _:
            return {"type": "text", "text": block.text}


def _result(result: conversation.ToolResult) -> Record:
    return {
        "role": "toolResult",
        "toolCallId": result.id,
        "toolName": result.name or "tool",
        "content": _content(result.output, result.images),
        "isError": result.error,
    }
