"""Whole rows of a session: every column the file has, as an export gives and an import takes them.

A row in JSON has the columns we know in their own order, then the others by name. Values that
JSON cannot hold are tagged (see columns.py). A column that the file lacks is kept in `tk_extra`,
and comes back.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from threadkeep.base import json
from threadkeep.base.engines import never_null
from threadkeep.base.text import from_sql
from threadkeep.base.tx import Sql, Tx
from threadkeep.chat import journal
from threadkeep.chat.journal import unfinished
from threadkeep.chat.records import UNTITLED, Json, message_of, read_object, usage_in
from threadkeep.chat.rows import (
    CHUNK,
    COLUMNS,
    MESSAGE,
    PART,
    SESSION,
    TABLES,
    as_column,
    as_json,
    part_row,
    quoted,
    rehash,
)
from threadkeep.chat.views import stored_message

MessageRows = tuple[Json, list[Json]]

# Our model_json is never NULL, and the title in no file; a NULL from another file is kept in
# tk_extra, and this stands in for it.
_STAND_INS = {"model_json": "{}", "title": UNTITLED}


class SessionRows(NamedTuple):
    """A session: its row, and each message's row with the rows of its parts.

    Chunks of unknown types are no parts; they are here by the id of their message.
    """

    session: Json
    messages: list[MessageRows]
    chunks: dict[str, list[Json]]


def in_order(kind: str, row: Json) -> Json:
    """Put the columns we know first, the others behind them by name: equal rows look equal."""
    known = COLUMNS[kind]
    others = sorted(name for name in row if name not in known)
    return {name: row[name] for name in (*known, *others) if name in row}


def others_of(kind: str, row: Json) -> Json:
    """Return the columns of a row that we do not know."""
    return {name: value for name, value in row.items() if name not in COLUMNS[kind]}


# ---------------------------------------------------------------------- reading


def load_rows(tx: Tx, session_id: str) -> SessionRows | None:
    """Read all rows of a session, exact up to the last committed chunk; None if it is gone."""
    session = next(_select(tx, SESSION, "WHERE id = :session_id", session_id), None)
    if session is None:
        return None
    messages = {
        row["id"]: row
        for row in _select(
            tx, MESSAGE, "WHERE session_id = :session_id ORDER BY created_at, id", session_id
        )
    }
    parts: defaultdict[str, list[Json]] = defaultdict(list)
    own = (
        "WHERE message_id IN (SELECT id FROM chat_messages WHERE session_id = :session_id)"
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
    return SessionRows(in_order(SESSION, session), ordered, unknown_chunks(tx, session_id))


def unknown_chunks(tx: Tx, session_id: str) -> dict[str, list[Json]]:
    """Return the chunks of unknown types that a session's messages came with, by message."""
    found: defaultdict[str, list[Json]] = defaultdict(list)
    for row in tx.all("unknown_chunks", {"stream_id": session_id}):
        message_id = from_sql(row[3])
        values = (session_id, message_id, from_sql(row[5]), row[6])
        found[message_id].append(dict(zip(COLUMNS[CHUNK], values, strict=True)))
    return dict(found)


def _select(tx: Tx, kind: str, where: str, session_id: str) -> Iterator[Json]:
    names = tx.columns(TABLES[kind])
    columns = ", ".join(map(quoted, names))
    sql = f'SELECT {columns} FROM "{TABLES[kind]}" {where}'  # noqa: S608  (the file's own names)
    known = [name in COLUMNS[kind] for name in names]
    for row in tx.all(Sql(sql), {"session_id": session_id}):
        yield {
            name: as_json(value, ours=ours)
            for name, value, ours in zip(names, row, known, strict=True)
        }


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
            if row.get(name) in (None, _STAND_INS.get(name)):
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
        for chunk in rows.chunks.get(message["id"], ()):
            put_chunk(tx, message["session_id"], message["id"], chunk)
        _put_usage(tx, message)


def put_rows(tx: Tx, rows: Iterable[tuple[str, Json]]) -> None:
    """Add rows to a session, or put them in the place of those with their ids.

    A message comes before its parts.
    """
    insert = {kind: _Insert(tx, kind, over=True) for kind in TABLES}
    for kind, row in rows:
        if kind == CHUNK:
            put_chunk(tx, row["session_id"], row["message_id"], row)
            continue
        insert[kind].add(tx, row)
        if kind == MESSAGE:
            _put_usage(tx, row)


def put_chunk(tx: Tx, session_id: str, message_id: str, chunk: Json) -> None:
    """Keep a chunk of an unknown type with a message."""
    text, at = chunk["data_json"], chunk["created_at"]
    found = journal.event(session_id, journal.UNKNOWN, text, at=at, message_id=message_id)
    journal.append(tx, found)


class _Insert:
    """Adds rows of one kind; the names in its SQL come from the file, never from the rows."""

    def __init__(self, tx: Tx, kind: str, *, over: bool = False) -> None:
        self._kind = kind
        self._names = COLUMNS[kind]
        self._file_has = [name for name in tx.columns(TABLES[kind]) if name not in self._names]
        needed = {*never_null(tx, TABLES[kind]), "title"} & _STAND_INS.keys()
        self._never_null = [name for name in self._names if name in needed]
        columns = ", ".join(map(quoted, self._names))
        marks = ", ".join(f":v{place}" for place, _ in enumerate(self._names))
        taken = ", ".join(f"{name} = excluded.{name}" for name in map(quoted, self._names))
        rest = f" ON CONFLICT (id) DO UPDATE SET {taken}" if over else ""
        self._sql = f'INSERT INTO "{TABLES[kind]}"({columns}) VALUES ({marks}){rest}'  # noqa: S608

    def add(self, tx: Tx, row: Json) -> None:
        """Add a row with all the columns that we know; the others where there is a place."""
        extra = others_of(self._kind, row)
        values = [row[name] for name in self._names]
        for name in self._never_null:
            if row[name] is None:
                values[self._names.index(name)] = _STAND_INS[name]
                extra[name] = None
        tx.run(Sql(self._sql), {f"v{place}": value for place, value in enumerate(values)})
        for name in self._file_has:
            if name in extra and self._fill(tx, row["id"], name, extra[name]):
                del extra[name]
        rehash(tx, self._kind, row["id"])
        if extra:
            params = {"kind": self._kind, "id": row["id"], "columns_json": json.encode(extra)}
            tx.run("put_extra", params)

    def _fill(self, tx: Tx, row_id: str, name: str, value: Any) -> bool:
        """Write a column that another program added; False if it does not hold the value as is."""
        table, column = TABLES[self._kind], quoted(name)
        update = f'UPDATE "{table}" SET {column} = :value WHERE id = :id'  # noqa: S608
        tx.run(Sql(update), {"value": as_column(value), "id": row_id})
        select = f'SELECT {column} FROM "{table}" WHERE id = :id'  # noqa: S608
        stored = as_json(tx.value(Sql(select), {"id": row_id}), ours=False)
        if json.encode(stored) == json.encode(value):
            return True
        tx.run(Sql(update), {"value": None, "id": row_id})
        return False


def _put_usage(tx: Tx, message: Json) -> None:
    """Usage that a message carries in its metadata counts as recorded; the sums stay as given."""
    usage = read_object(message["metadata_json"]).get("usage")
    if message["role"] == "assistant" and isinstance(usage, dict):
        ids = {"message_id": message["id"], "session_id": message["session_id"], "cost_usd": 0.0}
        tx.run("put_usage", {**usage_in(usage), **ids})
