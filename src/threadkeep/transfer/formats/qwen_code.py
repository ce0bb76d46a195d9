"""Qwen Code: a log of linked records, whose messages are made of Gemini's parts."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from threadkeep.knowledge.records import Image
from threadkeep.transfer import conversation
from threadkeep.transfer.formats.claude_code import session_uuid

# A version of the program that knows every record written here.
_VERSION: Final = "0.15.10"
_TAKEN: Final = (
    "Got it. Thanks for the additional context!"  # what it lets a model say to a summary
)

Record = dict[str, Any]


def qwen_code(told: conversation.Conversation, new: conversation.NewSession) -> str:
    """Write a conversation as a log that Qwen Code can resume."""
    return conversation.json_lines(_records(told, new))


def _records(told: conversation.Conversation, new: conversation.NewSession) -> Iterator[Record]:
    last: str | None = None
    title = told.about.title
    begun = new.now if told.about.started_at is None else told.about.started_at
    titled = _system("custom_title", {"customTitle": title, "titleSource": "manual"})
    contents = [(begun, titled, told.mark())] if title else []
    for message, at in conversation.timed(told, new.now):
        contents += [(at, content, told.mark(message)) for content in _contents(message)]
    for at, content, mark in contents:
        own = session_uuid(new.digits())
        yield {
            "uuid": own,
            "parentUuid": last,
            "sessionId": new.session_id,
            "timestamp": conversation.stamp(at),
            "cwd": told.about.cwd,
            "version": _VERSION,
            **({"gitBranch": told.about.git_branch} if told.about.git_branch else {}),
            **content,
            **mark,
        }
        last = own


def _system(subtype: str, payload: Record) -> Record:
    return {"type": "system", "subtype": subtype, "systemPayload": payload}


def _contents(message: conversation.ExportMessage) -> Iterator[Record]:
    """Return the records of a message, without what all records share."""
    if message.role == "assistant":
        yield from _answer(message)
        return
    shown = conversation.pictures_in(message)
    for block in message.blocks:
        match block:
            case conversation.ToolResult():
                yield _result(block)
            case conversation.Summary(text=said):
                yield _compressed(said)
            case conversation.ExportNote(text=said, error=error) if message.role == "system":
                yield _notice(said, error=error)
            case conversation.ExportNote(text=said):
                yield {"type": "user", "subtype": "notification", "message": _user(said)}
            case conversation.ExportText(text=said):
                yield {"type": "user", "message": _user(said, shown)}
                shown = []
    if shown:
        yield {"type": "user", "message": _user("", shown)}


def _user(said: str, images: Sequence[Image] = ()) -> Record:
    words = [{"text": said}] if said else []
    return {"role": "user", "parts": [*words, *map(_picture, images)]}


def _picture(image: Image) -> Record:
    if image.data:
        return {"inlineData": {"mimeType": image.media_type, "data": image.data}}
    return {"text": conversation.described(image)}


def _notice(said: str, *, error: bool) -> Record:
    """What only the screen shows: the output of a command of the program's own."""
    item = {"type": "error" if error else "info", "text": said}
    return _system("slash_command", {"phase": "result", "outputHistoryItems": [item]})


def _compressed(said: str) -> Record:
    history = [
        {"role": "user", "parts": [{"text": said}]},
        {"role": "model", "parts": [{"text": _TAKEN}]},
    ]
    info = {"originalTokenCount": 0, "newTokenCount": 0, "compressionStatus": 1}
    return _system("chat_compression", {"info": info, "compressedHistory": history})


def _answer(message: conversation.ExportMessage) -> Iterator[Record]:
    parts = [_part(block) for block in message.blocks]
    yield {
        "type": "assistant",
        **({"model": message.model} if message.model else {}),
        "message": {"role": "model", "parts": parts},
    }


def _part(block: conversation.Block) -> Record:
    match block:
        case conversation.Reasoning(text=said):
            return {"text": said, "thought": True}
        case conversation.ToolCall():
            given = conversation.as_object(block.input)
            return {"functionCall": {"id": block.id, "name": block.name, "args": given}}
        case conversation.Picture(image=image):
            return {"text": conversation.described(image)}
        case conversation.ToolResult():
            return {"text": conversation.loose_result(block)}
        case _:
            return {"text": block.text}


def _result(result: conversation.ToolResult) -> Record:
    said = "\n".join([result.output, *map(conversation.described, result.images)])
    said = said if result.images else result.output
    name = result.name or "tool"
    answer = {"error" if result.error else "output": said}
    came = {"functionResponse": {"id": result.id, "name": name, "response": answer}}
    status = "error" if result.error else "success"
    return {
        "type": "tool_result",
        "message": {"role": "user", "parts": [came]},
        "toolCallResult": {"callId": result.id, "status": status, "resultDisplay": said},
    }
