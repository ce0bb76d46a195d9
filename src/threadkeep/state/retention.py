"""Letting old sessions go and giving their space back; nothing goes unless it is asked for."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from threadkeep.base.tx import Tx
from threadkeep.errors import ThreadkeepError
from threadkeep.state.context import Json, StateContext, reading
from threadkeep.state.deletion import Folder, remove_files, remove_session, with_delegates
from threadkeep.state.fts_care import optimize_fts
from threadkeep.state.index import blames_index, reindex_ours
from threadkeep.state.moving import offload_blobs, sweep_blobs
from threadkeep.state.prompts import drop_unused_prompts
from threadkeep.state.selection import select, selection
from threadkeep.state.verbs import write

# One transaction takes so much: 5,000 messages took 0.5 s, and others wait meanwhile.
_SESSIONS_AT_ONCE: Final = 50
_MESSAGES_AT_ONCE: Final = 2_000
# 16 MB of pages of 8 KB; a step moves what lies behind them, under the lock.
_PAGES_AT_ONCE: Final = 2_000
# A file that cannot shrink in steps is written anew only when that gives back this much of it.
_WORTH_A_VACUUM: Final = 0.25
_WORTH_AN_INDEX: Final = 1 / 3
# FTS5 keeps deleted words until it merges what it has: worth it when a quarter may be such.
_WORTH_A_MERGE: Final = 0.25
_MERGE_PAGES: Final = 500
_INCREMENTAL: Final = 2


# ---------------------------------------------------------------------- choosing


def list_prune_candidates(
    ctx: StateContext,
    tx: Tx,
    /,
    older_than_days: float | None = None,
    source: str | None = None,
    **filters: Any,
) -> list[Json]:
    """Give the sessions that pruning with these filters would delete, the longest idle first."""
    return select(ctx, tx, selection(ctx, older_than_days, source, **filters))


def count_prune_matches(
    ctx: StateContext,
    tx: Tx,
    /,
    older_than_days: float | None = None,
    source: str | None = None,
    **filters: Any,
) -> int:
    """Count the sessions that pruning would delete; with `pinned_only` those that a pin spares."""
    return len(select(ctx, tx, selection(ctx, older_than_days, source, **filters)))


def count_open_prune_matches(
    ctx: StateContext,
    tx: Tx,
    /,
    older_than_days: float | None = None,
    source: str | None = None,
    **filters: Any,
) -> int:
    """Count the sessions that pruning would delete if they had ended."""
    return len(select(ctx, tx, selection(ctx, older_than_days, source, only_open=True, **filters)))


def prune_candidates(
    ctx: StateContext,
    tx: Tx,
    /,
    older_than_days: float | None = 90,
    source: str | None = None,
    *,
    include_active: bool = False,
    **filters: Any,
) -> list[Json]:
    """Give the sessions that pruning would delete, with how many messages each has.

    A session is as old as its last activity, or as its start if it has none. Pinned sessions are
    never among them, nor the others of their chain of compressions. One that never ended is taken
    with `include_active`; in a store of version 6 also when it has messages: it was abandoned.
    """
    chosen = selection(ctx, older_than_days, source, include_open=include_active, **filters)
    return [
        {
            **{name: row[name] for name in ("id", "title", "source", "last_active")},
            "message_count": int(tx.value("count_messages", {"session_id": row["id"]})),
            "ended": row["ended_at"] is not None,
        }
        for row in select(ctx, tx, chosen)
    ]


# ---------------------------------------------------------------------- deleting


def prune_sessions(
    ctx: StateContext,
    /,
    older_than_days: float | None = 90,
    source: str | None = None,
    sessions_dir: Folder = None,
    *,
    dry_run: bool = False,
    include_active: bool = False,
    **filters: Any,
) -> int:
    """Delete the sessions that `prune_candidates` names, give their space back, and count them.

    With `dry_run` they are only counted. A session that is used or pinned meanwhile stays.
    """
    chosen = selection(ctx, older_than_days, source, include_open=include_active, **filters)

    def candidates(tx: Tx) -> list[Json]:
        return prune_candidates(
            ctx, tx, older_than_days, source, include_active=include_active, **filters
        )

    found = reading(ctx, candidates)
    if dry_run:
        return len(found)
    # Alone, a session cannot be seen to be followed by others that go with it.
    alone = chosen._replace(whole_lineages=False)
    gone = _delete_all(ctx, found, lambda tx, each: bool(select(ctx, tx, alone, each)))
    remove_files(sessions_dir, gone)
    return len(gone)


def delete_sessions(
    ctx: StateContext, session_ids: Iterable[str], sessions_dir: Folder = None
) -> int:
    """Delete sessions with their messages for good, whatever their age; count those there were.

    Those that they delegated to go along, and are not counted.
    """
    given = [session_ids] if isinstance(session_ids, str) else list(session_ids or ())
    wanted = list(dict.fromkeys(each for each in given if isinstance(each, str) and each))

    def chosen(tx: Tx) -> list[Json]:
        return [
            {"id": each, "message_count": int(tx.value("count_messages", {"session_id": each}))}
            for each in with_delegates(ctx, tx, wanted)
        ]

    gone = _delete_all(ctx, reading(ctx, chosen), lambda _tx, _id: True)
    remove_files(sessions_dir, gone)
    return len(set(gone) & set(wanted))


def _delete_all(
    ctx: StateContext, chosen: Sequence[Json], still_due: Callable[[Tx, str], bool]
) -> list[str]:
    batches = (write(ctx, _delete, batch, still_due) for batch in _batches(chosen))
    gone = [each for batch in batches for each in batch]
    _tidy(ctx, len(gone), sum(session["message_count"] for session in chosen))
    return gone


def _tidy(ctx: StateContext, sessions: int, messages: int) -> None:
    """Let go of what stood for so many deleted sessions and messages.

    A file that is Hermes's own is left as it is: when to merge and to vacuum is for its program.
    """
    if not sessions or not ctx.side:
        return
    sweep_blobs(ctx)
    _drop_stale_postings(ctx)
    with ctx.db.read() as tx:
        left = int(tx.value("count_messages", {"session_id": None}))
    if messages > left * _WORTH_A_MERGE:
        _merge_index(ctx)
    give_space_back(ctx)


def _batches(chosen: Sequence[Json]) -> Iterator[list[str]]:
    """A session goes whole: one with more messages than the limit has a transaction to itself."""
    batch: list[str] = []
    messages = 0
    for session in chosen:
        full = len(batch) >= _SESSIONS_AT_ONCE
        if batch and (full or messages + session["message_count"] > _MESSAGES_AT_ONCE):
            yield batch
            batch, messages = [], 0
        batch.append(session["id"])
        messages += session["message_count"]
    if batch:
        yield batch


def _delete(
    ctx: StateContext, tx: Tx, ids: Sequence[str], still_due: Callable[[Tx, str], bool]
) -> list[str]:
    gone = [each for each in ids if still_due(tx, each) and remove_session(ctx, tx, each)]
    if gone:
        drop_unused_prompts(ctx, tx)
    return gone


# ---------------------------------------------------------------------- space


def _drop_stale_postings(ctx: StateContext) -> None:
    """The second index cannot forget a deleted message; it is built anew when a third is dead."""
    with ctx.db.read() as tx:
        if tx.one("has_side_index") is None:
            return  # damaged: `check` says so, and `reindex` makes it anew
        docs, alive = tx.one("search_docs") or (0, 0)
    if docs - alive > docs * _WORTH_AN_INDEX:
        reindex_ours(ctx)


def _merge_index(ctx: StateContext) -> None:
    """Let the contract's index drop the words of deleted messages, in steps between writes."""
    try:
        pages = -_MERGE_PAGES  # a negative number begins a merge of everything
        while _merge_some(ctx, pages):
            pages = _MERGE_PAGES
    except ThreadkeepError as error:
        if not blames_index(error):
            raise
        ctx.notices.warn(
            "index", "the full-text index of %s is damaged: run reindex()", ctx.db.path
        )


