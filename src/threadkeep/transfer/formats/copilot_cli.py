"""Copilot CLI: a log of events, in which a step holds an answer and what its calls gave back.

Pictures and thoughts have no place in it that continues: what was shown is said in words.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from threadkeep.sources.copilot_cli import ELSEWHERE
from threadkeep.transfer import conversation
from threadkeep.transfer.formats.claude_code import session_uuid

# A version of the program that knows every event written here.
_VERSION: Final = "1.0.102"

Event = tuple[str, dict[str, Any]]


def copilot_cli(told: conversation.Conversation, new: conversation.NewSession) -> str:
    """Write a conversation as a log that Copilot CLI can resume."""
    return conversation.json_lines(_records(told, new))


def copilot_workspace(
    told: conversation.Conversation, new: conversation.NewSession, log: Path
) -> dict[Path, str]:
    """Write what names a session, for the file beside its log: YAML, whose texts may be JSON's."""
    at = conversation.stamp(new.now)
    named = {"id": new.session_id, "cwd": told.about.cwd, "name": told.about.title}
    known = {**named, "user_named": True, "created_at": at, "updated_at": at}
    lines = [f"{name}: {conversation.encoded(value)}\n" for name, value in known.items()]
    return {log.parent / "workspace.yaml": "".join(lines)}


def _records(
    told: conversation.Conversation, new: conversation.NewSession
) -> Iterator[dict[str, Any]]:
    last: str | None = None
    start = {
        "sessionId": new.session_id,
        "version": 1,
        "producer": "copilot-agent",
        "copilotVersion": _VERSION,
        "startTime": conversation.stamp(new.now),
        "context": {"cwd": told.about.cwd},
    }
    events: list[tuple[int, Event, dict[str, Any]]] = [(new.now, ("session.start", start), {})]
    for message, at in conversation.timed(told, new.now):
        mark = told.mark(message)
        events += [(at, event, mark) for event in _events(message, new)]
    for at, (kind, data), mark in events:
        own = session_uuid(new.digits())
        stamp = conversation.stamp(at)
        yield {"type": kind, "data": data, "id": own, "timestamp": stamp, "parentId": last, **mark}
        last = own


def _events(message: conversation.ExportMessage, new: conversation.NewSession) -> Iterator[Event]:
    if message.role == "assistant":
        yield "assistant.turn_start", {"turnId": "0"}
        yield "assistant.message", _answer(message, new)
        yield "assistant.turn_end", {"turnId": "0"}
        return
    shown = [conversation.described(image) for image in conversation.pictures_in(message)]
    for block in message.blocks:
        match block:
            case conversation.ToolResult():
                yield from _result(block)
            case conversation.ExportNote(text=said, error=error) if message.role == "system":
                yield "session.error" if error else "session.info", _notice(said)
            case conversation.ExportNote(text=said):
                yield "user.message", {"content": said, "source": ELSEWHERE}
            case conversation.Summary(text=said):
                yield "session.compaction_complete", {"success": True, "summaryContent": said}
            case conversation.ExportText(text=said):
                yield "user.message", {"content": "\n".join([said, *shown])}
                shown = []
    if shown:
        yield "user.message", {"content": "\n".join(shown)}


def _notice(said: str) -> dict[str, Any]:
    return {"infoType": ELSEWHERE, "errorType": ELSEWHERE, "message": said}


def _answer(message: conversation.ExportMessage, new: conversation.NewSession) -> dict[str, Any]:
    thoughts, said, calls = [], [], []
    for block in message.blocks:
        match block:
            case conversation.Reasoning(text=thought):
                thoughts.append(thought)
            case conversation.ToolCall():
                given = conversation.as_object(block.input)
                call = {"toolCallId": block.id, "name": block.name, "arguments": given}
                calls.append({**call, "type": "function"})
            case conversation.Picture(image=image):
                said.append(conversation.described(image))
            case conversation.ToolResult():
                said.append(conversation.loose_result(block))
            case _:
                said.append(block.text)
    return {
        "messageId": session_uuid(new.digits()),
        **({"model": message.model} if message.model else {}),
        "content": "\n".join(said),
        **({"reasoningText": "\n\n".join(thoughts)} if thoughts else {}),
        "toolRequests": calls,
    }


def _result(result: conversation.ToolResult) -> Iterator[Event]:
    """Return the events of a call that ran: the program drops a result that none began."""
    own = {"toolCallId": result.id}
    said = "\n".join([result.output, *map(conversation.described, result.images)])
    came = {"error": {"message": said}} if result.error else {"result": {"content": said}}
    named = {"toolName": result.name or "tool"}
    yield "tool.execution_start", {**own, **named, "arguments": {}}
    yield "tool.execution_complete", {**own, **named, "success": not result.error, **came}
