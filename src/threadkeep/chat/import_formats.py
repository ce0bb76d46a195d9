"""Reading exported sessions back: JSONL or JSON becomes rows, each checked before any is written.

Nothing here touches a database. A row keeps what it says byte for byte: the text of its `*_json`
columns, its ids, times and order. Columns that we do not know stay with it.
"""

import json as standard_json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, NoReturn

from threadkeep.base import json
from threadkeep.chat.raw_rows import SessionRows, in_order, others_of
from threadkeep.chat.records import UNTITLED, Json, is_number, is_time, read_object
from threadkeep.chat.rows import CHUNK, COLUMNS, MESSAGE, PART, SESSION
from threadkeep.chat.wire.protocol import normalize_part
from threadkeep.errors import Invalid, TooLarge

Lines = str | bytes | Iterable[str | bytes]
Progress = Callable[[int], None]

_TELL_EVERY = 1000
_SHOWN = 60
_LARGEST_REAL = sys.float_info.max
_ESCAPED = 6  # a character may take six in JSON: \u0000
_ENVELOPE = 64 * 1024  # the rest of a line beside its one large text
_RECORD = re.compile(r'\s*\{\s*"(?:type|data)"')
_WHOLE = re.compile(r"\s*[\[{]")
_SHAPE = (
    'JSONL has {"type":"session","data":{…}} first, then "message" and "part" records;'
    ' JSON is {"session":{…},"messages":[{"message":{…},"parts":[…]}]}'
)
_PART_HINT = "allow more with part_limit: below [chat] in the settings, or given to ChatStore.open"


class Record(NamedTuple):
    """A row of the input, and where it stood."""

    place: str
    kind: str
    row: Any


class Column(NamedTuple):
    """What a column of ours may hold; `missing` is what an absent one reads as."""

    type: str
    null: bool = False
    missing: Any = ...


_TEXT, _TIME = Column("text"), Column("time")
_MAYBE_TEXT = Column("text", null=True, missing=None)
_MAYBE_TIME = Column("time", null=True, missing=None)
_COUNT = Column("integer", missing=0)
_CHECKS: dict[str, dict[str, Column]] = {
    SESSION: {
        **dict.fromkeys(COLUMNS[SESSION], _MAYBE_TEXT),
        **dict.fromkeys(("id", "agent"), _TEXT),
        "title": Column("text", null=True, missing=UNTITLED),
        "model_json": Column("object", null=True, missing="{}"),
        "permissions_json": Column("array", missing="[]"),
        "metadata_json": Column("object", missing="{}"),
        **dict.fromkeys(("prompt_tokens", "completion_tokens", "reasoning_tokens"), _COUNT),
        **dict.fromkeys(("cache_read", "cache_write", "total_tokens"), _COUNT),
        "cost_usd": Column("real", missing=0.0),
        **dict.fromkeys(("created_at", "updated_at"), _TIME),
        "archived_at": _MAYBE_TIME,
    },
    MESSAGE: {
        **dict.fromkeys(("id", "session_id", "role"), _TEXT),
        "metadata_json": Column("object", missing="{}"),
        **dict.fromkeys(("created_at", "updated_at"), _TIME),
        "hidden_at": _MAYBE_TIME,
    },
    PART: {
        **dict.fromkeys(("id", "message_id", "session_id", "type"), _TEXT),
        "index": Column("place"),
        "data_json": Column("object"),
        **dict.fromkeys(("tool_call_id", "tool_state", "continuation_run_id"), _MAYBE_TEXT),
        **dict.fromkeys(("created_at", "updated_at"), _TIME),
    },
    CHUNK: {
        **dict.fromkeys(("session_id", "message_id"), _TEXT),
        "data_json": Column("object"),
        "created_at": _TIME,
    },
}


def _refuse(place: str, said: str, hint: str) -> NoReturn:
    raise Invalid(f"{place}: {said}", hint=hint)


# ---------------------------------------------------------------------- text to records


