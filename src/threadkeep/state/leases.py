"""Who may do what at a time: one compaction of a session, one turn of a conversation.

Both are rows with a holder and an end, in tables that Hermes has and obeys. A holder that does not
come back loses its row when the time is over, or at once if it names a process that is gone.
"""

import json
import logging
import re
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Final

from threadkeep.base.processes import is_running
from threadkeep.base.tx import Tx
from threadkeep.errors import Busy, Conflict, ThreadkeepError
from threadkeep.state.context import Json, StateContext, add_backends, clean
from threadkeep.state.rows import insert_row, read_session, update_session
from threadkeep.state.session_config import RESET_END_REASONS
from threadkeep.state.sessions import end_session
from threadkeep.state.verbs import write

log = logging.getLogger(__name__)

_TTL: Final = 300.0
_SHORTEST: Final = 0.1
_HIGHEST_PROCESS: Final = (1 << 31) - 1
_PROCESS: Final = re.compile(r"(?:^|:)pid=(\d+)(?::|$)")
_NAMESPACE: Final = re.compile(r"(?:^|:)pidns=(\d+)(?::|$)")


class CompressionSessionClosedError(Conflict, RuntimeError):
    """The session went on in another one when it was compacted; append to that one."""

    def __init__(self, session_id: str) -> None:
        """Say which session is closed."""
        self.session_id = session_id
        super().__init__(
            f"session {session_id!r} was closed by a compaction",
            hint="append to the session that get_compression_tip returns",
        )


class CompressionSessionBusyError(Conflict, RuntimeError):
    """Another compaction of the session is under way, or this one lost its lock."""


class SessionCompressionInProgressError(CompressionSessionBusyError):
    """The lock of the compaction belongs to somebody else by now."""


class SessionTurnLeaseLostError(Conflict, RuntimeError):
    """The turn belongs to another process by now; nothing was written."""


# ---------------------------------------------------------------------- compactions


def try_acquire_compression_lock(
    ctx: StateContext, session_id: str, holder: str, ttl_seconds: float = _TTL
) -> bool:
    """Take the lock for compacting a session; False if it is held, or cannot be taken."""
    if not session_id:
        return False
    try:
        return write(ctx, _take_lock, session_id, holder, ttl_seconds)
    except ThreadkeepError as error:
        log.warning("the lock for compacting %r cannot be taken: %s", session_id, error)
        return False


def _take_lock(ctx: StateContext, tx: Tx, session_id: str, holder: str, ttl_seconds: float) -> bool:
    ctx.widen(tx)
    now = ctx.clock()
    found = tx.one("compression_lock", {"id": session_id})
    if found is not None and (found[1] < now or _is_gone(tx, found[0])):
        log.warning("the lock for compacting %r was left by %s", session_id, found[0])
        tx.run("release_compression_lock", {"id": session_id, "holder": found[0]})
    values = {"session_id": session_id, "holder": holder, "acquired_at": now}
    values["expires_at"] = now + ttl_seconds
    insert_row(ctx, tx, "compression_locks", values, unless_there=True)
    return _owner(tx, "compression_lock", session_id) == holder


def refresh_compression_lock(
    ctx: StateContext, session_id: str, holder: str, ttl_seconds: float = _TTL
) -> bool:
    """Extend the lock; False if the caller no longer holds it.

    One that ran out comes back unless somebody else has taken it.
    """
    if not session_id or not holder:
        return False
    try:
        return write(ctx, keep_lock, session_id, holder, ttl_seconds)
    except ThreadkeepError as error:
        log.warning("the lock for compacting %r cannot be kept: %s", session_id, error)
        return False


def keep_lock(ctx: StateContext, tx: Tx, session_id: str, holder: str, ttl_seconds: float) -> bool:
    """Give the lock a new end, if it is the holder's."""
    if "compression_locks" not in ctx.form.tables:
        return False
    values = {"id": session_id, "holder": holder, "until": ctx.clock() + ttl_seconds}
    return tx.count("refresh_compression_lock", values) > 0


