"""Sessions: begun, ended, looked up, counted, deleted."""

from collections.abc import Sequence
from typing import Any

from threadkeep.base.sqlite import Tx
from threadkeep.errors import Invalid, NotFound
from threadkeep.state.context import Context, Json, clean
from threadkeep.state.exact import Stored, dump, keep, to_column
from threadkeep.state.rows import read_session, read_sessions, refresh_session_hash
from threadkeep.state.wanted import Wanted, archived_or_not, asked_sources, below, escape_like

RELATIONS = ("compression", "branch", "delegate")
_LONGEST_PATTERN = 10_000  # SQLite refuses a LIKE of more than 50,000 bytes


def create_session(
    ctx: Context,
    tx: Tx,
    session_id: str,
    source: str | None,
    model: str | None = None,
    model_config: Any = None,
    system_prompt: str | None = None,
    user_id: str | None = None,
    parent_session_id: str | None = None,
    *,
    relation: str | None = None,
) -> str:
    """Begin a session and give its id; one that exists is left as it is.

    `relation` says what the session is to its parent: compression, branch or delegate.
    """
    check_id(session_id)
    columns = {
        "source": to_column(source, "source"),
        "user_id": to_column(user_id, "user_id"),
        "model": to_column(model, "model"),
        "system_prompt": to_column(clean(ctx, system_prompt), "system_prompt"),
    }
    config = dump(clean(ctx, model_config), "model_config") if model_config else None
    values: Json = {field: stored.column for field, stored in columns.items()}
    values |= {"id": session_id, "model_config": config, "now": ctx.clock()}
    new = tx.run("insert_session", {**values, "parent_session_id": parent_session_id}) > 0
    if new:
        _keep_exact(tx, session_id, columns)
        refresh_session_hash(tx, session_id)
        if relation is not None:
            set_relation(ctx, tx, session_id, parent_session_id, relation)
    elif source is None:
        ctx.notices.warn("no source", "session %r has no source and was not stored", session_id)
    return session_id


def _keep_exact(tx: Tx, session_id: str, columns: dict[str, Stored]) -> None:
    if any(stored.exact is not None for stored in columns.values()):
        keep(tx, "session", session_id, columns)


def check_id(session_id: object) -> None:
    """Refuse an id that no text column can hold; None is left to the database, as ever."""
    if isinstance(session_id, str):
        try:
            session_id.encode()
        except UnicodeEncodeError:
            msg = f"the session id {session_id!a} is no valid text"
            raise Invalid(msg, hint="use an id without lone surrogates") from None


def ensure_session(
    ctx: Context, tx: Tx, session_id: str, source: str = "unknown", model: str | None = None
) -> None:
    """Begin a session unless there is one of that id; nothing of it is overwritten."""
    create_session(ctx, tx, session_id, source, model)


def end_session(ctx: Context, tx: Tx, session_id: str, end_reason: str | None) -> None:
    """End a session; the first end of a session is the one that counts."""
    reason = to_column(end_reason, "end_reason")
    if tx.run("end_session", {"id": session_id, "now": ctx.clock(), "end_reason": reason.column}):
        keep(tx, "session", session_id, {"end_reason": reason})


def reopen_session(_ctx: Context, tx: Tx, session_id: str) -> None:
    """Make an ended session one that goes on."""
    tx.run("reopen_session", {"id": session_id})


def update_system_prompt(ctx: Context, tx: Tx, session_id: str, system_prompt: str | None) -> None:
    """Replace the system prompt of a session."""
    stored = to_column(clean(ctx, system_prompt), "system_prompt")
    if tx.run("set_system_prompt", {"id": session_id, "system_prompt": stored.column}):
        tx.run("drop_exact", {"owner": "session", "key": session_id, "field": "system_prompt"})
        keep(tx, "session", session_id, {"system_prompt": stored})
        refresh_session_hash(tx, session_id)


def get_session(ctx: Context, tx: Tx, session_id: str) -> Json | None:
    """Give a session as a dict of its columns, None if there is none."""
    return read_session(ctx, tx, session_id)


def need_session(tx: Tx, session_id: str) -> None:
    """Raise if there is no such session."""
    if tx.one("session_exists", {"id": session_id}) is None:
        msg = f"there is no session {session_id!r}"
        raise NotFound(msg, hint="`threadkeep state ls` shows the sessions")


