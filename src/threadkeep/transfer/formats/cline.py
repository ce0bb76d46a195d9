"""Cline since 3: a document of messages, and beside it a manifest that names the session."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from threadkeep.sources.common import text
from threadkeep.sources.copy_marks import Notice, as_note
from threadkeep.transfer import conversation
from threadkeep.transfer.formats.claude_code import session_uuid

_TYPED: Final = '<user_input mode="act">'

Item = dict[str, Any]


def cline(told: conversation.Conversation, new: conversation.NewSession) -> str:
    """Write a conversation as a session that Cline can resume."""
    bare = {"role": "user", "content": [], "ts": new.now}
    items = conversation.carrying(told, _messages(told, new), bare)
    document = {
        "version": 1,
        "updated_at": conversation.stamp(new.now),
        "agent": "lead",
        "sessionId": new.session_id,
        "messages": [
            _marked({"id": session_uuid(new.digits()), **message, **mark})
            for message, mark in items
        ],
    }
    return conversation.encoded(document)


def _marked(message: Item) -> Item:
    """Say of what was not typed, in the person's name, that nobody typed it."""
    is_typed = any(text(block.get("text")).startswith(_TYPED) for block in message["content"])
    return message if is_typed or message["role"] != "user" else as_note(message)


def cline_manifest(
    told: conversation.Conversation, new: conversation.NewSession, log: Path
) -> dict[Path, str]:
    """Write what is known of a session; the program continues with the model it is set to."""
    at = conversation.stamp(new.now)
    manifest = {
        "version": 1,
        "session_id": new.session_id,
        "source": "cli",
        "pid": 0,
        "started_at": at,
        "ended_at": at,
        "exit_code": 0,
        "status": "completed",
        "interactive": True,
        "provider": "threadkeep",
        "model": told.about.model or "threadkeep",
        "cwd": told.about.cwd,
        "workspace_root": told.about.cwd,
        "enable_tools": True,
        "enable_spawn": True,
        "enable_teams": True,
        "metadata": {"title": told.about.title},
        "messages_path": str(log),
    }
    return {log.parent / f"{new.session_id}.json": conversation.encoded(manifest)}


def _messages(
    told: conversation.Conversation, new: conversation.NewSession
) -> Iterator[tuple[conversation.ExportMessage, Item | Notice]]:
    for message, at in conversation.timed(told, new.now):
        if message.role == "system":
            for notice in conversation.notices_of(message):
                yield message, notice
            continue
        item: Item = {"role": "assistant", "content": [], "ts": at}
        if message.role == "assistant":
            item["content"] = [_block(block) for block in message.blocks]
            item |= {"modelInfo": {"id": message.model, "provider": "threadkeep"}}
        else:
            item |= {"role": "user", "content": list(_given(message))}
        yield message, item


def _given(message: conversation.ExportMessage) -> Iterator[Item]:
    """Return the blocks of the person's side: only what was typed is wrapped as such."""
    shown = [conversation.described(image) for image in conversation.pictures_in(message)]
    for block in message.blocks:
        match block:
            case conversation.ToolResult():
                yield _result(block)
            case conversation.ExportText(text=said):
                yield _typed([said, *shown])
                shown = []
            case conversation.Picture():
                pass
            case _:
                yield _block(block)
    if shown:
        yield _typed(shown)


def _typed(said: list[str]) -> Item:
    whole = "\n".join(said)
    return _text(f"{_TYPED}{whole}</user_input>")


def _block(block: conversation.Block) -> Item:
    match block:
        case conversation.Reasoning(text=said):
            return {"type": "thinking", "thinking": said}
        case conversation.ToolCall():
            given = conversation.as_object(block.input)
            return {"type": "tool_use", "id": block.id, "name": block.name, "input": given}
        case conversation.Picture(image=image):
            return _text(conversation.described(image))
        case conversation.ToolResult():
            return _text(conversation.loose_result(block))
        case _:
            return _text(block.text)


def _text(said: str) -> Item:
    return {"type": "text", "text": said}


def _result(result: conversation.ToolResult) -> Item:
    said = "\n".join([result.output, *map(conversation.described, result.images)])
    came = {"type": "tool_result", "tool_use_id": result.id, "name": result.name, "content": said}
    return {**came, "is_error": True} if result.error else came
