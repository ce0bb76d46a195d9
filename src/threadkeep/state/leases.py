"""Who may do what at a time: one compaction of a session, one turn of a conversation.

Both are rows with a holder and an end, in tables that Hermes has and obeys. A holder that does not
come back loses its row when the time is over, or at once if it names a process that is gone.
"""

import logging
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from threadkeep.base.processes import is_running
from threadkeep.base.tx import Tx
from threadkeep.errors import Busy, Conflict, ThreadkeepError
from threadkeep.state.columns import insert_row
from threadkeep.state.context import StateContext
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
            hint="append to the session that get_compression_tip gives",
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
    """Take the lock for compacting a session; False if somebody has it, or it cannot be had."""
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
    if found is not None and (found[1] < now or _is_gone(found[0])):
        log.warning("the lock for compacting %r was left by %s", session_id, found[0])
        tx.run("release_compression_lock", {"id": session_id, "holder": found[0]})
    values = {"session_id": session_id, "holder": holder, "acquired_at": now}
    values["expires_at"] = now + ttl_seconds
    insert_row(ctx, tx, "compression_locks", values, or_ignore=True)
    return _owner(tx, "compression_lock", session_id) == holder


def refresh_compression_lock(
    ctx: StateContext, session_id: str, holder: str, ttl_seconds: float = _TTL
) -> bool:
    """Keep the lock for longer; False if it is not the holder's any more.

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
    return tx.run("refresh_compression_lock", values) > 0


def release_compression_lock(ctx: StateContext, session_id: str, holder: str) -> None:
    """Give the lock back; nothing happens if it is not the holder's."""
    if session_id and holder:
        try:
            write(ctx, _release_lock, session_id, holder)
        except ThreadkeepError as error:
            log.warning("the lock for compacting %r stays until it ends: %s", session_id, error)


def _release_lock(ctx: StateContext, tx: Tx, session_id: str, holder: str) -> None:
    if "compression_locks" in ctx.form.tables:
        tx.run("release_compression_lock", {"id": session_id, "holder": holder})


def get_compression_lock_holder(ctx: StateContext, tx: Tx, session_id: str) -> str | None:
    """Give who is compacting a session just now, None if nobody is."""
    found = tx.one("compression_lock", {"id": session_id})
    return str(found[0]) if found is not None and found[1] >= ctx.clock() else None


def holds_lock(ctx: StateContext, tx: Tx, session_id: str, holder: str | None) -> bool:
    """Tell whether the holder has the lock of a session, and its time is not over."""
    found = tx.one("compression_lock", {"id": session_id})
    return found is not None and bool(holder) and found[0] == holder and found[1] > ctx.clock()


# ---------------------------------------------------------------------- turns


def conversation_of(tx: Tx, session_id: str) -> str:
    """Give the session that a chain of compactions began with: the name of the conversation."""
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
    """Take the turn of a conversation, whichever of its sessions is named; False if it is taken.

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
    if found is not None and (found[1] <= now or _is_gone(found[0])):
        tx.run("release_turn_lease", {"id": conversation, "holder": found[0]})
    values = {"conversation_id": conversation, "holder": holder, "acquired_at": now}
    values["expires_at"] = now + max(_SHORTEST, float(ttl_seconds))
    insert_row(ctx, tx, "session_turn_leases", values, or_ignore=True)
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
    """Wait for the turn of a conversation without keeping anybody from the file.

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
    """Keep the turn for longer; False if it is not the holder's any more."""
    if not session_id or not holder or "session_turn_leases" not in ctx.form.tables:
        return False
    until = ctx.clock() + max(_SHORTEST, float(ttl_seconds))
    values = {"id": conversation_of(tx, session_id), "holder": holder, "until": until}
    return tx.run("refresh_turn_lease", values) > 0


def release_session_turn_lease(ctx: StateContext, tx: Tx, session_id: str, holder: str) -> None:
    """Give the turn back; nothing happens if it is not the holder's."""
    if session_id and holder and "session_turn_leases" in ctx.form.tables:
        values = {"id": conversation_of(tx, session_id), "holder": holder}
        tx.run("release_turn_lease", values)


def has_live_session_turn_lease(ctx: StateContext, tx: Tx, session_id: str) -> bool:
    """Tell whether a turn of the conversation is running anywhere."""
    found = tx.one("turn_lease", {"id": conversation_of(tx, session_id)})
    return found is not None and found[1] > ctx.clock() and not _is_gone(found[0])


# ---------------------------------------------------------------------- what they refuse


def refuse_append(
    ctx: StateContext,
    tx: Tx,
    session_id: str,
    turn_lease_holder: str | None = None,
    turn_lease_ttl_seconds: float = _TTL,
) -> None:
    """Raise if a writer has lost its turn, or the session goes on in another one."""
    if turn_lease_holder:
        _refuse_lost_turn(ctx, tx, session_id, turn_lease_holder, turn_lease_ttl_seconds)
    if ctx.form.answers.closed_by_compression:
        refuse_closed(tx, session_id)


def refuse_closed(tx: Tx, session_id: str) -> None:
    """Raise if a session goes on in another one."""
    if tx.one("closed_by_compression", {"id": session_id}) is not None:
        raise CompressionSessionClosedError(session_id)


def refuse_during_turn(ctx: StateContext, tx: Tx, session_id: str) -> None:
    """Raise while a turn or a compaction runs: it would bring back what is taken out."""
    if has_live_session_turn_lease(ctx, tx, session_id):
        msg = f"a turn of session {session_id!r} is running"
        raise SessionTurnLeaseLostError(msg, hint="stop it, or wait for its end; nothing changed")
    found = tx.one("compression_lock", {"id": session_id})
    if found is not None and found[1] > ctx.clock() and not _is_gone(found[0]):
        msg = f"session {session_id!r} is being compacted"
        raise SessionCompressionInProgressError(msg, hint="wait for its end; nothing was changed")


def _refuse_lost_turn(ctx: StateContext, tx: Tx, session_id: str, holder: str, ttl: float) -> None:
    conversation = conversation_of(tx, session_id)
    found = tx.one("turn_lease", {"id": conversation})
    if found is None or found[0] != holder:
        msg = f"turn lease lost: the turn of session {session_id!r} is not {holder!r}'s any more"
        raise SessionTurnLeaseLostError(msg, hint="take it again, and read what was said meanwhile")
    if found[1] <= ctx.clock():  # over, but nobody took it: it goes on
        until = ctx.clock() + max(_SHORTEST, float(ttl))
        values = {"id": conversation, "holder": holder, "until": until}
        tx.run("refresh_turn_lease", values)


def _owner(tx: Tx, query: str, name: str) -> str | None:
    found = tx.one(query, {"id": name})
    return None if found is None else str(found[0])


def _is_gone(holder: str) -> bool:
    """Tell whether a holder names a process of this machine that has ended."""
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
