"""Sessions that go for good: one, several, or those that never became anything."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from threadkeep.base.leftovers import remove_leftovers
from threadkeep.base.tx import Tx
from threadkeep.state.activity import note_spent
from threadkeep.state.context import StateContext
from threadkeep.state.gateway import drop_routes_to
from threadkeep.state.prompts import drop_unused_prompts
from threadkeep.state.rows import refresh_session_hash
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
    deleted = tx.run("delete_session", {"id": session_id}) > 0
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
    """Give the sessions that deleting one takes along: itself, then those it delegated to."""
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
) -> bool:
    """Delete a session, its messages and those it delegated to; other children lose their parent.

    With `expected_delete_ids` only if these are exactly the ones that would go. `sessions_dir` is
    the folder with what is kept of them beside the store.
    """
    expected = None if expected_delete_ids is None else set(expected_delete_ids)
    gone = write(ctx, _delete_expected, session_id, expected)
    remove_files(sessions_dir, gone)
    return bool(gone)


def _delete_expected(
    ctx: StateContext, tx: Tx, session_id: str, expected: set[str] | None
) -> list[str]:
    doomed = get_session_delete_targets(ctx, tx, session_id)
    if not doomed or (expected is not None and set(doomed) != expected):
        return []
    return _remove_all(ctx, tx, doomed)


def _remove_all(ctx: StateContext, tx: Tx, ids: Iterable[str]) -> list[str]:
    gone = [each for each in ids if remove_session(ctx, tx, each)]
    if gone:
        drop_unused_prompts(ctx, tx)
    return gone


def with_delegates(ctx: StateContext, tx: Tx, ids: Sequence[str]) -> list[str]:
    """Give those of the sessions that there are, and the ones that they delegated to."""
    present = [each for each in ids if tx.one("session_exists", {"id": each}) is not None]
    return [*present, *sorted(_delegates(ctx, tx, present))]


# ---------------------------------------------------------------------- what is empty


def delete_session_if_empty(
    ctx: StateContext, session_id: str, sessions_dir: Folder = None
) -> bool:
    """Delete a session that has no message, no title and no child; False if it has."""
    return _delete_found(ctx, "empty_session", {"id": session_id}, sessions_dir) > 0


def count_empty_sessions(_ctx: StateContext, tx: Tx) -> int:
    """Count the sessions that ended without a message and are not archived."""
    return len(tx.all("empty_sessions"))


def delete_empty_sessions(ctx: StateContext, sessions_dir: Folder = None) -> int:
    """Delete the sessions that ended without a message and are not archived; count them."""
    return _delete_found(ctx, "empty_sessions", {}, sessions_dir)


def prune_empty_ghost_sessions(ctx: StateContext, sessions_dir: Folder = None) -> int:
    """Delete what the terminal page began and never used, a day after; count them."""
    cutoff = ctx.clock() - _DAY
    return _delete_found(ctx, "ghost_sessions", {"cutoff": cutoff}, sessions_dir)


def list_never_active_keyed_sessions(
    ctx: StateContext, tx: Tx, *, older_than_days: float
) -> list[dict[str, object]]:
    """Give a messenger's sessions that were opened long ago and never used, the oldest first."""
    return tx.dicts("never_active", {"cutoff": ctx.clock() - float(older_than_days) * _DAY})


def prune_never_active_keyed_sessions(
    ctx: StateContext, *, older_than_days: float, sessions_dir: Folder = None
) -> tuple[int, int]:
    """Delete a messenger's sessions that were never used, and their routes; count both."""

    def act(ctx: StateContext, tx: Tx) -> tuple[list[str], list[str], int]:
        found = list_never_active_keyed_sessions(ctx, tx, older_than_days=older_than_days)
        ids = [str(session["id"]) for session in found]
        routes = drop_routes_to(ctx, tx, set(ids))
        return ids, _remove_all(ctx, tx, with_delegates(ctx, tx, ids)), routes

    ids, gone, routes = write(ctx, act)
    remove_files(sessions_dir, gone)
    return len(ids), routes


def _delete_found(
    ctx: StateContext, query: str, params: dict[str, object], sessions_dir: Folder
) -> int:
    act: Callable[[StateContext, Tx], list[str]] = lambda ctx, tx: _remove_all(  # noqa: E731
        ctx, tx, [str(row[0]) for row in tx.all(query, params)]
    )
    gone = write(ctx, act)
    remove_files(sessions_dir, gone)
    return len(gone)
