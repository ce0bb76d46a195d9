"""Cursor's messages: what was asked, said and done in one of them, whichever store it is in."""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from threadkeep.knowledge.records import Entry, Image, Kind, Role, SessionFacts
from threadkeep.sources.common import (
    OpenSegment,
    Segmenter,
    block_text,
    describe_input,
    iso_ms,
    last_component,
    number,
    pictures,
    rows,
    table,
    text,
)
from threadkeep.sources.cursor.paths import ancestor_with, encode, is_absolute
from threadkeep.sources.records import Harvest, Log

AGENT: Final = "cursor"
LABEL: Final = "Cursor"
_QUERY: Final = "<user_query>"
_QUERY_END: Final = "</user_query>"
_TIME: Final = "<timestamp>"
_TIME_END: Final = "</timestamp>"
_REDACTED: Final = "[REDACTED]"
# What the program itself puts into the user's turn. Only looked for where no query is marked.
_INJECTED: Final = (
    *("<additional_data", "<agent_skills", "<agent_transcripts", "<attached_files"),
    *("<available_", "<environment_", "<external_links", "<git_status", "<mcp_", "<memories"),
    *("<open_and_recently_viewed_files", "<project_layout", "<rules", "<system-reminder"),
    *("<system_notification", "<system_reminder", "<user_info", "<user_rules"),
)
_MONTHS: Final = "janfebmaraprmayjunjulaugsepoctnovdec"
_SPOKEN: Final = re.compile(
    r"([A-Za-z]{3})[a-z]* (\d{1,2}), (\d{4}),? (?:at )?(\d{1,2}):(\d{2})(?::(\d{2}))?"
    r"\s*([AaPp][Mm])?\s*(?:\((?:UTC|GMT)(?:([+-]\d{1,2})(?::?(\d{2}))?)?\))?"
)
_TIME_CHARACTERS: Final = 120
_THOUGHT: Final = {"thinking", "reasoning", "redacted-reasoning", "redacted_thinking"}
_SUMMARY_KEYS: Final = ("cmd", "command", "filePath", "path", "uri", "query", "pattern")
_FIRST_TEXT_CHARACTERS: Final = 80


class UserText(NamedTuple):
    """A user's turn, with what the program put around it kept apart."""

    at: int | None
    prompt: str
    note: str


class CursorEntry(NamedTuple):
    """An entry, and for a tool call the input it was made from."""

    entry: Entry
    given: object = None


class CursorMessage(NamedTuple):
    """What one message held."""

    said: list[CursorEntry]
    at: int | None = None  # the time it names itself
    unknown: tuple[str, ...] = ()
    counts: bool = True  # False: a notice, no message


def spoken_ms(words: str) -> int | None:
    """Read a time as Cursor tells it, `Tuesday, Jul 21, 2026, 1:11 PM (UTC+3)`, or an ISO time."""
    words = words.strip()
    found = _SPOKEN.search(words[:_TIME_CHARACTERS])
    if found is None:
        return iso_ms(words) if words[:1].isdigit() else None
    month, day, year, hour, minute, second, half, zone, zone_minutes = found.groups()
    position = _MONTHS.find(month.lower())
    if position % 3:
        return None
    hours = int(hour)
    if half:
        hours = hours % 12 + (12 if half.lower() == "pm" else 0)
    clock = f"{hours:02}:{minute}:{second or '00'}"
    ahead = int(zone or 0)
    offset = f"{'-' if ahead < 0 else '+'}{abs(ahead):02}:{zone_minutes or '00'}"
    return iso_ms(f"{year}-{position // 3 + 1:02}-{int(day):02}T{clock}{offset}")


