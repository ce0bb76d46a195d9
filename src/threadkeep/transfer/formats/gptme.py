"""gptme: a line for each message; calls stand in the text of an answer, results in system lines."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from threadkeep.sources.copy_marks import Notice
from threadkeep.transfer import conversation

_NOT_IN_NAMES: Final = re.compile(r"[^\w.:-]")

Line = dict[str, Any]


def gptme(told: conversation.Conversation, new: conversation.NewSession) -> str:
    """Write a conversation as a log that gptme can resume."""
    bare = {"role": "system", "content": "", "hide": True}
    return conversation.json_lines(
        {**line, "metadata": {**line.get("metadata", {}), **mark}}
        for line, mark in conversation.carrying(told, _lines(told, new), bare)
    )


def gptme_settings(
    told: conversation.Conversation, _new: conversation.NewSession, log: Path
) -> dict[Path, str]:
    """Write what is known of a conversation, for the file beside it; calls stand there as here."""
    known = {"name": told.about.title, "workspace": told.about.cwd, "tool_format": "tool"}
    lines = [f"{name} = {_quoted(value)}\n" for name, value in known.items() if value]
    return {log.parent / "config.toml": "".join(["[chat]\n", *lines])}


def _quoted(value: str) -> str:
    """Write a text as TOML does: as JSON, but for one character."""
    whole = value.encode("utf-8", "replace").decode()
    return conversation.encoded(whole).replace("\x7f", "\\u007f")


def _lines(
    told: conversation.Conversation, new: conversation.NewSession
) -> Iterator[tuple[conversation.ExportMessage, Line | Notice]]:
    for message, at in conversation.timed(told, new.now):
        if message.role == "system":
            for notice in conversation.notices_of(message):
                yield message, notice
            continue
        for line in _of_message(message):
            yield message, {**line, "timestamp": conversation.stamp(at)}


def _of_message(message: conversation.ExportMessage) -> Iterator[Line]:
    if message.role == "assistant":
        model = {"metadata": {"model": message.model}} if message.model else {}
        yield {"role": "assistant", "content": _answer(message), **model}
        return
    shown = [conversation.described(image) for image in conversation.pictures_in(message)]
    for block in message.blocks:
        match block:
            case conversation.ToolResult():
                yield _result(block)
            case conversation.ExportText(text=said):
                yield {"role": "user", "content": "\n".join([said, *shown])}
                shown = []
            case conversation.ExportNote(text=said) | conversation.Summary(text=said):
                yield {"role": "system", "content": said, "pinned": True}
    if shown:
        yield {"role": "user", "content": "\n".join(shown)}


def _answer(message: conversation.ExportMessage) -> str:
    """Write an answer: thoughts and texts in their order, then the calls, each on its line."""
    calls = [block for block in message.blocks if isinstance(block, conversation.ToolCall)]
    said = [
        _said(block) for block in message.blocks if not isinstance(block, conversation.ToolCall)
    ]
    return "\n".join([*said, *map(_call, calls)])


def _said(block: conversation.Block) -> str:
    match block:
        case conversation.Reasoning(text=said):
            return f"<think>\n{said}\n</think>"
        case conversation.Picture(image=image):
            return conversation.described(image)
        case conversation.ToolResult():
            return conversation.loose_result(block)
        case conversation.ToolCall():
            return _call(block)
        case _:
            return block.text


def _call(call: conversation.ToolCall) -> str:
    name, own = (_NOT_IN_NAMES.sub("_", one) or "tool" for one in (call.name, call.id))
    return f"@{name}({own}): {conversation.encoded(conversation.as_object(call.input))}"


def _result(result: conversation.ToolResult) -> Line:
    said = [result.output, *map(conversation.described, result.images)]
    tool = {"metadata": {"tool": result.name}} if result.name else {}
    own = _NOT_IN_NAMES.sub("_", result.id)
    return {"role": "system", "content": "\n".join(said), "call_id": own, **tool}
