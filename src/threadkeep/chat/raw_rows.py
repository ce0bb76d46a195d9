"""Whole rows of a session: every column the file has, as an export gives and an import takes them.

A row in JSON has the columns we know in their own order, then the others by name. Values that
JSON cannot hold, in columns that another program added, are written as `{"$base64": …}` (bytes)
and `{"$real": "inf"}`. A column that the file lacks is kept in `tk_extra`, and comes back.
"""

import base64
import binascii
import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from threadkeep.base import json
from threadkeep.base.schema import columns_of
from threadkeep.base.sqlite import Tx
from threadkeep.base.text import from_sql
from threadkeep.chat.journal import unfinished
from threadkeep.chat.records import USAGE_BUCKETS, Json, is_number, message_of, read_object
from threadkeep.chat.rows import COLUMNS, MESSAGE, PART, SESSION, TABLES, part_row, rehash
from threadkeep.chat.views import stored_message

MessageRows = tuple[Json, list[Json]]
BYTES, REAL = "$base64", "$real"

# Our model_json is never NULL; another program's may be. The empty object stands in for it, and
# the NULL is kept in tk_extra.
_MODEL, _NO_MODEL = "model_json", "{}"
_LARGEST_COUNT = 2**53 - 1


class SessionRows(NamedTuple):
    """A session: its row, and each message's row with the rows of its parts."""

    session: Json
    messages: list[MessageRows]


def in_order(kind: str, row: Json) -> Json:
    """Put the columns we know first, the others behind them by name: equal rows look equal."""
    known = COLUMNS[kind]
    others = sorted(name for name in row if name not in known)
    return {name: row[name] for name in (*known, *others) if name in row}


def others_of(kind: str, row: Json) -> Json:
    """Give the columns of a row that we do not know."""
    return {name: value for name, value in row.items() if name not in COLUMNS[kind]}


# ---------------------------------------------------------------------- reading


def load_rows(tx: Tx, session_id: str) -> SessionRows | None:
    """Read all rows of a session, exact up to the last committed chunk; None if it is gone."""
    session = next(_select(tx, SESSION, "WHERE id = ?", session_id), None)
    if session is None:
        return None
    messages = {
        row["id"]: row
        for row in _select(tx, MESSAGE, "WHERE session_id = ? ORDER BY created_at, id", session_id)
    }
    parts: defaultdict[str, list[Json]] = defaultdict(list)
    own = (
        "WHERE message_id IN (SELECT id FROM chat_messages WHERE session_id = ?)"
        ' ORDER BY message_id, "index"'
    )
    for row in _select(tx, PART, own, session_id):
        parts[row["message_id"]].append(row)
    _add_journal(tx, session_id, parts)
    _add_extra(tx, session_id, session, messages, parts)
    ordered = [
        (in_order(MESSAGE, row), [in_order(PART, part) for part in parts[message_id]])
        for message_id, row in messages.items()
    ]
    return SessionRows(in_order(SESSION, session), ordered)


def _select(tx: Tx, kind: str, where: str, session_id: str) -> Iterator[Json]:
    names = columns_of(tx, TABLES[kind])
    columns = ", ".join(map(_quoted, names))
    sql = f'SELECT {columns} FROM "{TABLES[kind]}" {where}'  # noqa: S608  (the file's own names)
    known = [name in COLUMNS[kind] for name in names]
    for row in tx.execute(sql, (session_id,)):
        yield {
            name: _as_json(value, ours=ours)
            for name, value, ours in zip(names, row, known, strict=True)
        }


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _as_json(value: Any, *, ours: bool) -> Any:
    """Give a column's value as JSON can hold it; in our columns a blob is a text (see to_sql)."""
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


def _add_journal(tx: Tx, session_id: str, parts: dict[str, list[Json]]) -> None:
    """Bring the growing parts of unfinished messages up to the last chunk of the journal."""
    for recording in tx.all("session_recordings", {"session_id": session_id}):
        found = tx.one("get_message", {"id": recording[0]})
        if found is None:
            continue
        message = message_of(found)
        exact = unfinished(tx, session_id, stored_message(tx, message), recording[4])
        for place, at in exact.touched.items():
            row, part = parts[message.id][place], exact.state.part(place)
            fresh = part_row(
                part,
                json.encode(part),
                part_id=row["id"],
                message_id=message.id,
                session_id=session_id,
                position=row["index"],
                created_at=row["created_at"],
                updated_at=at,
                continuation_run_id=row["continuation_run_id"],
            )
            row.update(zip(COLUMNS[PART], fresh, strict=True))


