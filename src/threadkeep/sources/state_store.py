"""State files as a source: Hermes Agent's own, of any version, and ours of the same contract.

One record for the session with its usage, then one for each message. Columns are taken as the file
has them: they grew from thirteen to several dozen, and continue growing.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from heapq import merge
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import msgspec

from threadkeep.knowledge.records import Entry, SessionFacts, Usage
from threadkeep.sources.common import describe_input, iso_ms, number, pictures, rows, table, text
from threadkeep.sources.folders import folders_in
from threadkeep.sources.own import (
    Before,
    OwnDatabase,
    OwnPlace,
    OwnStoreRecord,
    Place,
    Row,
    SessionParser,
    embed,
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
from threadkeep.state.side_values import checked_text, read_pieces, rebuild

_TABLES: Final = {"sessions", "messages"}
_AS_JSON: Final = frozenset(
    (
        *("tool_calls", "reasoning_details", "codex_reasoning_items", "codex_message_items"),
        *("model_config", "origin_json", "display_metadata", "tool_names"),
    )
)
_IMPORTED: Final = "kind = 'import:hermes'"  # of the numbers that messages have elsewhere
_OF_SESSION: Final = "WHERE session_id = ?"
_LISTS: Final = "\0json:"  # before content that is a list of blocks
_LARGE: Final = frozenset(("system_prompt", "model_config"))  # never changed alone
_SUMMARIES: Final = ("[CONTEXT COMPACTION", "[CONTEXT SUMMARY]")
# What the program says to the model in the user's name.
_NOTICES: Final = (
    "[ASYNC DELEGATION",
    "[Continuing toward your standing goal]",
    "[IMPORTANT: Background process",
    "[PRIOR CONTEXT",
    "[Your active task list was preserved",
)
_LATEST_USE: Final = "SELECT CAST(max(started_at) * 1000 AS bigint) FROM sessions"
_COUNTS: Final = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
# Tables that split a session's usage, and the columns that tell their rows apart.
_SPLIT: Final = {
    "tk_usage": ("day", "model"),
    "session_model_usage": ("model", "billing_provider", "billing_mode", "task"),
}


class StateSource:
    """The sessions of state files: those named, or Hermes's own in its usual places."""

    kind: Final = "document"

    def __init__(
        self,
        paths: Sequence[OwnPlace] | None = None,
        agent: str = "state",
        *,
        imported: bool = False,
    ) -> None:
        """Look at these files; without any, at Hermes's of the user.

        With `imported` only at what was imported from there, else at all but that: a session that
        is in two files is one, and what was said in either is part of it.
        """
        self.agent: Final = agent
        self._paths = paths
        self._imported = imported

    def roots(self, user: UserHome) -> list[Path]:
        """Name the files; of Hermes its folder, where profiles come and go."""
        return [_hermes_home(user)] if self._paths is None else files_of(self._paths)

    def find(self, user: UserHome) -> Iterator[Log]:
        """Yield the files that are there."""
        if self._paths is None:
            yield from find_databases(_hermes_files(user), user, _LATEST_USE, is_root=False)
        else:
            yield from find_databases(self._paths, user, _LATEST_USE)

    def parser(self, log: Log, state: bytes | None) -> Parser:
        """Make a parser that starts afresh, or continues behind a cursor."""
        return SessionParser(log, self.agent.title(), read_record, state)

    def entries(self, record: Any, line: bytes, number: int) -> list[Entry]:  # noqa: ARG002
        """Read one record alone."""
        return list(read_safely(read_record, record).entries)

    def items(self, log: Log) -> Iterable[DocumentItem]:
        """Yield the sessions of a file; messages are only added, or replaced by new ones."""
        with open_own(self._paths or (), log) as database:
            if database.tables() >= _TABLES:
                imported = _imported(database)
                for item in items_of(database, "sessions", _looks(database.tables()), _LARGE):
                    if (item.item in imported) is self._imported:
                        yield item

    def records(self, log: Log, item: str) -> Iterable[tuple[str, bytes]]:
        """Yield the rows of one session, from one snapshot."""
        with self.excerpt(log, item, "") as whole:
            yield from whole.records

    @contextmanager
    def excerpt(self, log: Log, item: str, cursor: str) -> Iterator[SessionExcerpt]:
        """Open a session behind a cursor: its last message as it was, and what came after it."""
        with open_own(self._paths or (), log) as database:
            there = database.tables() >= _TABLES
            yield excerpt_of(_StateRows(database, item), cursor) if there else SessionExcerpt(())


