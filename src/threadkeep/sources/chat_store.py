"""Chat files as a source: ours, and those of other programs of the same contract.

One record for the session, then for each message one of its own and one for each part. A message
that is still being recorded is read as far as its rows tell, and again when they have changed.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import msgspec

from threadkeep.chat.records import UNTITLED
from threadkeep.chat.wire.protocol import normalize_part
from threadkeep.knowledge.records import Entry, Kind, Role, SessionFacts, Usage
from threadkeep.sources.common import describe_input, number, pictures, rows, table, text
from threadkeep.sources.own import (
    STAMP,
    Before,
    OwnDatabase,
    OwnPlace,
    OwnStoreRecord,
    Place,
    Row,
    SessionParser,
    excerpt_of,
    files_of,
    find_databases,
    frame_of,
    items_of,
    line,
    moment,
    open_own,
    read_safely,
    row_of,
    said,
    table_rows,
)
from threadkeep.sources.records import DocumentItem, Log, Parser, SessionExcerpt, UserHome

_TABLES: Final = {"chat_sessions", "chat_messages", "chat_parts"}
_AS_JSON: Final = frozenset(("model_json", "permissions_json", "metadata_json", "data_json"))
_COMPACTION: Final = "data-compaction"
_ROLES: Final[dict[str, Role]] = {"user": "user", "assistant": "assistant", "system": "system"}
_PLAIN: Final[dict[str, Kind]] = {"user": "prompt", "assistant": "text", "system": "note"}
# Parts that say nothing to a reader.
_SILENT: Final = frozenset(("step-start", "custom", "reasoning-file"))
_ENDED: Final = frozenset(("output-available", "output-error", "output-denied"))

_LATEST_USE: Final = "SELECT max(updated_at) FROM chat_sessions"
# With the sum: of several writers one may commit a time behind another's.
_CHANGES: Final = f"session_id, count(*), max(updated_at), sum(updated_at & {STAMP})"
_LOOKS: Final = (
    f"SELECT {_CHANGES}, max(id) FROM chat_messages GROUP BY session_id",  # noqa: S608
    f"SELECT {_CHANGES} FROM chat_parts GROUP BY session_id",  # noqa: S608
)
# In rows of the three tables a rewind and the compaction of older writers look alike: both hide.
# What a later summary covers was said and stays; the rest was taken back.
_SUMMED_UP: Final = """
SELECT p.session_id, max(m.created_at) FROM chat_parts AS p
JOIN chat_messages AS m ON m.id = p.message_id
WHERE p.session_id = ? AND p.type = 'data-compaction' GROUP BY p.session_id"""
_NEWEST: Final = """
SELECT created_at, id FROM chat_messages WHERE session_id = ?
ORDER BY created_at DESC, id DESC LIMIT 1"""
_LATEST: Final = """
SELECT updated_at FROM chat_messages WHERE id = ?
UNION ALL SELECT max(updated_at) FROM chat_parts WHERE message_id = ?"""
# Messages from one on, those before it (whatever somebody has put into their columns), and what
# belongs to these.
_FROM: Final = "({0}created_at, {0}id) >= (?, ?)"
_OLDER: Final = f"({_FROM.format('')}) IS NOT TRUE"
_NEWER: Final = f"SELECT id FROM chat_messages WHERE session_id = ? AND {_FROM.format('')}"  # noqa: S608
_OF_OLDER: Final = f"message_id NOT IN ({_NEWER})"
_BEHIND: Final = f" AND {_FROM.format('')}"
_OF_BEHIND: Final = f" AND message_id IN ({_NEWER})"
# A change is seen by its time. So what changed last must be older than what a burst of messages may
# be dated ahead, each a millisecond behind the one before it.
_REST_MS: Final = 100
_USED: Final = "sum(input), sum(output), sum(reasoning), sum(cache_read), sum(cache_write)"


class ChatSource:
    """The sessions of chat files whose places are known."""

    agent: Final = "chat"
    kind: Final = "document"

    def __init__(self, paths: Sequence[OwnPlace]) -> None:
        """Look at these places; one that is not there is passed over."""
        self._paths = tuple(paths)

    def roots(self, user: UserHome) -> list[Path]:
        """Name the files, wherever the user's home is."""
        del user
        return files_of(self._paths)

    def find(self, user: UserHome) -> Iterator[Log]:
        """Yield the files that are there."""
        yield from find_databases(self._paths, user, _LATEST_USE)

    def parser(self, log: Log, state: bytes | None) -> Parser:
        """Make a parser that starts afresh, or continues behind a cursor."""
        return SessionParser(log, "Chat", read_record, state)

    def entries(self, record: Any, line: bytes, number: int) -> list[Entry]:  # noqa: ARG002
        """Read one record alone."""
        return list(read_safely(read_record, record).entries)

    def items(self, log: Log) -> Iterable[DocumentItem]:
        """Yield the sessions of a file; a growing message changes the count or a time."""
        with open_own(self._paths or (), log) as database:
            if database.tables() >= _TABLES:
                yield from items_of(database, "chat_sessions", _LOOKS, frozenset())

    def records(self, log: Log, item: str) -> Iterable[tuple[str, bytes]]:
        """Yield the rows of one session, from one snapshot."""
        with self.excerpt(log, item, "") as whole:
            yield from whole.records

    @contextmanager
    def excerpt(self, log: Log, item: str, cursor: str) -> Iterator[SessionExcerpt]:
        """Open a session behind a cursor: its last message as it was, and what came after it."""
        with open_own(self._paths or (), log) as database:
            there = database.tables() >= _TABLES
            yield excerpt_of(_ChatRows(database, item), cursor) if there else SessionExcerpt(())


