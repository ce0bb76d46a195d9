"""Codex: a rollout, its items and beside them the events that its screen is drawn from."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from threadkeep.knowledge.records import Image
from threadkeep.sources.codex.items import output_of
from threadkeep.transfer import conversation

# A version of the program that knows every record written here.
_VERSION: Final = "0.150.0"

Record = dict[str, Any]
Kinded = tuple[str, Record]  # the type of a line and its payload


def codex(told: conversation.Conversation, new: conversation.NewSession) -> str:
    """Write a conversation as a rollout that Codex can resume."""
    return conversation.json_lines(_lines(told, new))


def _lines(told: conversation.Conversation, new: conversation.NewSession) -> Iterator[Record]:
    yield _line(new.now, "session_meta", _meta(told, new))
    if told.about.title:
        named = {"type": "thread_name_updated", "thread_id": new.session_id}
        titled = {**named, "thread_name": told.about.title}
        yield _line(new.now, "event_msg", titled) | told.mark()
    calls = [
        block
        for _, block in conversation.blocks_of(told)
        if isinstance(block, conversation.ToolCall)
    ]
    plain = {call.id for call in calls if isinstance(call.input, str)}  # such as a patch
    used: set[int] = set()
    for message, at in conversation.timed(told, new.now):
        for kind, payload in _payloads(message, plain):
            moment = at
            while moment in used:  # two lines that are alike would be one to a reader
                moment += 1
            used.add(moment)
            yield _line(moment, kind, payload) | told.mark(message)


def _line(at: int, kind: str, payload: Record) -> Record:
    return {"timestamp": conversation.stamp(at), "type": kind, "payload": payload}


def _meta(told: conversation.Conversation, new: conversation.NewSession) -> Record:
    about = told.about
    return {
        "id": new.session_id,
        "timestamp": conversation.stamp(new.now),
        "cwd": about.cwd,
        "originator": "threadkeep",
        "cli_version": _VERSION,
        "source": "cli",
        **({"git": {"branch": about.git_branch}} if about.git_branch else {}),
    }


def _payloads(message: conversation.ExportMessage, plain: set[str]) -> Iterator[Kinded]:
    shown = [] if message.role == "assistant" else conversation.pictures_in(message)
    for block in message.blocks:
        if isinstance(block, conversation.ExportText) and message.role != "assistant":
            yield from _prompt(block.text, shown)
            shown = []
        elif isinstance(block, conversation.ExportNote) and message.role != "system":
            yield "response_item", _message("developer", _content("input_text", block.text, shown))
            shown = []
        elif message.role == "assistant" or not isinstance(block, conversation.Picture):
            yield from _other(block, plain)
    if shown:
        yield from _prompt("", shown)


def _prompt(said: str, images: Sequence[Image]) -> Iterator[Kinded]:
    yield "response_item", _message("user", _content("input_text", said, images))
    event = {"type": "user_message", "message": said, "kind": "plain"}
    yield "event_msg", {**event, "images": [conversation.data_url(image) for image in images]}


def _other(block: conversation.Block, plain: set[str]) -> Iterator[Kinded]:
    match block:
        case conversation.ExportText(text=said):
            yield "response_item", _message("assistant", _content("output_text", said))
            yield "event_msg", {"type": "agent_message", "message": said}
        case conversation.Reasoning(text=said):
            thought = [{"type": "summary_text", "text": said}]
            hidden = {"summary": thought, "encrypted_content": None}
            yield "response_item", {"type": "reasoning", **hidden}
            yield "event_msg", {"type": "agent_reasoning", "text": said}
        case conversation.Summary(text=said):
            yield "compacted", {"message": said}
        case conversation.ExportNote(text=said, error=error):
            yield "event_msg", {"type": "error" if error else "warning", "message": said}
        case conversation.ToolCall():
            yield "response_item", _call(block)
        case conversation.ToolResult():
            kind = "custom_tool_call" if block.id in plain else "function_call"
            output = _output(block)
            item = {"type": f"{kind}_output", "call_id": block.id, "output": output}
            yield "response_item", item
        case conversation.Picture(image=image):
            shown = _content("output_text", "", [image])
            yield "response_item", _message("assistant", shown)


def _message(role: str, content: list[Record]) -> Record:
    return {"type": "message", "role": role, "content": content}


def _content(kind: str, said: str, images: Sequence[Image] = ()) -> list[Record]:
    words = [{"type": kind, "text": said}] if said else []
    return [
        *words,
        *({"type": "input_image", "image_url": conversation.data_url(one)} for one in images),
    ]


def _call(call: conversation.ToolCall) -> Record:
    if isinstance(call.input, str):
        own = {"name": call.name, "input": call.input, "call_id": call.id}
        return {"type": "custom_tool_call", "status": "completed", **own}
    given = conversation.encoded(conversation.as_object(call.input))
    return {"type": "function_call", "name": call.name, "arguments": given, "call_id": call.id}


def _output(result: conversation.ToolResult) -> object:
    """Write what came back: with an exit code where a reader would think otherwise of it."""
    said = result.output
    if result.images and not result.error:
        return _content("input_text", said, result.images)
    said = "\n".join([said, *map(conversation.described, result.images)]) if result.images else said
    if output_of(said) == (said, result.error):
        return said
    return conversation.encoded({"output": said, "metadata": {"exit_code": int(result.error)}})
