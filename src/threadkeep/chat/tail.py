"""Following a session live: its journal as it grows, from this process or another."""

import time
from collections.abc import Iterator

from threadkeep.base import json
from threadkeep.base.processes import is_alive
from threadkeep.base.sqlite import Tx
from threadkeep.base.text import from_sql
from threadkeep.chat.context import Context, need_whole
from threadkeep.chat.journal import check_row
from threadkeep.chat.records import Event, SessionRef, message_of, ref_id
from threadkeep.chat.rows import need_session
from threadkeep.chat.views import load_message

_BATCH = 500
LOOK_AFTER = 1.0


def tail(
    ctx: Context,
    session: SessionRef,
    after: int = 0,
    *,
    follow: bool = True,
    until_idle: bool = False,
    timeout: float | None = None,
) -> Iterator[Event]:
    """Give a session's chunks as they commit, from any process, then wait for more.

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


def read_events(ctx: Context, session_id: str, after: int) -> tuple[list[Event], bool]:
    """Give the next events after a number, and whether somebody records the session now."""
    with ctx.db.read() as tx:
        events = _next_events(tx, session_id, after)
        recordings = tx.all("session_recordings", {"session_id": session_id})
        return events, any(is_alive(row[3]) for row in recordings)


def _next_events(tx: Tx, session_id: str, after: int) -> list[Event]:
    """The next events in order: those still in the journal, and snapshots for those gone."""
    params = {"stream_id": session_id, "after": after}
    rows = tx.all("events_after", {**params, "limit": _BATCH})
    events = []
    present = set()
    for row in rows:
        check_row(row)
        _, seq, kind, message_id, part_id, data_json, at, _ = row
        message = None if message_id is None else from_sql(message_id)
        present.add(message)
        events.append(Event(seq, kind, message, json.decode(data_json), at, part_id))
    horizon = events[-1].seq if len(rows) == _BATCH else None
    for seq, message_id in tx.all("finished_after", params):
        known = from_sql(message_id)
        if known in present or (horizon is not None and seq > horizon):
            continue
        found = tx.one("get_message", {"id": known})
        if found is not None:
            message_row = message_of(found)
            shaped = load_message(tx, message_row)
            events.append(Event(seq, "snapshot", known, shaped, message_row.updated_at))
    return sorted(events, key=lambda event: event.seq)
