"""Which conversation of a messenger owns a session, and where the gateway sends what comes in."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from threadkeep.base.tx import Tx
from threadkeep.state.context import TOPIC_BINDINGS, Json, StateContext, add_topics
from threadkeep.state.rows import (
    insert_row,
    preview_of,
    read_sessions,
    refresh_session_hash,
    update_rows,
)
from threadkeep.state.session_config import RESET_END_REASONS
from threadkeep.state.verbs import get_meta, put_meta

_RESETS = json.dumps(RESET_END_REASONS)


def record_gateway_session_peer(
    ctx: StateContext,
    tx: Tx,
    session_id: str,
    *,
    source: str,
    user_id: str | None = None,
    session_key: str | None = None,
    chat_id: str | None = None,
    chat_type: str | None = None,
    thread_id: str | None = None,
    display_name: str | None = None,
    origin_json: str | None = None,
    include_compression_ancestors: bool = False,
) -> None:
    """Record which conversation owns a session, which is created if it is missing.

    A `display_name` or `origin_json` of None leaves what is there. With
    `include_compression_ancestors` the sessions that it continues go along.
    """
    if not session_id or not session_key:
        return
    kept = {"display_name": display_name, "origin_json": origin_json}
    values: Json = {
        "source": source,
        "user_id": user_id,
        "session_key": session_key,
        "chat_id": chat_id,
        "chat_type": chat_type,
        "thread_id": thread_id,
        **{name: value for name, value in kept.items() if value is not None},
    }
    ids = [session_id]
    if include_compression_ancestors:
        ids = [str(row[0]) for row in tx.all("with_compressed_ancestors", {"id": session_id})]
    elif tx.one("session_exists", {"id": session_id}) is None:
        insert_row(ctx, tx, "sessions", {"id": session_id, "started_at": ctx.clock(), **values})
    for each in ids:
        update_rows(ctx, tx, "sessions", {"id": each}, values)
        if ctx.side:
            refresh_session_hash(tx, each)


def set_expiry_finalized(
    _ctx: StateContext,
    tx: Tx,
    session_id: str,
    finalized: bool = True,  # noqa: FBT001, FBT002
) -> None:
    """Record that the gateway has handled the expiry of a session."""
    if session_id:
        tx.run("set_finalized", {"id": session_id, "finalized": bool(finalized)})


def list_gateway_sessions(
    ctx: StateContext, tx: Tx, *, platform: str | None = None, active_only: bool = True
) -> list[Json]:
    """Return the newest session of each conversation, the last active first."""
    params = {"platform": platform or None, "active_only": bool(active_only)}
    return read_sessions(ctx, tx, "gateway_sessions", params)


def find_session_by_origin(
    _ctx: StateContext,
    tx: Tx,
    *,
    platform: str,
    chat_id: str,
    thread_id: str | None = None,
    user_id: str | None = None,
) -> str | None:
    """Return the newest session that continues in a chat; None if it may be another person's."""
    if not platform or chat_id in (None, ""):
        return None
    params = {
        "platform": platform,
        "chat_id": str(chat_id),
        "thread_id": None if thread_id is None else str(thread_id),
    }
    rows = tx.all("sessions_of_origin", params)
    if user_id:
        wanted = [row for row in rows if row[1] == str(user_id)]
        if not wanted and len(rows) > 1:
            return None
        rows = wanted or rows
    elif len({user for _, user in rows if user}) > 1:
        return None
    return str(rows[0][0]) if rows else None


def find_latest_gateway_session_for_peer(
    ctx: StateContext,
    tx: Tx,
    *,
    source: str,
    user_id: str | None = None,
    session_key: str | None = None,
    chat_id: str | None = None,
    chat_type: str | None = None,
    thread_id: str | None = None,
) -> Json | None:
    """Return the session in which a conversation can continue; never one from before a reset.

    By its key, one with messages first; else by the whole of chat, thread and user.
    """
    if not session_key:
        return None
    params: Json = {"source": source, "session_key": session_key, "resets": _RESETS}
    found = read_sessions(ctx, tx, "latest_of_key", params)
    if not found and chat_id is not None and chat_type is not None:
        peer = {"user_id": user_id, "chat_id": chat_id, "chat_type": chat_type}
        params = {"source": source, **peer, "thread_id": thread_id, "resets": _RESETS}
        found = read_sessions(ctx, tx, "latest_of_peer", params)
    return found[0] if found else None


