"""Which sessions a list or a count is about, as the parameters of their queries."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from threadkeep.base.tx import Tx
from threadkeep.errors import Invalid
from threadkeep.state.context import Json, StateContext, clean
from threadkeep.state.rows import (
    insert_row,
    keep_texts,
    read_session,
    read_sessions,
    refresh_session_hash,
    update_session,
)
from threadkeep.state.session_config import (
    change_config,
    drop_unused_prompts,
    patch_config,
    prompt_columns,
    read_config,
    set_relation,
)
from threadkeep.state.side_values import ColumnValue, dump, keep, to_column


class SessionFilter(NamedTuple):
    """Which sessions are meant; what is left out is not asked about."""

    sources: Sequence[str] = ()
    excluded: Sequence[str] = ()
    cwd_prefix: str | None = None
    session_key: str | None = None
    least: int = 0
    # True for archived ones alone, False for the others alone.
    archived: bool | None = False
    hidden: bool = True
    children: bool = True

    def params(self, ctx: StateContext) -> Json:
        """Return the parameters of the piece `listed`."""
        return {
            **marked(ctx),
            **below(self.cwd_prefix),
            "sources": _array(self.sources),
            "excluded": _array(self.excluded),
            "session_key": self.session_key or None,
            "least": self.least,
            "archived": self.archived,
            "hidden": self.hidden,
            "children": self.children,
        }


def marked(ctx: StateContext) -> Json:
    """Return the parameter that says whether marks tell what a child is to its parent."""
    return {"marked": ctx.form.answers.marked_lineage}


def asked_sources(source: str | None, sources: Iterable[str] | None) -> list[str]:
    """Put one source and several into one list; an empty one means all."""
    return [source] if source else list(sources or ())


def archived_or_not(*, include: bool, only: bool) -> bool | None:
    """Say which side of the archive is meant, None for both."""
    if only:
        return True
    return None if include else False


def below(folder: str | None) -> Json:
    """Return the parameters that compare a folder with another and with all below it."""
    if not folder:
        return {"cwd": None, "below": None, "below_windows": None}
    place = folder.rstrip("/\\") or folder
    escaped = escape_like(place)
    return {"cwd": place, "below": f"{escaped}/%", "below_windows": f"{escaped}\\\\%"}


def escape_like(text: str) -> str:
    """Let a text stand for itself in a LIKE with a backslash as the escape."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _array(values: Sequence[str]) -> str | None:
    return json.dumps(list(values)) if values else None


# ------------------------------------------------------------------------------
# Sessions: begun, filled in, ended, reopened and looked up.

_LONGEST_PATTERN: Final = 10_000  # SQLite refuses a LIKE of more than 50,000 bytes
# Ends that happened without anybody asking for one: a reset may take their place.
_ACCIDENTS: Final = ("agent_close", "ws_orphan_reap", "superseded_by_resume", "startup_orphan_reap")
# What a child has from its parent, and what a continuation has from it as well.
INHERITED: Final = ("cwd", "git_repo_root", "git_branch", "profile_name")
CONTINUED: Final = (
    *("user_id", "session_key", "chat_id", "chat_type", "thread_id", "display_name"),
    "origin_json",
)
_RESET: Final = "_reset_from"


def create_session(
    ctx: StateContext,
    tx: Tx,
    session_id: str,
    source: str | None,
    model: str | None = None,
    model_config: Any = None,
    system_prompt: str | None = None,
    user_id: str | None = None,
    parent_session_id: str | None = None,
    *,
    session_key: str | None = None,
    chat_id: str | None = None,
    chat_type: str | None = None,
    thread_id: str | None = None,
    cwd: str | None = None,
    profile_name: str | None = None,
    git_repo_root: str | None = None,
    origin_json: str | None = None,
    display_name: str | None = None,
    relation: str | None = None,
) -> str:
    """Create a session and return its id; an existing one only gets the values that it lacks.

    A child has folder and profile from its parent, a continuation also its place in a messenger.
    `relation` says what the session is to its parent: compression, branch or delegate. A file of
    version 6 leaves a session that exists as it is.
    """
    check_id(session_id)
    given = {
        "source": "unknown" if source is None else source,  # a session that is told of is stored
        "user_id": user_id,
        "model": model,
        "session_key": session_key,
        "chat_id": chat_id,
        "chat_type": chat_type,
        "thread_id": thread_id,
        "cwd": cwd,
        "profile_name": profile_name,
        "git_repo_root": git_repo_root,
        "origin_json": origin_json,
        "display_name": display_name,
    }
    texts = {field: to_column(value, field) for field, value in given.items()}
    prompt = to_column(clean(ctx, system_prompt), "system_prompt")
    config = dump(clean(ctx, model_config), "model_config") if model_config else None
    values: Json = {field: stored.column for field, stored in texts.items()}
    values |= {"model_config": config, "parent_session_id": parent_session_id}
    if _insert(ctx, tx, session_id, values, prompt.column):
        _keep_exact(ctx, tx, session_id, {**texts, "system_prompt": prompt})
        if relation is not None:
            set_relation(ctx, tx, session_id, parent_session_id, relation)
    elif ctx.form.answers.fills_sessions:
        _fill(ctx, tx, session_id, values, prompt)
    if parent_session_id and ctx.form.answers.fills_sessions:
        _inherit(ctx, tx, session_id)
    return session_id