# ---------------------------------------------------------------------- rows


class _ChatRows:
    """The rows of one session of a chat file."""

    def __init__(self, database: OwnDatabase, session_id: str) -> None:
        self._database = database
        self._id = session_id
        self._row: Row = {}
        self._summed: dict[str, tuple[Place, tuple[Any, ...]]] = {}
        self._summed_up = next((row[1] for row in database.rows(_SUMMED_UP, (session_id,))), 0)

    def about(self) -> bytes | None:
        """Write down the session's own row."""
        found = next(table_rows(self._database, "chat_sessions", "WHERE id = ?", (self._id,)), None)
        if found is None:
            return None
        self._row = row_of(found, _AS_JSON)
        return line(type="session", session=self._id, row=self._row)

    def newest(self) -> Place | None:
        """Find the last message; None if its time is none."""
        for at, message_id in self._database.rows(_NEWEST, (self._id,)):
            if isinstance(at, int) and isinstance(message_id, str):
                return at, message_id
        return None

    def before(self, place: Place) -> Before:
        """Sum up the messages before one, their parts and usage, and what all records tell.

        A part that takes the place of another has a later id, even in the same millisecond.
        """
        messages = self._sums("chat_messages", _OLDER, place, ("hidden_at",))
        parts = self._sums("chat_parts", _OF_OLDER, place, ("continuation_run_id",))
        usage: tuple[Any, ...] = ()
        if "tk_usage" in self._database.tables():
            sql = f"SELECT count(*), {_USED} FROM tk_usage WHERE session_id = ? AND {_OF_OLDER}"  # noqa: S608
            usage = next(self._database.rows(sql, (self._id, self._id, *place)))
        hides = messages[4:] != (0,)
        told = [self._row.get(name) for name in ("parent_id", "created_at")]
        whole = (_facts(_plain(self._row)), told, self._summed_up if hides else None)
        latest = self._latest(place)
        rests = (sums[2] is None or latest - sums[2] > _REST_MS for sums in (messages, parts))
        settled = all(rests)
        return Before((messages, parts, usage, repr(whole)), settled)

    def _sums(self, name: str, which: str, place: Place, marks: Sequence[str]) -> tuple[Any, ...]:
        there = self._database.columns(name)
        counts = "".join(f", count({mark})" for mark in marks if mark in there)
        sql = (
            f"SELECT count(*), max(id), max(updated_at), sum(updated_at & {STAMP}){counts}"  # noqa: S608
            f" FROM {name} WHERE {{}}session_id = ? AND {which}"
        )
        more = (self._id,) if which is _OF_OLDER else ()
        where = (self._id, *more, *place)
        known, sums = self._summed.get(name), None
        if known is not None and known[0] <= place:  # only what has come since is new
            # Parts are found by their messages: the index of the session has all of them.
            behind, by = (_OF_BEHIND, "+") if more else (_BEHIND, "")
            since = (*where, *more, *known[0])
            sums = _added(known[1], next(self._database.rows(sql.format(by) + behind, since)))
        if sums is None:
            sums = next(self._database.rows(sql.format(""), where))
        self._summed[name] = place, sums
        return sums

    def _latest(self, place: Place) -> int:
        """Return when a message or one of its parts was last changed."""
        found = self._database.rows(_LATEST, (place[1], place[1]))
        return max((number(row[0]) for row in found), default=0)

    def messages(self, first: Place | None) -> Iterator[tuple[str, bytes]]:
        """Yield each message, with its parts behind it."""
        usage = self._usage(first)
        parts = groupby(self._parts(first), key=itemgetter("message_id"))
        waiting = next(parts, None)
        for message in self._messages(first):
            message_id, about = message["id"], _about(message, self._row, self._summed_up)
            spent = {} if usage is None else {"usage": usage.get(message_id)}
            frame = {"session": self._id, **about}
            yield f"message:{message_id}", line(type="message", row=message, **frame, **spent)
            if waiting is not None and waiting[0] == message_id:
                frame |= {"role": message.get("role"), "at": message.get("created_at")}
                for part in waiting[1]:
                    yield f"part:{part['id']}", line(type="part", row=part, **frame)
                waiting = next(parts, None)

    def _usage(self, first: Place | None) -> dict[str, Row] | None:
        """Return the usage that counts by message; None if the file only has what streams say."""
        if "tk_usage" not in self._database.tables():
            return None
        found = self._joined("tk_usage", first)
        return {row["message_id"]: row for row in found}

    def _messages(self, first: Place | None) -> Iterator[Row]:
        behind = "" if first is None else f"AND {_FROM.format('')}"
        own = f"WHERE session_id = ? {behind} ORDER BY created_at, id"
        for row in table_rows(self._database, "chat_messages", own, (self._id, *(first or ()))):
            yield row_of(row, _AS_JSON)

    def _parts(self, first: Place | None) -> Iterator[Row]:
        order = 'ORDER BY m.created_at, m.id, chat_parts."index", chat_parts.id'
        for row in self._joined("chat_parts", first, order):
            yield row_of(row, _AS_JSON)

    def _joined(self, name: str, first: Place | None, order: str = "") -> Iterator[Row]:
        """Yield what belongs to the messages of the session, from one on."""
        behind = "" if first is None else f"AND {_FROM.format('m.')}"
        own = f"JOIN chat_messages AS m ON m.id = {name}.message_id WHERE m.session_id = ? {behind}"
        yield from table_rows(self._database, name, f"{own} {order}", (self._id, *(first or ())))


