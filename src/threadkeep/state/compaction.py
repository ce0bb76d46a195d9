"""Conversations made shorter: in their place, in a new session, or replaced by another text.

Nothing that was said is lost: the rows stay, marked as summarised or taken back, unless the caller
asks for them to be deleted. Messages that come in while a summary is being made survive it.
"""

import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from threadkeep.base.sqlite.backup import make_backup
from threadkeep.base.tx import Sql, Tx
from threadkeep.errors import Conflict, NotFound, ThreadkeepError
from threadkeep.state.context import (
    LATER_COLUMNS,
    Json,
    StateContext,
    add_column,
    clean,
    reading,
)
from threadkeep.state.conversation import BARE_MARK
from threadkeep.state.leases import (
    CompressionSessionBusyError,
    SessionCompressionInProgressError,
    holds_lock,
    keep_lock,
    refuse_closed,
)
from threadkeep.state.messages import MessageCounts, copy_message, insert_turns, mark_messages
from threadkeep.state.rewind import count_calls
from threadkeep.state.rows import insert_row, read_sessions, refresh_session_hash, update_rows
from threadkeep.state.session_config import patch_config, prompt_columns
from threadkeep.state.sessions import check_id
from threadkeep.state.verbs import write

# What a continuation takes over from the session that it continues.
_INHERITED: Final = (
    *("git_branch", "git_repo_root", "user_id", "session_key", "chat_id", "chat_type"),
    *("thread_id", "display_name", "origin_json"),
)


class SessionUnknown(NotFound, ValueError):
    """The session does not exist."""


class CompressionRefused(Conflict, RuntimeError):
    """The session cannot continue in another one as things stand; nothing was changed."""


# ---------------------------------------------------------------------- in its place


def archive_and_compact(
    ctx: StateContext,
    tx: Tx,
    session_id: str,
    compacted_messages: list[Json],
    model_config_patch: Mapping[str, Any] | None = None,
    watermark: int | None = None,
    lock_holder: str | None = None,
    tail_count: int = 0,
) -> int:
    """Replace a session's live messages with a shorter conversation; return its length.

    Those are marked as summarised: out of the conversation, found by search. What came in behind
    the `watermark` follows the summary. The last `tail_count` of the new messages are copies of the
    old ones, which then count as taken back, so that they are found once. With `lock_holder` the
    lock of the compaction must still be that holder's. Settings are patched as well.
    """
    if lock_holder is not None and not holds_lock(ctx, tx, session_id, lock_holder):
        msg = f"compression lease lost: {session_id!r} is not {lock_holder!r}'s to compact any more"
        raise SessionCompressionInProgressError(msg, hint="read the session again before the next")
    values: Json = {}
    if model_config_patch is not None:
        found = tx.one("config_of", {"id": session_id})
        if found is None:
            msg = f"there is no session {session_id!r} to compact"
            raise SessionUnknown(msg, hint="its messages were left as they are")
        values["model_config"] = patch_config(found[0], model_config_patch)
    live = [int(row[0]) for row in tx.all("active_ids", {"session_id": session_id})]
    late = [each for each in live if watermark is not None and each > watermark]
    seen = live[: len(live) - len(late)]
    carried = seen[len(seen) - tail_count :] if tail_count > 0 else []
    twice = carried + late if tail_count > 0 else carried
    mark_messages(ctx, tx, [each for each in live if each not in twice], _SUMMARISED)
    mark_messages(ctx, tx, twice, _TAKEN_BACK)
    added = insert_turns(ctx, tx, session_id, compacted_messages)
    total = _copy_behind(ctx, tx, late, session_id, added)
    values |= {"message_count": total.messages, "tool_call_count": total.calls}
    update_rows(ctx, tx, "sessions", {"id": session_id}, values)
    return total.messages


_SUMMARISED: Final = {"active": 0, "compacted": 1}
_TAKEN_BACK: Final = {"active": 0, "compacted": 0}


def _copy_behind(
    ctx: StateContext, tx: Tx, ids: Iterable[int], session_id: str, added: MessageCounts
) -> MessageCounts:
    """Copy messages behind those that were added, whole, and count all."""
    messages, calls = added
    for message_id in ids:
        copy_message(ctx, tx, message_id, session_id)
        messages += 1
        column = tx.value("calls_of_message", {"id": message_id})
        calls += count_calls(column) if column else 0
    return MessageCounts(messages, calls)