def _insert(ctx: StateContext, tx: Tx, session_id: str, values: Json, prompt: str | None) -> bool:
    """OR IGNORE is the contract's: the first values of a session win."""
    row = {"id": session_id, **values, "started_at": ctx.clock()}
    if prompt is not None and tx.one("session_exists", {"id": session_id}) is None:
        row |= prompt_columns(ctx, tx, prompt)
    return insert_row(ctx, tx, "sessions", row, unless_there=True) > 0


def _keep_exact(ctx: StateContext, tx: Tx, session_id: str, texts: dict[str, ColumnValue]) -> None:
    if ctx.side:
        keep(tx, "session", session_id, texts)
        refresh_session_hash(tx, session_id)


def _fill(ctx: StateContext, tx: Tx, session_id: str, values: Json, prompt: ColumnValue) -> None:
    """Give a session what it lacks. Of a user it is never told again whose it is."""
    here = tx.dicts("get_session", {"id": session_id})[0]
    fresh: Json = {
        name: value
        for name, value in values.items()
        if value is not None and here[name] is None and name not in ("source", "user_id")
    }
    config = read_config(here["model_config"])
    if values["model_config"] is not None and set(config) == {_RESET}:
        fresh["model_config"] = patch_config(values["model_config"], config)
    if prompt.column is not None and here["system_prompt"] is None:
        fresh |= prompt_columns(ctx, tx, prompt.column)
        keep_texts(ctx, tx, session_id, {"system_prompt": prompt})
    if fresh:
        update_session(ctx, tx, session_id, fresh)


def _inherit(ctx: StateContext, tx: Tx, session_id: str) -> None:
    found = tx.dicts("get_session", {"id": session_id})
    parents = tx.dicts("get_session", {"id": found[0]["parent_session_id"]}) if found else []
    if not parents:
        return
    child, parent = found[0], parents[0]
    names = [*INHERITED, *(CONTINUED if parent["end_reason"] == "compression" else ())]
    fresh = {
        name: parent[name] for name in names if child[name] is None and parent[name] is not None
    }
    if fresh:
        update_session(ctx, tx, session_id, fresh)


def check_id(session_id: object) -> None:
    """Refuse an id that no text column can hold; None is left to the database, as ever."""
    if isinstance(session_id, str):
        try:
            session_id.encode()
        except UnicodeEncodeError:
            msg = f"the session id {session_id!a} is not valid text"
            raise Invalid(msg, hint="use an id without lone surrogates") from None


def ensure_session(
    ctx: StateContext,
    tx: Tx,
    /,
    session_id: str,
    source: str = "unknown",
    model: str | None = None,
    **others: Any,
) -> str | None:
    """Create a session unless one with that id exists; an existing one is not changed.

    It takes what `create_session` takes, and gives the id (in a file of version 6 nothing).
    """
    create_session(ctx, tx, session_id, source, model, **others)
    return session_id if ctx.form.answers.ensure_gives_id else None


def end_session(ctx: StateContext, tx: Tx, session_id: str, end_reason: str | None) -> None:
    """End a session; only the first end of a session counts."""
    reason = to_column(end_reason, "end_reason")
    values = {"id": session_id, "now": ctx.clock(), "end_reason": reason.column}
    if tx.count("end_session", values) and ctx.side:
        keep(tx, "session", session_id, {"end_reason": reason})


def reopen_session(ctx: StateContext, tx: Tx, session_id: str) -> None:
    """Reopen an ended session.

    What began after its reset is marked first: that was told by the end that goes now.
    """
    for (child,) in tx.all("unmarked_reset_children", {"id": session_id}):
        change_config(ctx, tx, child, {_RESET: session_id})
    tx.run("reopen_session", {"id": session_id})


def promote_to_session_reset(
    ctx: StateContext, tx: Tx, session_id: str, reason: str = "session_reset"
) -> bool:
    """End a session for a reset; replaces an accidental end, but not a deliberate one."""
    row = tx.one("end_of_session", {"id": session_id})
    if row is None or not (row[0] is None or row[1] in _ACCIDENTS):
        return False
    return update_session(ctx, tx, session_id, {"ended_at": ctx.clock(), "end_reason": reason})


def update_system_prompt(
    ctx: StateContext, tx: Tx, session_id: str, system_prompt: str | None
) -> None:
    """Replace the system prompt of a session."""
    stored = to_column(clean(ctx, system_prompt), "system_prompt")
    if update_session(ctx, tx, session_id, prompt_columns(ctx, tx, stored.column)):
        keep_texts(ctx, tx, session_id, {"system_prompt": stored})
    drop_unused_prompts(ctx, tx)


def get_session(ctx: StateContext, tx: Tx, session_id: str) -> Json | None:
    """Return a session as a dict of its columns, None if there is none."""
    return read_session(ctx, tx, session_id)