def split_user_text(said: str, *, marked: bool) -> UserText:
    """Take a user's text apart; `marked` says that the message marks its query somewhere."""
    start = said.find(_QUERY)
    if start < 0:
        at, rest = _take_time(said)
        if marked or rest.startswith(_INJECTED):
            return UserText(at, "", rest)
        return UserText(at, rest, "")
    end = said.rfind(_QUERY_END)
    inside, after = said[start + len(_QUERY) :], ""
    if end > start:
        inside, after = said[start + len(_QUERY) : end], said[end + len(_QUERY_END) :]
    at, before = _take_time(said[:start])
    around = [piece for piece in (before, after.strip()) if piece]
    return UserText(at, inside.strip(), "\n".join(around))


def _take_time(said: str) -> tuple[int | None, str]:
    start = said.find(_TIME)
    end = said.find(_TIME_END, start)
    if start < 0 or end < 0 or said[:start].strip():
        return None, said.strip()
    at = spoken_ms(said[start + len(_TIME) : end])
    return at, said.strip() if at is None else said[end + len(_TIME_END) :].strip()


def message_reading(role: object, content: object, key: str) -> CursorMessage:
    """Read a message of blocks: the transcripts' and the chat store's names are both known."""
    blocks = [content] if isinstance(content, str) else rows(content)
    if role == "user":
        return _user_reading(blocks, key)
    named = text(role)
    if named in {"assistant", "tool", "system"}:
        return _reading([_other_block(block, named) for block in blocks], key)
    return CursorMessage([], unknown=(f"role/{named}"[:80],))


class _Piece(NamedTuple):
    role: Role
    kind: Kind
    text: str
    tool: str = ""
    call_id: str = ""
    error: bool = False
    given: object = None
    unknown: str = ""
    at: int | None = None
    images: tuple[Image, ...] = ()


def _reading(pieces: list[_Piece], key: str) -> CursorMessage:
    said: list[CursorEntry] = []
    unknown: list[str] = []
    times = [piece.at for piece in pieces if piece.at is not None]
    at = times[0] if times else None
    for piece in pieces:
        if piece.unknown:
            unknown.append(piece.unknown)
        elif piece.text or piece.tool:
            name = f"{key}#{len(said)}" if said else key
            entry = Entry(name, piece.role, piece.kind, at, piece.text, tool=piece.tool)
            entry.call_id, entry.error = piece.call_id, piece.error
            entry.input, entry.images = piece.given, piece.images
            said.append(CursorEntry(entry, piece.given))
    return CursorMessage(said, at, tuple(unknown))


def _user_reading(blocks: list[Any], key: str) -> CursorMessage:
    texts = [_plain(block) for block in blocks]
    marked = any(said is not None and _QUERY in said for said in texts)
    pieces: list[_Piece] = []
    for block, said in zip(blocks, texts, strict=True):
        if said is None:
            pieces.append(_other_block(block, "user"))
            continue
        turn = split_user_text(said, marked=marked)
        pieces.append(_Piece("user", "prompt", turn.prompt, at=turn.at))
        pieces.append(_Piece("user", "note", turn.note))
    return _reading(pieces, key)


def _plain(block: object) -> str | None:
    if isinstance(block, str):
        return block
    inside = table(block)
    return text(inside.get("text")) if inside.get("type", "text") == "text" else None


def _other_block(block: object, role: str) -> _Piece:
    said = _plain(block)
    if said is not None:
        return _spoken(said, role)
    inside = table(block)
    kind = text(inside.get("type"))
    if kind in {"tool_use", "tool-call"}:
        return _call(inside)
    if kind in {"tool_result", "tool-result"}:
        return _result(inside)
    if kind in _THOUGHT:
        thought = text(inside.get("thinking")) or text(inside.get("text"))
        return _Piece("assistant", "reasoning", _without_redacted(thought))
    if kind in {"image", "file"}:
        whose: Role = "user" if role == "user" else "assistant"
        return _Piece(whose, "note", f"[{kind}]", images=pictures([inside]))
    return _Piece("assistant", "note", "", unknown=f"block/{kind}"[:80])


