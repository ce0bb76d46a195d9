"""Sessions: created once, listed in pages, titled, archived, given permissions, deleted."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from threadkeep.base import json
from threadkeep.base.engines import give_back_space, store_size
from threadkeep.base.page import CURSOR_HINT, Cursor, Page
from threadkeep.base.text import from_sql
from threadkeep.base.tx import Row, Sql, Tx
from threadkeep.base.verbs import Moment, Number
from threadkeep.chat import journal, search
from threadkeep.chat.context import (
    NOTHING,
    ChatContext,
    clean,
    need_list,
    need_object,
    need_text,
    optional_text,
    optional_whole,
)
from threadkeep.chat.permissions import validate_rule
from threadkeep.chat.records import (
    UNTITLED,
    Json,
    Session,
    SessionRef,
    message_of,
    ref_id,
    session_of,
)
from threadkeep.chat.recovery import refuse_if_running
from threadkeep.chat.rows import SESSION, need_message, need_session, rehash
from threadkeep.chat.views import counts
from threadkeep.errors import Conflict, Invalid, NotFound, ThreadkeepError

PAGE = 50
PageSize = Annotated[int, Meta(ge=1, le=500, description="Maximum number of items.")]


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
    """Return a session by its id."""
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
    limit: PageSize = PAGE,
    cursor: Cursor | None = None,
) -> Page[Session]:
    """List sessions, newest first, one page at a time.

    Archived ones are left out (True: only those, None: all), and ephemeral branches unless asked
    for. `title` matches any part of the title.
    """
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
        raise Invalid(msg, hint=CURSOR_HINT)
    return int(updated), last_id


def set_title(ctx: ChatContext, tx: Tx, session: SessionRef, title: str | None) -> Session:
    """Set or remove the title of a session."""
    session_id = need_session(tx, ref_id(session, "session")).id
    text = UNTITLED if title is None else clean(ctx, need_text(title, "title"))
    tx.run("set_session_title", {"id": session_id, "title": text, "now": ctx.clock()})
    return _changed(ctx, tx, session_id, "title")


def archive(ctx: ChatContext, tx: Tx, session: SessionRef) -> Session:
    """Hide a session from the default list; nothing is deleted."""
    known = need_session(tx, ref_id(session, "session"))
    return _set_archived(ctx, tx, known.id, known.archived_at or ctx.clock(), "archive")


def unarchive(ctx: ChatContext, tx: Tx, session: SessionRef) -> Session:
    """Show an archived session in the default list again."""
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


def change(
    ctx: ChatContext,
    tx: Tx,
    session: SessionRef,
    *,
    title: str | UnsetType | None = UNSET,
    metadata: Json | UnsetType = UNSET,
    permissions: Sequence[Json] | UnsetType = UNSET,
    archived: bool | UnsetType = UNSET,
) -> Session:
    """Change title, metadata, permissions, or whether a session is archived, all or none.

    What is left out stays. A title None is none; a key of metadata set to None is removed.
    """
    known = need_session(tx, ref_id(session, "session"))
    if permissions is not UNSET:
        known = set_permissions(ctx, tx, known, permissions)
    if metadata is not UNSET:
        known = set_metadata(ctx, tx, known, metadata)
    if title is not UNSET:
        known = set_title(ctx, tx, known, title)
    if archived is not UNSET:
        known = archive(ctx, tx, known) if archived else unarchive(ctx, tx, known)
    return known


def delete_session(
    ctx: ChatContext, tx: Tx, session: SessionRef, *, dry_run: bool = False
) -> list[str]:
    """Delete a session with its messages, parts, runs and journal; branches of it stay.

    Gives the ids of what was deleted, or would be in a dry run.
    """
    session_id = need_session(tx, ref_id(session, "session")).id
    refuse_if_running(tx, session_id, "delete")
    if dry_run:
        return [session_id]
    last = journal.last_seq(tx, session_id)
    tx.run("delete_session", {"id": session_id})
    for table in ("delete_stream", "delete_finished", "delete_recordings"):
        tx.run(table, {"id": session_id})
    if journal.log_is_on(tx):
        gone = json.encode({"put": [], "deleted": [[SESSION, session_id]]})
        journal.put_at(tx, session_id, last + 1, "delete", gone, at=ctx.clock())
    return [session_id]


# ------------------------------------------------------------------------------
# Finding sessions and messages by what a person types: an id, a beginning of one, or `last`.

LAST = "last"
_SOME = 5


def find_session(ctx: ChatContext, tx: Tx, ref: str) -> Session:
    """Return a session by its id, by a unique prefix of it, or the newest as `last`."""
    if _need_ref(ref, "session") == LAST:
        newest = list_sessions(ctx, tx, limit=1).items
        if not newest:
            msg = f"there is no session in {ctx.db.name} yet"
            raise NotFound(msg, hint="`threadkeep chat ls --all` lists archived ones too")
        return newest[0]
    ids = _session_ids(tx, ref) or (
        [] if ref.startswith("ses_") else _session_ids(tx, f"ses_{ref}")
    )
    return need_session(tx, _only_one(ids, ref, "session"))


def _session_ids(tx: Tx, prefix: str) -> list[str]:
    # U+10FFFF is the last character there is: every id that begins with the prefix sorts below.
    params = {"first": prefix, "last": f"{prefix}\U0010ffff", "limit": _SOME + 1}
    return [from_sql(row[0]) for row in tx.all("session_ids", params)]


def find_message(_ctx: ChatContext, tx: Tx, session: SessionRef, ref: str) -> str:
    """Return the message id that begins with `ref`; `last` is the session's last user message."""
    session_id = need_session(tx, ref_id(session, "session")).id
    messages = [message_of(row) for row in tx.all("session_messages", {"session_id": session_id})]
    if _need_ref(ref, "message") == LAST:
        asked = [message.id for message in messages if message.role == "user" and counts(message)]
        if not asked:
            msg = f"session {session_id!r} has no user message yet"
            raise NotFound(msg, hint="name a message by its id")
        return asked[-1]
    ids = [message.id for message in messages if message.id.startswith(ref)]
    return need_message(tx, session_id, _only_one(ids, ref, "message")).id


