"""How often compactions of a session failed or did not help, and when the next may be tried."""

import logging
from typing import Any, Final

from threadkeep.base.schema import add_missing_columns
from threadkeep.base.tx import Tx
from threadkeep.errors import Conflict, ThreadkeepError
from threadkeep.state.columns import update_rows
from threadkeep.state.context import Json, StateContext
from threadkeep.state.verbs import write

log = logging.getLogger(__name__)

# Columns of later programs: a file gets one when it is first set, as those programs would add it.
_LATER: Final = {
    "compression_recovery_deadline": "REAL",
    "compression_overload_streak": "INTEGER NOT NULL DEFAULT 0",
}


class CooldownChanged(Conflict, RuntimeError):
    """The cool-down of the session could not be set back to what it was."""


def record_compression_failure_cooldown(
    ctx: StateContext, session_id: str, cooldown_until: float, error: str | None = None
) -> None:
    """Note that compacting a session failed, why, and until when it is not to be tried again."""
    _set_cooldown(ctx, session_id, cooldown_until, error)


def clear_compression_failure_cooldown(ctx: StateContext, session_id: str) -> None:
    """Let a session be compacted again at once."""
    _set_cooldown(ctx, session_id, None, None)


def _set_cooldown(
    ctx: StateContext, session_id: str, until: float | None, error: str | None
) -> None:
    """A cool-down that cannot be stored must not end the turn that it is about."""
    try:
        write(ctx, _put_cooldown, session_id, until, error)
    except ThreadkeepError as trouble:
        log.warning("the cool-down of session %r was not stored: %s", session_id, trouble)


def _put_cooldown(
    ctx: StateContext, tx: Tx, session_id: str, until: float | None, error: str | None
) -> int:
    ctx.widen(tx)
    values = {
        "compression_failure_cooldown_until": until,
        "compression_failure_error": error,
    }
    return update_rows(ctx, tx, "sessions", {"id": session_id}, values)


def get_compression_failure_cooldown(ctx: StateContext, tx: Tx, session_id: str) -> Json | None:
    """Give until when a session is not to be compacted, and why; None if it may be."""
    row = get_compression_failure_cooldown_row(ctx, tx, session_id)
    until, now = row["cooldown_until"], ctx.clock()
    if until is None or until <= now:
        return None
    return {"cooldown_until": until, "remaining_seconds": until - now, "error": row["error"]}


def get_compression_failure_cooldown_row(_ctx: StateContext, tx: Tx, session_id: str) -> Json:
    """Give the cool-down of a session as it is stored, whether it is over or not."""
    found = tx.one("cooldown_of", {"id": session_id})
    until, error = found or (None, None)
    return {
        "session_exists": found is not None,
        "cooldown_until": None if until is None else float(until),
        "error": error,
    }


def restore_compression_failure_cooldown_row(
    ctx: StateContext, tx: Tx, session_id: str, snapshot: Json
) -> None:
    """Set the cool-down of a session back to what a row said; raise if that cannot be done."""
    until = snapshot.get("cooldown_until")
    expected = {
        "session_exists": bool(snapshot.get("session_exists", False)),
        "cooldown_until": None if until is None else float(until),
        "error": snapshot.get("error"),
    }
    if expected["session_exists"]:
        _put_cooldown(ctx, tx, session_id, until, snapshot.get("error"))
    found = get_compression_failure_cooldown_row(ctx, tx, session_id)
    same = found == expected if expected["session_exists"] else not found["session_exists"]
    if not same:
        msg = f"the cool-down of session {session_id!r} is {found}, not {expected}"
        raise CooldownChanged(msg, hint="nothing was changed; look at the session")


# ---------------------------------------------------------------------- streaks


def get_compression_fallback_streak(ctx: StateContext, tx: Tx, session_id: str) -> int:
    """Give how many compactions in a row had to do without a model."""
    return int(_number(ctx, tx, session_id, "compression_fallback_streak"))