def _hermes_home(user: UserHome) -> Path:
    named = user.env.get("HERMES_HOME", "")
    if named == "~" or named.startswith("~/"):
        return user.home / named[2:]
    return Path(named) if named else user.home / ".hermes"


def _hermes_files(user: UserHome) -> list[Path]:
    home = _hermes_home(user)
    profiles = folders_in(home / "profiles", user)
    return [home / "state.db", *(profile / "state.db" for profile in profiles)]


SOURCE: Final = StateSource(agent="hermes")


# ---------------------------------------------------------------------- rows


def _looks(tables: set[str]) -> Iterator[str]:
    """Give the queries that tell whether anything came or went; those of messages read an index."""
    yield (
        "SELECT session_id, count(*), max(id), sum(id), max(timestamp)"
        " FROM messages GROUP BY session_id"
    )
    if "tk_rewound" in tables:
        yield "SELECT session_id, count(*), sum(id) FROM tk_rewound GROUP BY session_id"
    if "tk_relations" in tables:
        yield "SELECT session_id, kind FROM tk_relations"
    if "tk_keys" in tables:
        yield f"SELECT session_id, count(*) FROM tk_keys WHERE {_IMPORTED} GROUP BY session_id"  # noqa: S608
    for name in sorted(tables & _SPLIT.keys()):
        sums = "SELECT session_id, count(*), sum(input_tokens), sum(output_tokens)"
        yield f"{sums} FROM {name} GROUP BY session_id"


def _imported(database: OwnDatabase) -> set[Any]:
    """Name the sessions of our own store that were imported: they are their program's."""
    if "tk_keys" not in database.tables():
        return set()
    sql = f"SELECT DISTINCT session_id FROM tk_keys WHERE {_IMPORTED}"  # noqa: S608
    return {row[0] for row in database.rows(sql)}


class _StateRows:
    """The rows of one session of a state file."""

    def __init__(self, database: OwnDatabase, session_id: str) -> None:
        self._database = database
        self._id = session_id
        self._tables = database.tables()
        self._facts = SessionFacts()
        self._imported = session_id in _imported(database)

    def about(self) -> bytes | None:
        """Write down the session's own row, with its usage and how it relates to its parent."""
        found = next(table_rows(self._database, "sessions", "WHERE id = ?", (self._id,)), None)
        if found is None:
            return None
        frame: Row = {"session": self._id, "row": row_of(found, _AS_JSON)}
        frame |= {"imported": True} if self._imported else {}
        frame["usage"] = [
            {**row_of(use), "key": "/".join(str(use.get(column) or "") for column in apart)}
            for name, apart in _SPLIT.items()
            if name in self._tables
            for use in table_rows(self._database, name, _OF_SESSION, (self._id,))
        ]
        if "tk_relations" in self._tables:
            related = table_rows(self._database, "tk_relations", _OF_SESSION, (self._id,))
            frame["relation"] = next((text(known["kind"]) for known in related), "")
        self._facts = _facts(found, text(frame.get("relation")))
        return line(type="session", **frame)

    def newest(self) -> Place | None:
        """Find the last message, and let all that were taken back stand before it."""
        sql = "SELECT max(id) FROM messages WHERE session_id = ?"
        for (newest,) in self._database.rows(sql, (self._id,)):
            if isinstance(newest, int):
                return newest, str(newest)
        return None

    def before(self, place: Place) -> Before:
        """Sum up the messages before one, all that were taken back, and the session's facts."""
        there = self._database.columns("messages")
        flags = "".join(f", sum({one})" for one in ("active", "compacted") if one in there)
        sql = f"SELECT count(*), sum(id){flags} FROM messages WHERE session_id = ? AND id < ?"  # noqa: S608
        sums = [next(self._database.rows(sql, (self._id, place[0])))]
        if "tk_rewound" in self._tables:
            taken_back = "SELECT count(*), sum(id) FROM tk_rewound WHERE session_id = ?"
            sums += self._database.rows(taken_back, (self._id,))
        return Before((*sums, self._imported, repr(self._facts)))

    def messages(self, first: Place | None) -> Iterator[tuple[str, bytes]]:
        """Yield the messages, those that were taken back among them."""
        least = -(1 << 63) if first is None else first[0]
        keys = self._keys(least)
        there, rewound = self._messages(least), self._rewound(least)
        for message in merge(there, rewound, key=itemgetter("id")):
            more: Row = {"rewound": True} if message.pop("rewound_at", None) is not None else {}
            if self._imported:  # one said here must not be taken for another one's with its number
                more["key"] = keys.get(message["id"], f"here-{message['id']}")
            key = f"message:{message['id']}"
            yield key, line(type="message", session=self._id, row=message, **more)

    def _keys(self, least: int) -> dict[Any, str]:
        """Return the numbers that imported messages have in their own program, by ours."""
        if not self._imported:
            return {}
        sql = (
            "SELECT message_id, key FROM tk_keys"  # noqa: S608
            f" WHERE session_id = ? AND message_id >= ? AND {_IMPORTED}"
        )
        return dict(self._database.rows(sql, (self._id, least)))

    def _messages(self, least: int) -> Iterator[Row]:
        apart = self._kept_apart(least)
        own = f"{_OF_SESSION} AND id >= ? ORDER BY id"
        for row in table_rows(self._database, "messages", own, (self._id, least)):
            for field, pieces in apart.get(row["id"], {}).items():
                row[field] = _whole(self._database, row.get(field), pieces)
            yield _message_row(row)

    def _rewound(self, least: int) -> Iterator[Row]:
        """Return the messages that our own store keeps out of the way after a rewind."""
        if "tk_rewound" in self._tables:
            own, hashes = f"{_OF_SESSION} AND id >= ? ORDER BY id", frozenset(("hash", "exact"))
            named = (self._id, least)
            for row in table_rows(self._database, "tk_rewound", own, named, without=hashes):
                yield _message_row(row)

    def _kept_apart(self, least: int) -> dict[Any, dict[str, str]]:
        """Find what our own store has moved out of messages: the archive wants it whole."""
        if "tk_offloaded" not in self._tables:
            return {}
        sql = (
            "SELECT o.message_id, o.field, o.pieces FROM tk_offloaded AS o"
            " JOIN messages AS m ON m.id = o.message_id WHERE m.session_id = ? AND m.id >= ?"
        )
        found: dict[Any, dict[str, str]] = {}
        for message_id, field, pieces in self._database.rows(sql, (self._id, least)):
            found.setdefault(message_id, {})[field] = pieces
        return found