def resolve_session_id(_ctx: StateContext, tx: Tx, session_id_or_prefix: str) -> str | None:
    """Return the full id: an exact match, or the only id with that prefix."""
    given = session_id_or_prefix
    if tx.one("session_exists", {"id": given}) is not None:
        return given
    found = two_that_begin(tx, given)
    return found[0] if len(found) == 1 else None


def two_that_begin(tx: Tx, prefix: str) -> list[str]:
    """Return the ids that begin so, two at most: enough to tell whether it is the only one."""
    escaped = escape_like(prefix)
    if len(escaped) > _LONGEST_PATTERN:
        return []
    return [str(row[0]) for row in tx.all("sessions_by_prefix", {"pattern": f"{escaped}%"})]


def search_sessions(
    ctx: StateContext,
    tx: Tx,
    source: str | None = None,
    limit: int = 20,
    offset: int = 0,
    workspace_key: str | None = None,
) -> list[Json]:
    """Return sessions as they are stored, including children, the last used first.

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
    ctx: StateContext,
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
    """Count sessions, archived ones only on request; children can be left out, as in lists."""
    wanted = SessionFilter(
        asked_sources(source, sources),
        list(exclude_sources or ()),
        cwd_prefix,
        least=min_message_count,
        archived=archived_or_not(include=include_archived, only=archived_only),
        children=not exclude_children,
    )
    return int(tx.value("count_listed", wanted.params(ctx)))


def session_count_ge(_ctx: StateContext, tx: Tx, n: int = 1) -> bool:
    """Return whether there are at least `n` sessions, including archived ones."""
    return len(tx.all("some_sessions", {"limit": n})) >= n


def session_count_by_source(
    ctx: StateContext,
    tx: Tx,
    *,
    include_archived: bool = False,
    archived_only: bool = False,
    exclude_children: bool = False,
) -> dict[str, int]:
    """Count the sessions of each source, the largest first."""
    archived = archived_or_not(include=include_archived, only=archived_only)
    wanted = SessionFilter(archived=archived, children=not exclude_children)
    rows = tx.all("count_listed_by_source", wanted.params(ctx))
    return {str(row[0]): int(row[1]) for row in rows}


# ------------------------------------------------------------------------------
# Where a session works: its folder, and the branch and repository found there.


def workspace_key(row: Mapping[str, object]) -> str | None:
    """Return the workspace of a session row: its repository, else its folder, else None."""
    places = (str(row.get(name) or "").strip() for name in ("git_repo_root", "cwd"))
    return next((place for place in places if place), None)


def update_session_cwd(
    ctx: StateContext,
    tx: Tx,
    session_id: str,
    cwd: str,
    git_branch: str | None = None,
    git_repo_root: str | None = None,
    replace_git_meta: bool = False,  # noqa: FBT001, FBT002
) -> int | None:
    """Set a session's folder, and return the number of this change.

    In another folder, or with `replace_git_meta`, branch and repository are what is given, also
    where that is nothing; in the same one only what is given is changed. None: no such session.
    """
    row = tx.one("workspace_of", {"id": session_id}) if session_id and cwd else None
    if row is None:
        return None
    values: Json = {"cwd": cwd, "git_metadata_generation": int(row[1] or 0) + 1}
    found = _git_facts(git_branch, git_repo_root)
    if row[0] != cwd or replace_git_meta:
        values |= {"git_branch": None, "git_repo_root": None}
    update_session(ctx, tx, session_id, {**values, **found})
    return int(values["git_metadata_generation"])


def _git_facts(branch: str | None, root: str | None) -> Json:
    given = {"git_branch": (branch or "").strip(), "git_repo_root": (root or "").strip()}
    return {name: value for name, value in given.items() if value}


def publish_session_git_metadata(
    ctx: StateContext,
    tx: Tx,
    session_id: str,
    cwd: str,
    generation: int,
    git_branch: str | None = None,
    git_repo_root: str | None = None,
) -> bool:
    """Store what was found in a folder, unless the session has changed folders since."""
    values = _git_facts(git_branch, git_repo_root)
    if not values or type(generation) is not int or generation < 1:
        return False
    row = tx.one("workspace_of", {"id": session_id}) if session_id and cwd else None
    if row is None or tuple(row) != (cwd, generation):
        return False
    return update_session(ctx, tx, session_id, values)


def backfill_repo_roots(ctx: StateContext, tx: Tx, cwd_to_root: Mapping[str, str]) -> None:
    """Store the repositories of folders for the sessions that have none yet."""
    for cwd, root in cwd_to_root.items():
        rows = tx.all("sessions_without_root", {"cwd": cwd}) if cwd and root else ()
        for (session_id,) in rows:
            update_session(ctx, tx, session_id, {"git_repo_root": root})


def distinct_session_cwds(
    _ctx: StateContext,
    tx: Tx,
    include_archived: bool = False,  # noqa: FBT001, FBT002
) -> list[Json]:
    """Return every folder that sessions used, with their number and the latest time."""
    rows = tx.dicts("folders_of_sessions", {"archived": include_archived})
    return [{**row, "last_active": float(row["last_active"])} for row in rows]
