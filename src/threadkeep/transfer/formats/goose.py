"""goose: a session as `goose session import` takes it; what it does not know of it is left out.

The mark of a copy stands where the program keeps it and no model is given it: in a text's `_meta`,
or in the data of a notice. A call's metadata would be sent to the model's provider.
"""

from collections.abc import Iterator
from typing import Any, Final

from threadkeep.knowledge.records import Image
from threadkeep.transfer import conversation
from threadkeep.transfer.formats.claude_code import session_uuid

_ALL: Final = {"userVisible": True, "agentVisible": True}
_INJECTED: Final = {"userVisible": False, "agentVisible": True}
_SHOWN: Final = {"userVisible": True, "agentVisible": False}

Item = dict[str, Any]


def goose(told: conversation.Conversation, new: conversation.NewSession) -> str:
    """Write a conversation as a document that goose can import."""
    about = told.about
    messages = list(_messages(told, new))
    document = {
        "id": new.session_id,
        "working_dir": about.cwd or "/",
        "name": about.title,
        "user_set_name": bool(about.title),
        "session_type": "user",
        "created_at": conversation.stamp(about.started_at or new.now),
        "updated_at": conversation.stamp(new.now),
        "extension_data": {},
        "conversation": messages,
        "message_count": len(messages),
    }
    return conversation.encoded(document) + "\n"


def _messages(told: conversation.Conversation, new: conversation.NewSession) -> Iterator[Item]:
    last = 0  # the program puts messages in the order of time
    for message, at in conversation.timed(told, new.now):
        last = max(last, at // 1000)
        for content, seen in _parts(message):
            yield {
                "id": f"msg_{session_uuid(new.digits())}",
                "role": "assistant" if message.role in ("assistant", "system") else "user",
                "created": last,
                "content": _marked(content, told.mark(message)),
                "metadata": seen,
            }


def _marked(content: list[Item], mark: Item) -> list[Item]:
    for block in content:
        if block["type"] == "text":
            block["_meta"] = mark
            return content
        if block["type"] == "systemNotification":
            block["data"] |= mark
            return content
    return [*content, {**_notice(""), "data": mark}]


def _parts(message: conversation.ExportMessage) -> Iterator[tuple[list[Item], Item]]:
    """Divide a message by who is to see it."""
    if message.role == "system":
        yield [_notice(*one) for one in conversation.notices_of(message)], _SHOWN
        return
    content: list[Item] = []
    for block in message.blocks:
        if isinstance(block, (conversation.ExportNote, conversation.Summary)):
            if content:
                yield content, _ALL
            content = []
            yield [_text(block.text)], _INJECTED
        else:
            content.append(_block(block))
    if content:
        yield content, _ALL


def _block(block: conversation.Block) -> Item:
    match block:
        case conversation.Reasoning(text=said):
            return {"type": "thinking", "thinking": said, "signature": ""}
        case conversation.ToolCall():
            given = conversation.as_object(block.input)
            asked = {"status": "success", "value": {"name": block.name, "arguments": given}}
            return {"type": "toolRequest", "id": block.id, "toolCall": asked}
        case conversation.ToolResult():
            content = [_text(block.output), *map(_image, block.images)]
            value = {"content": content, "isError": block.error}
            came = {"status": "success", "value": value}
            return {"type": "toolResponse", "id": block.id, "toolResult": came}
        case conversation.Picture(image=image):
            return _image(image)
        case _:
            return _text(block.text)


def _image(image: Image) -> Item:
    if not image.data:
        return _text(conversation.described(image))
    return {"type": "image", "data": image.data, "mimeType": image.media_type}


def _notice(said: str, error: bool = False) -> Item:  # noqa: FBT001, FBT002  (a notice's two parts)
    data = {"error": True} if error else {}
    return {
        "type": "systemNotification",
        "notificationType": "inlineMessage",
        "msg": said,
        "data": data,
    }


def _text(said: str) -> Item:
    return {"type": "text", "text": said}