def read_records(lines: Lines, part_limit: int) -> Iterator[Record]:
    """Read JSONL, or one or more JSON documents; the first line that is not blank tells which."""
    numbered = _numbered(lines, part_limit * _ESCAPED + _ENVELOPE)
    first = next(numbered, None)
    if first is None:
        return
    number, text = first
    try:
        value = _decode(f"line {number}", text)
    except Invalid:
        if _RECORD.match(text) or not _WHOLE.match(text):
            raise
        # A document that is spread over many lines: it is complete only at its end.
        whole = text + "".join(line for _, line in numbered)
        yield from _documents("the document", _decode("the document", whole))
        return
    yield from _of_line(number, value)
    for number, text in numbered:
        yield from _of_line(number, _decode(f"line {number}", text))


def _numbered(lines: Lines, limit: int) -> Iterator[tuple[int, str]]:
    if isinstance(lines, (str, bytes)):
        lines = lines.split("\n") if isinstance(lines, str) else lines.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not isinstance(line, (str, bytes)):
            hint = "pass lines of text, such as an open file"
            _refuse(f"line {number}", f"this is a {type(line).__name__}, not text", hint)
        if len(line) > limit:
            msg = f"line {number}: {len(line):,} characters; a record has at most {limit:,}"
            raise TooLarge(msg, hint=_PART_HINT)
        text = _text(number, line)
        if text and not text.isspace():
            yield number, text


def _text(number: int, line: str | bytes) -> str:
    try:
        text = line.decode() if isinstance(line, bytes) else line
    except UnicodeDecodeError as error:
        said = f"not UTF-8 at byte {error.start}"
        _refuse(f"line {number}", said, "export the session again, as UTF-8")
    return text.removeprefix("\ufeff") if number == 1 else text


def _decode(place: str, text: str) -> Any:
    try:
        value = json.decode(text)
        if text.count('"') > 1:
            standard_json.loads(text, object_pairs_hook=_only_once)
    except Invalid as error:
        hint = error.hint or "the file may be truncated or edited: export the session again"
        raise Invalid(f"{place}: {error.message}", hint=hint) from None
    except RecursionError:
        _refuse(place, "the value is nested too deeply", "flatten it, or store it as text")
    return value


def _only_once(pairs: list[tuple[str, Any]]) -> None:
    """Refuse an object that says one thing twice: which of the two counts is a matter of taste."""
    names = set()
    for name, _ in pairs:
        if name in names:
            msg = f"the key {ascii(name)[:_SHOWN]} appears twice"
            raise Invalid(msg, hint="keep one of the two")
        names.add(name)


def _of_line(number: int, value: Any) -> Iterator[Record]:
    place = f"line {number}"
    if isinstance(value, list) or (isinstance(value, dict) and "session" in value):
        yield from _documents(place, value)
        return
    if not isinstance(value, dict) or value.keys() != {"type", "data"}:
        _refuse(place, "this is neither a record nor a session document", _SHAPE)
    kind = value["type"]
    if not isinstance(kind, str) or kind not in COLUMNS:
        said = f"there is no record of type {ascii(kind)[:_SHOWN]}"
        _refuse(place, said, "the types are session, message, part and chunk")
    yield Record(place, kind, value["data"])


def _documents(place: str, value: Any) -> Iterator[Record]:
    documents = value if isinstance(value, list) else [value]
    for number, document in enumerate(documents):
        where = f"{place}, [{number}]" if isinstance(value, list) else place
        _need_keys(where, document, {"session", "messages"})
        yield Record(f"{where}, session", SESSION, document["session"])
        for at, entry in enumerate(_need_list(f"{where}, messages", document["messages"])):
            inside = f"{where}, messages[{at}]"
            _need_keys(inside, entry, {"message", "parts"}, may_have="chunks")
            yield Record(f"{inside}.message", MESSAGE, entry["message"])
            for position, part in enumerate(_need_list(f"{inside}.parts", entry["parts"])):
                yield Record(f"{inside}.parts[{position}]", PART, part)
            chunks = _need_list(f"{inside}.chunks", entry.get("chunks", []))
            for position, chunk in enumerate(chunks):
                yield Record(f"{inside}.chunks[{position}]", CHUNK, chunk)


