"""The order of sessions by their last message: stored behind a cursor, exact at every look.

`tk_activity` has every session. New messages, which would cost every append two pages, are behind
the cursor; sessions that were made, moved or lost messages are listed in `tk_touched`. A look
reads both anew; writing that down is left to those who write anyway.
"""

import heapq
from collections.abc import Iterator

from threadkeep.base.tx import Tx
from threadkeep.state.context import StateContext

_STEP = 64


def newest_first(ctx: StateContext, tx: Tx) -> Iterator[tuple[float, str]]:
    """Give when each session was last active, and its id, the latest first."""
    fresh = _fresh(ctx, tx) if ctx.side else dict(tx.all("all_activity"))
    ordered = sorted(((at, key) for key, at in fresh.items() if at is not None), reverse=True)
    stored = _stored(tx, fresh) if ctx.side else iter(())
    return heapq.merge(iter(ordered), stored, reverse=True)


def _fresh(ctx: StateContext, tx: Tx) -> dict[str, float | None]:
    """Heartbeats are not in the stored order: no trigger of ours could know them everywhere."""
    if "last_activity_at" not in ctx.form.tables["sessions"]:
        return _not_stored(tx)
    return {**_not_stored(tx), **dict(tx.all("heartbeats"))}


def _not_stored(tx: Tx) -> dict[str, float | None]:
    """Give the last activity of each session that is not stored as it is now; None: it is gone."""
    cursor = int(tx.value("get_meta", {"key": "active"}) or 0)
    rows = tx.all("sessions_after", {"cursor": cursor})
    return {row[0]: tx.value("activity_of", {"id": row[0]}) for row in rows if type(row[0]) is str}


def _stored(tx: Tx, fresh: dict[str, float | None]) -> Iterator[tuple[float, str]]:
    """Walk along the stored order, without the sessions that are fresher than it."""
    at, key, size = None, "", _STEP
    while True:
        rows = tx.all("stored_activity", {"at": at, "key": key, "limit": size})
        for session_id, last_active in rows:
            if session_id not in fresh:
                yield last_active, session_id
        if len(rows) < size:
            return
        key, at = rows[-1]
        size *= 2


def write_down(tx: Tx) -> None:
    """Store the last activity of every session that changed, and what others counted in it."""
    last = tx.value("newest_message_id") or 0
    for session_id, at in _not_stored(tx).items():
        if at is None:
            tx.run("drop_activity", {"id": session_id})
        else:
            tx.run("put_activity", {"id": session_id, "at": at})
            note_spent(tx, session_id)
    tx.run("forget_touched")
    tx.run("set_meta", {"key": "active", "value": str(last)})


def note_spent(tx: Tx, session_id: str) -> None:
    """Note what another program counted in a session, so that it outlives the session."""
    tx.run("forget_spent", {"id": session_id})
    tx.run("note_spent", {"id": session_id})
