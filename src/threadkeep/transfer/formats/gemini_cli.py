"""Gemini CLI: a line for each message; results stand in the message that holds their calls."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from re import compile as pattern
from typing import Any, Final

from threadkeep.sources.copy_marks import as_note
from threadkeep.sources.gemini_cli import SNAPSHOT
from threadkeep.transfer import conversation
from threadkeep.transfer.formats.claude_code import session_uuid

OWNER: Final = ".project_root"  # says of which folder the sessions beside it are
_NOT_IN_NAMES: Final = pattern(r"[^a-z0-9]+")

Line = dict[str, Any]


def gemini_cli(told: conversation.Conversation, new: conversation.NewSession) -> str:
    """Write a conversation as a log that Gemini CLI can resume."""
    return conversation.json_lines(_lines(told, new))


def gemini_folder(cwd: str) -> str:
    """Name a folder for the sessions of a project that the program does not know yet."""
    name = _NOT_IN_NAMES.sub("-", Path(cwd).name.lower()).strip("-")[:40]
    return f"{name or 'project'}-{sha256(cwd.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"


def gemini_owner(
    told: conversation.Conversation, _new: conversation.NewSession, log: Path
) -> dict[Path, str]:
    """Say whose sessions a folder holds, if it is new: the program finds it by that."""
    owner = log.parents[1] / OWNER
    return {} if owner.exists() else {owner: told.about.cwd}


def _lines(told: conversation.Conversation, new: conversation.NewSession) -> Iterator[Line]:
    at = conversation.stamp(new.now)
    hashed = sha256(told.about.cwd.encode("utf-8", "surrogateescape")).hexdigest()
    header = {"sessionId": new.session_id, "projectHash": hashed, "startTime": at}
    title = {"summary": told.about.title} if told.about.title else {}
    yield {**header, "lastUpdated": at, "kind": "main", "directories": [told.about.cwd], **title}
    pairs = conversation.pair(told.messages)
    for number, (message, when) in enumerate(conversation.timed(told, new.now)):
        own = {
            place: pairs.result_of[number, place]
            for place, _ in enumerate(message.blocks)
            if (number, place) in pairs.result_of
        }
        loose = [
            block
            for place, block in enumerate(message.blocks)
            if isinstance(block, conversation.ToolResult) and (number, place) not in pairs.answered
        ]
        stamped = {"timestamp": conversation.stamp(when)}
        mark = told.mark(message)
        if message.role == "assistant":
            answer = _answer(message, own, stamped["timestamp"])
            yield {"id": session_uuid(new.digits()), **stamped, **answer, **mark}
            continue
        for line in _given(message, loose):
            whole = {"id": session_uuid(new.digits()), **stamped, **mark, **line}
            if line.pop(_AGAIN, False):
                del whole[_AGAIN]
                yield {"$set": {"messages": [whole]}}
            else:
                yield as_note(whole) if whole.pop(_NOTE, False) else whole


_AGAIN: Final = "again"  # the conversation begins with this message
_NOTE: Final = "note"  # it is said in the person's name


def _given(
    message: conversation.ExportMessage, loose: list[conversation.ToolResult]
) -> Iterator[Line]:
    shown = conversation.pictures_in(message)
    for block in message.blocks:
        match block:
            case conversation.ExportNote(text=said, error=error) if message.role == "system":
                yield {"type": "error" if error else "info", "content": said}
            case conversation.ExportNote(text=said):
                yield {"type": "user", "content": [{"text": said}], _NOTE: True}
            case conversation.Summary(text=said):
                whole = said if said.startswith(SNAPSHOT) else f"{SNAPSHOT}\n{said}"
                yield {"type": "user", "content": [{"text": whole}], _AGAIN: True}
            case conversation.ExportText(text=said):
                yield {"type": "user", "content": _content(said, shown)}
                shown = []
    for result in loose:
        yield {"type": "info", "content": conversation.loose_result(result)}
    if shown:
        yield {"type": "user", "content": _content("", shown)}


def _content(said: str, shown: list[Any]) -> list[Line]:
    words = [{"text": f"{said}\n" if shown and said else said}] if said else []
    pictures = [
        {"inlineData": {"mimeType": image.media_type, "data": image.data}}
        if image.data
        else {"text": conversation.described(image)}
        for image in shown
    ]
    return [*words, *pictures]


def _answer(
    message: conversation.ExportMessage, results: dict[int, conversation.ToolResult], at: str
) -> Line:
    thoughts, said, calls = [], [], []
    for place, block in enumerate(message.blocks):
        match block:
            case conversation.Reasoning(text=thought):
                thoughts.append({"subject": "", "description": thought, "timestamp": at})
            case conversation.ToolCall():
                calls.append(_call(block, results.get(place), at))
            case conversation.Picture(image=image):
                said.append(conversation.described(image))
            case conversation.ToolResult():
                said.append(conversation.loose_result(block))
            case _:
                said.append(block.text)
    return {
        "type": "gemini",
        "content": "\n".join(said),
        **({"thoughts": thoughts} if thoughts else {}),
        **({"model": message.model} if message.model else {}),
        **({"toolCalls": calls} if calls else {}),
    }


def _call(call: conversation.ToolCall, result: conversation.ToolResult | None, at: str) -> Line:
    given = conversation.as_object(call.input)
    asked = {"id": call.id, "name": call.name, "args": given, "timestamp": at}
    if result is None:
        return {**asked, "status": "cancelled"}
    said = "\n".join([result.output, *map(conversation.described, result.images)])
    response = {"error" if result.error else "output": said}
    came = {"functionResponse": {"id": call.id, "name": call.name, "response": response}}
    return {**asked, "status": "error" if result.error else "success", "result": [came]}
