"""Processes that serve sessions: their signs of life, and the sessions of those that died."""

import json
import logging
from collections.abc import Collection
from typing import Final

from threadkeep.base.sql import load_text
from threadkeep.base.tx import Tx
from threadkeep.state.context import Json, StateContext
from threadkeep.state.leases import (
    conversation_of,
    get_compression_lock_holder,
    has_live_session_turn_lease,
)
from threadkeep.state.relations import RESET_END_REASONS
from threadkeep.state.sessions import end_session
from threadkeep.state.versions import PACKAGE

log = logging.getLogger(__name__)

_TABLE: Final = "gateway_heartbeats"
_ORPHANED: Final = "startup_orphan_reap"
# Ends that say that a process went away, not that somebody ended the conversation.
_AUTOMATIC: Final = (
    *("agent_close", "ws_orphan_reap", "superseded_by_resume", _ORPHANED),
    *("tui_shutdown", "ws_disconnect", "idle_timeout", "lru_evict"),
)
# Ends with which a conversation is over, or goes on elsewhere.
_BOUNDARIES: Final = (*RESET_END_REASONS, "new_session", "compression")


def register_backend_heartbeat(
    ctx: StateContext,
    tx: Tx,
    *,
    backend_id: str,
    pid: int,
    started_at: float,
    last_heartbeat: float | None = None,
    profile: str = "",
    host: str = "",
) -> None:
    """Note that a process is alive; its id stays the same until it ends."""
    if not backend_id:
        return
    if _TABLE not in ctx.form.tables:
        tx.execute(load_text(PACKAGE, "backends.sql"))
        ctx.forms.look_again(tx)
    values = {
        "backend_id": str(backend_id),
        "pid": int(pid),
        "started_at": float(started_at),
        "last_heartbeat": float(ctx.clock() if last_heartbeat is None else last_heartbeat),
        "profile": str(profile),
        "host": str(host),
    }
    tx.run("put_backend", values)


def clear_backend_heartbeat(ctx: StateContext, tx: Tx, backend_id: str) -> bool:
    """Forget a process that ends; False if it was not known."""
    return _TABLE in ctx.form.tables and tx.run("drop_backend", {"id": str(backend_id)}) > 0


def prune_stale_heartbeats(ctx: StateContext, tx: Tx, *, max_age_seconds: float) -> list[str]:
    """Forget processes that have not been heard of for so long, and give their ids."""
    if max_age_seconds <= 0:
        return []
    cutoff = ctx.clock() - max_age_seconds
    stale = [str(row[0]) for row in tx.all("stale_backends", {"cutoff": cutoff})]
    for backend_id in stale:
        tx.run("drop_backend", {"id": backend_id})
    return stale


def list_backend_heartbeats(_ctx: StateContext, tx: Tx) -> list[Json]:
    """Give all known processes, the one heard of last first."""
    return tx.dicts("backends")


def sweep_orphaned_sessions(
    ctx: StateContext,
    tx: Tx,
    *,
    max_idle_seconds: float,
    sources: Collection[str] = ("tui", "desktop", "subagent"),
    exclude_ids: Collection[str] = (),
    exclude_pinned: bool = False,
    heartbeat_staleness_seconds: float | None = None,
    heartbeat_ownership_grace_seconds: float | None = None,
    respect_gateway_heartbeats: bool = True,
) -> list[str]:
    """End the sessions whose process died before it could, and give their ids.

    They began and were last used so long ago, no turn and no compaction of theirs runs, and no
    process that is alive could have them. Nothing of them is deleted.
    """
    if max_idle_seconds <= 0 or not sources:
        return []
    patience = heartbeat_staleness_seconds or 0
    patience = patience if patience > 0 else max_idle_seconds * 2
    grace = heartbeat_ownership_grace_seconds
    params = {
        "cutoff": ctx.clock() - max_idle_seconds,
        "sources": json.dumps(list(sources)),
        "pinned_too": not exclude_pinned,
        "any_backend": not respect_gateway_heartbeats,
        "heard_since": ctx.clock() - patience,
        "grace": patience if grace is None or grace < 0 else grace,
    }
    idle = [str(row[0]) for row in tx.all("idle_open_sessions", params)]
    orphans = [each for each in idle if each not in exclude_ids and not _is_used(ctx, tx, each)]
    for session_id in orphans:
        _take_back(ctx, tx, session_id)
        end_session(ctx, tx, session_id, _ORPHANED)
    return orphans


def _is_used(ctx: StateContext, tx: Tx, session_id: str) -> bool:
    compacting = get_compression_lock_holder(ctx, tx, session_id) is not None
    return compacting or has_live_session_turn_lease(ctx, tx, session_id)


def _take_back(ctx: StateContext, tx: Tx, session_id: str) -> None:
    """Locks whose time is over go with the session: nobody may go on with them later."""
    if "compression_locks" in ctx.form.tables:
        tx.run("drop_compression_lock", {"session_id": session_id})
    if "session_turn_leases" in ctx.form.tables:
        tx.run("drop_turn_lease", {"conversation_id": conversation_of(tx, session_id)})


def reopen_if_explicitly_closed(
    _ctx: StateContext,
    tx: Tx,
    session_id: str,
    *,
    provenance: str,
    patience_s: float | None = None,
) -> str | None:
    """Take back a deliberate end of a session that its host still serves; give what it was.

    An end that was automatic stays, and so does one at which the conversation was reset or goes on
    elsewhere. `provenance` is for the log; a writer waits as long as the store does.
    """
    del patience_s
    ended_at, reason = tx.one("end_of_session", {"id": session_id}) or (None, None)
    if ended_at is None or reason in _AUTOMATIC or reason in _BOUNDARIES:
        return None
    if tx.one("goes_on_in_child", {"id": session_id}) is not None:
        return None
    tx.run("reopen_session", {"id": session_id})
    log.warning(
        "session %s is served though ended by %r; reopened: %s", session_id, reason, provenance
    )
    return None if reason is None else str(reason)