def replace_messages(
    ctx: StateContext,
    tx: Tx,
    session_id: str,
    messages: list[Json],
    active_only: bool = False,  # noqa: FBT001, FBT002
    archive_dropped: bool = False,  # noqa: FBT001, FBT002
) -> None:
    """Replace the messages of a session, in one transaction.

    All of them are deleted, or with `active_only` the live ones; with `archive_dropped` the live
    ones stay, as taken back.
    """
    if ctx.form.answers.closed_by_compression:
        refuse_closed(tx, session_id)
    if archive_dropped:
        ctx.widen(tx)
        live = [int(row[0]) for row in tx.all("active_ids", {"session_id": session_id})]
        mark_messages(ctx, tx, live, {"active": 0})
    elif active_only and "active" in ctx.form.tables["messages"]:
        tx.run("delete_live_messages", {"session_id": session_id})
    else:
        tx.run("delete_messages", {"session_id": session_id})
    added = insert_turns(ctx, tx, session_id, messages)
    counts = {"message_count": added.messages, "tool_call_count": added.calls}
    update_rows(ctx, tx, "sessions", {"id": session_id}, counts)


# ---------------------------------------------------------------------- in a new session


def publish_compression_child(
    ctx: StateContext,
    tx: Tx,
    *,
    parent_session_id: str,
    child_session_id: str,
    source: str,
    messages: list[Json],
    model: str | None = None,
    model_config: Mapping[str, Any] | None = None,
    system_prompt: str | None = None,
    cwd: str | None = None,
    profile_name: str | None = None,
    compression_lock_holder: str | None = None,
    require_compression_lease: bool = True,
    require_lease_refresh: bool = False,
    lease_ttl_seconds: float = 300.0,
    watermark: int | None = None,
    watermark_ceiling: int | None = None,
) -> None:
    """Continue a session in a new one that begins with `messages`, all in one transaction.

    The old one is ended as compacted. What it got behind the `watermark`, up to the ceiling, is
    copied behind the messages. The lock of the compaction must be the holder's, who may get it
    for longer with `require_lease_refresh`.
    """
    if require_lease_refresh and compression_lock_holder:
        keep_lock(ctx, tx, parent_session_id, compression_lock_holder, lease_ttl_seconds)
    if require_compression_lease and not holds_lock(
        ctx, tx, parent_session_id, compression_lock_holder
    ):
        msg = f"compression lease lost: {parent_session_id!r} is not this holder's to compact"
        raise CompressionSessionBusyError(msg, hint="take it again, and read the session again")
    parent = _open_parent(ctx, tx, parent_session_id)
    if not messages:
        msg = f"session {parent_session_id!r} would continue in an empty one"
        raise CompressionRefused(msg, hint="pass the messages that the new one starts with")
    check_id(child_session_id)
    values = {name: parent[name] for name in _INHERITED}
    values |= {
        "id": child_session_id,
        "source": source,
        "model": model,
        "model_config": json.dumps(clean(ctx, model_config)) if model_config else None,
        "parent_session_id": parent_session_id,
        "cwd": cwd or parent["cwd"],
        "profile_name": profile_name or parent["profile_name"],
        "started_at": ctx.clock(),
        **prompt_columns(ctx, tx, clean(ctx, system_prompt)),
    }
    insert_row(ctx, tx, "sessions", values)
    added = insert_turns(ctx, tx, child_session_id, messages)
    late = _between(tx, parent_session_id, watermark, watermark_ceiling)
    total = _copy_behind(ctx, tx, late, child_session_id, added)
    counts = {"message_count": total.messages, "tool_call_count": total.calls}
    update_rows(ctx, tx, "sessions", {"id": child_session_id}, counts)
    ended = {"id": parent_session_id, "now": ctx.clock(), "end_reason": "compression"}
    tx.run("end_session", ended)
    if ctx.side:
        relation = {"id": child_session_id, "parent_id": parent_session_id, "kind": "compression"}
        tx.run("put_relation", relation)
        refresh_session_hash(tx, child_session_id)


