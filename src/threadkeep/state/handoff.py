"""Handing a session over to another platform: asked for, claimed, then completed or failed."""

from threadkeep.base.tx import Tx
from threadkeep.state.context import Json, StateContext
from threadkeep.state.rows import read_sessions

_LONGEST_REASON = 500


def request_handoff(_ctx: StateContext, tx: Tx, session_id: str, platform: str) -> bool:
    """Ask a platform to take a session over; False if there is none, or one is under way."""
    return tx.run("request_handoff", {"id": session_id, "platform": platform}) > 0


def get_handoff_state(_ctx: StateContext, tx: Tx, session_id: str) -> Json | None:
    """Give state, platform and error of a session's hand-over, None if there is no session."""
    return next(iter(tx.dicts("handoff_of", {"id": session_id})), None)


def list_pending_handoffs(ctx: StateContext, tx: Tx) -> list[Json]:
    """Give the sessions that wait to be taken over, the oldest first."""
    return read_sessions(ctx, tx, "pending_handoffs", {})


def claim_handoff(_ctx: StateContext, tx: Tx, session_id: str) -> bool:
    """Take a session over; False if another has claimed it, or nobody asked."""
    return tx.run("claim_handoff", {"id": session_id}) > 0


def complete_handoff(_ctx: StateContext, tx: Tx, session_id: str) -> None:
    """Say that a session was taken over."""
    tx.run("complete_handoff", {"id": session_id})


def fail_handoff(_ctx: StateContext, tx: Tx, session_id: str, error: str) -> None:
    """Say that a session could not be taken over, and why."""
    tx.run("fail_handoff", {"id": session_id, "error": error[:_LONGEST_REASON]})