# ---------------------------------------------------------------------- routing


def save_gateway_routing_entry(
    ctx: StateContext, tx: Tx, session_key: str, entry_json: str, *, scope: str = ""
) -> None:
    """Store where a conversation is routed to, replacing an earlier route."""
    if session_key and entry_json:
        _put(ctx, tx, scope, {session_key: entry_json})


def replace_gateway_routing_entries(
    ctx: StateContext, tx: Tx, entries: Mapping[str, str], *, scope: str = ""
) -> None:
    """Replace all routes of a scope with these."""
    tx.run("empty_scope", {"scope": scope})
    _put(ctx, tx, scope, entries or {})


def _put(ctx: StateContext, tx: Tx, scope: str, entries: Mapping[str, str]) -> None:
    now = ctx.clock()
    for key, entry in entries.items():
        if key and entry:
            tx.run("put_routing", {"scope": scope, "key": key, "entry": entry, "now": now})


def load_gateway_routing_entries(_ctx: StateContext, tx: Tx, *, scope: str = "") -> dict[str, str]:
    """Return the routes of a scope by their conversations."""
    return dict(tx.all("routing_of_scope", {"scope": scope}))


def delete_gateway_routing_entries(
    ctx: StateContext, tx: Tx, session_keys: Iterable[str], *, scope: str = ""
) -> None:
    """Delete routes of a scope."""
    if "gateway_routing" in ctx.form.tables:
        for key in session_keys or ():
            tx.run("drop_routing", {"scope": scope, "key": key})


def routes_to(ctx: StateContext, tx: Tx, session_ids: set[str]) -> list[tuple[str, str]]:
    """Return the scope and key of all routes that lead to these sessions."""
    routes = tx.all("all_routing") if "gateway_routing" in ctx.form.tables else []
    return [(scope, key) for scope, key, entry in routes if _target(entry) in session_ids]


def drop_routes(tx: Tx, routes: Iterable[tuple[str, str]]) -> None:
    """Drop routes, each by its scope and key."""
    for scope, key in routes:
        tx.run("drop_routing", {"scope": scope, "key": key})


def _target(entry: str) -> Any:
    try:
        found = json.loads(entry)
    except (TypeError, ValueError, RecursionError):
        return None
    target = found.get("session_id") if isinstance(found, dict) else None
    return target if isinstance(target, str) else None


# ------------------------------------------------------------------------------
# Telegram topics: a session for each thread of a chat. Their tables are made on demand.

_MODE: Final = "telegram_dm_topic_mode"
_NUMBER: Final = "telegram_dm_topic_schema_version"
_VERSION: Final = 2


def apply_telegram_topic_migration(ctx: StateContext, tx: Tx) -> None:
    """Create the tables of Telegram topics, or migrate older ones."""
    number = str(get_meta(ctx, tx, _NUMBER) or "")
    if number.isdigit() and int(number) >= _VERSION and TOPIC_BINDINGS in ctx.form.tables:
        return
    add_topics(ctx.forms, tx)
    put_meta(ctx, tx, _NUMBER, str(_VERSION))


def enable_telegram_topic_mode(
    ctx: StateContext,
    tx: Tx,
    *,
    chat_id: str,
    user_id: str,
    has_topics_enabled: bool | None = None,
    allows_users_to_create_topics: bool | None = None,
) -> None:
    """Turn topics on in a private chat."""
    apply_telegram_topic_migration(ctx, tx)
    values = {
        "chat_id": str(chat_id),
        "user_id": str(user_id),
        "now": ctx.clock(),
        "has_topics": has_topics_enabled,
        "may_create": allows_users_to_create_topics,
    }
    tx.run("put_topic_mode", values)


