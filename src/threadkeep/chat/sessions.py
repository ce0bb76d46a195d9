"""Sessions: created once, listed in pages, titled, archived, given permissions, deleted."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from threadkeep.base import json
from threadkeep.base.tx import Tx
from threadkeep.chat import journal
from threadkeep.chat.context import (
    NOTHING,
    ChatContext,
    clean,
    need_list,
    need_object,
    need_text,
    optional_text,
)
from threadkeep.chat.permissions import validate_rule
from threadkeep.chat.records import UNTITLED, Json, Page, Session, SessionRef, ref_id, session_of
from threadkeep.chat.recovery import refuse_if_running
from threadkeep.chat.rows import SESSION, need_session, rehash
from threadkeep.errors import Conflict, Invalid

PAGE, PAGE_LIMIT = 50, 500


def create_session(
    ctx: ChatContext,
    tx: Tx,
    *,
    agent: str,
    model: Json | str,
    workspace_root: str = "",
    title: str | None = None,
    permissions: Sequence[Json] = (),
    metadata: Mapping[str, Any] = NOTHING,
    session_id: str | None = None,
    parent_id: str | None = None,
    parent_message_id: str | None = None,
    workspace_id: str | None = None,
    mode: str | None = None,
) -> Session:
    """Begin a session; its agent never changes, its model is refreshed each turn."""
    if not need_text(agent, "agent"):
        raise Invalid("the agent is empty", hint="name the agent that opens the session")
    new_id = ctx.ids.new("ses") if session_id is None else _free_id(tx, session_id)
    params: dict[str, Any] = {
        "id": new_id,
        "agent": agent,
        "workspace_root": need_text(workspace_root, "workspace_root"),
        "model_json": json.encode(clean(ctx, model_object(model))),
        "parent_id": optional_text(parent_id, "parent_id"),
        "parent_message_id": optional_text(parent_message_id, "parent_message_id"),
        "permissions_json": json.encode(_checked_rules(permissions)),
        "metadata_json": json.encode(clean(ctx, need_object(metadata, "metadata"))),
        "title": UNTITLED if title is None else clean(ctx, need_text(title, "title")),
        "workspace_id": optional_text(workspace_id, "workspace_id"),
        "mode": optional_text(mode, "mode"),
        "now": ctx.clock(),
    }
    tx.run("insert_session", params)
    rehash(tx, SESSION, new_id)
    journal.note(ctx, tx, new_id, "session", [(SESSION, new_id)])
    return need_session(tx, new_id)


def _free_id(tx: Tx, session_id: object) -> str:
    wanted = ref_id(session_id, "session")
    if tx.one("get_session", {"id": wanted}) is not None:
        msg = f"there is a session {wanted!r} already"
        raise Conflict(msg, hint="leave the id out, or use another")
    return wanted


def _checked_rules(rules: object) -> list[Json]:
    return [validate_rule(rule) for rule in need_list(rules, "permission rules")]


def model_object(model: object) -> Json:
    """Take a model as an object, or as text of the form "provider/model"."""
    if isinstance(model, str):
        provider, slash, name = model.partition("/")
        return {"provider_id": provider if slash else "", "model_id": name if slash else provider}
    return need_object(model, "model")


def refresh_model(ctx: ChatContext, tx: Tx, session_id: str, model: object) -> Json:
    """Make a model the session's current one: it is a snapshot of the latest turn."""
    shaped: Json = clean(ctx, model_object(model))
    params = {"id": session_id, "model_json": json.encode(shaped), "now": ctx.clock()}
    tx.run("set_session_model", params)
    rehash(tx, SESSION, session_id)
    return shaped


def get_session(_ctx: ChatContext, tx: Tx, session: SessionRef) -> Session:
    """Give a session by its id."""
    return need_session(tx, ref_id(session, "session"))


