"""Chat completions: messages with tool calls and tools' answers, also as Hermes Agent keeps them.

An answer's text stands before its tool calls there, so what was said behind a call begins a
message of its own. The answers of tools follow at once, as the API wants it.
"""

from collections.abc import Iterator
from typing import Any

from threadkeep.knowledge.records import Image
from threadkeep.transfer.conversation import (
    SUMMARY_MARK,
    Block,
    Conversation,
    ExportMessage,
    ExportNote,
    ExportText,
    NewSession,
    Pairs,
    Picture,
    Reasoning,
    Summary,
    ToolCall,
    ToolResult,
    as_object,
    data_url,
    described,
    encoded,
    loose_result,
    pair,
    pictures_in,
    timed,
)

Row = dict[str, Any]


def openai(told: Conversation, new: NewSession) -> str:
    """Write a conversation as the `messages` of a chat completion."""
    return encoded([row for _, row in _rows(told, new)]) + "\n"


def hermes(told: Conversation, new: NewSession) -> str:
    """Write a conversation as a session that Hermes Agent, and `threadkeep state`, import."""
    return encoded(hermes_session(told, new)) + "\n"


def hermes_session(told: Conversation, new: NewSession) -> Row:
    """Give a conversation as an exported session of Hermes Agent."""
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


def _rows(told: Conversation, new: NewSession) -> Iterator[tuple[int, Row]]:
    pairs = pair(told.messages)
    for place, (message, at) in enumerate(timed(told, new.now)):
        rows = _answer(message, place, pairs) if message.role == "assistant" else ()
        yield from ((at, row) for row in rows)
        if message.role != "assistant":
            yield from ((at, row) for row in _said(message, place, pairs))


def _said(message: ExportMessage, place: int, pairs: Pairs) -> Iterator[Row]:
    """Give what others than the agent said; the answers of tools stand behind their calls."""
    shown = pictures_in(message)
    for where, block in enumerate(message.blocks):
        match block:
            case ExportText(text=said):
                yield {"role": "user", "content": _content(said, shown)}
                shown = []
            case Summary(text=said):
                yield {"role": "user", "content": f"{SUMMARY_MARK}{said}"}
            case ExportNote(text=said):
                yield {"role": "system", "content": said}
            case ToolResult() if (place, where) not in pairs.answered:
                yield {"role": "user", "content": _content(loose_result(block), block.images)}
    if shown:
        yield {"role": "user", "content": _content("", shown)}


def _content(said: str, images: "list[Image] | tuple[Image, ...]") -> object:
    if not images:
        return said
    words = [{"type": "text", "text": said}] if said else []
    shown = ({"type": "image_url", "image_url": {"url": data_url(one)}} for one in images)
    return [*words, *shown]


def _answer(message: ExportMessage, place: int, pairs: Pairs) -> Iterator[Row]:
    for step in _steps(message):
        calls = [(where, block) for where, block in step if isinstance(block, ToolCall)]
        yield _assistant([block for _, block in step])
        results = [pairs.result_of.get((place, where)) for where, _ in calls]
        for (_, call), result in zip(calls, results, strict=True):
            if result is not None:
                yield from _result(call, result)


def _steps(message: ExportMessage) -> Iterator[list[tuple[int, Block]]]:
    """Part an answer where its parts would change places: thought, text, then calls."""
    step: list[tuple[int, Block]] = []
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


def _rank(block: Block) -> int:
    return {Reasoning: 1, ToolCall: _rank_of_calls}.get(type(block), 2)


def _assistant(blocks: list[Block]) -> Row:
    row: Row = {"role": "assistant", "content": None}
    calls = [_call(block) for block in blocks if isinstance(block, ToolCall)]
    for block in blocks:
        match block:
            case Reasoning(text=said):
                row["reasoning_content"] = said
            case Picture(image=image):
                row["content"] = described(image)
            case ExportText(text=said) | ExportNote(text=said) | Summary(text=said):
                row["content"] = said
            case ToolResult():
                row["content"] = loose_result(block)
    return {**row, "tool_calls": calls} if calls else row


def _call(call: ToolCall) -> Row:
    function = {"name": call.name, "arguments": encoded(as_object(call.input))}
    return {"id": call.id, "type": "function", "function": function}


def _result(call: ToolCall, result: ToolResult) -> Iterator[Row]:
    """Give what came back; a failure is an object, as results have no other mark for it."""
    said = encoded({"error": result.output}) if result.error else result.output
    yield {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": said}
    if result.images:
        # No tool may answer with a picture: the user shows it.
        yield {"role": "user", "content": _content("", result.images)}
