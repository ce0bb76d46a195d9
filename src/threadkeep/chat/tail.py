"""Following a session live: its journal as it grows, from this process or another."""

import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

from threadkeep.base import json
from threadkeep.base.page import Cursor, Limit, Page, read_cursor, write_cursor
from threadkeep.base.text import from_sql
from threadkeep.base.tx import Row, Tx
from threadkeep.chat.context import ChatContext, need_whole
from threadkeep.chat.journal import BASE, CHUNK, UNKNOWN, check_row
from threadkeep.chat.records import Event, Json, SessionRef, message_of, read_object, ref_id
from threadkeep.chat.recovery import is_running
from threadkeep.chat.rows import MESSAGE, PART, need_session
from threadkeep.chat.views import load_message, read_part

_BATCH = 500
LOOK_AFTER = 1.0


def tail(
    ctx: ChatContext,
    session: SessionRef,
    after: int = 0,
    *,
    follow: bool = True,
    until_idle: bool = False,
    timeout: float | None = None,
) -> Iterator[Event]:
    """Return a session's chunks as they commit, from any process, then wait for more.

    Ends when `follow` is off and all is read, when `until_idle` and nobody records, or when
    nothing came for `timeout` seconds. Chunks that are gone because their message is finished
    come as one snapshot of the message.
    """
    session_id = ref_id(session, "session")
    after = need_whole(after, "after")
    with ctx.db.read() as tx:
        need_session(tx, session_id)
    ctx.db.follow()
    try:
        quiet_since = time.monotonic()
        while True:
            seen = ctx.db.changes()
            events, running = read_events(ctx, session_id, after)
            yield from events
            if events:
                after, quiet_since = events[-1].seq, time.monotonic()
                continue
            left = None if timeout is None else quiet_since + timeout - time.monotonic()
            if not follow or (until_idle and not running) or (left is not None and left <= 0):
                return
            # A recorder that is killed commits nothing more: look after it now and then.
            ctx.db.changed(seen, LOOK_AFTER if left is None else min(left, LOOK_AFTER))
    finally:
        ctx.db.unfollow()


def read_events(ctx: ChatContext, session_id: str, after: int) -> tuple[list[Event], bool]:
    """Return the next events after a number, and whether the session is being recorded."""
    # Asked first: what a recorder wrote before it was gone is in the snapshot that comes after.
    with ctx.db.read() as tx:
        recordings = tx.all("session_recordings", {"session_id": session_id})
        running = any(is_running(tx, row) for row in recordings)
    with ctx.db.read() as tx:
        return _next_events(tx, session_id, after), running


def journal_page(
    ctx: ChatContext, session: SessionRef, *, limit: Limit = 50, cursor: Cursor | None = None
) -> Page[Event]:
    """Return the journal of a session, in order, one page at a time."""
    after = max(read_cursor(cursor, int)[0], 0) if cursor else 0
    found = list(islice(tail(ctx, session, after, follow=False), limit + 1))
    page = found[:limit]
    return Page(page, write_cursor([page[-1].seq]) if len(found) > limit else None)


def _next_events(tx: Tx, session_id: str, after: int) -> list[Event]:
    """The next events in order: those still in the journal, and snapshots for those gone."""
    params = {"stream_id": session_id, "after": after, "limit": _BATCH}
    rows = tx.all("events_after", params)
    events = [_event(row) for row in rows]
    finished = tx.all("finished_after", params)
    # Where a full page of one kind ends, more may follow under the same number.
    ends = [page[-1][column] for page, column in ((rows, 1), (finished, 0)) if len(page) == _BATCH]
    horizon = min(ends) - 1 if ends else None
    for seq, message_id in finished:
        event = _snapshot(tx, session_id, seq, from_sql(message_id))
        if event is not None:
            events.append(event)
    known = [event for event in events if horizon is None or event.seq <= horizon]
    return sorted(known, key=lambda event: event.seq)


def _event(row: Row) -> Event:
    check_row(row)
    _, seq, kind, message_id, part_id, data_json, at, _ = row
    message = None if message_id is None else from_sql(message_id)
    data = json.decode(data_json)
    if kind == BASE:
        return Event(seq, "snapshot", message, data, at)
    if kind == "snapshot":  # the event log keeps rows; whoever follows wants the message
        data = _shaped(data["put"])
    return Event(seq, CHUNK if kind == UNKNOWN else kind, message, data, at, part_id)


def _shaped(images: list[list[Any]]) -> Json:
    (message,) = [row for kind, row in images if kind == MESSAGE]
    parts = sorted((row["index"], row) for kind, row in images if kind == PART)
    metadata = read_object(message["metadata_json"])
    shaped = {"id": message["id"], "role": message["role"]}
    shaped["parts"] = [read_part(row["data_json"], row["type"]) for _, row in parts]
    return {**shaped, **({"metadata": metadata} if metadata else {})}


def _snapshot(tx: Tx, session_id: str, seq: int, message_id: str) -> Event | None:
    """A finished message whose chunks are gone, or None if they are still to be had."""
    params = {"stream_id": session_id, "message_id": message_id, "seq": seq}
    found = tx.one("get_message", {"id": message_id})
    if found is None or tx.one("replayable_message", params) is not None:
        return None
    message = message_of(found)
    return Event(seq, "snapshot", message_id, load_message(tx, message), message.updated_at)
