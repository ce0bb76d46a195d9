"""Signs of life of a running turn, and how a session stands by its last message."""

import json
from collections.abc import Sequence
from typing import Final

from threadkeep.base.tx import Tx
from threadkeep.state.context import Json, StateContext, clean
from threadkeep.state.rows import read_session, update_session

_LONGEST: Final = 120
_UNKNOWN: Final = "unknown"
_PROVENANCES: Final = (
    _UNKNOWN,
    "agent.compression",
    "agent.compression_timeout",
    "agent.compression_cooldown",
)
COMPLETE, INTERRUPTED, ERROR, EMPTY = "complete", "interrupted", "error", "empty"
_FAILED: Final = ("error", "agent_error", "content_filter")


def touch_session_activity(
    ctx: StateContext,
    tx: Tx,
    session_id: str,
    ts: float | None = None,
    *,
    description: str | None = None,
    provenance: str | None = None,
) -> None:
    """Note that a session does something, what, and who says so; never an earlier time."""
    row = tx.one("heartbeat_of", {"id": session_id})
    when = float(ctx.clock() if ts is None else ts)
    if row is not None and (row[0] is None or row[0] < when):
        values = {
            "last_activity_at": when,
            "last_activity_description": _bounded(clean(ctx, description)),
            "last_activity_provenance": _known(provenance),
        }
        update_session(ctx, tx, session_id, values)


def clear_session_activity_labels(ctx: StateContext, tx: Tx, session_id: str) -> None:
    """Forget what a session was doing when its turn is over; the time stays."""
    row = tx.one("heartbeat_of", {"id": session_id})
    if row is not None and (row[1] or row[2] not in (None, "", _UNKNOWN)):
        values = {"last_activity_description": "", "last_activity_provenance": _UNKNOWN}
        update_session(ctx, tx, session_id, values)


def get_session_activity(ctx: StateContext, tx: Tx, session_id: str) -> Json | None:
    """Give the last sign of life of a session, what it did, and how long ago that was."""
    row = read_session(ctx, tx, session_id) if session_id else None
    if row is None:
        return None
    at = row["last_activity_at"]
    when = None if at is None else float(at)
    doing, who = _bounded(row["last_activity_description"]), _known(row["last_activity_provenance"])
    return {
        "last_activity_at": when,
        "last_activity_description": doing,
        "last_activity_provenance": who,
        "seconds_since_activity": None if when is None else round(ctx.clock() - when, 1),
        "last_activity_ts": when,
        "last_activity_desc": doing,
        "description": doing,
        "provenance": who,
    }


def _bounded(description: str | None) -> str:
    text = (description or "").strip()
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _known(provenance: str | None) -> str:
    """Give where a sign of life came from; Hermes says `unknown` of what it does not know."""
    value = str(getattr(provenance, "value", provenance) or "").strip()
    return value if value in _PROVENANCES else _UNKNOWN


def session_lifecycle_statuses(
    _ctx: StateContext, tx: Tx, session_ids: Sequence[str]
) -> dict[str, str]:
    """Say of each session how it stands: complete, interrupted, error or empty."""
    ids = [each for each in session_ids or () if each]
    rows = tx.all("last_messages_of", {"ids": json.dumps(ids)})
    found = {str(row[0]): classify_session_status(row[1], bool(row[2]), row[3]) for row in rows}
    return {each: found.get(each, EMPTY) for each in ids}


def classify_session_status(
    role: str | None,
    has_tool_calls: bool,  # noqa: FBT001
    finish_reason: str | None,
) -> str:
    """Tell from the last message of a session whether it is complete, interrupted or failed.

    A question, a call without its answer and an answer nobody looked at are interrupted.
    """
    if (finish_reason or "").strip().lower() in _FAILED:
        return ERROR
    said = (role or "").strip().lower()
    waiting = said in ("user", "tool") or (said == "assistant" and has_tool_calls)
    return INTERRUPTED if waiting else COMPLETE
