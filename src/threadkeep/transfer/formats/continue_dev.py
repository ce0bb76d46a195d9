"""Continue: one document per session; results stand in the item of the answer that asked."""

from collections.abc import Iterator, Sequence
from typing import Any

from threadkeep.knowledge.records import Image
from threadkeep.sources.copy_marks import Notice
from threadkeep.transfer import conversation

Item = dict[str, Any]


def continue_dev(told: conversation.Conversation, new: conversation.NewSession) -> str:
    """Write a conversation as a session that Continue can begin a fork of."""
    bare = _item("system", "")
    items = conversation.carrying(told, _items(told), bare)
    document = {
        "sessionId": new.session_id,
        "title": told.about.title,
        "workspaceDirectory": told.about.cwd,
        "dateCreated": str(new.now),
        "history": [{**item, **mark} for item, mark in items],
    }
    return conversation.encoded(document)


def _items(
    told: conversation.Conversation,
) -> Iterator[tuple[conversation.ExportMessage, Item | Notice]]:
    pairs = conversation.pair(told.messages)
    for number, message in enumerate(told.messages):
        match message.role:
            case "system":
                for notice in conversation.notices_of(message):
                    yield message, notice
            case "assistant":
                results = {
                    place: pairs.result_of[number, place]
                    for place, _ in enumerate(message.blocks)
                    if (number, place) in pairs.result_of
                }
                yield message, _answer(message, results)
            case _:
                for place, item in _given(message):
                    if (number, place) not in pairs.answered:
                        yield message, item


def _given(message: conversation.ExportMessage) -> Iterator[tuple[int, Item]]:
    """Return what a model is given, with the place of each in its message."""
    shown = conversation.pictures_in(message)
    for place, block in enumerate(message.blocks):
        match block:
            case conversation.ToolResult():
                yield place, _item("system", conversation.loose_result(block))
            case conversation.ExportNote(text=said):
                yield place, _item("system", said)
            case conversation.Summary(text=said):
                yield place, {**_item("assistant", said), "conversationSummary": said}
            case conversation.ExportText(text=said):
                yield place, _item("user", _content(said, shown))
                shown = []
    if shown:
        yield -1, _item("user", _content("", shown))


def _item(role: str, content: object) -> Item:
    return {"message": {"role": role, "content": content}, "contextItems": []}


def _content(said: str, images: Sequence[Image]) -> object:
    if not images:
        return said
    words = [{"type": "text", "text": said}] if said else []
    shown = [
        {"type": "imageUrl", "imageUrl": {"url": conversation.data_url(image)}} for image in images
    ]
    return [*words, *shown]


def _answer(
    message: conversation.ExportMessage, results: dict[int, conversation.ToolResult]
) -> Item:
    thoughts, said, calls, states = [], [], [], []
    for place, block in enumerate(message.blocks):
        match block:
            case conversation.Reasoning(text=thought):
                thoughts.append(thought)
            case conversation.ToolCall():
                calls.append(_call(block))
                states.append(_state(block, results.get(place)))
            case conversation.Picture(image=image):
                said.append(conversation.described(image))
            case conversation.ToolResult():
                said.append(conversation.loose_result(block))
            case _:
                said.append(block.text)
    item = _item("assistant", "\n".join(said))
    if calls:
        item["message"]["toolCalls"] = calls
        item["toolCallStates"] = states
    if thoughts:
        item["reasoning"] = {"active": False, "text": "\n\n".join(thoughts)}
    return item


def _call(call: conversation.ToolCall) -> Item:
    given = conversation.encoded(conversation.as_object(call.input))
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": given},
    }


def _state(call: conversation.ToolCall, result: conversation.ToolResult | None) -> Item:
    about = {
        "toolCallId": call.id,
        "toolCall": _call(call),
        "parsedArgs": conversation.as_object(call.input),
    }
    if result is None:
        return {**about, "status": "generated"}
    said = "\n".join([result.output, *map(conversation.described, result.images)])
    output = {"name": call.name, "description": "", "content": said}
    return {**about, "status": "errored" if result.error else "done", "output": [output]}
