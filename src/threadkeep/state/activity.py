"""The order of sessions by their last message: stored behind a cursor, exact at every look.

`tk_activity` has every session; triggers keep it right but for new messages, which would cost
every append two pages. A look adds the sessions with messages behind the cursor; writing that down
is left to those who write anyway.
"""

import heapq
from collections.abc import Iterator

from threadkeep.base.sqlite import Tx
from threadkeep.state.context import Context

_STEP = 64


def newest_first(ctx: Context, tx: Tx) -> Iterator[tuple[float, str]]:
    """Give when each session was last active, and its id, the latest first."""
    fresh = _fresh(ctx, tx) if ctx.side else dict(tx.all("all_activity"))
    ordered = sorted(((at, key) for key, at in fresh.items()), reverse=True)
    stored = _stored(tx, fresh) if ctx.side else iter(())
    return heapq.merge(iter(ordered), stored, reverse=True)


def _fresh(ctx: Context, tx: Tx) -> dict[str, float]:
    """Heartbeats are not in the stored order: no trigger of ours could know them everywhere."""
    if "last_activity_at" not in ctx.form.tables["sessions"]:
        return _behind_cursor(tx)
    return {**_behind_cursor(tx), **dict(tx.all("heartbeats"))}


def _behind_cursor(tx: Tx) -> dict[str, float]:
    cursor = int(tx.value("get_meta", {"key": "active"}) or 0)
    rows = tx.all("sessions_after", {"cursor": cursor})
    found = {str(row[0]): tx.value("activity_of", {"id": row[0]}) for row in rows}
    return {session_id: at for session_id, at in found.items() if at is not None}


def _stored(tx: Tx, fresh: dict[str, float]) -> Iterator[tuple[float, str]]:
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
    """Store the last activity of every session that got messages since the last time."""
    last = tx.value("newest_message_id") or 0
    for session_id, at in _behind_cursor(tx).items():
        tx.run("put_activity", {"id": session_id, "at": at})
    tx.run("set_meta", {"key": "active", "value": str(last)})