def _message_row(values: Row) -> Row:
    row = row_of(values, _AS_JSON)
    content = row.get("content")
    if isinstance(content, str) and content.startswith(_LISTS):
        row["content"] = embed(content.removeprefix(_LISTS))
    return row


def _whole(database: OwnDatabase, column: Any, pieces: str) -> Any:
    """Put a column together again; where a blob is lost or damaged its marker stays."""
    sql = "SELECT codec, data FROM tk_blobs WHERE hash = ?"
    try:
        parts = read_pieces(pieces)
        texts = {
            name: checked_text(name, *next(database.rows(sql, (name,)), (None, None)))
            for name in {part.hash for part in parts}
        }
        return rebuild(column, parts, texts)
    except ValueError:
        return column


# ---------------------------------------------------------------------- records to entries


def read_record(record: Any) -> OwnStoreRecord:
    """Read one record of a state file."""
    kind, session_id, row, whole = frame_of(record)
    if not session_id:
        return OwnStoreRecord(unknown="no session")
    if kind == "session":
        facts = _facts(row, text(whole.get("relation")))
        return OwnStoreRecord(session_id, facts=facts, usage=_usage(session_id, row, whole))
    if kind == "message":
        return _read_message(session_id, row, whole)
    return OwnStoreRecord(unknown=kind or "no type")


def _facts(row: Row, relation: str) -> SessionFacts:
    source = text(row.get("source"))
    return SessionFacts(
        parent_session_id=text(row.get("parent_session_id")),
        is_subagent=relation == "delegate" or source == "subagent",
        title=text(row.get("title")),
        agent=text(row.get("profile_name")) or source,
        model=text(row.get("model")),
        cwd=text(row.get("cwd")),
        git_branch=text(row.get("git_branch")),
        hidden=row.get("hidden") in (1, True),
    )


def _usage(session_id: str, row: Row, whole: Row) -> list[Usage]:
    """Return usage by model where the file has it, else the session's own sums.

    What an imported session took before it was imported is counted in its own program, too.
    """
    split = [table(use) for use in rows(whole.get("usage"))]
    if whole.get("imported") is True:
        rest = {name: _beyond(name, row, split) for name in (*_COUNTS, "reasoning_tokens")}
        use = _use(session_id, {"model": row.get("model"), **rest, "key": "imported"}, row)
        use.stands_in = True
        return [
            *(_use(session_id, one, row) for one in split),
            *([use] if any(rest.values()) else []),
        ]
    if not split and any(number(row.get(name)) for name in _COUNTS):
        split = [{**row, "key": text(row.get("model"))}]
    return [_use(session_id, use, row) for use in split]