def disable_telegram_topic_mode(
    ctx: StateContext, tx: Tx, *, chat_id: str, clear_bindings: bool = True
) -> None:
    """Turn topics off in a chat and, by default, remove the bindings of its threads."""
    if _MODE in ctx.form.tables:
        tx.run("end_topic_mode", {"chat_id": str(chat_id), "now": ctx.clock()})
    if clear_bindings and TOPIC_BINDINGS in ctx.form.tables:
        tx.run("drop_topics", {"chat_id": str(chat_id)})


def is_telegram_topic_mode_enabled(
    _ctx: StateContext, tx: Tx, *, chat_id: str, user_id: str
) -> bool:
    """Return whether topics are on for a user in a chat."""
    return bool(tx.value("topic_mode", {"chat_id": str(chat_id), "user_id": str(user_id)}))


def get_telegram_topic_binding(
    _ctx: StateContext, tx: Tx, *, chat_id: str, thread_id: str
) -> Json | None:
    """Return the session that a thread is bound to, None if it is not."""
    params = {"chat_id": str(chat_id), "thread_id": str(thread_id)}
    return next(iter(tx.dicts("topic", params)), None)


def list_telegram_topic_bindings_for_chat(
    _ctx: StateContext, tx: Tx, *, chat_id: str
) -> list[Json]:
    """Return the threads of a chat with their sessions, the newest first."""
    return tx.dicts("topics_of_chat", {"chat_id": str(chat_id)})


def get_telegram_topic_binding_by_session(
    _ctx: StateContext, tx: Tx, *, session_id: str
) -> Json | None:
    """Return the thread that a session is bound to, None if it is not."""
    return next(iter(tx.dicts("topic_of_session", {"session_id": str(session_id)})), None)


def is_telegram_session_linked_to_topic(_ctx: StateContext, tx: Tx, *, session_id: str) -> bool:
    """Return whether a session is bound to a thread."""
    return tx.one("topic_of_session", {"session_id": str(session_id)}) is not None


def delete_telegram_topic_binding(
    ctx: StateContext, tx: Tx, *, chat_id: str, thread_id: str
) -> int:
    """Unbind a thread; topics are turned off in a chat with no bindings left."""
    if TOPIC_BINDINGS not in ctx.form.tables:
        return 0
    chat = {"chat_id": str(chat_id)}
    gone = tx.count("drop_topic", {**chat, "thread_id": str(thread_id)})
    if gone and _MODE in ctx.form.tables and tx.one("topics_of_chat", chat) is None:
        tx.run("end_topic_mode", {**chat, "now": ctx.clock()})
    return gone


def bind_telegram_topic(
    ctx: StateContext,
    tx: Tx,
    *,
    chat_id: str,
    thread_id: str,
    user_id: str,
    session_key: str,
    session_id: str,
    managed_mode: str = "auto",
) -> None:
    """Bind a thread to a session, which must not be bound to another thread."""
    apply_telegram_topic_migration(ctx, tx)
    here = (str(chat_id), str(thread_id))
    bound = get_telegram_topic_binding_by_session(ctx, tx, session_id=session_id)
    if bound is not None and (str(bound["chat_id"]), str(bound["thread_id"])) != here:
        msg = "session is already linked to another Telegram topic"
        raise ValueError(msg)
    values = {
        "chat_id": here[0],
        "thread_id": here[1],
        "user_id": str(user_id),
        "session_key": str(session_key),
        "session_id": str(session_id),
        "managed_mode": managed_mode,
        "now": ctx.clock(),
    }
    tx.run("put_topic", values)


def list_unlinked_telegram_sessions_for_user(
    ctx: StateContext, tx: Tx, *, chat_id: str, user_id: str, limit: int = 10
) -> list[Json]:
    """Return a user's Telegram sessions without a thread, the last active first."""
    del chat_id  # the sessions of all chats are offered
    params = {"user_id": str(user_id), "limit": int(limit)}
    return [
        {**session, "preview": preview_of(tx, session["id"])}
        for session in read_sessions(ctx, tx, "telegram_without_topic", params)
    ]


# ------------------------------------------------------------------------------
# Sessions of a messenger that lost their key, and the ones that they continue from.

# So long after the one fell silent may the other have begun, in seconds.
MAX_GAP: Final = 900.0


