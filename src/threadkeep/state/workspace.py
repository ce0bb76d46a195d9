"""Where a session works: its folder, and the branch and repository found there."""

from collections.abc import Mapping

from threadkeep.base.tx import Tx
from threadkeep.state.context import Json, StateContext
from threadkeep.state.rows import update_session


def workspace_key(row: Mapping[str, object]) -> str | None:
    """Give the workspace of a session row: its repository, else its folder, else None."""
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
    """Say in which folder a session works, and give the number of this change.

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
    """Store what was found in a folder, unless the session has moved on since it was asked for."""
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
    """Give every folder that sessions worked in, with how many there were and the latest time."""
    rows = tx.dicts("folders_of_sessions", {"archived": include_archived})
    return [{**row, "last_active": float(row["last_active"])} for row in rows]