def set_compression_fallback_streak(
    ctx: StateContext, tx: Tx, session_id: str, streak: int
) -> None:
    """Note how many compactions in a row had to do without a model."""
    _set_number(ctx, tx, session_id, "compression_fallback_streak", max(0, int(streak)))


def get_compression_ineffective_count(ctx: StateContext, tx: Tx, session_id: str) -> int:
    """Give how many compactions made a session hardly shorter."""
    return int(_number(ctx, tx, session_id, "compression_ineffective_count"))


def set_compression_ineffective_count(
    ctx: StateContext, tx: Tx, session_id: str, count: int
) -> None:
    """Note how many compactions made a session hardly shorter."""
    _set_number(ctx, tx, session_id, "compression_ineffective_count", max(0, int(count)))


def get_compression_recovery_deadline(ctx: StateContext, tx: Tx, session_id: str) -> float:
    """Give when a session that was compacted in vain may be tried again; 0.0 if nothing is set."""
    return float(_number(ctx, tx, session_id, "compression_recovery_deadline"))


def set_compression_recovery_deadline(
    ctx: StateContext, tx: Tx, session_id: str, deadline: float | None
) -> None:
    """Note when a session that was compacted in vain may be tried again; 0 or None takes it out."""
    until = max(0.0, float(deadline or 0.0)) or None
    _set_number(ctx, tx, session_id, "compression_recovery_deadline", until)


def get_compression_overload_streak(ctx: StateContext, tx: Tx, session_id: str) -> int:
    """Give how many compactions in a row were given up because the model was overloaded."""
    return int(_number(ctx, tx, session_id, "compression_overload_streak"))


def set_compression_overload_streak(
    ctx: StateContext, tx: Tx, session_id: str, streak: int
) -> None:
    """Note how many compactions in a row were given up because the model was overloaded."""
    _set_number(ctx, tx, session_id, "compression_overload_streak", max(0, int(streak)))


def increment_compression_overload_streak(ctx: StateContext, tx: Tx, session_id: str) -> int | None:
    """Count one more compaction that was given up; give the count, None without such a session."""
    if tx.one("session_exists", {"id": session_id}) is None:
        return None
    streak = get_compression_overload_streak(ctx, tx, session_id) + 1
    set_compression_overload_streak(ctx, tx, session_id, streak)
    return streak


def _number(ctx: StateContext, tx: Tx, session_id: str, column: str) -> float:
    """Read a number of a session, never below 0; one that is missing is 0."""
    if column not in ctx.form.tables["sessions"]:
        return 0
    sql = f"SELECT {column} FROM sessions WHERE id = ?"  # noqa: S608
    found = tx.execute(sql, (session_id,)).fetchone()
    try:
        return max(0, float(found[0] or 0)) if found else 0
    except (TypeError, ValueError):
        return 0


def _set_number(ctx: StateContext, tx: Tx, session_id: str, column: str, value: Any) -> None:
    if column in _LATER and column not in ctx.form.tables["sessions"]:
        if not value:
            return
        add_missing_columns(tx, "sessions", {column: _LATER[column]})
        ctx.forms.look_again(tx)
    update_rows(ctx, tx, "sessions", {"id": session_id}, {column: value})


# ---------------------------------------------------------------------- chats


def increment_hygiene_failure_streak(ctx: StateContext, tx: Tx, session_key: str) -> int:
    """Count one more failed clean-up of a chat; give how many failed in a row."""
    if not session_key:
        return 1
    ctx.widen(tx)
    return int(tx.value("count_hygiene_failure", {"key": session_key}))


def reset_hygiene_failure_streak(ctx: StateContext, tx: Tx, session_key: str) -> None:
    """Note that a clean-up of a chat worked."""
    if "gateway_hygiene_state" in ctx.form.tables:
        tx.run("reset_hygiene_failures", {"key": session_key})