def _open_parent(ctx: StateContext, tx: Tx, session_id: str) -> Json:
    found = read_sessions(ctx, tx, "get_session", {"id": session_id})
    if not found:
        msg = f"there is no session {session_id!r} to continue"
        raise CompressionRefused(msg, hint="`threadkeep state ls` shows the sessions")
    if found[0]["ended_at"] is not None:
        msg = f"session {session_id!r} has ended, as {found[0]['end_reason']!r}"
        raise CompressionRefused(msg, hint="reopen it, or continue in the session that follows it")
    return found[0]


def _between(tx: Tx, session_id: str, after: int | None, up_to: int | None) -> list[int]:
    live = [int(row[0]) for row in tx.all("active_ids", {"session_id": session_id})]
    return [
        each
        for each in live
        if after is not None and each > after and (up_to is None or each <= up_to)
    ]


def find_live_compression_child(ctx: StateContext, tx: Tx, parent_session_id: str) -> Json | None:
    """Return the one open session that continues a compacted one, None if there is none."""
    if tx.one("closed_by_compression", {"id": parent_session_id}) is None:
        return None
    found = read_sessions(ctx, tx, "open_continuations", {"id": parent_session_id})
    return found[0] if len(found) == 1 else None


def reopen_orphaned_compression_session(ctx: StateContext, tx: Tx, session_id: str) -> bool:
    """Reopen a session that was ended by a compaction which published no continuation."""
    if tx.one("closed_by_compression", {"id": session_id}) is None:
        return False
    if tx.one("any_continuation", {"id": session_id}) is not None:
        return False
    lock = tx.one("compression_lock", {"id": session_id})
    if lock is not None:
        if lock[1] is None or lock[1] >= ctx.clock():
            return False
        # Its holder could keep it for longer, and would then compact what is open again.
        tx.run("release_compression_lock", {"id": session_id, "holder": lock[0]})
    tx.run("reopen_session", {"id": session_id})
    return True


# ---------------------------------------------------------------------- bare marks


def purge_stale_tool_call_markers(
    ctx: StateContext, *, dry_run: bool = False, backup: bool = True
) -> Json:
    """Empty the answers that contain only a tool's name in brackets, beside its call.

    Conversations leave them out anyway; a backup is made before anything is changed.
    """
    found = reading(ctx, _bare_marks)
    path = None
    if found and not dry_run:
        path = str(make_backup(ctx.db, reason="before-clearing-marks")) if backup else None
        found = write(ctx, _clear_marks)
    answer: Json = {"dry_run": dry_run, "rows_affected": len(found), "row_ids": found}
    return {**answer, "backup_path": path}


def _bare_marks(tx: Tx) -> list[int]:
    rows = tx.all("answers_with_calls")
    return [
        int(row[0])
        for row in rows
        if isinstance(row[1], str) and BARE_MARK.fullmatch(row[1].strip())
    ]


def _clear_marks(_ctx: StateContext, tx: Tx) -> list[int]:
    found = _bare_marks(tx)
    tx.run("clear_content", {"ids": json.dumps(found)})
    return found


# ------------------------------------------------------------------------------
# How often compactions of a session failed or did not help, and when the next may be tried.

log = logging.getLogger(__name__)

# Columns of later programs: a file gets one when it is first set, as those programs would add it.


class CooldownChanged(Conflict, RuntimeError):
    """The cool-down of the session could not be set back to what it was."""


def record_compression_failure_cooldown(
    ctx: StateContext, session_id: str, cooldown_until: float, error: str | None = None
) -> None:
    """Record that compacting a session failed, why, and until when not to retry it."""
    _set_cooldown(ctx, session_id, cooldown_until, error)


def clear_compression_failure_cooldown(ctx: StateContext, session_id: str) -> None:
    """Allow a session to be compacted again at once."""
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
    """Return until when a session must not be compacted, and why; None if it may be."""
    row = get_compression_failure_cooldown_row(ctx, tx, session_id)
    until, now = row["cooldown_until"], ctx.clock()
    if until is None or until <= now:
        return None
    return {"cooldown_until": until, "remaining_seconds": until - now, "error": row["error"]}


