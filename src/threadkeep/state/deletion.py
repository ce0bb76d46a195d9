"""Sessions that go for good: one, several, or those that never became anything."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from threadkeep.base.files import remove_leftovers
from threadkeep.base.tx import Tx
from threadkeep.state.context import StateContext, reading
from threadkeep.state.gateway import drop_routes, routes_to
from threadkeep.state.rows import refresh_session_hash
from threadkeep.state.search.index_fill import note_spent
from threadkeep.state.session_config import drop_unused_prompts
from threadkeep.state.verbs import write

# The files that Hermes keeps of a session beside the store.
_FILES: Final = ("{}.json", "{}.jsonl", "request_dump_{}_*.json")
_DAY: Final = 86_400.0

Folder = str | Path | None


def remove_session(ctx: StateContext, tx: Tx, session_id: str) -> bool:
    """Delete a session with its messages; its children stay, without a parent."""
    children = [str(row[0]) for row in tx.all("children_of", {"id": session_id})]
    tx.run("orphan_children", {"id": session_id})
    tx.run("delete_messages", {"session_id": session_id})
    if ctx.side:
        note_spent(tx, session_id)
    deleted = tx.count("delete_session", {"id": session_id}) > 0
    if ctx.side:
        for child in children:
            refresh_session_hash(tx, child)
    return deleted


def remove_files(folder: Folder, ids: Iterable[str]) -> None:
    """Remove what is kept of sessions beside the store, if a folder is given."""
    if folder is not None:
        for session_id in ids:
            remove_leftovers(Path(folder), session_id, _FILES)


# ---------------------------------------------------------------------- by name


def get_session_delete_targets(ctx: StateContext, tx: Tx, session_id: str) -> list[str]:
    """Return the sessions that deleting one would delete: itself, then its delegates."""
    return with_delegates(ctx, tx, [session_id])


def _delegates(ctx: StateContext, tx: Tx, parents: Iterable[str]) -> set[str]:
    """Collect the sessions that these delegated to, and those again; never one of themselves."""
    seeds = set(parents)
    found, last = set(seeds), sorted(seeds)
    lost_too = ctx.form.answers.lost_delegates
    while last:
        asked = ({"id": each, "lost_too": lost_too} for each in last)
        new = {str(row[0]) for params in asked for row in tx.all("delegates_of", params)}
        last = sorted(new - found)
        found |= new
    return found - seeds


def delete_session(
    ctx: StateContext,
    session_id: str,
    sessions_dir: Folder = None,
    expected_delete_ids: Iterable[str] | None = None,
    *,
    dry_run: bool = False,
) -> bool:
    """Delete a session, its messages and its delegates; other children lose their parent.

    With `expected_delete_ids` only if these are exactly the ones that would go. `sessions_dir` is
    the folder with what is kept of them beside the store. With `dry_run` nothing is deleted.
    """
    expected = None if expected_delete_ids is None else set(expected_delete_ids)

    def doomed(ctx: StateContext, tx: Tx) -> list[str]:
        found = get_session_delete_targets(ctx, tx, session_id)
        return found if expected is None or set(found) == expected else []

    return bool(_delete_found(ctx, doomed, sessions_dir, dry_run=dry_run))


def _remove_all(ctx: StateContext, tx: Tx, ids: Iterable[str]) -> list[str]:
    gone = [each for each in ids if remove_session(ctx, tx, each)]
    if gone:
        drop_unused_prompts(ctx, tx)
    return gone


def with_delegates(ctx: StateContext, tx: Tx, ids: Sequence[str]) -> list[str]:
    """Return those of the sessions that there are, and the ones that they delegated to."""
    present = [each for each in ids if tx.one("session_exists", {"id": each}) is not None]
    return [*present, *sorted(_delegates(ctx, tx, present))]


# ---------------------------------------------------------------------- what is empty


def delete_session_if_empty(
    ctx: StateContext, session_id: str, sessions_dir: Folder = None, *, dry_run: bool = False
) -> bool:
    """Delete a session that has no message, no title and no child; False if it has.

    With `dry_run` nothing is deleted.
    """
    empty = _ids_of("empty_session", id=session_id)
    return bool(_delete_found(ctx, empty, sessions_dir, dry_run=dry_run))


def count_empty_sessions(_ctx: StateContext, tx: Tx) -> int:
    """Count the sessions that ended without a message and are not archived."""
    return len(tx.all("empty_sessions"))


def delete_empty_sessions(
    ctx: StateContext, sessions_dir: Folder = None, *, dry_run: bool = False
) -> int:
    """Delete the sessions that ended without a message and are not archived; count them.

    With `dry_run` they are only counted.
    """
    return len(_delete_found(ctx, _ids_of("empty_sessions"), sessions_dir, dry_run=dry_run))


def prune_empty_ghost_sessions(
    ctx: StateContext, sessions_dir: Folder = None, *, dry_run: bool = False
) -> int:
    """Delete sessions that the terminal UI created and left empty for a day; count them.

    With `dry_run` they are only counted.
    """
    ghosts = _ids_of("ghost_sessions", cutoff=ctx.clock() - _DAY)
    return len(_delete_found(ctx, ghosts, sessions_dir, dry_run=dry_run))


def list_never_active_keyed_sessions(
    ctx: StateContext, tx: Tx, *, older_than_days: float
) -> list[dict[str, object]]:
    """Return a messenger's sessions that were opened long ago and never used, the oldest first."""
    return tx.dicts("never_active", {"cutoff": ctx.clock() - float(older_than_days) * _DAY})


def prune_never_active_keyed_sessions(
    ctx: StateContext,
    *,
    older_than_days: float,
    sessions_dir: Folder = None,
    dry_run: bool = False,
) -> tuple[int, int]:
    """Delete a messenger's sessions that were never used, and their routes; count both.

    With `dry_run` they are only counted.
    """

    def found(tx: Tx) -> tuple[list[str], list[tuple[str, str]]]:
        rows = list_never_active_keyed_sessions(ctx, tx, older_than_days=older_than_days)
        ids = [str(session["id"]) for session in rows]
        return ids, routes_to(ctx, tx, set(ids))

    def act(ctx: StateContext, tx: Tx) -> tuple[list[str], list[tuple[str, str]], list[str]]:
        ids, routes = found(tx)
        drop_routes(tx, routes)
        return ids, routes, _remove_all(ctx, tx, with_delegates(ctx, tx, ids))

    ids, routes, gone = (*reading(ctx, found), []) if dry_run else write(ctx, act)
    remove_files(sessions_dir, gone)
    return len(ids), len(routes)


def _ids_of(query: str, **params: object) -> Callable[[StateContext, Tx], list[str]]:
    return lambda _ctx, tx: [str(row[0]) for row in tx.all(query, params)]


def _delete_found(
    ctx: StateContext,
    find: Callable[[StateContext, Tx], list[str]],
    sessions_dir: Folder,
    *,
    dry_run: bool,
) -> list[str]:
    """Delete the sessions that are found, or only find them; give which."""
    if dry_run:
        return reading(ctx, lambda tx: find(ctx, tx))
    gone = write(ctx, lambda ctx, tx: _remove_all(ctx, tx, find(ctx, tx)))
    remove_files(sessions_dir, gone)
    return gone
