"""Cursor's messages: what was asked, said and done in one of them, whichever store it is in."""

import re
from typing import Any, Final, NamedTuple

from threadkeep.knowledge.records import Entry, Image, Kind, Role
from threadkeep.sources.common import block_text, describe_input, iso_ms, number, rows, table, text
from threadkeep.sources.pictures import pictures

HARNESS: Final = "cursor"
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