def find_orphaned_gateway_sessions(
    _ctx: StateContext, tx: Tx, *, max_gap_s: float | None = None
) -> list[Json]:
    """Return the sessions with messages but no key, each with the one it continues, if certain.

    It is sure when the parent has a key, or when exactly one session of the same source and user
    fell silent when this one began. What is not sure is told with the reason.
    """
    gap = MAX_GAP if max_gap_s is None else float(max_gap_s)
    found = [_with_donor(tx, orphan, gap) for orphan in tx.dicts("unkeyed_sessions")]
    claims = [record["donor_id"] for record in found]
    for record in found:
        if record["adoptable"] and claims.count(record["donor_id"]) > 1:
            record["adoptable"] = False
            record["reason"] = "ambiguous: several sessions without a key continue this one"
    return found


def _with_donor(tx: Tx, orphan: Json, gap: float) -> Json:
    if orphan["parent_session_id"]:
        evidence = "lineage"
        parent = {"id": orphan["parent_session_id"], "source": orphan["source"]}
        donors = tx.all("keyed_parent", parent)
        reason = "" if donors else "its parent has no key of this source either"
    else:
        evidence = "contiguity"
        began = orphan["started_at"] or 0
        params = {
            **{name: orphan[name] for name in ("id", "source", "user_id")},
            "first": began - gap,
            "last": began + gap,
            "before": orphan["last_active"],
        }
        donors = tx.all("keyed_before", params)
        reason = "" if donors else f"no session with a key fell silent within {gap:.0f} s of it"
        if len(donors) > 1:
            donors, reason = [], "ambiguous: several sessions with a key fell silent about then"
    donor = donors[0] if donors else (None, None)
    return {
        "orphan_id": orphan["id"],
        **{name: orphan[name] for name in ("source", "message_count", "started_at", "last_active")},
        "donor_id": donor[0],
        "session_key": donor[1],
        "evidence": evidence if donors else "",
        "adoptable": bool(donors),
        "reason": reason,
    }


def adopt_orphaned_gateway_session(
    ctx: StateContext, tx: Tx, orphan_id: str, donor_id: str
) -> bool:
    """Move the key of a session to the one that continues it; False if it does not fit.

    Looks again in the same transaction: a gateway may have healed one of them meanwhile.
    """
    if not orphan_id or not donor_id or orphan_id == donor_id:
        return False
    if not tx.count("adopt_key", {"id": orphan_id, "donor": donor_id}):
        return False
    tx.run("retire_donor", {"id": donor_id, "now": ctx.clock()})
    if ctx.side:
        refresh_session_hash(tx, orphan_id)
    return True


# ------------------------------------------------------------------------------
# Handing a session over to another platform: asked for, claimed, then completed or failed.

_LONGEST_REASON = 500


def request_handoff(_ctx: StateContext, tx: Tx, session_id: str, platform: str) -> bool:
    """Request that a platform take over a session; False if none exists or one is pending."""
    return tx.count("request_handoff", {"id": session_id, "platform": platform}) > 0


def get_handoff_state(_ctx: StateContext, tx: Tx, session_id: str) -> Json | None:
    """Return state, platform and error of a session's hand-over, None if there is no session."""
    return next(iter(tx.dicts("handoff_of", {"id": session_id})), None)


def list_pending_handoffs(ctx: StateContext, tx: Tx) -> list[Json]:
    """Return the sessions that wait for a hand-over, the oldest first."""
    return read_sessions(ctx, tx, "pending_handoffs", {})


def claim_handoff(_ctx: StateContext, tx: Tx, session_id: str) -> bool:
    """Claim a hand-over; False if another process has claimed it, or none was requested."""
    return tx.count("claim_handoff", {"id": session_id}) > 0


def complete_handoff(_ctx: StateContext, tx: Tx, session_id: str) -> None:
    """Record that a hand-over was completed."""
    tx.run("complete_handoff", {"id": session_id})


def fail_handoff(_ctx: StateContext, tx: Tx, session_id: str, error: str) -> None:
    """Record that a hand-over failed, and why."""
    tx.run("fail_handoff", {"id": session_id, "error": error[:_LONGEST_REASON]})