def list_sessions(
    _ctx: ChatContext,
    tx: Tx,
    *,
    agent: str | None = None,
    workspace: str | None = None,
    parent: SessionRef | None = None,
    archived: bool | None = False,
    title: str | None = None,
    ephemeral: bool = False,
    limit: int = PAGE,
    cursor: str | None = None,
) -> Page[Session]:
    """List sessions, newest first, one page at a time.

    Archived ones are left out (True: only those, None: all), and ephemeral branches unless asked
    for. `title` matches any part of the title.
    """
    if not isinstance(limit, int) or not 1 <= limit <= PAGE_LIMIT:
        msg = f"a page has 1 to {PAGE_LIMIT} sessions, not {limit!r}"
        raise Invalid(msg, hint="ask for the next page with its cursor")
    updated, last_id = _read_cursor(optional_text(cursor, "cursor"))
    params = {
        "agent": optional_text(agent, "agent"),
        "workspace": optional_text(workspace, "workspace"),
        "parent": None if parent is None else ref_id(parent, "session"),
        "title": None if title is None else _contains(need_text(title, "title")),
        "archived": None if archived is None else bool(archived),
        "ephemeral": bool(ephemeral),
        "updated": updated,
        "id": last_id,
        "limit": limit + 1,
    }
    found = [session_of(row) for row in tx.all("list_sessions", params)]
    items = found[:limit]
    more = len(found) > limit
    return Page(items, f"{items[-1].updated_at}:{items[-1].id}" if more else None)


def _contains(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def _read_cursor(cursor: str | None) -> tuple[int | None, str | None]:
    if cursor is None:
        return None, None
    updated, colon, last_id = cursor.partition(":")
    if not colon or not re.fullmatch("[0-9]{1,18}", updated):
        msg = f"{cursor!r} is not a cursor of a session list"
        raise Invalid(msg, hint="pass the next_cursor of the page before")
    return int(updated), last_id


def set_title(ctx: ChatContext, tx: Tx, session: SessionRef, title: str | None) -> Session:
    """Give a session a title, or take it away."""
    session_id = need_session(tx, ref_id(session, "session")).id
    text = UNTITLED if title is None else clean(ctx, need_text(title, "title"))
    tx.run("set_session_title", {"id": session_id, "title": text, "now": ctx.clock()})
    return _changed(ctx, tx, session_id, "title")


def archive(ctx: ChatContext, tx: Tx, session: SessionRef) -> Session:
    """Take a session out of the default list; nothing is deleted."""
    known = need_session(tx, ref_id(session, "session"))
    return _set_archived(ctx, tx, known.id, known.archived_at or ctx.clock(), "archive")


def unarchive(ctx: ChatContext, tx: Tx, session: SessionRef) -> Session:
    """Put a session back into the default list."""
    known = need_session(tx, ref_id(session, "session"))
    return _set_archived(ctx, tx, known.id, None, "unarchive")


def _set_archived(ctx: ChatContext, tx: Tx, session_id: str, at: int | None, kind: str) -> Session:
    params = {"id": session_id, "archived_at": at, "now": ctx.clock()}
    tx.run("set_session_archived", params)
    return _changed(ctx, tx, session_id, kind)


def set_metadata(ctx: ChatContext, tx: Tx, session: SessionRef, changes: Json) -> Session:
    """Set keys of a session's metadata; a key set to None is removed."""
    session_id = ref_id(session, "session")
    given = clean(ctx, need_object(changes, "metadata"))
    merged = {**need_session(tx, session_id).metadata, **given}
    kept = {key: value for key, value in merged.items() if value is not None}
    params = {"id": session_id, "metadata_json": json.encode(kept), "now": ctx.clock()}
    tx.run("set_session_metadata", params)
    return _changed(ctx, tx, session_id, "metadata")


def set_permissions(
    ctx: ChatContext, tx: Tx, session: SessionRef, rules: Sequence[Json]
) -> Session:
    """Replace the session-scope permission rules."""
    session_id = need_session(tx, ref_id(session, "session")).id
    checked = json.encode(_checked_rules(rules))
    params = {"id": session_id, "permissions_json": checked, "now": ctx.clock()}
    tx.run("set_session_permissions", params)
    return _changed(ctx, tx, session_id, "permission")


def _changed(ctx: ChatContext, tx: Tx, session_id: str, kind: str) -> Session:
    rehash(tx, SESSION, session_id)
    journal.note(ctx, tx, session_id, kind, [(SESSION, session_id)])
    return need_session(tx, session_id)


def delete_session(ctx: ChatContext, tx: Tx, session: SessionRef) -> None:
    """Delete a session with its messages, parts, runs and journal; branches of it stay."""
    session_id = need_session(tx, ref_id(session, "session")).id
    refuse_if_running(tx, session_id, "delete")
    last = journal.last_seq(tx, session_id)
    tx.run("delete_session", {"id": session_id})
    for table in ("delete_stream", "delete_finished", "delete_recordings"):
        tx.run(table, {"id": session_id})
    if journal.log_is_on(tx):
        gone = json.encode({"put": [], "deleted": [[SESSION, session_id]]})
        journal.put_at(tx, session_id, last + 1, "delete", gone, at=ctx.clock())