def _spoken(said: str, role: str) -> _Piece:
    if role == "system":
        return _Piece("system", "note", said.strip())
    if role == "tool":
        return _Piece("tool", "tool_result", said)
    return _Piece("assistant", "text", _without_redacted(said))


def _call(block: dict[str, Any]) -> _Piece:
    given = block.get("input", block.get("args"))
    tool = text(block.get("name")) or text(block.get("toolName")) or "tool"
    call_id = text(block.get("id")) or text(block.get("toolCallId"))
    return _Piece("assistant", "tool_call", describe_input(given), tool, call_id, given=given)


def _result(block: dict[str, Any]) -> _Piece:
    given = block.get("content", block.get("result", block.get("output")))
    tool = text(block.get("name")) or text(block.get("toolName")) or "tool"
    call_id = text(block.get("tool_use_id")) or text(block.get("toolCallId"))
    failed = block.get("is_error") is True or block.get("isError") is True
    shown = pictures(given)
    return _Piece("tool", "tool_result", result_text(given), tool, call_id, failed, images=shown)


def result_text(given: object) -> str:
    """Write out what a tool gave back; pictures are only named."""
    if isinstance(given, str):
        return given
    if isinstance(given, list):
        pictures = sum(1 for block in given if table(block).get("type") in ("image", "media"))
        return "\n".join([*filter(None, [block_text(given)]), *["[image]"] * pictures])
    inside = table(given)
    if isinstance(inside.get("value"), (str, list)):
        return result_text(inside["value"])
    return describe_input(given)


def _without_redacted(said: str) -> str:
    return said.strip().removesuffix(_REDACTED).rstrip()


def tool_summary(given: object, shown: str) -> str:
    """Sum up a tool's input as the contract does: what it was done to, else the first text."""
    inside = table(given)
    for key in _SUMMARY_KEYS:
        value = inside.get(key)
        if isinstance(value, str) and value:
            return value
    for _, value in sorted(inside.items()):
        if isinstance(value, str) and value:
            return value[:_FIRST_TEXT_CHARACTERS]
    return shown[:_FIRST_TEXT_CHARACTERS]


def epoch_ms(value: object) -> int | None:
    """Read a time that is stored as milliseconds or as an ISO text."""
    if isinstance(value, str):
        return int(value) or None if value.isdecimal() and len(value) < 16 else iso_ms(value)  # noqa: PLR2004
    found = number(value)
    return found if found > 0 else None


# ------------------------------------------------------------------------------
# The parser of Cursor's conversations, for every place that keeps whole messages.

_PATH_KEYS: Final = frozenset(
    (
        *("cwd", "filePath", "file_path", "path", "targetFile", "target_directory"),
        *("workingDirectory", "working_directory"),
    )
)
_COMMAND_CHARACTERS: Final = 2_000
_MOST_UNKNOWN: Final = 200


class CursorRecord(msgspec.Struct):
    """What a record of a source held: a message, or facts about the session."""

    reading: CursorMessage | None = None
    facts: SessionFacts | None = None
    at: int | None = None  # a time the record itself gives, for what has none
    unknown: str = ""


class _State(msgspec.Struct):
    open: OpenSegment
    facts: SessionFacts
    at: int | None = None  # the last time that was told
    settled: bool = False  # a path has shown the folder
    fed: bool = False