def release_compression_lock(ctx: StateContext, session_id: str, holder: str) -> None:
    """Release the lock; has no effect if the caller does not hold it."""
    if session_id and holder:
        try:
            write(ctx, _release_lock, session_id, holder)
        except ThreadkeepError as error:
            log.warning("the lock for compacting %r stays until it ends: %s", session_id, error)


def _release_lock(ctx: StateContext, tx: Tx, session_id: str, holder: str) -> None:
    if "compression_locks" in ctx.form.tables:
        tx.run("release_compression_lock", {"id": session_id, "holder": holder})


def get_compression_lock_holder(ctx: StateContext, tx: Tx, session_id: str) -> str | None:
    """Return who is compacting a session, None if nobody is."""
    found = tx.one("compression_lock", {"id": session_id})
    return str(found[0]) if found is not None and found[1] >= ctx.clock() else None


def holds_lock(ctx: StateContext, tx: Tx, session_id: str, holder: str | None) -> bool:
    """Tell whether the holder has the lock of a session, and its time is not over."""
    found = tx.one("compression_lock", {"id": session_id})
    return found is not None and bool(holder) and found[0] == holder and found[1] > ctx.clock()


# ---------------------------------------------------------------------- turns


def conversation_of(tx: Tx, session_id: str) -> str:
    """Return the session that a chain of compactions began with: the name of the conversation."""
    chain = [session_id]
    while (parent := tx.value("continued_from", {"id": chain[-1]})) not in (None, *chain):
        chain.append(str(parent))
    return chain[-1]


def try_acquire_session_turn_lease(
    ctx: StateContext,
    session_id: str,
    holder: str,
    *,
    ttl_seconds: float = _TTL,
    patience_s: float | None = None,
) -> bool:
    """Take the turn of a conversation, by any of its sessions; False if it is taken.

    `patience_s` is how long to wait for the file itself.
    """
    if not session_id or not holder:
        return False
    with ctx.db.write(budget=patience_s) as tx:
        ctx.forms.look(tx)
        return _take_turn(ctx, tx, session_id, holder, ttl_seconds)


def _take_turn(ctx: StateContext, tx: Tx, session_id: str, holder: str, ttl_seconds: float) -> bool:
    ctx.widen(tx)
    now = ctx.clock()
    conversation = conversation_of(tx, session_id)
    found = tx.one("turn_lease", {"id": conversation})
    if found is not None and (found[1] <= now or _is_gone(tx, found[0])):
        tx.run("release_turn_lease", {"id": conversation, "holder": found[0]})
    values = {"conversation_id": conversation, "holder": holder, "acquired_at": now}
    values["expires_at"] = now + max(_SHORTEST, float(ttl_seconds))
    insert_row(ctx, tx, "session_turn_leases", values, unless_there=True)
    return _owner(tx, "turn_lease", conversation) == holder


def acquire_session_turn_lease(
    ctx: StateContext,
    session_id: str,
    holder: str,
    *,
    ttl_seconds: float = _TTL,
    wait_seconds: float = 1800.0,
    poll_interval_seconds: float = 1.0,
    on_wait: Callable[[float], object] | None = None,
    wait_notice_interval_seconds: float = 15.0,
    should_abort: Callable[[], object] | None = None,
    acquire_patience_s: float = 0.5,
) -> bool:
    """Wait for the turn of a conversation without blocking the file.

    `on_wait` is told the seconds waited when the wait begins and now and then; when `should_abort`
    says so, or the time is over, the answer is False.
    """
    began = time.monotonic()
    deadline = began + max(0.0, float(wait_seconds))
    every = max(0.0, float(wait_notice_interval_seconds))
    told: float | None = None
    while not _asked(should_abort):
        try:
            if try_acquire_session_turn_lease(
                ctx, session_id, holder, ttl_seconds=ttl_seconds, patience_s=acquire_patience_s
            ):
                return True
        except Busy as error:  # a long write of the holder: it ends
            log.debug("waiting for the turn of %r: %s", session_id, error)
        now = time.monotonic()
        if now >= deadline:
            return False
        if told is None or now - told >= every:
            _asked(on_wait, 0.0 if told is None else now - began)
            told = now
        time.sleep(min(max(0.01, float(poll_interval_seconds)), deadline - now))
    return False