def resolve_session_id(_ctx: Context, tx: Tx, session_id_or_prefix: str) -> str | None:
    """Give the id that is meant: the exact one, or the only one that begins so."""
    given = session_id_or_prefix
    if tx.one("session_exists", {"id": given}) is not None:
        return given
    found = two_that_begin(tx, given)
    return found[0] if len(found) == 1 else None


def two_that_begin(tx: Tx, prefix: str) -> list[str]:
    """Give the ids that begin so, two at most: enough to tell whether it is the only one."""
    escaped = escape_like(prefix)
    if len(escaped) > _LONGEST_PATTERN:
        return []
    return [str(row[0]) for row in tx.all("sessions_by_prefix", {"pattern": f"{escaped}%"})]


def search_sessions(
    ctx: Context,
    tx: Tx,
    source: str | None = None,
    limit: int = 20,
    offset: int = 0,
    workspace_key: str | None = None,
) -> list[Json]:
    """Give sessions as they are stored, children too, the one used last first.

    In a file of version 6 the newest comes first. `workspace_key` is a repository or folder.
    """
    place = below(workspace_key)
    params = {
        "source": source or None,
        "workspace": place.pop("cwd"),
        **place,
        "recent": ctx.form.answers.marked_lineage,
        "limit": limit,
        "offset": offset,
    }
    return read_sessions(ctx, tx, "sessions_by_activity", params)


# ---------------------------------------------------------------------- counts


def session_count(
    ctx: Context,
    tx: Tx,
    source: str | None = None,
    sources: Sequence[str] | None = None,
    cwd_prefix: str | None = None,
    min_message_count: int = 0,
    include_archived: bool = False,  # noqa: FBT001, FBT002
    archived_only: bool = False,  # noqa: FBT001, FBT002
    exclude_children: bool = False,  # noqa: FBT001, FBT002
    exclude_sources: Sequence[str] | None = None,
) -> int:
    """Count sessions, archived ones only when asked for; without children as a list has them."""
    wanted = Wanted(
        asked_sources(source, sources),
        list(exclude_sources or ()),
        cwd_prefix,
        least=min_message_count,
        archived=archived_or_not(include=include_archived, only=archived_only),
        children=not exclude_children,
    )
    return int(tx.value("count_listed", wanted.params(ctx)))


def session_count_ge(_ctx: Context, tx: Tx, n: int = 1) -> bool:
    """Tell whether there are at least so many sessions, archived ones too, without counting all."""
    return len(tx.all("some_sessions", {"limit": n})) >= n


def session_count_by_source(
    ctx: Context,
    tx: Tx,
    *,
    include_archived: bool = False,
    archived_only: bool = False,
    exclude_children: bool = False,
) -> dict[str, int]:
    """Count the sessions of each source, the largest first."""
    archived = archived_or_not(include=include_archived, only=archived_only)
    wanted = Wanted(archived=archived, children=not exclude_children)
    rows = tx.all("count_listed_by_source", wanted.params(ctx))
    return {str(row[0]): int(row[1]) for row in rows}


# ---------------------------------------------------------------------- relations


def set_relation(
    _ctx: Context, tx: Tx, session_id: str, parent_id: str | None, relation: str
) -> None:
    """Say what a session is to its parent, which it gets: compression, branch or delegate."""
    if relation not in RELATIONS:
        msg = f"a session's relation to its parent is not {relation!r}"
        raise Invalid(msg, hint=f"use one of {', '.join(RELATIONS)}")
    if parent_id is None:
        msg = f"session {session_id!r} has a relation, but no parent"
        raise Invalid(msg, hint="pass parent_session_id, too")
    need_session(tx, session_id)
    need_session(tx, parent_id)
    if comes_from(tx, parent_id, session_id):
        msg = f"session {parent_id!r} comes from {session_id!r}, and cannot be its parent"
        raise Invalid(msg, hint="`threadkeep state lineage` shows the family")
    if tx.run("set_parent", {"id": session_id, "parent_id": parent_id}) > 0:
        refresh_session_hash(tx, session_id)
    tx.run("put_relation", {"id": session_id, "parent_id": parent_id, "kind": relation})


def comes_from(tx: Tx, session_id: str, ancestor: str) -> bool:
    """Tell whether a session is another one, or a child of a child … of it."""
    above, seen = session_id, set[str]()
    while above is not None and above not in seen and above != ancestor:
        seen.add(above)
        above = tx.value("parent_of", {"id": above})
    return above == ancestor