def get_compression_failure_cooldown_row(_ctx: StateContext, tx: Tx, session_id: str) -> Json:
    """Return the cool-down of a session as it is stored, even if it has expired."""
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
    """Restore the cool-down of a session from a row; raises if that is not possible."""
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
        raise CooldownChanged(msg, hint="nothing was changed; check the session")


# ---------------------------------------------------------------------- streaks


def get_compression_fallback_streak(ctx: StateContext, tx: Tx, session_id: str) -> int:
    """Return how many compactions in a row ran without a model."""
    return int(_number(ctx, tx, session_id, "compression_fallback_streak"))


def set_compression_fallback_streak(
    ctx: StateContext, tx: Tx, session_id: str, streak: int
) -> None:
    """Record how many compactions in a row ran without a model."""
    _set_number(ctx, tx, session_id, "compression_fallback_streak", max(0, int(streak)))


def get_compression_ineffective_count(ctx: StateContext, tx: Tx, session_id: str) -> int:
    """Return how many compactions hardly shortened a session."""
    return int(_number(ctx, tx, session_id, "compression_ineffective_count"))


def set_compression_ineffective_count(
    ctx: StateContext, tx: Tx, session_id: str, count: int
) -> None:
    """Record how many compactions hardly shortened a session."""
    _set_number(ctx, tx, session_id, "compression_ineffective_count", max(0, int(count)))


def get_compression_recovery_deadline(ctx: StateContext, tx: Tx, session_id: str) -> float:
    """Return when a session may be compacted again after a useless try; 0.0 if not set."""
    return float(_number(ctx, tx, session_id, "compression_recovery_deadline"))


def set_compression_recovery_deadline(
    ctx: StateContext, tx: Tx, session_id: str, deadline: float | None
) -> None:
    """Record when to compact a session again after a useless try; 0 or None removes it."""
    until = max(0.0, float(deadline or 0.0)) or None
    _set_number(ctx, tx, session_id, "compression_recovery_deadline", until)


def get_compression_overload_streak(ctx: StateContext, tx: Tx, session_id: str) -> int:
    """Return how many compactions in a row were aborted because the model was overloaded."""
    return int(_number(ctx, tx, session_id, "compression_overload_streak"))


def set_compression_overload_streak(
    ctx: StateContext, tx: Tx, session_id: str, streak: int
) -> None:
    """Record how many compactions in a row were aborted because the model was overloaded."""
    _set_number(ctx, tx, session_id, "compression_overload_streak", max(0, int(streak)))


def increment_compression_overload_streak(ctx: StateContext, tx: Tx, session_id: str) -> int | None:
    """Count one more aborted compaction; return the count, None if it does not exist."""
    if tx.one("session_exists", {"id": session_id}) is None:
        return None
    streak = get_compression_overload_streak(ctx, tx, session_id) + 1
    set_compression_overload_streak(ctx, tx, session_id, streak)
    return streak


def _number(ctx: StateContext, tx: Tx, session_id: str, column: str) -> float:
    """Read a number of a session, never below 0; one that is missing is 0."""
    if column not in ctx.form.tables["sessions"]:
        return 0
    sql = f"SELECT {column} FROM sessions WHERE id = :id"  # noqa: S608
    found = tx.one(Sql(sql), {"id": session_id})
    try:
        return max(0, float(found[0] or 0)) if found else 0
    except (TypeError, ValueError):
        return 0


def _set_number(ctx: StateContext, tx: Tx, session_id: str, column: str, value: Any) -> None:
    if column in LATER_COLUMNS and column not in ctx.form.tables["sessions"]:
        if not value:
            return
        add_column(ctx.forms, tx, column)
    update_rows(ctx, tx, "sessions", {"id": session_id}, {column: value})


# ---------------------------------------------------------------------- chats


def increment_hygiene_failure_streak(ctx: StateContext, tx: Tx, session_key: str) -> int:
    """Count one more failed clean-up of a chat; return how many failed in a row."""
    if not session_key:
        return 1
    ctx.widen(tx)
    return int(tx.value("count_hygiene_failure", {"key": session_key}))


def reset_hygiene_failure_streak(ctx: StateContext, tx: Tx, session_key: str) -> None:
    """Record that a clean-up of a chat succeeded."""
    if "gateway_hygiene_state" in ctx.form.tables:
        tx.run("reset_hygiene_failures", {"key": session_key})
