"""Claude Code: a transcript of linked records, one block of an answer in each."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from threadkeep.knowledge.records import Image
from threadkeep.transfer import conversation

# A version of the program that knows every record written here.
_VERSION: Final = "2.1.197"

Record = dict[str, Any]


def claude_code(told: conversation.Conversation, new: conversation.NewSession) -> str:
    """Write a conversation as a transcript that Claude Code can resume."""
    return conversation.json_lines(_records(told, new))


def _records(told: conversation.Conversation, new: conversation.NewSession) -> Iterator[Record]:
    chain = _Chain(told, new)
    title = told.about.title
    if title:
        named = {"type": "custom-title", "customTitle": title, "sessionId": new.session_id}
        yield named | told.mark()
    for message, at in conversation.timed(told, new.now):
        for content in _contents(message, new):
            yield chain.link(content, at) | told.mark(message)


class _Chain:
    """Links each record to the one before it."""

    def __init__(self, told: conversation.Conversation, new: conversation.NewSession) -> None:
        self._told = told
        self._new = new
        self._last: str | None = None

    def link(self, content: Record, at: int) -> Record:
        about = self._told.about
        own = session_uuid(self._new.digits())
        parent, self._last = self._last, own
        links: Record = {"parentUuid": parent}
        if content.get("subtype") == "compact_boundary":
            links = {"parentUuid": None, "logicalParentUuid": parent}
        return {
            **links,
            "isSidechain": False,
            "userType": "external",
            "cwd": about.cwd,
            "sessionId": self._new.session_id,
            "version": _VERSION,
            "gitBranch": about.git_branch,
            **content,
            "uuid": own,
            "timestamp": conversation.stamp(at),
        }


def session_uuid(digits: str) -> str:
    """Write 32 random digits as a UUID."""
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]))


def _contents(
    message: conversation.ExportMessage, new: conversation.NewSession
) -> Iterator[Record]:
    """Return the records of a message, without what all records share."""
    answered = message.role == "assistant"
    name = f"msg_{new.digits()[:24]}" if answered else ""
    shown = [] if answered else conversation.pictures_in(message)
    for block in message.blocks:
        match block:
            case conversation.ToolResult():
                yield _user([_result(block)])
            case conversation.Summary(text=said):
                yield from _compacted(said)
            case conversation.ExportNote(text=said, error=error) if message.role == "system":
                yield _notice(said, error=error)
            case conversation.ExportText() | conversation.ExportNote() if not answered:
                yield _user(
                    _illustrated(block.text, shown), meta=isinstance(block, conversation.ExportNote)
                )
                shown = []
            case _ if answered:
                yield _answer(_block(block), name, message.model)
    if shown:
        yield _user(_illustrated("", shown))


def _user(content: object, *, meta: bool = False) -> Record:
    marked = {"isMeta": True} if meta else {}
    return {"type": "user", "message": {"role": "user", "content": content}, **marked}


def _notice(said: str, *, error: bool) -> Record:
    level = "error" if error else "info"
    return {"type": "system", "subtype": "informational", "content": said, "level": level}


def _compacted(said: str) -> Iterator[Record]:
    """A boundary, before which the program does not look, and what is left of all before it."""
    meta = {"trigger": "manual", "preTokens": 0}
    yield {"type": "system", "subtype": "compact_boundary", "compactMetadata": meta}
    marks = {"isCompactSummary": True, "isVisibleInTranscriptOnly": True}
    yield {**_user(said), **marks}


def _answer(block: Record, name: str, model: str) -> Record:
    usage = {"input_tokens": 0, "output_tokens": 0}
    usage |= {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    message = {
        "id": name,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [block],
        "stop_reason": "tool_use" if block["type"] == "tool_use" else "end_turn",
        "stop_sequence": None,
        "usage": usage,
    }
    return {"type": "assistant", "message": message}


def _block(block: conversation.Block) -> Record:
    match block:
        case conversation.Reasoning(text=said):
            return {"type": "thinking", "thinking": said, "signature": ""}
        case conversation.ToolCall():
            given = conversation.as_object(block.input)
            return {"type": "tool_use", "id": block.id, "name": block.name, "input": given}
        case conversation.Picture(image=image):
            return {"type": "text", "text": conversation.described(image)}
        case conversation.ExportText() | conversation.ExportNote() | conversation.Summary():
            return {"type": "text", "text": block.text}
        case conversation.ToolResult():
            return {"type": "text", "text": conversation.loose_result(block)}


def _result(result: conversation.ToolResult) -> Record:
    content = _illustrated(result.output, result.images)
    found: Record = {"type": "tool_result", "tool_use_id": result.id, "content": content}
    return {**found, "is_error": True} if result.error else found


def _illustrated(said: str, images: Sequence[Image]) -> str | list[Record]:
    """Return a text, or if pictures go with it, blocks."""
    if not images:
        return said
    words = [{"type": "text", "text": said}] if said else []
    return [*words, *map(_image, images)]


def _image(image: Image) -> Record:
    if image.data:
        source = {"type": "base64", "media_type": image.media_type, "data": image.data}
    elif image.url.startswith(("http://", "https://")):
        source = {"type": "url", "url": image.url}
    else:
        return {"type": "text", "text": conversation.described(image)}
    return {"type": "image", "source": source}
