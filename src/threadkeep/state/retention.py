"""Letting old sessions go and giving their space back; nothing goes unless it is asked for."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from threadkeep.base.sqlite import Row, Tx
from threadkeep.errors import Invalid, ThreadkeepError
from threadkeep.state.context import Context, Json
from threadkeep.state.index import blames_index, reindex_ours
from threadkeep.state.lineage import get_compression_lineage
from threadkeep.state.moving import offload_blobs, sweep_blobs
from threadkeep.state.sessions import delete_session
from threadkeep.state.verbs import write

_DAY: Final = 86_400.0
_NAMES: Final = ("id", "title", "source", "last_active", "message_count", "ended")
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


class _Rule(NamedTuple):
    cutoff: float
    source: str | None
    include_active: bool


# ---------------------------------------------------------------------- choosing


def prune_candidates(
    ctx: Context,
    tx: Tx,
    older_than_days: float = 90,
    source: str | None = None,
    *,
    include_active: bool = False,
) -> list[Json]:
    """Give the sessions that pruning would delete, the longest idle first.

    A session is as old as its newest message, or as its start if it has none. One that never ended
    counts as abandoned when it has messages; without any, only `include_active` takes it. Pinned
    sessions are never among them, nor the others of their chain of compressions.
    """
    rule = _rule(ctx, older_than_days, source, include_active=include_active)
    pinned = _pinned(ctx, tx)
    # Every text sorts before any blob: these are all sessions.
    rows = tx.all("idle_sessions", {"first": "", "last": b"", **rule._asdict()})
    return [_candidate(row) for row in rows if row[0] not in pinned]


def _rule(
    ctx: Context, older_than_days: float, source: str | None, *, include_active: bool
) -> _Rule:
    if not isinstance(older_than_days, (int, float)) or older_than_days != older_than_days:  # noqa: PLR0124
        msg = f"sessions cannot be older than {older_than_days!r} days"
        raise Invalid(msg, hint="give the number of days since the last message")
    return _Rule(ctx.clock() - older_than_days * _DAY, source, bool(include_active))


def _pinned(ctx: Context, tx: Tx) -> set[str]:
    """A list shows a chain of compressions as its last session, and that one gets the pin."""
    pins = tx.all("pinned_sessions") if ctx.side else ()
    return {member for (pin,) in pins for member in get_compression_lineage(ctx, tx, pin)}


def _candidate(row: Row) -> Json:
    candidate = dict(zip(_NAMES, row, strict=True))
    candidate["ended"] = bool(candidate["ended"])
    return candidate


# ---------------------------------------------------------------------- deleting


def prune_sessions(
    ctx: Context,
    older_than_days: float = 90,
    source: str | None = None,
    *,
    dry_run: bool = False,
    include_active: bool = False,
) -> int:
    """Delete the sessions that `prune_candidates` names, give their space back, and count them.

    With `dry_run` they are only counted. A session that is used or pinned meanwhile stays.
    """
    rule = _rule(ctx, older_than_days, source, include_active=include_active)
    with ctx.db.read() as tx:
        chosen = prune_candidates(ctx, tx, older_than_days, source, include_active=include_active)
    if dry_run:
        return len(chosen)

    def still_due(tx: Tx, session_id: str) -> bool:
        params = {"first": session_id, "last": session_id, **rule._asdict()}
        idle = tx.one("idle_sessions", params) is not None
        chain = get_compression_lineage(ctx, tx, session_id) if idle else ()
        return idle and not any(tx.one("is_pinned", {"id": member}) for member in chain)

    return _delete_all(ctx, chosen, still_due)


def delete_sessions(ctx: Context, ids: Iterable[str]) -> int:
    """Delete sessions with their messages for good, whatever their age; count those there were."""
    wanted = list(dict.fromkeys([ids] if isinstance(ids, str) else ids))
    with ctx.db.read() as tx:
        sizes = [int(tx.value("count_messages", {"session_id": each})) for each in wanted]
    chosen = [{"id": each, "message_count": size} for each, size in zip(wanted, sizes, strict=True)]
    return _delete_all(ctx, chosen, lambda _tx, _id: True)


def _delete_all(ctx: Context, chosen: Sequence[Json], still_due: Callable[[Tx, str], bool]) -> int:
    gone = sum(write(ctx, _delete, batch, still_due) for batch in _batches(chosen))
    if gone:
        sweep_blobs(ctx)
        _drop_stale_postings(ctx)
        with ctx.db.read() as tx:
            messages = int(tx.value("count_messages", {"session_id": None}))
        if sum(session["message_count"] for session in chosen) > messages * _WORTH_A_MERGE:
            _merge_index(ctx)
        give_space_back(ctx)
    return gone


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


def _delete(ctx: Context, tx: Tx, ids: Sequence[str], still_due: Callable[[Tx, str], bool]) -> int:
    return sum(delete_session(ctx, tx, each) for each in ids if still_due(tx, each))


# ---------------------------------------------------------------------- space


def _drop_stale_postings(ctx: Context) -> None:
    """The second index cannot forget a deleted message; it is built anew when a third is dead."""
    with ctx.db.read() as tx:
        if tx.one("has_side_index") is None:
            return  # damaged: `check` says so, and `reindex` makes it anew
        docs, alive = tx.one("search_docs") or (0, 0)
    if docs - alive > docs * _WORTH_AN_INDEX:
        reindex_ours(ctx)


def _merge_index(ctx: Context) -> None:
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


def _merge_some(ctx: Context, pages: int) -> bool:
    """Merge some pages; FTS5 tells by two or more changes that there was something to do."""
    with ctx.db.write(durable=False) as tx:
        if tx.one("has_text_index") is None:
            return False
        before = int(tx.value("total_changes"))
        tx.run("merge_index", {"pages": pages})
        return int(tx.value("total_changes")) - before > 1


def give_space_back(ctx: Context) -> None:
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


def _pages(ctx: Context) -> tuple[int, int, int]:
    names = ("page_count", "freelist_count", "auto_vacuum")
    with ctx.db.read() as tx:
        values = [int(tx.execute(f"PRAGMA {name}").fetchone()[0]) for name in names]
    return values[0], values[1], values[2]


def vacuum(ctx: Context) -> int:
    """Write the file anew without its free pages; give how many bytes that gained.

    It needs as much free space again, and everybody waits for it: `compact` is gentler.
    """
    before = _size(ctx)
    _drop_stale_postings(ctx)
    _merge_index(ctx)
    ctx.db.vacuum()
    return before - _size(ctx)


def compact(ctx: Context, *, offload: bool = False, older_than_days: float = 0) -> Json:
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


def _size(ctx: Context) -> int:
    return os.stat(ctx.db.file).st_size + ctx.db.wal.size()