class CursorParser:
    """Takes the records of one conversation in order.

    The folder is what the log's place says, until a tool's input names a path below a folder
    that encodes to exactly the project's slug: that one is right.
    """

    def __init__(
        self,
        log: Log,
        state: bytes | None,
        read: Callable[[Any, int], CursorRecord],
        slug: str = "",
    ) -> None:
        """Start afresh or continue; `read` takes one record apart."""
        self._log = log
        self._read = read
        self._slug = encode(slug)
        self._state = msgspec.msgpack.decode(state, type=_State) if state else _fresh(log)
        self._segmenter = Segmenter(log, LABEL, self._state.open)
        self._unknown: dict[str, int] = {}

    def feed(self, record: Any, line: bytes, number: int) -> list[Entry]:  # noqa: ARG002
        """Take the next record: its JSON value, the line it came from, the line's number."""
        found = self._read(record, number)
        self._state.fed = True
        if found.unknown:
            self._count(found.unknown)
        if found.facts is not None:
            self._state.facts = merged(self._state.facts, found.facts)
        if found.at is not None:
            self._state.at = found.at
        if found.reading is None:
            return []
        return self._take(found.reading)

    def harvest(self) -> Harvest:
        """Return what came up since the last call; asking twice changes nothing."""
        session, facts = self._log.session_id, self._state.facts
        unknown, self._unknown = self._unknown, {}
        segments = self._segmenter.take(session, facts)
        told = {session: msgspec.structs.replace(facts)} if self._state.fed else {}
        return Harvest(facts=told, segments=segments, unknown=unknown)

    def state(self) -> bytes:
        """Return what a new parser needs to continue from here."""
        self._state.open = self._segmenter.open
        return msgspec.msgpack.encode(self._state)

    def _take(self, reading: CursorMessage) -> list[Entry]:
        for name in reading.unknown:
            self._count(name)
        if reading.at is not None:
            self._state.at = reading.at
        index, messages = self._segmenter.open.index, self._segmenter.open.messages
        for said in reading.said:
            self._add(said, told=reading.at is not None)
        current = self._segmenter.open
        if not reading.counts:
            current.messages = messages
        elif current.index >= 0:  # a message counts once, however many blocks it has
            current.messages = messages + 1 if current.index == index else 1
        return [said.entry for said in reading.said]

    def _add(self, said: CursorEntry, *, told: bool) -> None:
        entry = said.entry
        known = entry.at is not None or told
        if entry.at is None:
            entry.at = self._state.at or self._log.stamp.mtime_ns // 1_000_000
        if entry.kind == "tool_call":
            self._look_for_folder(said.given)
            summary = tool_summary(said.given, entry.text)
            entry = msgspec.structs.replace(entry, text=summary)
        self._segmenter.add(entry, self._state.facts)
        if entry.kind == "prompt" and not known:
            # When a file was written says nothing about the time between two prompts in it.
            self._segmenter.open.last_prompt = None

    def _look_for_folder(self, given: object) -> None:
        if self._state.settled or not self._slug:
            return
        for path in _paths(table(given)):
            folder = ancestor_with(self._slug, path)
            if folder:
                self._state.settled = True
                self._state.facts.cwd = folder
                if self._segmenter.open.index >= 0:
                    self._segmenter.open.project_dir = last_component(folder)
                return

    def _count(self, name: str) -> None:
        if name in self._unknown or len(self._unknown) < _MOST_UNKNOWN:
            self._unknown[name] = self._unknown.get(name, 0) + 1


def _fresh(log: Log) -> _State:
    facts = SessionFacts(cwd=log.project_dir, is_subagent=log.is_subagent)
    facts.parent_session_id = log.parent_session_id or ""
    return _State(OpenSegment(), facts)


def merged(old: SessionFacts, new: SessionFacts) -> SessionFacts:
    """Lay new facts over old ones: what is empty says nothing."""
    told = {name: value for name, value in msgspec.structs.asdict(new).items() if value}
    return msgspec.structs.replace(old, **told)


def _paths(given: dict[str, Any]) -> Iterator[str]:
    """Yield the absolute paths that a tool's input names."""
    for key, value in given.items():
        if not isinstance(value, str):
            continue
        if key in _PATH_KEYS and is_absolute(value):
            yield value
        elif key in {"command", "cmd"}:
            words = (word.strip("'\"`();,=") for word in value[:_COMMAND_CHARACTERS].split())
            yield from (word for word in words if is_absolute(word))