def _need_keys(place: str, value: Any, keys: set[str], *, may_have: str = "") -> None:
    if not isinstance(value, dict) or value.keys() - {may_have} != keys:
        _refuse(place, f"this must be an object with {' and '.join(sorted(keys))} only", _SHAPE)


def _need_list(place: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        _refuse(place, f"this must be a list, not {_name(value)}", _SHAPE)
    return value


# ---------------------------------------------------------------------- records to sessions


class SessionImport:
    """A session as it is read: each row is checked when it comes, and against its parents."""

    def __init__(self, record: Record, part_limit: int) -> None:
        """Begin with the record of the session."""
        self.place = record.place
        self._limit = part_limit
        self.rows = SessionRows(checked_row(record, part_limit), [], {})
        self._message_ids: set[str] = set()
        self._part_ids: set[str] = set()
        self._indexes: set[int] = set()

    @property
    def session_id(self) -> str:
        """The id of the session."""
        return str(self.rows.session["id"])

    def add(self, record: Record) -> None:
        """Add a message, or a part or a chunk of the message before it."""
        row = checked_row(record, self._limit)
        _need_parent(record.place, row, "session_id", self.session_id, "session")
        if record.kind == MESSAGE:
            _need_new(record.place, row["id"], self._message_ids, "message id")
            self._indexes = set()
            self.rows.messages.append((row, []))
            return
        if not self.rows.messages:
            said = f"a {record.kind} before any message"
            _refuse(record.place, said, "put it after its message")
        message, parts = self.rows.messages[-1]
        _need_parent(record.place, row, "message_id", message["id"], "message")
        if record.kind == CHUNK:
            self.rows.chunks.setdefault(message["id"], []).append(row)
            return
        _need_new(record.place, row["id"], self._part_ids, "part id")
        _need_new(record.place, row["index"], self._indexes, "index of this message")
        parts.append(row)


def _need_parent(place: str, row: Json, column: str, parent: str, what: str) -> None:
    if row[column] != parent:
        said = f"{column} is {_shown(row[column])}, but the {what} above is {_shown(parent)}"
        _refuse(place, said, f"put it after its {what}, or correct its {column}")


def _need_new(place: str, value: Any, seen: set[Any], what: str) -> None:
    if value in seen:
        _refuse(place, f"the {what} {_shown(value)} appears twice", "keep one of the two records")
    seen.add(value)


def read_sessions(
    lines: Lines, part_limit: int, progress: Progress | None = None
) -> Iterator[SessionImport]:
    """Read session after session, each complete and checked; `progress` hears records so far."""
    current: SessionImport | None = None
    count = 0
    for count, record in enumerate(read_records(lines, part_limit), 1):
        if record.kind == SESSION:
            if current is not None:
                yield current
            current = SessionImport(record, part_limit)
        elif current is None:
            _refuse(record.place, f"a {record.kind} before any session", _SHAPE)
        else:
            current.add(record)
        if progress is not None and count % _TELL_EVERY == 0:
            progress(count)
    if current is not None:
        yield current
    if progress is not None:
        progress(count)


# ---------------------------------------------------------------------- one row


def checked_row(record: Record, part_limit: int) -> Json:
    """Check a row against the columns we know, and complete it with what an older file lacks."""
    place, kind, row = record
    if not isinstance(row, dict):
        _refuse(place, f"`data` must be an object, not {_name(row)}", _SHAPE)
    complete = dict(row)
    for name, column in _CHECKS[kind].items():
        if name not in row:
            if column.missing is ...:
                _refuse(place, f"the {kind} has no {name}", "export it again, or add the column")
            complete[name] = _derived(name, row, column.missing)
        else:
            complete[name] = _checked(f"{place}: {name}", row[name], column, part_limit)
    if complete.get("id") == "":
        _refuse(place, f"the id of the {kind} is empty", "give every row an id")
    _check_others(place, others_of(kind, row), part_limit)
    return in_order(kind, complete)


def _derived(name: str, row: Json, missing: Any) -> Any:
    """Fill in a column that the seed did not have, or that is lifted out of the JSON."""
    if name == "hidden_at":
        value = read_object(row.get("metadata_json")).get(name)
        return value if is_time(value) else missing
    if name in ("tool_call_id", "tool_state") and isinstance(row.get("data_json"), str):
        part = normalize_part(read_object(row["data_json"]))
        value = part.get("state" if name == "tool_state" else "toolCallId")
        return value if isinstance(value, str) and "toolCallId" in part else missing
    return missing


def _checked(what: str, value: Any, column: Column, part_limit: int) -> Any:
    if value is None and column.null:
        return None
    match column.type:
        case "integer" if type(value) is int and _fits(value):
            return value
        case "time" if is_time(value):
            return value
        case "place" if type(value) is int and _fits(value) and value >= 0:
            return value
        case "real" if is_number(value) and abs(value) <= _LARGEST_REAL:
            return float(value) + 0.0  # as SQLite gives it back: 1.0 for 1, 0.0 for -0.0
        case "text" | "object" | "array" if isinstance(value, str):
            _check_size(what, value, part_limit)
            if column.type != "text":
                _check_json(what, value, dict if column.type == "object" else list)
            return value
    raise Invalid(f"{what} must be {_WANTED[column.type]}, not {_name(value)}", hint=_HOW)


_WANTED = {
    "integer": "a whole number of at most 64 bits",
    "time": "a whole number of epoch milliseconds, 0 to 2^53 - 1",
    "place": "a whole number from 0 on",
    "real": "a number",
    "text": "text",
    "object": "text that holds a JSON object",
    "array": "text that holds a JSON array",
}
_HOW = "rows are raw: columns as SQLite has them, `*_json` as text; correct it or export again"


def _fits(number: int) -> bool:
    return -(2**63) <= number < 2**63


def _check_size(what: str, text: str, part_limit: int) -> None:
    if len(text) > part_limit:
        msg = f"{what} has {len(text):,} characters; a part may have at most {part_limit:,}"
        raise TooLarge(msg, hint=_PART_HINT)


def _check_json(what: str, text: str, wanted: type) -> None:
    try:
        value = json.decode(text)
    except Invalid as error:
        raise Invalid(f"{what}: {error.message}", hint=error.hint or _HOW) from None
    if not isinstance(value, wanted):
        kind = "object" if wanted is dict else "array"
        raise Invalid(f"{what} must be {_WANTED[kind]}, not {_name(value)}", hint=_HOW)
    if text.count("[") + text.count("{") > json.MAX_DEPTH and _deeper(value, json.MAX_DEPTH):
        msg = f"{what} is nested more than {json.MAX_DEPTH} levels deep"
        raise Invalid(msg, hint="flatten it, or store it as text")


def _deeper(value: Any, room: int) -> bool:
    if not isinstance(value, (dict, list)):
        return False
    inside = value.values() if isinstance(value, dict) else value
    return room == 0 or any(_deeper(item, room - 1) for item in inside)


def _check_others(place: str, others: Json, part_limit: int) -> None:
    """The columns of another program are kept as JSON, so they must fit into it."""
    if not others:
        return
    try:
        size = len(json.encode(others))
    except Invalid as error:
        raise Invalid(f"{place}: {error.message}", hint=error.hint or _HOW) from None
    if size > part_limit:
        msg = f"{place}: the unknown columns have {size:,} characters in all"
        raise TooLarge(msg, hint=f"a row may have {part_limit:,}; raise part_limit")


def _shown(value: Any) -> str:
    return ascii(value)[:_SHOWN]


def _name(value: Any) -> str:
    """Name a JSON value's type in words, with its beginning."""
    if value is None:
        return "null"
    kind = {dict: "an object", list: "a list", bool: "a boolean"}.get(type(value))
    if kind is None:
        kind = "a number" if isinstance(value, (int, float)) else "the text"
    shown = "" if isinstance(value, (dict, list)) else f" {_shown(value)}"
    return kind + shown
