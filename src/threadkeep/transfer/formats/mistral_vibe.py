"""Mistral Vibe: the log of version 2, which version 3 imports when it is told to resume it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from threadkeep.sources.copy_marks import Notice
from threadkeep.transfer import conversation
from threadkeep.transfer.formats.claude_code import session_uuid

Line = dict[str, Any]


def mistral_vibe(told: conversation.Conversation, new: conversation.NewSession) -> str:
    """Write a conversation as a log that Mistral Vibe can resume."""
    bare = {"role": "user", "content": "", "injected": True}
    return conversation.json_lines(
        {**line, "message_id": session_uuid(new.digits()), **mark}
        for line, mark in conversation.carrying(told, _lines(told), bare)
    )


def vibe_meta(
    told: conversation.Conversation, new: conversation.NewSession, log: Path
) -> dict[Path, str]:
    """Write what is known of a session, for the file beside its log."""
    about = told.about
    meta = {
        "session_id": new.session_id,
        "start_time": conversation.stamp(about.started_at or new.now),
        "end_time": conversation.stamp(new.now),
        "git_commit": None,
        "git_branch": about.git_branch or None,
        "environment": {"working_directory": about.cwd},
        "username": "threadkeep",
        "title": about.title or None,
        "title_source": "manual",
        "stats": {},
        "total_messages": len(told.messages),
    }
    return {log.parent / "meta.json": conversation.encoded(meta)}


def _lines(
    told: conversation.Conversation,
) -> Iterator[tuple[conversation.ExportMessage, Line | Notice]]:
    for message in told.messages:
        match message.role:
            case "system":
                for notice in conversation.notices_of(message):
                    yield message, notice
            case "assistant":
                yield message, _answer(message)
            case _:
                for line in _given(message):
                    yield message, line


def _given(message: conversation.ExportMessage) -> Iterator[Line]:
    shown = [conversation.described(image) for image in conversation.pictures_in(message)]
    for block in message.blocks:
        match block:
            case conversation.ToolResult():
                said = "\n".join([block.output, *map(conversation.described, block.images)])
                own = {"tool_call_id": block.id, "name": block.name}
                yield {"role": "tool", "content": said, **own}
            case conversation.ExportText(text=said):
                yield {"role": "user", "content": "\n".join([said, *shown])}
                shown = []
            case conversation.ExportNote(text=said) | conversation.Summary(text=said):
                yield {"role": "user", "content": said, "injected": True}
    if shown:
        yield {"role": "user", "content": "\n".join(shown)}


def _answer(message: conversation.ExportMessage) -> Line:
    """Write an answer: its thoughts, its texts, and its calls behind them."""
    thoughts: list[str] = []
    said: list[str] = []
    calls: list[Line] = []
    for block in message.blocks:
        match block:
            case conversation.Reasoning(text=thought):
                thoughts.append(thought)
            case conversation.ToolCall():
                given = conversation.encoded(conversation.as_object(block.input))
                function = {"name": block.name, "arguments": given}
                own = {"id": block.id, "index": len(calls), "type": "function"}
                calls.append({**own, "function": function})
            case conversation.Picture(image=image):
                said.append(conversation.described(image))
            case conversation.ToolResult():
                said.append(conversation.loose_result(block))
            case _:
                said.append(block.text)
    line: Line = {"role": "assistant", "content": "\n".join(said)}
    line |= {"reasoning_content": "\n".join(thoughts)} if thoughts else {}
    return {**line, "tool_calls": calls} if calls else line
