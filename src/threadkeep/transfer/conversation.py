"""From captured entries to the neutral form."""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any, Final, Literal

import msgspec

from threadkeep.base import json
from threadkeep.base.clock import iso
from threadkeep.errors import Invalid
from threadkeep.knowledge.records import CapturedSession, Entry, Image
from threadkeep.knowledge.transcript import SessionArchive
from threadkeep.sources.copy_marks import MARK, Notice, copy_mark, with_notices

# ------------------------------------------------------------------------------
# One neutral form of a conversation, between the programs that keep conversations.

Role = Literal["user", "assistant", "tool", "system"]


class ExportText(msgspec.Struct, frozen=True, tag="text"):
    """What was asked or answered."""

    text: str


class Reasoning(msgspec.Struct, frozen=True, tag="reasoning"):
    """What the agent thought."""

    text: str


class Summary(msgspec.Struct, frozen=True, tag="summary"):
    """What a compaction left of all that came before it."""

    text: str


class ExportNote(msgspec.Struct, frozen=True, tag="note"):
    """What a program put in: context in the user's name, or a notice that no model was shown."""

    text: str
    error: bool = False


class ToolCall(msgspec.Struct, frozen=True, tag="tool_call"):
    """What the agent did; its id is that of its result."""

    name: str
    id: str
    input: Any


class ToolResult(msgspec.Struct, frozen=True, tag="tool_result"):
    """What came back."""

    id: str
    output: str
    error: bool = False
    name: str = ""
    images: tuple[Image, ...] = ()


class Picture(msgspec.Struct, frozen=True, tag="image"):
    """What was shown."""

    image: Image


Block = ExportText | Reasoning | Summary | ExportNote | ToolCall | ToolResult | Picture


class ExportMessage(msgspec.Struct, frozen=True):
    """Blocks that one side said together."""

    role: Role
    blocks: tuple[Block, ...]
    at: int | None = None  # epoch milliseconds
    model: str = ""
    origin: str = ""  # where it was said, `agent:session_id`, if not in this very session


class ConversationInfo(msgspec.Struct, frozen=True):
    """What is known of a session beside what was said in it."""

    harness: str
    session_id: str
    title: str = ""
    cwd: str = ""
    git_branch: str = ""
    model: str = ""
    started_at: int | None = None


class Conversation(msgspec.Struct, frozen=True):
    """A session, whichever program it is of."""

    about: ConversationInfo
    messages: tuple[ExportMessage, ...] = ()

    def mark(self, message: ExportMessage | None = None) -> dict[str, Any]:
        """Return the field that marks what is written of a message, or of all, as a copy."""
        own = f"{self.about.harness}:{self.about.session_id}"
        said = own if message is None else message.origin or own
        return copy_mark(said, own)


class NewSession(msgspec.Struct, frozen=True):
    """What is new about a session that is written: its id, the time, and where ids come from."""

    session_id: str
    now: int  # epoch milliseconds
    digits: Callable[[], str]  # gives 32 hex digits, others each time


# ------------------------------------------------------------------------------
# Tool calls and their results: which belongs to which, whatever the ids are like.


class Pairs(msgspec.Struct, frozen=True):
    """Which result is of which call, by the places of messages and blocks."""

    result_of: dict[tuple[int, int], ToolResult]
    answered: frozenset[tuple[int, int]]  # results that have a call


def pair(messages: Iterable[ExportMessage]) -> Pairs:
    """Find for each call its result: the first one behind it with its id that is still free."""
    open_calls: dict[str, list[tuple[int, int]]] = {}
    result_of: dict[tuple[int, int], ToolResult] = {}
    answered: set[tuple[int, int]] = set()
    for place, block in _placed(messages):
        if isinstance(block, ToolCall):
            open_calls.setdefault(block.id, []).append(place)
        elif isinstance(block, ToolResult) and open_calls.get(block.id):
            result_of[open_calls[block.id].pop(0)] = block
            answered.add(place)
    return Pairs(result_of, frozenset(answered))


