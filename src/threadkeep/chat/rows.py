"""Writing rows of the three tables: always with their content hash, always through here."""

import base64
import binascii
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from threadkeep.base import json
from threadkeep.base.hashes import content_hash
from threadkeep.base.text import from_sql
from threadkeep.base.tx import Row, Sql, Tx
from threadkeep.chat.records import UNTITLED, Json, Message, Session, message_of, session_of
from threadkeep.errors import Conflict, Damaged, NotFound

# ------------------------------------------------------------------------------
# Columns of the three tables as JSON: also those that another program added, whatever they hold.
#
# Values that JSON cannot hold are written as `{"$base64": …}` (bytes) and `{"$real": "inf"}`. In
# our own columns a blob is a text that UTF-8 cannot hold (see `to_sql`).

BYTES, REAL = "$base64", "$real"


def quoted(name: str) -> str:
    """Quote a column's name for SQL; it comes from the file, and may be anything."""
    return '"' + name.replace('"', '""') + '"'


def as_json(value: Any, *, ours: bool) -> Any:
    """Return a column's value as JSON can hold it."""
    if isinstance(value, bytes):
        try:
            if ours:
                return from_sql(value)
        except UnicodeDecodeError:
            pass
        return {BYTES: base64.b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return {REAL: str(value)}
    return value


def as_column(value: Any) -> Any:
    """Return what SQLite is to store for a JSON value, None if it has no type for it."""
    if isinstance(value, dict) and len(value) == 1:
        return _untagged(*next(iter(value.items())))
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else None
    return value if isinstance(value, (str, float)) else None


def _untagged(tag: str, value: Any) -> bytes | float | None:
    try:
        if tag == BYTES:
            return base64.b64decode(value, validate=True)
        return float(value) if tag == REAL else None
    except (TypeError, ValueError, binascii.Error):
        return None


SESSION, MESSAGE, PART = "session", "message", "part"
# What an export calls a chunk of an unknown type; it has a row of the journal, and no table.
CHUNK = "chunk"
TABLES = {SESSION: "chat_sessions", MESSAGE: "chat_messages", PART: "chat_parts"}
# Longer text has overflow pages of its own.
_ONE_PAGE = 4096
_GET = {SESSION: "get_session", MESSAGE: "get_message", PART: "get_part"}

# The columns we know, in the order of the queries; the hash is taken over exactly these.
COLUMNS: dict[str, tuple[str, ...]] = {
    SESSION: (
        *("id", "agent", "workspace_root", "model_json", "parent_id", "parent_message_id"),
        *("permissions_json", "metadata_json", "prompt_tokens", "completion_tokens"),
        *("reasoning_tokens", "cache_read", "cache_write", "total_tokens", "cost_usd"),
        *("created_at", "updated_at", "archived_at", "title", "workspace_id", "mode"),
    ),
    MESSAGE: (
        *("id", "session_id", "role", "metadata_json", "created_at", "updated_at", "hidden_at"),
    ),
    PART: (
        *("id", "message_id", "session_id", "index", "type", "data_json", "tool_call_id"),
        *("tool_state", "created_at", "updated_at", "continuation_run_id"),
    ),
    CHUNK: ("session_id", "message_id", "data_json", "created_at"),
}


class PartRow(NamedTuple):
    """A row of chat_parts."""

    id: str
    message_id: str
    session_id: str
    position: int
    type: str
    data_json: str
    tool_call_id: str | None
    tool_state: str | None
    created_at: int
    updated_at: int
    continuation_run_id: str | None = None


def rehash(tx: Tx, kind: str, row_id: str) -> None:
    """Hash a row as it is stored now."""
    row = tx.one(_GET[kind], {"id": row_id})
    if row is not None:
        _put_hash(tx, kind, row_id, content_hash(*row))


def check_hash(tx: Tx, kind: str, row: Row) -> None:
    """Compare a row (of a query that gives all its columns) with its hash, if it has one.

    Whoever writes a row again must look first: the new hash would hide old damage forever.
    """
    expected = tx.value("get_hash", {"kind": kind, "id": row[0]})
    if expected is not None and content_hash(*row) != expected:
        msg = f"the {kind} {from_sql(row[0])!r} has changed since it was written"
        raise Damaged(msg, hint="restore a backup with `threadkeep restore`")


def _put_hash(tx: Tx, kind: str, row_id: str, value: str) -> None:
    tx.run("put_hash", {"kind": kind, "id": row_id, "hash": value})


def part_row(
    part: Mapping[str, Any],
    data_json: str,
    *,
    part_id: str,
    message_id: str,
    session_id: str,
    position: int,
    created_at: int,
    updated_at: int,
    continuation_run_id: str | None = None,
) -> PartRow:
    """Make the row of a part; what the queries need is lifted out of its JSON."""
    call, state = part.get("toolCallId"), part.get("state")
    is_tool = isinstance(call, str)
    return PartRow(
        part_id,
        message_id,
        session_id,
        position,
        str(part["type"]),
        data_json,
        call if is_tool else None,
        state if is_tool and isinstance(state, str) else None,
        created_at,
        updated_at,
        continuation_run_id,
    )


def revised_row(row: Row, part: Mapping[str, Any], data_json: str, at: int) -> PartRow:
    """Make the row of a part that is stored already (a row of the query `get_part`) again."""
    return part_row(
        part,
        data_json,
        part_id=from_sql(row[0]),
        message_id=from_sql(row[1]),
        session_id=from_sql(row[2]),
        position=row[3],
        created_at=row[8],
        updated_at=at,
        continuation_run_id=row[10],
    )


def insert_part(tx: Tx, row: PartRow) -> None:
    """Add a part."""
    tx.run("insert_part", row._asdict())
    _put_hash(tx, PART, row.id, content_hash(*row))


def update_part(tx: Tx, row: PartRow) -> bool:
    """Write a part again, whole; False if it is no longer there."""
    if len(row.data_json) > _ONE_PAGE:
        # SQLite takes pages for the new text before it frees those of the old one, and wipes
        # these: twice the pages. Freed first, they are used again (249 -> 126 KB for 100 KB).
        tx.run("update_part", row._replace(data_json="")._asdict())
    if tx.count("update_part", row._asdict()) == 0:
        return False
    _put_hash(tx, PART, row.id, content_hash(*row))
    return True


def insert_message(
    tx: Tx,
    *,
    message_id: str,
    session_id: str,
    role: str,
    metadata: Json,
    created_at: int,
    hidden_at: int | None = None,
) -> Message:
    """Add a message without parts."""
    text = json.encode(metadata)
    row = (message_id, session_id, role, text, created_at, created_at, hidden_at)
    tx.run("insert_message", dict(zip(COLUMNS[MESSAGE], row, strict=True)))
    _put_hash(tx, MESSAGE, message_id, content_hash(*row))
    return message_of(row)


def set_message_metadata(tx: Tx, message_id: str, metadata: Json, now: int) -> None:
    """Write a message's metadata."""
    params = {"id": message_id, "metadata_json": json.encode(metadata), "now": now}
    tx.run("set_message_metadata", params)
    rehash(tx, MESSAGE, message_id)


def touch_session(tx: Tx, session_id: str, now: int) -> None:
    """Move a session to the top of the list."""
    tx.run("touch_session", {"id": session_id, "now": now})
    rehash(tx, SESSION, session_id)


def need_session(tx: Tx, session_id: str) -> Session:
    """Return a session, or say that there is none of that id."""
    row = tx.one("get_session", {"id": session_id})
    if row is None:
        raise _no_session(session_id)
    return session_of(row)


def _no_session(session_id: str) -> NotFound:
    msg = f"there is no session {session_id!r}"
    return NotFound(msg, hint="`threadkeep chat ls --all` lists the sessions")


def need_message(tx: Tx, session_id: str, message_id: str) -> Message:
    """Return a message of a session; a message of another session is refused."""
    row = tx.one("get_message", {"id": message_id})
    if row is None:
        msg = f"there is no message {message_id!r} in session {session_id!r}"
        raise NotFound(msg, hint="`threadkeep chat show` lists the messages of a session")
    message = message_of(row)
    if message.session_id != session_id:
        raise foreign_message(message_id, message.session_id, session_id)
    return message


def foreign_message(message_id: str, owner: str, session_id: str) -> Conflict:
    """Make the error for a message id that lives in another session."""
    msg = f"message {message_id!r} belongs to session {owner!r}, not to {session_id!r}"
    return Conflict(msg, hint="use an id of this session, or let the store make a new one")


def next_message_time(tx: Tx, session_id: str, now: int) -> int:
    """Return a time after every message of the session, so that time order is insertion order."""
    row = tx.one("newest_message_time", {"session_id": session_id})
    if row is None:
        raise _no_session(session_id)
    return now if row[0] is None else max(now, row[0] + 1)


def image(tx: Tx, kind: str, row_id: str) -> Json | None:
    """Return a row with every column that the file has, known to us or not; None if it is gone."""
    names = tx.columns(TABLES[kind])
    columns = ", ".join(map(quoted, names))
    sql = f'SELECT {columns} FROM "{TABLES[kind]}" WHERE id = :id'  # noqa: S608  (the file's names)
    row: Row | None = tx.one(Sql(sql), {"id": row_id})
    if row is None:
        return None
    known = COLUMNS[kind]
    return {
        name: as_json(value, ours=name in known) for name, value in zip(names, row, strict=True)
    }


def put_image(tx: Tx, kind: str, row: Json) -> None:
    """Write a row from its image over the row of the same id, in the columns the file has."""
    if kind == SESSION and row.get("title") is None:
        row = {**row, "title": UNTITLED}  # an event of an older version
    names = [name for name in tx.columns(TABLES[kind]) if name in row]
    columns = ", ".join(map(quoted, names))
    marks = ", ".join(f":v{place}" for place, _ in enumerate(names))
    updates = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in names)
    sql = (
        f'INSERT INTO "{TABLES[kind]}"({columns}) VALUES ({marks})'  # noqa: S608
        f" ON CONFLICT(id) DO UPDATE SET {updates}"
    )
    values = {f"v{place}": as_column(row[name]) for place, name in enumerate(names)}
    tx.run(Sql(sql), values)
    rehash(tx, kind, row["id"])
