"""The AI SDK: UI messages as a chat page keeps them, tool calls with their results in one part."""

from collections.abc import Iterator
from typing import Any

from threadkeep.knowledge.records import Image
from threadkeep.transfer import conversation

Part = dict[str, Any]


def ai_sdk(told: conversation.Conversation, new: conversation.NewSession) -> str:
    """Write a conversation as the array of UI messages that `useChat` is begun with."""
    return conversation.encoded(list(ui_messages(told, new))) + "\n"


def ui_messages(told: conversation.Conversation, new: conversation.NewSession) -> Iterator[Part]:
    """Yield UI messages: all that an agent did between two prompts is one of them."""
    pairs = conversation.pair(told.messages)
    open_: Part | None = None
    for place, (message, at) in enumerate(conversation.timed(told, new.now)):
        role = "assistant" if message.role == "tool" else message.role
        parts = _parts(message, place, pairs)
        if open_ is not None and open_["role"] == role == "assistant":
            open_["parts"] += parts
            continue
        if open_ is not None and open_["parts"]:
            yield open_
        open_ = _message(message, role, parts, at, new)
    if open_ is not None and open_["parts"]:
        yield open_


def _message(
    message: conversation.ExportMessage,
    role: str,
    parts: list[Part],
    at: int,
    new: conversation.NewSession,
) -> Part:
    told = {
        "createdAt": conversation.stamp(at),
        **({"model": message.model} if message.model else {}),
    }
    # A note in the user's name is no prompt: what a model is told beside it is of the system.
    if all(isinstance(block, conversation.ExportNote) for block in message.blocks):
        role = "system"
    return {"id": f"msg-{new.digits()[:16]}", "role": role, "metadata": told, "parts": parts}


def _parts(
    message: conversation.ExportMessage, place: int, pairs: conversation.Pairs
) -> list[Part]:
    found: list[Part] = []
    if message.role == "assistant":
        found.append({"type": "step-start"})
    for where, block in enumerate(message.blocks):
        found += _part(block, (place, where), pairs)
    return found


def _part(
    block: conversation.Block, where: tuple[int, int], pairs: conversation.Pairs
) -> Iterator[Part]:
    match block:
        case conversation.ExportText(text=said) | conversation.ExportNote(text=said):
            yield {"type": "text", "text": said, "state": "done"}
        case conversation.Reasoning(text=said):
            yield {"type": "reasoning", "text": said, "state": "done"}
        case conversation.Summary(text=said):
            data = {"summary": said, "tail_start_id": None, "auto": False, "summary_tokens": 0}
            yield {"type": "data-compaction", "data": data}
        case conversation.ToolCall():
            yield _tool(block, pairs.result_of.get(where))
        case conversation.ToolResult() if where not in pairs.answered:
            yield {"type": "text", "text": conversation.loose_result(block), "state": "done"}
        case conversation.Picture(image=image):
            yield {
                "type": "file",
                "mediaType": image.media_type,
                "url": conversation.data_url(image),
            }


def _tool(call: conversation.ToolCall, result: conversation.ToolResult | None) -> Part:
    part: Part = {"type": "dynamic-tool", "toolName": call.name, "toolCallId": call.id}
    part["input"] = call.input
    if result is None:
        return {**part, "state": "input-available"}
    if result.error:
        said = "\n".join([result.output, *map(conversation.described, result.images)])
        return {**part, "state": "output-error", "errorText": said}
    return {**part, "state": "output-available", "output": _output(result)}


def _output(result: conversation.ToolResult) -> object:
    if not result.images:
        return result.output
    words = [{"type": "text", "text": result.output}] if result.output else []
    return {"type": "content", "value": [*words, *map(_shown, result.images)]}


def _shown(image: Image) -> Part:
    if image.data:
        return {"type": "image-data", "data": image.data, "mediaType": image.media_type}
    return {"type": "image-url", "url": image.url}