def _placed(messages: Iterable[ExportMessage]) -> Iterator[tuple[tuple[int, int], Block]]:
    for number, message in enumerate(messages):
        for place, block in enumerate(message.blocks):
            yield (number, place), block


def named_calls(messages: Iterable[ExportMessage]) -> Iterator[ExportMessage]:
    """Give every call an id of its own, and each result that of the call it is of.

    Some programs give their calls no id, and some number them again in each turn. A result of no
    call that is known keeps the id it has.
    """
    names = _Names()
    for message in messages:
        if message.role == "user":
            names.forget_unnamed()
        blocks = tuple(names.named(block) for block in message.blocks)
        named: ExportMessage = msgspec.structs.replace(message, blocks=blocks)
        yield named


class _Names:
    """The ids that calls were given, and which of them still wait for a result."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._counts: dict[str, int] = {}
        self._waiting: dict[str, list[ToolCall]] = {}  # by the id that the program gave

    def forget_unnamed(self) -> None:
        """Let calls without an id wait no longer: a turn is over."""
        self._waiting.pop("", None)

    def named(self, block: Block) -> Block:
        """Give a call or a result its id."""
        if isinstance(block, ToolCall):
            named = ToolCall(block.name, self._free(block.id), block.input)
            self._waiting.setdefault(block.id, []).append(named)
            return named
        if isinstance(block, ToolResult) and self._waiting.get(block.id):
            call = _taken(self._waiting[block.id], block.name)
            answer: ToolResult = msgspec.structs.replace(block, id=call.id)
            return answer
        return block

    def _free(self, given: str) -> str:
        name = given
        while not name or name in self._used:
            self._counts[given] = self._counts.get(given, int(bool(given))) + 1
            name = f"{given or 'call'}-{self._counts[given]}"
        self._used.add(name)
        return name


def _taken(waiting: list[ToolCall], name: str) -> ToolCall:
    """Take the first waiting call out: of the tool that is named, if one is of it."""
    same = [place for place, call in enumerate(waiting) if call.name == name]
    return waiting.pop(same[0] if same else 0)


_MARK: Final = "[image]"  # what is in a text in the place of a picture
_DATA: Final = "data:"
_BASE64: Final = ";base64"
# Programs that keep results as text alone write a failure as an object with this one key.
_KEEP_TEXT: Final = frozenset(("state", "hermes"))
SUMMARY_MARK: Final = "[CONTEXT SUMMARY]\n"
_BARE_MARKS: Final = frozenset(("compaction",))  # what OpenCode writes before a summary


def conversation(
    history: SessionArchive, session: CapturedSession, *, active: bool = False
) -> Conversation:
    """Read a session; with `active` without what was said in branches that were given up."""
    entries: Iterable[Entry] = (shown.entry for shown in history.transcript(session))
    if active:
        entries = without_branches(list(entries))
    return from_entries(about(session), entries)


def about(session: CapturedSession) -> ConversationInfo:
    """Return what is known of a session."""
    return ConversationInfo(
        harness=session.agent,
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
    """Return the arguments; of programs that only wrote out what they are, that."""
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
    """Leave out what was said after a prompt that was later asked again in its place.

    Only prompts count: parallel tool calls and notices continue from one record, too.
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


def without_notes(told: Conversation) -> Conversation:
    """Leave out what the agent's program told the model, but for errors."""
    messages = []
    for message in told.messages:
        kept = tuple(
            block for block in message.blocks if not isinstance(block, ExportNote) or block.error
        )
        if kept:
            messages.append(msgspec.structs.replace(message, blocks=kept))
    return msgspec.structs.replace(told, messages=tuple(messages))


def blocks_of(told: Conversation) -> Iterator[tuple[ExportMessage, Block]]:
    """Yield every block with its message."""
    for message in told.messages:
        for block in message.blocks:
            yield message, block