def _added(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Put the sums of two sets of rows together; None where only a database could compare them."""
    if other[0] == 0 or one[0] == 0:
        return other if one[0] == 0 else one
    most = [*zip(one[1:3], other[1:3], strict=True)]
    if any(type(left) is not type(right) or left is None for left, right in most):
        return None
    counts = [left + right for left, right in zip(one[3:], other[3:], strict=True)]
    return (one[0] + other[0], *(max(pair) for pair in most), *counts)


def _plain(row: Row) -> Row:
    """Return a row as it is read back from its line."""
    return {
        name: msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else value
        for name, value in row.items()
    }


def _about(message: Row, session: Row, summed_up: object) -> Row:
    """Tell what a part needs of its message: the model, and whether it was taken back or copied."""
    metadata = _decoded(message.get("metadata_json"))
    hidden = message.get("hidden_at", metadata.get("hidden_at"))
    created = number(message.get("created_at"))
    about: Row = {}
    if message.get("role") == "assistant":
        known = _model(metadata.get("model")) or _model(_decoded(session.get("model_json")))
        about["model"] = known
    if hidden is not None and created >= number(summed_up):
        about["rewound"] = True
    if session.get("parent_id") is not None and created < number(session.get("created_at")):
        about["copied"] = True
    return about


def _decoded(value: object) -> Row:
    return table(msgspec.json.decode(value)) if isinstance(value, msgspec.Raw) else {}


# ---------------------------------------------------------------------- records to entries


def read_record(record: Any) -> OwnStoreRecord:
    """Read one record of a chat file."""
    kind, session_id, row, whole = frame_of(record)
    if not session_id:
        return OwnStoreRecord(unknown="no session")
    if kind == "session":
        return OwnStoreRecord(session_id, facts=_facts(row))
    if kind == "message":
        return _read_message(session_id, row, whole)
    if kind == "part":
        return _read_part(session_id, row, whole)
    return OwnStoreRecord(unknown=kind or "no type")


def _facts(row: Row) -> SessionFacts:
    return SessionFacts(
        parent_session_id=text(row.get("parent_id")),
        title=_title(row),
        agent=text(row.get("agent")),
        model=_model(row.get("model_json")),
        cwd=text(row.get("workspace_root")),
        hidden=table(row.get("metadata_json")).get("ephemeral") is True,
    )


def _title(row: Row) -> str:
    """Return the title; what is in the file of an untitled session is none."""
    title = text(row.get("title"))
    return "" if title == UNTITLED else title


def _model(value: object) -> str:
    model = table(value)
    return text(model.get("model_id")) or text(model.get("tier"))


def _read_message(session_id: str, row: Row, whole: Row) -> OwnStoreRecord:
    said_itself = table(row.get("metadata_json")).get("usage")
    spent = table(whole.get("usage", said_itself))
    message_id, copied = text(row.get("id")), whole.get("copied") is True
    if copied or not spent or not message_id or row.get("role") != "assistant":
        return OwnStoreRecord(session_id, copied=copied)
    reasoning = number(spent.get("reasoning"))
    usage = Usage(
        key=message_id,
        at=moment(row.get("created_at")),
        model=text(whole.get("model")),
        input=number(spent.get("input")),
        output=number(spent.get("output")) + reasoning,
        cache_read=number(spent.get("cache_read")),
        cache_write=number(spent.get("cache_write")),
        reasoning=reasoning,
        session_id=session_id,
    )
    return OwnStoreRecord(session_id, usage=[usage])


def _read_part(session_id: str, row: Row, whole: Row) -> OwnStoreRecord:
    part, key = normalize_part(table(row.get("data_json"))), text(row.get("id"))
    kind = text(row.get("type")) or text(part.get("type"))
    if not key:
        return OwnStoreRecord(unknown="part without an id")
    role = _ROLES.get(text(whole.get("role")), "system")
    entry = Entry(key, role, "note", moment(whole.get("at")), "", session_id)
    entry.model = text(whole.get("model"))
    entries = _entries(kind, part, entry)
    if entries is None:
        return OwnStoreRecord(session_id, unknown=f"part/{kind}")
    if whole.get("rewound") is True:
        for found in entries:
            found.kind = "note"
    return OwnStoreRecord(session_id, entries, copied=whole.get("copied") is True)


def _entries(kind: str, part: Row, entry: Entry) -> list[Entry] | None:
    """Return what a part says, on the pattern of an entry; None for a type that is not known."""
    if kind == "text":
        entry.kind, entry.text = _PLAIN[entry.role], text(part.get("text"))
    elif kind == "reasoning":
        entry.kind, entry.text = "reasoning", text(part.get("text"))
    elif kind == "steering-message":
        return _steering(part, entry)
    elif kind == "dynamic-tool" or kind.startswith("tool-"):
        return _tool(kind, part, entry)
    elif kind == _COMPACTION:
        entry.kind, entry.text = "summary", _summary(part)
    elif kind == "file":
        entry.text, entry.images = _file(part), pictures([part])
    elif kind in ("source-url", "source-document"):
        entry.text = " ".join(filter(None, (text(part.get("title")), text(part.get("url")))))
    elif kind.startswith("data-") or kind in _SILENT:
        return []
    else:
        return None
    return [entry] if entry.text else []


def _tool(kind: str, part: Row, entry: Entry) -> list[Entry]:
    name = text(part.get("toolName")) if kind == "dynamic-tool" else kind.removeprefix("tool-")
    entry.kind, entry.tool, entry.call_id = "tool_call", name, text(part.get("toolCallId"))
    entry.input = part.get("input", part.get("rawInput"))
    entry.text = describe_input(entry.input)
    state = text(part.get("state"))
    if state not in _ENDED:
        return [entry]
    result = Entry(f"{entry.key}#1", "tool", "tool_result", entry.at, "", entry.session_id)
    result.tool, result.call_id, result.error = name, entry.call_id, state != "output-available"
    output = part.get("output")
    result.text = text(part.get("errorText")) if result.error else said(output)
    inside = table(output)
    result.images = pictures(rows(output) or inside.get("content", inside.get("value")))
    return [entry, result]


def _steering(part: Row, pattern: Entry) -> list[Entry]:
    """What the user said in the middle of the reply is the user's; its parts are like others."""
    entries: list[Entry] = []
    for place, inside in enumerate(rows(part.get("parts"))):
        said_part, key = table(inside), f"{pattern.key}#{place}"
        own = Entry(key, "user", "note", pattern.at, "", pattern.session_id)
        entries += _entries(text(said_part.get("type")), said_part, own) or []
    return entries


def _summary(part: Row) -> str:
    """Some writers store the payload itself, without the part around it."""
    return text(table(part.get("data")).get("summary")) or text(part.get("summary"))


def _file(part: Row) -> str:
    kind = text(part.get("mediaType"))
    name = text(part.get("filename"))
    if kind.partition("/")[0] == "image":
        return "[image]"
    return f"[file {name or kind}]".replace(" ]", "]")