def _add_extra(
    tx: Tx,
    session_id: str,
    session: Json,
    messages: dict[str, Json],
    parts: dict[str, list[Json]],
) -> None:
    extra = tx.all("session_extra", {"session_id": session_id})
    if not extra:
        return
    rows = {(PART, part["id"]): part for own in parts.values() for part in own}
    rows |= {(MESSAGE, row_id): row for row_id, row in messages.items()}
    rows[SESSION, session_id] = session
    for kind, row_id, columns_json in extra:
        row = rows[kind, from_sql(row_id)]
        for name, value in read_object(columns_json).items():
            # What somebody has written into a column since then counts more.
            if row.get(name) is None or (name == _MODEL and row[name] == _NO_MODEL):
                row[name] = value


# ---------------------------------------------------------------------- writing


def insert_rows(tx: Tx, rows: SessionRows) -> None:
    """Add a session as it is, every row with its hash; its ids must be free."""
    insert = {kind: _Insert(tx, kind) for kind in TABLES}
    insert[SESSION].add(tx, rows.session)
    for message, parts in rows.messages:
        insert[MESSAGE].add(tx, message)
        for part in parts:
            insert[PART].add(tx, part)
        _put_usage(tx, message)


class _Insert:
    """Adds rows of one kind; the names in its SQL come from the file, never from the rows."""

    def __init__(self, tx: Tx, kind: str) -> None:
        self._kind = kind
        self._names = COLUMNS[kind]
        self._file_has = [name for name in columns_of(tx, TABLES[kind]) if name not in self._names]
        columns = ", ".join(map(_quoted, self._names))
        marks = ", ".join("?" for _ in self._names)
        self._sql = f'INSERT INTO "{TABLES[kind]}"({columns}) VALUES ({marks})'  # noqa: S608

    def add(self, tx: Tx, row: Json) -> None:
        """Add a row with all the columns that we know; the others where there is a place."""
        extra = others_of(self._kind, row)
        values = [row[name] for name in self._names]
        if self._kind == SESSION and row[_MODEL] is None:
            values[self._names.index(_MODEL)] = _NO_MODEL
            extra[_MODEL] = None
        tx.execute(self._sql, values)
        for name in self._file_has:
            if name in extra and self._fill(tx, row["id"], name, extra[name]):
                del extra[name]
        rehash(tx, self._kind, row["id"])
        if extra:
            params = {"kind": self._kind, "id": row["id"], "columns_json": json.encode(extra)}
            tx.run("put_extra", params)

    def _fill(self, tx: Tx, row_id: str, name: str, value: Any) -> bool:
        """Write a column that another program added; False if it does not hold the value as is."""
        table, column = TABLES[self._kind], _quoted(name)
        update = f'UPDATE "{table}" SET {column} = ? WHERE id = ?'  # noqa: S608  (the file's name)
        tx.execute(update, (_as_column(value), row_id))
        select = f'SELECT {column} FROM "{table}" WHERE id = ?'  # noqa: S608
        stored = _as_json(tx.execute(select, (row_id,)).fetchone()[0], ours=False)
        if json.encode(stored) == json.encode(value):
            return True
        tx.execute(update, (None, row_id))
        return False


def _as_column(value: Any) -> Any:
    """Give what SQLite is to store for a JSON value, None if it has no type for it."""
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


def _put_usage(tx: Tx, message: Json) -> None:
    """Usage that a message carries in its metadata counts as recorded; the sums stay as given."""
    usage = read_object(message["metadata_json"]).get("usage")
    if message["role"] != "assistant" or not isinstance(usage, dict):
        return
    params: Json = {name: _count(usage.get(name)) for name in USAGE_BUCKETS}
    ids = {"message_id": message["id"], "session_id": message["session_id"], "cost_usd": 0.0}
    tx.run("put_usage", params | ids)


def _count(value: Any) -> int:
    return int(value) if is_number(value) and 0 < value <= _LARGEST_COUNT else 0
