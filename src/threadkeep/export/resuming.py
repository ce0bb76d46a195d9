"""A conversation that another program goes on with: what it must be like.

A model is given what is written here. So every call has a result and every result a call, names
and ids are such as every provider takes, and thoughts, which only their own provider can check,
are kept as notices that no model is shown.
"""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from threadkeep.export.pairing import Pairs, pair
from threadkeep.export.records import (
    Block,
    Conversation,
    ConversationInfo,
    ExportMessage,
    ExportNote,
    Reasoning,
    Role,
    Summary,
    ToolCall,
    ToolResult,
)
from threadkeep.export.wording import loose_result

_CONTINUED: Final = "continued from"
# How a text begins that tells a model of the program that it runs in: the next one tells its own.
_SURROUNDINGS: Final = (
    *("<environment_context", "<user_instructions", "# AGENTS.md instructions", "<INSTRUCTIONS>"),
    *("<permissions", "<skills", "<apps_instructions", "<plugins_instructions"),
    *("<collaboration_mode", "<system-reminder", "<session_context", "Caveat: The messages below"),
)
_NOTICE: Final = 400  # characters: notices are for the eye alone, and the archive has all
_NO_RESULT: Final = "no result was recorded"
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME: Final = 64
_TITLE: Final = 80


def resumable(told: Conversation, cwd: str) -> Conversation:
    """Give a conversation as a program can go on with it, with a word on where it comes from."""
    about = told.about
    begun = f"{_CONTINUED} {about.harness} {about.session_id}"
    own = about.title.partition(f" ({_CONTINUED} ")[0][:_TITLE]
    title = f"{own} ({begun})" if own else begun
    known: ConversationInfo = msgspec.structs.replace(about, title=title, cwd=cwd)
    pairs = pair(told.messages)
    messages = list(_checked(told, pairs, _Names()))
    # What stands before a summary is not read any more.
    summed_up = [place for place, one in enumerate(messages, 1) if _sums_up(one)]
    begin = summed_up[-1] if summed_up else 0
    at = messages[begin - 1].at if begin else about.started_at
    messages.insert(begin, ExportMessage("user", (ExportNote(_greeting(about)),), at))
    return Conversation(known, tuple(messages))


def _sums_up(message: ExportMessage) -> bool:
    return any(isinstance(block, Summary) for block in message.blocks)


def _greeting(about: ConversationInfo) -> str:
    return (
        f"This conversation was begun in {about.harness} (session {about.session_id}) and goes on"
        " here. What its tool calls name are that program's tools; use your own."
    )


class _Names:
    """Gives ids and names that every provider takes."""

    def __init__(self) -> None:
        self._count = 0

    def next_id(self) -> str:
        """Give the next id of a call."""
        self._count += 1
        return f"call_{self._count:08d}"

    @staticmethod
    def tool(name: str) -> str:
        """Give the name of a tool without what providers refuse."""
        return _NOT_IN_NAMES.sub("_", name)[:_LONGEST_NAME] or "tool"


def _checked(told: Conversation, pairs: Pairs, names: _Names) -> Iterator[ExportMessage]:
    """Put each result right behind the message with its call, and close what is open."""
    for number, message in enumerate(told.messages):
        notices: list[Block] = []
        said: list[Block] = []
        results: list[Block] = []
        for place, block in enumerate(message.blocks):
            notice = _notice_of(block, message, is_loose=(number, place) not in pairs.answered)
            if notice is not None:
                notices.append(notice)
            elif isinstance(block, ToolCall):
                call = ToolCall(names.tool(block.name), names.next_id(), block.input)
                said.append(call)
                results.append(_closing(call, pairs.result_of.get((number, place))))
            elif not isinstance(block, ToolResult):
                said.append(block)
        sides: list[tuple[Role, list[Block], str]] = [
            ("system", notices, ""),
            (message.role, said, message.model),
            ("tool", results, ""),
        ]
        for role, blocks, model in sides:
            if blocks:
                yield ExportMessage(role, tuple(blocks), message.at, model, message.origin)


def _notice_of(block: Block, message: ExportMessage, *, is_loose: bool) -> ExportNote | None:
    """Give what is for the eye alone of a block; None if a model is to have it."""
    match block:
        case Reasoning(text=said):
            return _notice(f"Thinking: {said}")
        case ToolResult() if is_loose:
            return _notice(loose_result(block), error=block.error)
        case ExportNote() if message.role == "system" or _is_of_surroundings(block):
            return _notice(block.text, error=block.error)
        case _:
            return None


def _is_of_surroundings(note: ExportNote) -> bool:
    return note.text.lstrip().startswith(_SURROUNDINGS)


def _notice(said: str, *, error: bool = False) -> ExportNote:
    rest = len(said) - _NOTICE
    shown = f"{said[:_NOTICE]}… ({rest:,} more characters)" if rest > 0 else said
    return ExportNote(shown, error)


def _closing(call: ToolCall, result: ToolResult | None) -> ToolResult:
    if result is None:
        return ToolResult(call.id, _NO_RESULT, error=True, name=call.name)
    closed: ToolResult = msgspec.structs.replace(result, id=call.id, name=call.name)
    return closed