def _need_ref(ref: str, what: str) -> str:
    """Refuse an empty name: it is the beginning of every id, and of the only one there is."""
    if not need_text(ref, f"the {what}"):
        raise Invalid(f"the {what} name is empty", hint="give an id, its beginning, or last")
    return ref


def _only_one(ids: list[str], ref: str, what: str) -> str:
    """Choose the id that was meant; one that nothing has is left to the caller to refuse."""
    if ref in ids or not ids:
        return ref
    if len(ids) == 1:
        return ids[0]
    some = ", ".join(ids[:_SOME]) + (", …" if len(ids) > _SOME else "")
    raise Invalid(
        f"{ref!r} is ambiguous: several {what}s begin with it", hint=f"give more of it: {some}"
    )


# ------------------------------------------------------------------------------
# Size and retention: what takes the space, and letting old sessions go, on request only.

_LARGEST = 10
_COUNTED = ("chat_sessions", "chat_messages", "chat_parts", "chat_events", "tk_runs")


class SizeReport(msgspec.Struct, frozen=True):
    """What a store takes on disk, and where it goes."""

    file_bytes: int
    wal_bytes: int
    free_bytes: int
    rows: dict[str, int]
    content_bytes: dict[str, int]
    largest: list[dict[str, object]]


class PruneReport(msgspec.Struct, frozen=True):
    """Which sessions were let go, or would be in a dry run."""

    dry_run: bool
    sessions: list[dict[str, object]]
    freed_bytes: int


def size_report(ctx: ChatContext) -> SizeReport:
    """Measure a store."""
    with ctx.db.read() as tx:
        size = store_size(ctx.db, tx)
        rows = {table: _count(tx, table) for table in _COUNTED}
        largest = [
            dict(zip(("session_id", "title", "bytes", "parts"), _texts(row), strict=True))
            for row in tx.all("largest_sessions", {"limit": _LARGEST})
        ]
    content = _content(ctx)
    return SizeReport(size.bytes, size.log_bytes, size.free_bytes, rows, content, largest)


def _count(tx: Tx, table: str) -> int:
    return int(tx.value(Sql(f'SELECT count(*) FROM "{table}"')))  # noqa: S608


def _content(ctx: ChatContext) -> dict[str, int]:
    """Bytes by table, from SQLite's own page statistics where they are compiled in."""
    try:
        with ctx.db.read() as tx:
            rows = tx.all("pages_by_table")
    except ThreadkeepError:
        with ctx.db.read() as tx:
            rows = tx.all("text_by_table")
    return {str(name): int(size) for name, size in rows}


def prune(
    ctx: ChatContext,
    *,
    before: Moment | None = None,
    keep: Number | None = None,
    agent: str | None = None,
    archived_only: bool = False,
    dry_run: bool = False,
) -> PruneReport:
    """Delete the sessions unchanged since `before`, or all but the newest `keep`.

    With both, only those that are old and beyond the count. A session that is being recorded, or
    was used again in the meantime, stays.
    """
    if before is None and keep is None:
        raise Invalid("nothing selects which sessions to prune", hint="give an age or a count")
    params = {
        "before": optional_whole(before, "before"),
        "keep": optional_whole(keep, "keep"),
        "agent": optional_text(agent, "agent"),
        "archived_only": bool(archived_only),
    }
    with ctx.db.read() as tx:
        chosen = [_describe(tx, row) for row in tx.all("old_sessions", params)]
    # One transaction each: other writers get their turn between two sessions.
    gone = chosen if dry_run else [session for session in chosen if _delete(ctx, session)]
    return PruneReport(dry_run, gone, sum(int(str(session["bytes"])) for session in gone))


def _describe(tx: Tx, row: Row) -> dict[str, object]:
    size = tx.one("session_size", {"id": row[0]}) or (0, 0)
    names = ("id", "title", "updated_at", "total_tokens", "bytes", "parts")
    return dict(zip(names, (*_texts(row), *size), strict=True))


def _texts(row: Row) -> Row:
    return tuple(from_sql(value) if isinstance(value, bytes) else value for value in row)


def _delete(ctx: ChatContext, chosen: dict[str, object]) -> bool:
    with ctx.db.write() as tx:
        row = tx.one("get_session", {"id": chosen["id"]})
        if row is None or session_of(row).updated_at != chosen["updated_at"]:
            return False
        if tx.one("session_recordings", {"session_id": chosen["id"]}) is not None:
            return False
        delete_session(ctx, tx, str(chosen["id"]))
    return True


def vacuum(ctx: ChatContext) -> int:
    """Return free pages to the disk and drop stale postings; returns the number of bytes freed."""
    search.reindex(ctx)
    return give_back_space(ctx.db)
