"""From captured entries to the neutral form."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Final

from threadkeep.base import json
from threadkeep.capture.history import History
from threadkeep.errors import Invalid
from threadkeep.export.pairing import named_calls
from threadkeep.export.records import (
    Block,
    Conversation,
    ConversationInfo,
    ExportMessage,
    ExportNote,
    ExportText,
    Picture,
    Reasoning,
    Role,
    Summary,
    ToolCall,
    ToolResult,
)
from threadkeep.knowledge.reading import CapturedSession
from threadkeep.knowledge.records import Entry, Image

_MARK: Final = "[image]"  # what stands in a text in the place of a picture
_DATA: Final = "data:"
_BASE64: Final = ";base64"
# Programs that keep results as text alone write a failure as an object with this one key.
_KEEP_TEXT: Final = frozenset(("state", "hermes"))
SUMMARY_MARK: Final = "[CONTEXT SUMMARY]\n"
_BARE_MARKS: Final = frozenset(("compaction",))  # what OpenCode writes before a summary


def conversation(
    history: History, session: CapturedSession, *, active: bool = False
) -> Conversation:
    """Read a session; with `active` without what was said in branches that were given up."""
    entries: Iterable[Entry] = (shown.entry for shown in history.transcript(session))
    if active:
        entries = without_branches(list(entries))
    return from_entries(about(session), entries)


def about(session: CapturedSession) -> ConversationInfo:
    """Give what is known of a session."""
    return ConversationInfo(
        harness=session.harness,
        session_id=session.session_id,
        title=session.name,
        cwd=session.cwd,
        git_branch=session.git_branch,
        model=session.model,
        started_at=session.started_at,
    )


def from_entries(known: ConversationInfo, entries: Iterable[Entry]) -> Conversation:
    """Put entries together to messages: what one side said without a break is one of them."""
    told = [_Told(entry, known.harness) for entry in _without_bare_marks(list(entries))]
    messages = []
    for (role, model, origin, _), group in groupby(_numbered(told), key=lambda pair: pair[0]):
        same = [one for _, one in group]
        blocks = tuple(block for one in same for block in one.blocks)
        at = next((one.at for one in same if one.at is not None), None)
        messages.append(ExportMessage(role, blocks, at, model, origin))
    return Conversation(known, tuple(named_calls(messages)))


class _Told:
    """An entry as blocks of the neutral form."""

    def __init__(self, entry: Entry, harness: str) -> None:
        self.role = _role_of(entry)
        self.at = entry.at
        self.origin = entry.origin
        self.model = entry.model if self.role == "assistant" else ""
        self.opens = entry.kind in ("prompt", "summary", "note")
        self.blocks = tuple(_blocks(entry, harness))


def _numbered(told: list[_Told]) -> Iterator[tuple[tuple[Role, str, str, int], _Told]]:
    """Give with each entry what it must share with its neighbour to be of the same message."""
    number = 0
    before: tuple[Role, str] = ("user", "")
    for one in told:
        if not one.blocks:
            continue
        # An answer's tool calls do not always say which model made them.
        model = one.model or (before[1] if before[0] == one.role == "assistant" else "")
        if one.opens or before[0] != one.role:
            number += 1
        before = (one.role, model)
        yield (one.role, model, one.origin, number), one


def _role_of(entry: Entry) -> Role:
    if entry.kind == "note":
        return "user" if entry.role == "user" else "system"
    if entry.kind == "tool_result":
        return "tool"
    if entry.kind == "summary":
        return "user"
    return "user" if entry.kind == "prompt" else "assistant"


def _blocks(entry: Entry, harness: str) -> Iterator[Block]:
    images = tuple(map(embedded, entry.images))
    said = without_marks(entry.text, len(images))
    if entry.kind == "tool_call":
        yield ToolCall(entry.tool or "tool", entry.call_id, _input_of(entry))
        yield from map(Picture, images)
    elif entry.kind == "tool_result":
        error = entry.error
        if harness in _KEEP_TEXT:
            said, error = _unwrapped(said, error=error)
        yield ToolResult(entry.call_id, said, error, entry.tool, images)
    else:
        if said.strip():
            yield _spoken(entry, said)
        yield from map(Picture, images)


def _spoken(entry: Entry, said: str) -> Block:
    match entry.kind:
        case "reasoning":
            return Reasoning(said)
        case "summary":
            return Summary(said.removeprefix(SUMMARY_MARK))
        case "note":
            return ExportNote(said, entry.error)
        case _:
            return ExportText(said)


def _input_of(entry: Entry) -> Any:
    """Give the arguments; of programs that only wrote out what they are, that."""
    if entry.input is not None:
        return entry.input
    return {"text": entry.text} if entry.text else {}


def _unwrapped(said: str, *, error: bool) -> tuple[str, bool]:
    if not error:
        return said, error
    try:
        value = json.decode(said)
    except Invalid:
        return said, error
    if isinstance(value, dict) and set(value) == {"error"} and isinstance(value["error"], str):
        return value["error"], True
    return said, error


def embedded(image: Image) -> Image:
    """Take the bytes of a picture out of its address, if they are in it."""
    head, comma, data = image.url.partition(",") if image.url.startswith(_DATA) else ("", "", "")
    if not comma or not head.endswith(_BASE64):
        return image
    return Image(head[len(_DATA) :].partition(";")[0] or image.media_type, data)


def without_marks(text: str, pictures: int) -> str:
    """Take away the lines that stand for pictures, so many as there are pictures."""
    if not pictures or _MARK not in text:
        return text
    kept = []
    for line in reversed(text.split("\n")):  # pictures stand behind the words
        if pictures and line == _MARK:
            pictures -= 1
        else:
            kept.append(line)
    return "\n".join(reversed(kept))


def _without_bare_marks(entries: list[Entry]) -> list[Entry]:
    """Leave out notes that only say that a summary follows, if one does."""
    return [
        entry
        for place, entry in enumerate(entries)
        if not (
            entry.kind == "note"
            and entry.text in _BARE_MARKS
            and any(after.kind == "summary" for after in entries[place + 1 : place + 2])
        )
    ]


def without_branches(entries: list[Entry]) -> list[Entry]:
    """Leave out what was said after a prompt that was later asked anew in its place.

    Only prompts count: parallel tool calls and notices go on from one record, too.
    """
    kept: list[Entry] = []
    began: dict[str, int] = {}
    for entry in entries:
        if entry.kind == "prompt" and entry.parent:
            place = began.get(entry.parent)
            if place is not None and _is_other_record(kept[place], entry):
                del kept[place:]
                began = {parent: at for parent, at in began.items() if at < place}
            began.setdefault(entry.parent, len(kept))
        kept.append(entry)
    return kept


def _is_other_record(first: Entry, second: Entry) -> bool:
    """Tell whether two entries are of two records: those of one share the beginning of the key."""
    return first.key.partition("#")[0] != second.key.partition("#")[0]


def blocks_of(told: Conversation) -> Iterator[tuple[ExportMessage, Block]]:
    """Yield every block with its message."""
    for message in told.messages:
        for block in message.blocks:
            yield message, block