def _asked(function: Callable[..., object] | None, *values: float) -> bool:
    """Call a function of the caller's; what it raises must not end the wait."""
    try:
        return function is not None and bool(function(*values))
    except Exception:
        log.debug("a function that was given for the wait failed", exc_info=True)
        return False


def refresh_session_turn_lease(
    ctx: StateContext, tx: Tx, session_id: str, holder: str, *, ttl_seconds: float = _TTL
) -> bool:
    """Extend the turn; False if the caller no longer holds it."""
    if not session_id or not holder or "session_turn_leases" not in ctx.form.tables:
        return False
    until = ctx.clock() + max(_SHORTEST, float(ttl_seconds))
    values = {"id": conversation_of(tx, session_id), "holder": holder, "until": until}
    return tx.count("refresh_turn_lease", values) > 0


def release_session_turn_lease(ctx: StateContext, tx: Tx, session_id: str, holder: str) -> None:
    """Release the turn; has no effect if the caller does not hold it."""
    if session_id and holder and "session_turn_leases" in ctx.form.tables:
        values = {"id": conversation_of(tx, session_id), "holder": holder}
        tx.run("release_turn_lease", values)


def has_live_session_turn_lease(ctx: StateContext, tx: Tx, session_id: str) -> bool:
    """Return whether a turn of the conversation is running anywhere."""
    found = tx.one("turn_lease", {"id": conversation_of(tx, session_id)})
    return found is not None and found[1] > ctx.clock() and not _is_gone(tx, found[0])


# ---------------------------------------------------------------------- what they refuse


def refuse_append(
    ctx: StateContext,
    tx: Tx,
    session_id: str,
    turn_lease_holder: str | None = None,
    turn_lease_ttl_seconds: float = _TTL,
) -> None:
    """Raise if a writer has lost its turn, or the session continues in another one."""
    if turn_lease_holder:
        _refuse_lost_turn(ctx, tx, session_id, turn_lease_holder, turn_lease_ttl_seconds)
    if ctx.form.answers.closed_by_compression:
        refuse_closed(tx, session_id)


def refuse_closed(tx: Tx, session_id: str) -> None:
    """Raise if a session continues in another one."""
    if tx.one("closed_by_compression", {"id": session_id}) is not None:
        raise CompressionSessionClosedError(session_id)


def refuse_during_turn(ctx: StateContext, tx: Tx, session_id: str) -> None:
    """Raise while a turn or a compaction runs: it would bring back what is taken out."""
    if has_live_session_turn_lease(ctx, tx, session_id):
        msg = f"a turn of session {session_id!r} is running"
        raise SessionTurnLeaseLostError(msg, hint="stop it, or wait for its end; nothing changed")
    found = tx.one("compression_lock", {"id": session_id})
    if found is not None and found[1] > ctx.clock() and not _is_gone(tx, found[0]):
        msg = f"session {session_id!r} is being compacted"
        raise SessionCompressionInProgressError(msg, hint="wait for its end; nothing was changed")


def _refuse_lost_turn(ctx: StateContext, tx: Tx, session_id: str, holder: str, ttl: float) -> None:
    conversation = conversation_of(tx, session_id)
    found = tx.one("turn_lease", {"id": conversation})
    if found is None or found[0] != holder:
        msg = f"turn lease lost: the turn of session {session_id!r} is not {holder!r}'s any more"
        raise SessionTurnLeaseLostError(msg, hint="take it again, and read what was said meanwhile")
    if found[1] <= ctx.clock():  # over, but nobody took it: it continues
        until = ctx.clock() + max(_SHORTEST, float(ttl))
        values = {"id": conversation, "holder": holder, "until": until}
        tx.run("refresh_turn_lease", values)


