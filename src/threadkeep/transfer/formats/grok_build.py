"""Grok Build: a folder with the history as a model is given it, and what is shown of it again.

The program writes the history anew when it goes on, and leaves out what it does not know: so the
marks of a copy are in a file of ours beside it as well.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from threadkeep.errors import Invalid
from threadkeep.sources.copy_marks import Notice
from threadkeep.sources.grok_build import MARKS, line_name
from threadkeep.transfer import conversation

_LONGEST_NAME: Final = 255
_OPEN, _CLOSE = "<user_query>\n", "\n</user_query>"

Line = dict[str, Any]


def grok_build(told: conversation.Conversation, _new: conversation.NewSession) -> str:
    """Write a conversation as a history that Grok Build can resume."""
    return conversation.json_lines({**line, **mark} for line, mark in _carrying(told))


def grok_folder(cwd: str) -> str:
    """Name the folder that Grok Build keeps the sessions of a project in."""
    name = quote(cwd.encode("utf-8", "surrogateescape"), safe="")
    if len(name) > _LONGEST_NAME:
        raise Invalid(f"the path {cwd[:60]}… is too long", hint="name a shorter one with --cwd")
    return name


def grok_files(
    told: conversation.Conversation, new: conversation.NewSession, log: Path
) -> dict[Path, str]:
    """Write what stands beside a history: the session's facts, what is shown of it, the marks."""
    folder, lines = log.parent, _carrying(told)
    begun = next((at for _, at in conversation.timed(told, new.now)), new.now)
    summary = {
        "info": {"id": new.session_id, "cwd": told.about.cwd},
        "session_summary": told.about.title,
        "generated_title": told.about.title,
        "created_at": conversation.stamp(begun),
        "updated_at": conversation.stamp(new.now),
        "num_messages": len(lines),
        "num_chat_messages": len(lines),
        "current_model_id": told.about.model or "threadkeep",
        "next_trace_turn": sum("prompt_index" in line for line, _ in lines),
        "chat_format_version": 1,
    }
    marks = {line_name(line): mark for line, mark in reversed(lines)}
    return {
        folder / "summary.json": conversation.encoded(summary),
        folder / "updates.jsonl": conversation.json_lines(_updates(told, new)),
        folder / MARKS: conversation.encoded(marks),
    }


def _carrying(told: conversation.Conversation) -> list[tuple[Line, Line]]:
    bare = {"type": "user", "content": []}
    return conversation.carrying(told, _lines(told), bare)


def _lines(
    told: conversation.Conversation,
) -> Iterator[tuple[conversation.ExportMessage, Line | Notice]]:
    asked = 0
    for message in told.messages:
        if message.role == "system":
            for notice in conversation.notices_of(message):
                yield message, notice
            continue
        for line in _answer(message) if message.role == "assistant" else _given(message):
            if line.get("prompt_index") == 0:
                line["prompt_index"] = asked
                asked += 1
            yield message, line


def _updates(told: conversation.Conversation, new: conversation.NewSession) -> Iterator[Line]:
    """Yield what the program shows of a session again: what was asked, and what was answered."""
    times = {id(message): at for message, at in conversation.timed(told, new.now)}
    for number, (message, line) in enumerate(_lines(told)):
        if not isinstance(line, dict) or not (said := _shown(line)):
            continue
        update: Line = {"content": {"type": "text", "text": said}}
        if message.role == "assistant":
            update["sessionUpdate"] = "agent_message_chunk"
        else:
            update["sessionUpdate"] = "user_message_chunk"
            update["_meta"] = {"promptIndex": line["prompt_index"]}
        at = times[id(message)]
        about = {"eventId": f"{new.session_id}-{number}", "agentTimestampMs": at}
        params = {"sessionId": new.session_id, "update": update, "_meta": about}
        yield {"timestamp": at // 1000, "method": "session/update", "params": params}


def _shown(line: Line) -> str:
    if "prompt_index" in line:
        return str(line["content"][0]["text"]).removeprefix(_OPEN).removesuffix(_CLOSE)
    return str(line["content"]) if line["type"] == "assistant" else ""


def _given(message: conversation.ExportMessage) -> Iterator[Line]:
    shown = [conversation.described(image) for image in conversation.pictures_in(message)]
    for block in message.blocks:
        match block:
            case conversation.ToolResult():
                said = [block.output, *map(conversation.described, block.images)]
                own = {"tool_call_id": block.id, "content": "\n".join(said)}
                yield {"type": "tool_result", **own}
            case conversation.ExportText(text=said):
                yield _asked([said, *shown])
                shown = []
            case conversation.ExportNote(text=said) | conversation.Summary(text=said):
                yield {"type": "user", "content": [{"type": "text", "text": said}]}
    if shown:
        yield _asked(shown)


def _asked(said: list[str]) -> Line:
    """Write a prompt; its place among the prompts is given later."""
    whole = "\n".join(said)
    content = [{"type": "text", "text": f"{_OPEN}{whole}{_CLOSE}"}]
    return {"type": "user", "content": content, "prompt_index": 0}


def _answer(message: conversation.ExportMessage) -> Iterator[Line]:
    said: list[str] = []
    calls: list[Line] = []
    for block in message.blocks:
        match block:
            case conversation.Reasoning(text=thought):
                summary = [{"type": "summary_text", "text": thought}]
                yield {"type": "reasoning", "id": "", "summary": summary}
            case conversation.ToolCall():
                given = conversation.encoded(conversation.as_object(block.input))
                calls.append({"id": block.id, "name": block.name, "arguments": given})
            case conversation.Picture(image=image):
                said.append(conversation.described(image))
            case conversation.ToolResult():
                said.append(conversation.loose_result(block))
            case _:
                said.append(block.text)
    if said or calls:
        line = {"type": "assistant", "content": "\n".join(said), "model_id": message.model}
        yield {**line, "tool_calls": calls} if calls else line