# ------------------------------------------------------------------------------
# What every writer needs: times, JSON lines, and words for what a format cannot hold.

_LATEST: Final = 253_402_300_799_999  # the end of the year 9999


def timed(told: Conversation, now: int) -> Iterator[tuple[ExportMessage, int]]:
    """Yield the messages with their times; one that says none has that of the one before it."""
    last = told.about.started_at
    if last is None:
        last = next((one.at for one in told.messages if one.at is not None), now)
    for message in told.messages:
        last = last if message.at is None else message.at
        yield message, last


def carrying(
    told: Conversation,
    records: Iterable[tuple[ExportMessage, dict[str, Any] | Notice]],
    bare: dict[str, Any],
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return records with their marks; notices, for which a program has none, go into those.

    `bare` is a record that says nothing, for a conversation that has notices alone.
    """
    found: list[tuple[dict[str, Any], dict[str, Any]]] = []
    waiting: list[Notice] = []
    for message, record in records:
        if isinstance(record, tuple):
            waiting.append(record)
        else:
            found.append((record, with_notices(told.mark(message), waiting)))
            waiting = []
    if waiting and found:
        last, mark = found[-1]
        found[-1] = last, with_notices(mark, mark[MARK].get("before", ()), waiting)
    elif waiting:
        found.append((bare, with_notices(told.mark(), waiting)))
    return found


def notices_of(message: ExportMessage) -> Iterator[Notice]:
    """Return what a program put in as notices for the eye."""
    for block in message.blocks:
        match block:
            case ExportNote(text=said, error=error):
                yield said, error
            case Picture(image=image):
                yield described(image), False
            case ToolResult():
                yield loose_result(block), block.error
            case ToolCall(name=name):
                yield name, False
            case _:
                yield block.text, False


def stamp(at: int) -> str:
    """Write a time as logs have it."""
    return iso(min(max(at, 0), _LATEST))


def json_lines(records: Iterable[Any]) -> str:
    """Write records, one a line."""
    return "".join(f"{encoded(record)}\n" for record in records)


def encoded(value: Any) -> str:
    """Write a value as JSON; what cannot be written so (nested beyond reason) as text in it."""
    try:
        return json.encode(value)
    except Invalid:
        return json.encode(_shallow(value, 24))


def _shallow(value: Any, depth: int) -> Any:
    """Write out what is nested deeper than any format means, and numbers that are none."""
    if isinstance(value, (str, int)) or value is None:
        return value
    if isinstance(value, dict) and depth:
        return {str(key): _shallow(inner, depth - 1) for key, inner in value.items()}
    if isinstance(value, (list, tuple)) and depth:
        return [_shallow(inner, depth - 1) for inner in value]
    if isinstance(value, float) and value - value == 0:
        return value
    return _written(value)


def _written(value: Any) -> str:
    try:
        return repr(value)
    except RecursionError:
        return "…"


def as_object(given: Any) -> dict[str, Any]:
    """Return arguments as an object, which most formats want."""
    return given if isinstance(given, dict) else {"input": given}


def data_url(image: Image) -> str:
    """Return the address of a picture, with its bytes in it if they are known."""
    return f"data:{image.media_type};base64,{image.data}" if image.data else image.url


def described(image: Image) -> str:
    """Say in words which picture was there, where a format has no place for it."""
    if image.data:
        return f"[image {image.media_type}, {len(image.data):,} characters of base64]"
    return f"[image {data_url(image)[:200]}]"


def loose_result(result: ToolResult) -> str:
    """Say in words what came back, where the call that it is of is not known."""
    failed = " (failed)" if result.error else ""
    name = result.name or result.id or "a tool"
    return f"[result of {name}{failed}]\n{result.output}"


def pictures_in(message: ExportMessage) -> list[Image]:
    """Return the pictures of a message."""
    return [block.image for block in message.blocks if isinstance(block, Picture)]