def _owner(tx: Tx, query: str, name: str) -> str | None:
    found = tx.one(query, {"id": name})
    return None if found is None else str(found[0])


def _is_gone(tx: Tx, holder: str) -> bool:
    """Tell whether a holder names a process of this machine that has ended.

    A server has writers on many machines, and a holder does not name its own: its lease counts.
    """
    if tx.engine != "sqlite":
        return False
    found = _PROCESS.search(holder or "")
    foreign = _NAMESPACE.search(holder or "")
    if found is None or (foreign is not None and foreign[1] != _own_namespace()):
        return False
    return 0 < int(found[1]) <= _HIGHEST_PROCESS and not is_running(int(found[1]))


def _own_namespace() -> str | None:
    try:
        return "".join(filter(str.isdigit, str(Path("/proc/self/ns/pid").readlink())))
    except OSError:
        return None


# ------------------------------------------------------------------------------
# Processes that serve sessions: their heartbeat, and the sessions of those that died.

_TABLE: Final = "gateway_heartbeats"
_ORPHANED: Final = "startup_orphan_reap"
# Ends that say that a process went away, not that somebody ended the conversation.
_AUTOMATIC: Final = (
    *("agent_close", "ws_orphan_reap", "superseded_by_resume", _ORPHANED),
    *("tui_shutdown", "ws_disconnect", "idle_timeout", "lru_evict"),
)
# Ends with which a conversation is over, or continues elsewhere.
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
    """Record that a process is running; its id stays the same until it ends."""
    if not backend_id:
        return
    add_backends(ctx.forms, tx)
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
    """Remove a process that ends; False if it was not known."""
    return _TABLE in ctx.form.tables and tx.count("drop_backend", {"id": str(backend_id)}) > 0


def prune_stale_heartbeats(ctx: StateContext, tx: Tx, *, max_age_seconds: float) -> list[str]:
    """Remove processes without a heartbeat for a given time, and return their ids."""
    if max_age_seconds <= 0:
        return []
    cutoff = ctx.clock() - max_age_seconds
    stale = [str(row[0]) for row in tx.all("stale_backends", {"cutoff": cutoff})]
    for backend_id in stale:
        tx.run("drop_backend", {"id": backend_id})
    return stale


def list_backend_heartbeats(_ctx: StateContext, tx: Tx) -> list[Json]:
    """Return all known processes, the most recently seen first."""
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
    """End the sessions whose process died, and return their ids.

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
    """Locks whose time is over go with the session: nobody may continue with them later."""
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
    """Reopen a deliberately ended session that its host still serves; return its end reason.

    An end that was automatic stays, and so does one at which the conversation was reset or
    continues elsewhere. `provenance` is for the log; a writer waits as long as the store does.
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


# ------------------------------------------------------------------------------
# Heartbeats of a running turn, and how a session stands by its last message.

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
    """Record a session's activity, with its source; never an earlier time."""
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
    """Remove a session's activity when its turn is over; the time stays."""
    row = tx.one("heartbeat_of", {"id": session_id})
    if row is not None and (row[1] or row[2] not in (None, "", _UNKNOWN)):
        values = {"last_activity_description": "", "last_activity_provenance": _UNKNOWN}
        update_session(ctx, tx, session_id, values)


def get_session_activity(ctx: StateContext, tx: Tx, session_id: str) -> Json | None:
    """Return the last heartbeat of a session, its activity, and how long ago that was."""
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
    """Return where a heartbeat came from; Hermes says `unknown` of what it does not know."""
    value = str(getattr(provenance, "value", provenance) or "").strip()
    return value if value in _PROVENANCES else _UNKNOWN


def session_lifecycle_statuses(
    _ctx: StateContext, tx: Tx, session_ids: Sequence[str]
) -> dict[str, str]:
    """Return the state of each session: complete, interrupted, error or empty."""
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