def _merge_some(ctx: StateContext, pages: int) -> bool:
    """Merge some pages; FTS5 tells by two or more changes that there was something to do."""
    with ctx.db.write(durable=False) as tx:
        if tx.one("has_text_index") is None:
            return False
        before = int(tx.value("total_changes"))
        tx.run("merge_index", {"pages": pages})
        return int(tx.value("total_changes")) - before > 1


def give_space_back(ctx: StateContext) -> None:
    """Cut the free pages off the file, in steps between which others write.

    A file that was not made for that is written anew when a quarter of it is free.
    """
    pages, free, mode = _pages(ctx)
    if mode == _INCREMENTAL:
        while ctx.db.give_back(_PAGES_AT_ONCE) > 0:
            pass
    elif free > pages * _WORTH_A_VACUUM:
        ctx.db.vacuum()
    ctx.db.truncate_log()


def _pages(ctx: StateContext) -> tuple[int, int, int]:
    names = ("page_count", "freelist_count", "auto_vacuum")
    with ctx.db.read() as tx:
        values = [int(tx.execute(f"PRAGMA {name}").fetchone()[0]) for name in names]
    return values[0], values[1], values[2]


def vacuum(ctx: StateContext) -> int:
    """Write the file anew without its free pages; give how many full-text tables were merged.

    It needs as much free space again, and everybody waits for it: `compact` is gentler.
    """
    if ctx.side:
        _drop_stale_postings(ctx)
    merged = optimize_fts(ctx)
    ctx.db.vacuum()
    return merged


def compact(ctx: StateContext, *, offload: bool = False, older_than_days: float = 0) -> Json:
    """Make the file smaller without losing anything; tell what it was, is, and what was moved.

    With `offload` the blobs of ended sessions, idle for so many days, are moved out of the
    messages first: see `offload_blobs`.
    """
    before = _size(ctx)
    moved: Any = offload_blobs(ctx, older_than_days=older_than_days) if offload else None
    removed = sweep_blobs(ctx)
    _drop_stale_postings(ctx)
    _merge_index(ctx)
    give_space_back(ctx)
    after = _size(ctx)
    return {
        "bytes_before": before,
        "bytes_after": after,
        "bytes_gained": before - after,
        "blobs_removed": removed,
        "moved": moved,
    }


def _size(ctx: StateContext) -> int:
    return os.stat(ctx.db.file).st_size + ctx.db.wal.size()
