"""The event log: opt-in, complete enough to rebuild the three tables from nothing else.

Chunks are logged as they came, once each; logging the whole part at every update is what made
another store's log 64 of its 73 GB within eight days. Finished messages shrink to one snapshot.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from threadkeep.base import json
from threadkeep.base.sqlite.upkeep import sqlite_file
from threadkeep.base.text import from_sql
from threadkeep.base.tx import Row, Sql, Tx
from threadkeep.chat import journal
from threadkeep.chat.context import ChatContext, need_whole
from threadkeep.chat.journal import BASE, CHUNK, EVENT_LOG, UNKNOWN, check_row
from threadkeep.chat.message_writer import PartState, known_parts, next_position
from threadkeep.chat.records import Json, message_of
from threadkeep.chat.recovery import settle_unless_running
from threadkeep.chat.rows import (
    MESSAGE,
    PART,
    SESSION,
    TABLES,
    image,
    insert_part,
    part_row,
    put_image,
    revised_row,
    update_part,
)
from threadkeep.chat.views import read_part, stored_message
from threadkeep.chat.wire.parts import late_tool_output
from threadkeep.chat.wire.protocol import UNNAMED
from threadkeep.chat.wire.reduce import StreamState
from threadkeep.errors import Conflict, Damaged

_BATCH = 500
_HANGING = ("tk_runs", "tk_usage")


def switch(ctx: ChatContext, *, on: bool) -> None:
    """Turn the event log of a file on or off; everybody who opens the file keeps to it.

    Turning it on begins with a snapshot of what is there, so that the log alone is enough.
    """
    with ctx.db.write() as tx:
        if journal.log_is_on(tx) == on:
            return
        tx.run("set_meta", {"key": EVENT_LOG, "value": "on" if on else "off"})
        if not on:
            tx.run("drop_events")
            return
        for (session_id,) in tx.all("all_session_ids"):
            _snapshot_session(ctx, tx, from_sql(session_id))


def _snapshot_session(ctx: ChatContext, tx: Tx, session_id: str) -> None:
    params = {"session_id": session_id}
    messages = [(MESSAGE, from_sql(row[0])) for row in tx.all("session_messages", params)]
    parts = [(PART, from_sql(row[0])) for row in tx.all("session_parts", params)]
    journal.note(ctx, tx, session_id, "baseline", [(SESSION, session_id), *messages, *parts])


# ---------------------------------------------------------------------- shrinking


def compact_log(ctx: ChatContext, before: int) -> int:
    """Shrink the chunks of messages finished before a time to one snapshot each."""
    limit = need_whole(before, "before")
    with ctx.db.write() as tx:
        old = tx.all("old_finished_messages", {"before": limit})
        for stream_id, message_id in old:
            _shrink(tx, from_sql(stream_id), from_sql(message_id))
    return len(old)


def _shrink(tx: Tx, session_id: str, message_id: str) -> None:
    ids = {"stream_id": session_id, "message_id": message_id}
    seq = tx.value("last_message_chunk", ids)
    at = max(row[6] for row in tx.all("message_chunks_after", {**ids, "after": 0}))
    parts = tx.all("message_parts", {"message_id": message_id})
    rows = [[MESSAGE, image(tx, MESSAGE, message_id)]]
    rows += [[PART, image(tx, PART, from_sql(row[0]))] for row in parts]
    data = json.encode({"put": [row for row in rows if row[1] is not None], "deleted": []})
    tx.run("drop_message_chunks", ids)
    journal.put_at(tx, session_id, seq, "snapshot", data, at=at, message_id=message_id)


# ---------------------------------------------------------------------- rebuilding


def rebuild(ctx: ChatContext) -> int:
    """Rebuild the three tables from the event log; return the number of events applied.

    Runs, usage and unknown columns are not in the log; they stay.
    """
    with _keeping_what_hangs_on_them(ctx) as tx:
        if not journal.log_is_on(tx):
            msg = "this store keeps no event log, so there is nothing to rebuild from"
            raise Conflict(msg, hint="open it with event_log=True before recording")
        for row in tx.all("all_recordings"):
            settle_unless_running(ctx, tx, from_sql(row[0]))
        extra = tx.all("all_extra")
        for table in TABLES.values():
            tx.run(Sql(f'DELETE FROM "{table}"'))  # noqa: S608  (our own names)
        count = sum(_Replay(tx, from_sql(row[0])).run() for row in tx.all("all_streams"))
        for kind, row_id, columns_json in extra:
            tx.run("put_extra", {"kind": kind, "id": row_id, "columns_json": columns_json})
        return count


@contextmanager
def _keeping_what_hangs_on_them(ctx: ChatContext) -> Iterator[Tx]:
    """Begin a write in which no cascade takes the runs and the usage of every session along."""
    if ctx.db.engine == "sqlite":
        with sqlite_file(ctx.db).write(foreign_keys=False) as tx:
            yield tx
            broken = tx.one(Sql("PRAGMA foreign_key_check"))
            if broken is not None:
                raise _incomplete(str(broken[0]))
        return
    with ctx.db.write() as tx:  # there, only the owner of the tables may leave out a cascade
        kept = {table: tx.dicts(Sql(f"SELECT * FROM {table}")) for table in _HANGING}  # noqa: S608
        try:
            yield tx
            for table, rows in kept.items():
                for row in rows:
                    columns = ", ".join(row)
                    marks = ", ".join(f":{name}" for name in row)
                    insert = f"INSERT INTO {table} ({columns}) VALUES ({marks})"  # noqa: S608
                    tx.count(Sql(insert), row)
        except Conflict as error:
            if not isinstance(error.__cause__, Exception):
                raise
            raise _incomplete(error.message) from error


def _incomplete(row: str) -> Damaged:
    msg = f"the event log is not complete: a row would lose its parent: {row}"
    return Damaged(msg, hint="nothing was changed; restore a backup instead")


class _Replay:
    """One session's log, replayed; growing parts are written when something else needs them."""

    def __init__(self, tx: Tx, session_id: str) -> None:
        self._tx = tx
        self._session_id = session_id
        self._states: dict[str, StreamState] = {}
        self._protocols: dict[str, int] = {}
        self._protocol = UNNAMED  # of the recording that began last
        self._part_ids: set[str] = set()
        self._parts: dict[str, list[PartState]] = {}
        self._dirty: set[tuple[str, int]] = set()

    def run(self) -> int:
        """Apply every event in order and give how many there were."""
        after = count = 0
        while True:
            params = {"stream_id": self._session_id, "after": after, "limit": _BATCH}
            rows = self._tx.all("events_after", params)
            for row in rows:
                check_row(row)
                self._apply(row)
                after, count = row[1], count + 1
            if len(rows) < _BATCH:
                self._write_dirty()
                return count

    def _apply(self, row: Row) -> None:
        data = json.decode(row[5])
        if row[2] == CHUNK:
            self._chunk(from_sql(row[3]), data, row[4], row[6])
        elif row[2] not in (BASE, UNKNOWN):
            self._rows(row[2], data)

    def _rows(self, verb: str, data: Json) -> None:
        self._write_dirty()
        for kind, row_id in data["deleted"]:  # first: a replaced part gives up its place
            table = TABLES[kind]
            self._tx.run(Sql(f'DELETE FROM "{table}" WHERE id = :id'), {"id": row_id})  # noqa: S608
        for kind, put in data["put"]:
            put_image(self._tx, kind, put)
        # A recorder that begins, and a message put in whole, start from the rows.
        begun = {put["id"] for kind, put in data["put"] if kind == MESSAGE and verb == "message"}
        named = data.get("facts", {}).get("protocol")
        if named is not None:
            self._protocol = named
            self._protocols.update(dict.fromkeys(begun, named))
        begun |= {put["message_id"] for kind, put in data["put"] if kind == PART}
        for message_id in begun:
            self._states.pop(message_id, None)

    def _chunk(self, message_id: str, chunk: Json, part_id: str | None, at: int) -> None:
        state = self._state(message_id)
        parts = self._parts[message_id]
        if part_id in self._part_ids:
            self._late(part_id, chunk, at)
            return
        if chunk["type"] == "reset-step":
            self._write_dirty()  # while the state still has the parts
        change = state.apply(chunk)
        if change.truncated_to is not None:
            first = parts[change.truncated_to].position
            self._tx.run("delete_message_parts", {"message_id": message_id, "first": first})
            del parts[change.truncated_to :]
        grown = () if change.delta_of is None else (change.delta_of,)
        for index in (*change.parts, *grown):
            if index == len(parts):
                parts.append(PartState(str(part_id), next_position(parts), at, stored=False))
                self._part_ids.add(str(part_id))
            parts[index].updated_at = at
            self._dirty.add((message_id, index))

    def _late(self, part_id: str, chunk: Json, at: int) -> None:
        """A result that came in a later turn names the part that it belongs to."""
        self._write_dirty()
        row = self._tx.one("get_part", {"id": part_id})
        if row is not None:
            part = late_tool_output(read_part(row[5], from_sql(row[4])), chunk, self._protocol)
            update_part(self._tx, revised_row(row, part, json.encode(part), at))

    def _state(self, message_id: str) -> StreamState:
        if message_id not in self._states:
            self._write_dirty()
            row = self._tx.one("get_message", {"id": message_id})
            shaped = None if row is None else stored_message(self._tx, message_of(row))
            self._states[message_id] = StreamState(
                shaped, message_id, protocol=self._protocols.get(message_id, UNNAMED)
            )
            self._parts[message_id] = known_parts(self._tx, message_id, 0)
            self._part_ids.update(part.id for part in self._parts[message_id])
        return self._states[message_id]

    def _write_dirty(self) -> None:
        for message_id, index in sorted(self._dirty):
            known = self._parts[message_id][index]
            part = self._states[message_id].part(index)
            row = part_row(
                part,
                json.encode(part),
                part_id=known.id,
                message_id=message_id,
                session_id=self._session_id,
                position=known.position,
                created_at=known.created_at,
                updated_at=known.updated_at,
                continuation_run_id=known.continuation,
            )
            if known.stored:
                update_part(self._tx, row)
            else:
                insert_part(self._tx, row)
                known.stored = True
        self._dirty.clear()