def _beyond(name: str, row: Row, split: list[Row]) -> int:
    """Return how much of a session's sum its parts do not tell of."""
    return max(0, number(row.get(name)) - sum(number(use.get(name)) for use in split))


def _use(session_id: str, use: Row, row: Row) -> Usage:
    # A use of a day has no other time: noon is on that day in nearly every zone.
    at = iso_ms(f"{text(use.get('day'))}T12:00:00") if use.get("day") else None
    times = (use.get("last_seen"), row.get("ended_at"), row.get("started_at"))
    return Usage(
        key=f"{session_id}/{text(use.get('key'))}",
        at=at or next(filter(None, map(_seconds, times)), None),
        model=text(use.get("model")) or text(row.get("model")),
        input=number(use.get("input_tokens")),
        output=number(use.get("output_tokens")),
        cache_read=number(use.get("cache_read_tokens")),
        cache_write=number(use.get("cache_write_tokens")),
        reasoning=number(use.get("reasoning_tokens")),
        session_id=session_id,
    )


def _seconds(value: object) -> int | None:
    return moment(value * 1000) if isinstance(value, (int, float)) else None


def _read_message(session_id: str, row: Row, whole: Row) -> OwnStoreRecord:
    key, role = whole.get("key", row.get("id")), text(row.get("role"))
    if not isinstance(key, (int, str)):
        return OwnStoreRecord(unknown="message without an id")
    entry = Entry(str(key), "system", "note", _seconds(row.get("timestamp")), "", session_id)
    entries = _entries(role, row, entry)
    if entries is None:
        return OwnStoreRecord(session_id, unknown=f"message/{role}")
    if whole.get("rewound") is True or (row.get("active") == 0 and not row.get("compacted")):
        for found in entries:
            found.kind = "note"
    return OwnStoreRecord(session_id, entries)


def _entries(role: str, row: Row, entry: Entry) -> list[Entry] | None:
    entry.text, entry.images = said(row.get("content")), pictures(row.get("content"))
    if role == "assistant":
        return _assistant(row, entry)
    if role == "user":
        entry.role, entry.kind = "user", "prompt"
        if row.get("observed") == 1 or entry.text.startswith(_NOTICES):
            entry.kind = "note"
        elif _is_summary(row, entry.text):
            entry.kind = "summary"
    elif role == "tool":
        entry.role, entry.kind = "tool", "tool_result"
        entry.tool, entry.call_id = text(row.get("tool_name")), text(row.get("tool_call_id"))
        entry.error = entry.text.startswith(('{"error":"', '{"error": "'))
        return [entry]
    elif role not in ("system", "session_meta"):
        return None
    return [entry] if entry.text else []


def _is_summary(row: Row, said_: str) -> bool:
    return bool(row.get("_compressed_summary")) or said_.startswith(_SUMMARIES)


def _assistant(row: Row, entry: Entry) -> list[Entry]:
    entry.role, entry.kind = "assistant", "text"
    if _is_summary(row, entry.text):
        entry.kind = "summary"
    thought = text(row.get("reasoning")) or text(row.get("reasoning_content"))
    found = []
    if thought:
        found.append(Entry("", "assistant", "reasoning", entry.at, thought, entry.session_id))
    if entry.text:
        found.append(entry)
    found += [_call(table(call), entry) for call in rows(row.get("tool_calls"))]
    key = entry.key
    for place, one in enumerate(found):
        one.key = f"{key}#{place}" if place else key
    return found


def _call(call: Row, entry: Entry) -> Entry:
    function = table(call.get("function"))
    found = Entry("", "assistant", "tool_call", entry.at, "", entry.session_id)
    found.tool = text(function.get("name")) or text(call.get("name"))
    found.call_id = text(call.get("id")) or text(call.get("call_id"))
    found.input = _arguments(function.get("arguments", call.get("arguments")))
    found.text = describe_input(found.input)
    return found


def _arguments(given: object) -> object:
    if not isinstance(given, str):
        return given
    try:
        return msgspec.json.decode(given)
    except (msgspec.DecodeError, RecursionError):
        return given
