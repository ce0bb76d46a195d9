"""Chat completions: messages with tool calls and tools' answers, also as Hermes Agent keeps them.

An answer's text stands before its tool calls there, so what was said behind a call begins a
message of its own. The answers of tools follow at once, as the API wants it.
"""

from collections.abc import Iterator
from typing import Any

from threadkeep.knowledge.records import Image
from threadkeep.transfer import conversation

Row = dict[str, Any]


def openai(told: conversation.Conversation, new: conversation.NewSession) -> str:
    """Write a conversation as the `messages` of a chat completion."""
    return conversation.encoded([row for _, row in _rows(told, new)]) + "\n"


def hermes(told: conversation.Conversation, new: conversation.NewSession) -> str:
    """Write a conversation as a session that Hermes Agent, and `threadkeep state`, import."""
    return conversation.encoded(hermes_session(told, new)) + "\n"


def hermes_session(told: conversation.Conversation, new: conversation.NewSession) -> Row:
    """Return a conversation as an exported session of Hermes Agent."""
    about = told.about
    messages = [
        {**_for_hermes(row), "timestamp": at / 1000, "session_id": new.session_id}
        for at, row in _rows(told, new)
    ]
    return {
        "id": new.session_id,
        "source": about.harness,
        "model": about.model or None,
        "title": about.title or None,
        "cwd": about.cwd or None,
        "git_branch": about.git_branch or None,
        "parent_session_id": None,
        "started_at": (about.started_at if about.started_at is not None else new.now) / 1000,
        "ended_at": None,
        "message_count": len(messages),
        "tool_call_count": sum(len(row.get("tool_calls") or ()) for row in messages),
        "messages": messages,
    }


def _for_hermes(row: Row) -> Row:
    renamed = {"reasoning_content": "reasoning", "name": "tool_name"}
    return {renamed.get(name, name): value for name, value in row.items()}


def _rows(
    told: conversation.Conversation, new: conversation.NewSession
) -> Iterator[tuple[int, Row]]:
    pairs = conversation.pair(told.messages)
    for place, (message, at) in enumerate(conversation.timed(told, new.now)):
        rows = _answer(message, place, pairs) if message.role == "assistant" else ()
        yield from ((at, row) for row in rows)
        if message.role != "assistant":
            yield from ((at, row) for row in _said(message, place, pairs))


def _said(
    message: conversation.ExportMessage, place: int, pairs: conversation.Pairs
) -> Iterator[Row]:
    """Return what others than the agent said; the answers of tools stand behind their calls."""
    shown = conversation.pictures_in(message)
    for where, block in enumerate(message.blocks):
        match block:
            case conversation.ExportText(text=said):
                yield {"role": "user", "content": _content(said, shown)}
                shown = []
            case conversation.Summary(text=said):
                yield {"role": "user", "content": f"{conversation.SUMMARY_MARK}{said}"}
            case conversation.ExportNote(text=said):
                yield {"role": "system", "content": said}
            case conversation.ToolResult() if (place, where) not in pairs.answered:
                yield {
                    "role": "user",
                    "content": _content(conversation.loose_result(block), block.images),
                }
    if shown:
        yield {"role": "user", "content": _content("", shown)}


def _content(said: str, images: "list[Image] | tuple[Image, ...]") -> object:
    if not images:
        return said
    words = [{"type": "text", "text": said}] if said else []
    shown = (
        {"type": "image_url", "image_url": {"url": conversation.data_url(one)}} for one in images
    )
    return [*words, *shown]


def _answer(
    message: conversation.ExportMessage, place: int, pairs: conversation.Pairs
) -> Iterator[Row]:
    for step in _steps(message):
        calls = [
            (where, block) for where, block in step if isinstance(block, conversation.ToolCall)
        ]
        yield _assistant([block for _, block in step])
        results = [pairs.result_of.get((place, where)) for where, _ in calls]
        for (_, call), result in zip(calls, results, strict=True):
            if result is not None:
                yield from _result(call, result)


def _steps(message: conversation.ExportMessage) -> Iterator[list[tuple[int, conversation.Block]]]:
    """Part an answer where its parts would change places: thought, text, then calls."""
    step: list[tuple[int, conversation.Block]] = []
    rank = 0
    for where, block in enumerate(message.blocks):
        own = _rank(block)
        if step and (own < rank or own == rank < _rank_of_calls):
            yield step
            step = []
        step.append((where, block))
        rank = own
    if step:
        yield step


_rank_of_calls = 3


def _rank(block: conversation.Block) -> int:
    return {conversation.Reasoning: 1, conversation.ToolCall: _rank_of_calls}.get(type(block), 2)


def _assistant(blocks: list[conversation.Block]) -> Row:
    row: Row = {"role": "assistant", "content": None}
    calls = [_call(block) for block in blocks if isinstance(block, conversation.ToolCall)]
    for block in blocks:
        match block:
            case conversation.Reasoning(text=said):
                row["reasoning_content"] = said
            case conversation.Picture(image=image):
                row["content"] = conversation.described(image)
            case (
                conversation.ExportText(text=said)
                | conversation.ExportNote(text=said)
                | conversation.Summary(text=said)
            ):
                row["content"] = said
            case conversation.ToolResult():
                row["content"] = conversation.loose_result(block)
    return {**row, "tool_calls": calls} if calls else row


def _call(call: conversation.ToolCall) -> Row:
    function = {
        "name": call.name,
        "arguments": conversation.encoded(conversation.as_object(call.input)),
    }
    return {"id": call.id, "type": "function", "function": function}


def _result(call: conversation.ToolCall, result: conversation.ToolResult) -> Iterator[Row]:
    """Return what came back; a failure is an object, as results have no other mark for it."""
    said = conversation.encoded({"error": result.output}) if result.error else result.output
    yield {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": said}
    if result.images:
        # No tool may answer with a picture: the user shows it.
        yield {"role": "user", "content": _content("", result.images)}
