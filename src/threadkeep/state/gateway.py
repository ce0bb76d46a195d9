"""Which conversation of a messenger owns a session, and where the gateway sends what comes in."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from threadkeep.base.tx import Tx
from threadkeep.state.columns import insert_row, update_rows
from threadkeep.state.context import Json, StateContext
from threadkeep.state.relations import RESET_END_REASONS
from threadkeep.state.rows import read_sessions, refresh_session_hash

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
    """Note which conversation owns a session, which is made if it is missing.

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
    """Mark that the gateway has dealt with the expiry of a session."""
    if session_id:
        tx.run("set_finalized", {"id": session_id, "finalized": bool(finalized)})


def list_gateway_sessions(
    ctx: StateContext, tx: Tx, *, platform: str | None = None, active_only: bool = True
) -> list[Json]:
    """Give the newest session of each conversation, the last active first."""
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
    """Give the newest session that goes on in a chat; None if it may be another person's."""
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
    """Give the session in which a conversation can go on; never one from before a reset.

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
    """Keep where a conversation is routed to, in the place of what was there."""
    if session_key and entry_json:
        _put(ctx, tx, scope, {session_key: entry_json})


def replace_gateway_routing_entries(
    ctx: StateContext, tx: Tx, entries: Mapping[str, str], *, scope: str = ""
) -> None:
    """Keep these routes of a scope and no others."""
    tx.run("empty_scope", {"scope": scope})
    _put(ctx, tx, scope, entries or {})


def _put(ctx: StateContext, tx: Tx, scope: str, entries: Mapping[str, str]) -> None:
    now = ctx.clock()
    for key, entry in entries.items():
        if key and entry:
            tx.run("put_routing", {"scope": scope, "key": key, "entry": entry, "now": now})


def load_gateway_routing_entries(_ctx: StateContext, tx: Tx, *, scope: str = "") -> dict[str, str]:
    """Give the routes of a scope by their conversations."""
    return dict(tx.all("routing_of_scope", {"scope": scope}))


def delete_gateway_routing_entries(
    ctx: StateContext, tx: Tx, session_keys: Iterable[str], *, scope: str = ""
) -> None:
    """Drop routes of a scope."""
    if "gateway_routing" in ctx.form.tables:
        for key in session_keys or ():
            tx.run("drop_routing", {"scope": scope, "key": key})


def drop_routes_to(ctx: StateContext, tx: Tx, session_ids: set[str]) -> int:
    """Drop the routes of all scopes that lead to these sessions; count them."""
    routes = tx.all("all_routing") if "gateway_routing" in ctx.form.tables else []
    dead = [(scope, key) for scope, key, entry in routes if _target(entry) in session_ids]
    for scope, key in dead:
        tx.run("drop_routing", {"scope": scope, "key": key})
    return len(dead)


def _target(entry: str) -> Any:
    try:
        found = json.loads(entry)
    except (TypeError, ValueError, RecursionError):
        return None
    target = found.get("session_id") if isinstance(found, dict) else None
    return target if isinstance(target, str) else None
