"""Letting old sessions go and giving their space back; nothing goes unless it is asked for."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from threadkeep.base.engines import cut_free_pages, give_back_space, store_size
from threadkeep.base.tx import Tx
from threadkeep.base.word_index import blames_index
from threadkeep.errors import Invalid, ThreadkeepError
from threadkeep.state.blob_migration import offload_blobs, sweep_blobs
from threadkeep.state.check import optimize_fts
from threadkeep.state.context import Json, StateContext, reading
from threadkeep.state.deletion import Folder, remove_files, remove_session, with_delegates
from threadkeep.state.lineage import get_compression_lineage
from threadkeep.state.rows import refresh_session_hash
from threadkeep.state.schema import MESSAGE_WORDS, SEARCH_WORDS
from threadkeep.state.search.index_fill import reindex_ours
from threadkeep.state.session_config import drop_unused_prompts
from threadkeep.state.titles import set_session_archived
from threadkeep.state.verbs import get_meta, put_meta, write

# ------------------------------------------------------------------------------
# Which sessions a clean-up takes: the same filters for pruning, archiving and counting.

DAY: Final = 86_400.0
_ENDED, _ABANDONED, _ANY, _OPEN = range(4)
_LIKE: Final = ("title_like", "model_like", "branch_like")


class PruneFilters(NamedTuple):
    """What narrows a clean-up; of what is None, anything will do."""

    last_active_before: float | None = None
    last_active_after: float | None = None
    started_before: float | None = None
    started_after: float | None = None
    source: str | None = None
    title_like: str | None = None
    end_reason: str | None = None
    cwd_prefix: str | None = None
    min_messages: int | None = None
    max_messages: int | None = None
    archived: bool | None = None
    model_like: str | None = None
    provider: str | None = None
    user_id: str | None = None
    chat_id: str | None = None
    chat_type: str | None = None
    branch_like: str | None = None
    min_tokens: int | None = None
    max_tokens: int | None = None
    min_cost: float | None = None
    max_cost: float | None = None
    min_tool_calls: int | None = None
    max_tool_calls: int | None = None


class Selection(NamedTuple):
    """Filters, and what else decides: open sessions, pins, chains of compressions."""

    filters: PruneFilters
    state: int = _ENDED
    include_pinned: bool = False
    pinned_only: bool = False
    whole_lineages: bool = False


def selection(
    ctx: StateContext,
    older_than_days: float | None,
    source: str | None,
    *,
    include_open: bool = False,
    only_open: bool = False,
    include_pinned: bool = False,
    pinned_only: bool = False,
    whole_lineages: bool = False,
    **filters: Any,
) -> Selection:
    """Make a selection of what a caller gave; a filter that there is none of is a TypeError.

    Days without activity count unless a time is given. Pinned sessions are spared, with all of
    their chain; `whole_lineages` also keeps one that continues in a session that is not selected.
    """
    chosen = PruneFilters(source=source, **filters)
    if chosen.last_active_before is None and chosen.started_before is None:
        chosen = chosen._replace(last_active_before=_cutoff(ctx, older_than_days))
    state = _OPEN if only_open else _ANY if include_open else _default_state(ctx)
    return Selection(chosen, state, include_pinned, pinned_only, whole_lineages)


def _default_state(ctx: StateContext) -> int:
    return _ENDED if ctx.form.answers.prunes_ended_only else _ABANDONED


def _cutoff(ctx: StateContext, days: float | None) -> float | None:
    if days is None:
        return None
    if not isinstance(days, (int, float)) or days != days:  # noqa: PLR0124  (no NaN)
        msg = f"sessions cannot be older than {days!r} days"
        raise Invalid(msg, hint="give the number of days since the last message")
    return ctx.clock() - days * DAY


def select(
    ctx: StateContext, tx: Tx, chosen: Selection, session_id: str | None = None
) -> list[Json]:
    """Return the selected sessions, or one if it is among them; the longest idle first."""
    span = {"first": session_id or "", "last": session_id}
    params = {**span, "state": chosen.state, **_params(chosen.filters)}
    found = tx.dicts("selected_sessions", params)
    if chosen.pinned_only or not chosen.include_pinned:
        pinned = _pinned(ctx, tx, session_id)
        found = [row for row in found if (row["id"] in pinned) == chosen.pinned_only]
    if chosen.whole_lineages:
        ids = {row["id"] for row in found}
        found = [row for row in found if set(_after(ctx, tx, row)) <= ids]
    return found


def _params(filters: PruneFilters) -> Json:
    given = filters._asdict()
    values: Json = {name: None if value == "" else value for name, value in given.items()}
    for name in (*_LIKE, "provider"):
        values[name] = None if values[name] is None else str(values[name]).lower()
    for name in _LIKE:
        values[name] = None if values[name] is None else f"%{escaped(values[name])}%"
    if values["cwd_prefix"] is not None:
        folder = str(values["cwd_prefix"])
        values["cwd_prefix"] = folder.rstrip("/\\") or folder
    below = escaped(values["cwd_prefix"] or "")
    return {**values, "below": f"{below}/%", "below_windows": f"{below}\\\\%"}


def escaped(text: str) -> str:
    """Take the meaning from the signs that LIKE knows."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _pinned(ctx: StateContext, tx: Tx, session_id: str | None) -> set[str]:
    """A pin on one session of a chain spares the whole of it."""
    if session_id is None:
        pins = [str(row[0]) for row in tx.all("pinned_sessions")]
        return {member for pin in pins for member in get_compression_lineage(ctx, tx, pin)}
    chain = get_compression_lineage(ctx, tx, session_id)
    return {*chain} if any(tx.one("is_pinned", {"id": member}) for member in chain) else set()


def _after(ctx: StateContext, tx: Tx, row: Json) -> Iterator[str]:
    """Return the sessions in which one continues."""
    if row["end_reason"] == "compression":
        chain = get_compression_lineage(ctx, tx, row["id"])
        yield from chain[chain.index(row["id"]) + 1 :] if row["id"] in chain else ()


# One transaction takes so much: 5,000 messages took 0.5 s, and others wait meanwhile.
_SESSIONS_AT_ONCE: Final = 50
_MESSAGES_AT_ONCE: Final = 2_000
_WORTH_AN_INDEX: Final = 1 / 3
# FTS5 keeps deleted words until it merges what it has: worth it when a quarter may be such.
_WORTH_A_MERGE: Final = 0.25
_MERGE_PAGES: Final = 500


# ---------------------------------------------------------------------- choosing


def list_prune_candidates(
    ctx: StateContext,
    tx: Tx,
    /,
    older_than_days: float | None = None,
    source: str | None = None,
    **filters: Any,
) -> list[Json]:
    """Return the sessions that pruning with these filters would delete, the longest idle first."""
    return select(ctx, tx, selection(ctx, older_than_days, source, **filters))


def count_prune_matches(
    ctx: StateContext,
    tx: Tx,
    /,
    older_than_days: float | None = None,
    source: str | None = None,
    **filters: Any,
) -> int:
    """Count the sessions that pruning would delete; `pinned_only` counts those kept by a pin."""
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
    """Return the sessions that pruning would delete, with how many messages each has.

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
    """Delete the sessions that `prune_candidates` returns, free their space, and count them.

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
    ctx: StateContext,
    session_ids: Iterable[str],
    sessions_dir: Folder = None,
    *,
    dry_run: bool = False,
) -> int:
    """Delete sessions with their messages, whatever their age; return how many there were.

    Those that they delegated to go along, and are not counted. With `dry_run` nothing is deleted.
    """
    given = [session_ids] if isinstance(session_ids, str) else list(session_ids or ())
    wanted = list(dict.fromkeys(each for each in given if isinstance(each, str) and each))

    def chosen(tx: Tx) -> list[Json]:
        return [
            {"id": each, "message_count": int(tx.value("count_messages", {"session_id": each}))}
            for each in with_delegates(ctx, tx, wanted)
        ]

    found = reading(ctx, chosen)
    if dry_run:
        return len({one["id"] for one in found} & set(wanted))
    gone = _delete_all(ctx, found, lambda _tx, _id: True)
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
    cut_free_pages(ctx.db)


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
    """The second index cannot forget a deleted message; it is rebuilt when a third is dead."""
    with ctx.db.read() as tx:
        if tx.engine == "sqlite" and tx.one("has_side_index") is None:
            return  # damaged: `check` says so, and `reindex` makes it again
        docs, alive = SEARCH_WORDS.size(tx), int(tx.value("live_docs"))
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
            "index", "the full-text index of %s is damaged: run reindex()", ctx.db.name
        )


def _merge_some(ctx: StateContext, pages: int) -> bool:
    """Merge some pages; tell whether there was something to do."""
    with ctx.db.write(durable=False) as tx:
        if tx.engine == "sqlite" and tx.one("has_text_index") is None:
            return False
        return MESSAGE_WORDS.merge(tx, pages)


def vacuum(ctx: StateContext) -> int:
    """Rewrite the file without its free pages; return how many full-text tables were merged.

    It needs as much free space again, and everybody waits for it: `compact` is gentler.
    """
    if ctx.side:
        _drop_stale_postings(ctx)
    merged = optimize_fts(ctx)
    give_back_space(ctx.db)
    return merged


def compact(ctx: StateContext, *, offload: bool = False, older_than_days: float = 0) -> Json:
    """Shrink the file without losing data; return its size before and after, and what moved.

    With `offload` the blobs of ended sessions, idle for so many days, are moved out of the
    messages first: see `offload_blobs`.
    """
    before = _size(ctx)
    moved: Any = offload_blobs(ctx, older_than_days=older_than_days) if offload else None
    removed = sweep_blobs(ctx)
    _drop_stale_postings(ctx)
    _merge_index(ctx)
    cut_free_pages(ctx.db)
    after = _size(ctx)
    return {
        "bytes_before": before,
        "bytes_after": after,
        "bytes_gained": before - after,
        "blobs_removed": removed,
        "moved": moved,
    }


def _size(ctx: StateContext) -> int:
    with ctx.db.read() as tx:
        size = store_size(ctx.db, tx)
    return size.bytes + size.log_bytes


# ------------------------------------------------------------------------------
# What is done now and then: archive, prune and vacuum, but not too often; tidy up.

log = logging.getLogger(__name__)

_HOUR: Final = 3_600.0
_STRANDED: Final = 7 * DAY


def archive_sessions(
    ctx: StateContext,
    tx: Tx,
    /,
    older_than_days: float | None = None,
    source: str | None = None,
    **filters: Any,
) -> int:
    """Archive the sessions that these filters select, with all of their chains; count them."""
    chosen = selection(ctx, older_than_days, source, **{"archived": False, **filters})
    found = select(ctx, tx, chosen)
    for row in found:
        set_session_archived(ctx, tx, row["id"], True)  # noqa: FBT003
    return len(found)


def archive_stale_sessions(
    ctx: StateContext, tx: Tx, idle_days: float | None, *, exclude_pinned: bool = True
) -> int:
    """Archive the sessions idle for a number of days, including open ones; count them."""
    if idle_days is None or idle_days < 0:
        return 0
    found = tx.all("stale_sessions", {"cutoff": ctx.clock() - float(idle_days) * DAY})
    stale = [str(row[0]) for row in found]
    if exclude_pinned:
        stale = [each for each in stale if not _is_pinned(ctx, tx, each)]
    for each in stale:
        set_session_archived(ctx, tx, each, True)  # noqa: FBT003
    return len(stale)


def _is_pinned(ctx: StateContext, tx: Tx, session_id: str) -> bool:
    chain = get_compression_lineage(ctx, tx, session_id) or [session_id]
    return any(tx.one("is_pinned", {"id": member}) is not None for member in chain)


# ---------------------------------------------------------------------- at most so often


def maybe_auto_prune_and_vacuum(
    store: Any,
    /,
    retention_days: int = 90,
    min_interval_hours: int = 24,
    vacuum: bool = True,  # noqa: FBT001, FBT002
    sessions_dir: Folder = None,
    min_vacuum_interval_days: int = 30,
    *,
    dry_run: bool = False,
) -> Json:
    """Prune if not done recently; vacuum if rows were deleted and the last vacuum is older.

    Says whether it was skipped, how many sessions went and whether the file was vacuumed; what goes
    wrong is in `error`, and never raised. With `dry_run` it only says how many would go.
    """
    result: Json = {"skipped": False, "pruned": 0, "vacuumed": False}
    if dry_run:
        return {**result, "pruned": store.prune_sessions(retention_days, dry_run=True)}

    def act() -> None:
        days = retention_days
        result["pruned"] = store.prune_sessions(older_than_days=days, sessions_dir=sessions_dir)
        pause = min_vacuum_interval_days * DAY
        if vacuum and result["pruned"] and not _was_done(store, "last_vacuum", pause):
            result["vacuumed"] = _vacuum(store)

    return _now_and_then(store, "last_auto_prune", min_interval_hours, result, act)


def _vacuum(store: Any) -> bool:
    try:
        store.vacuum()
    except Exception as error:  # noqa: BLE001  (what was pruned is gone all the same)
        log.warning("%s was not vacuumed: %s", store.database.name, error)
        return False
    store.set_meta("last_vacuum", str(store.context.clock()))
    return True


def maybe_auto_archive(
    store: Any,
    /,
    idle_days: float = 3,
    min_interval_hours: int = 24,
    exclude_pinned: bool = True,  # noqa: FBT001, FBT002
) -> Json:
    """Archive idle sessions if that was not done recently; failures are in `error`."""
    result: Json = {"skipped": False, "archived": 0}

    def act() -> None:
        found = store.archive_stale_sessions(idle_days, exclude_pinned=exclude_pinned)
        result["archived"] = found

    return _now_and_then(store, "last_auto_archive", min_interval_hours, result, act)


def _now_and_then(
    store: Any, key: str, hours: float, result: Json, act: Callable[[], None]
) -> Json:
    """Do something unless it was done within so many hours, and note when; a start continues."""
    try:
        result["skipped"] = _was_done(store, key, hours * _HOUR)
        if not result["skipped"]:
            act()
            store.set_meta(key, str(store.context.clock()))
    except Exception as error:  # noqa: BLE001  (upkeep must not keep a program from starting)
        log.warning("upkeep of %s failed: %s", store.database.name, error)
        result["error"] = str(error)
    return result


def _was_done(store: Any, key: str, pause: float) -> bool:
    told = store.get_meta(key)
    try:
        return told is not None and store.context.clock() - float(told) < pause
    except ValueError:
        return False


# ---------------------------------------------------------------------- what is left lying


def finalize_orphaned_compression_sessions(ctx: StateContext, tx: Tx) -> int:
    """End continuations of compressed sessions that were unused for a week; count them."""
    now = ctx.clock()
    return tx.count("stranded_continuations", {"now": now, "cutoff": now - _STRANDED})


def retag_kanban_worker_sessions(ctx: StateContext, tx: Tx, workspaces_root: str) -> int:
    """Set the source of command-line sessions below a board's folder to kanban, once."""
    folder = str(workspaces_root).rstrip("/\\")
    key = f"kanban_worker_source_retagged:{folder}"
    if not folder or get_meta(ctx, tx, key) == "1":
        return 0
    values = {"folder": folder, "below": f"{escaped(folder)}/%"}
    ids = [str(row[0]) for row in tx.all("sessions_to_retag", values)]
    tx.run("retag_sessions", values)
    if ctx.side:
        for each in ids:
            refresh_session_hash(tx, each)
    put_meta(ctx, tx, key, "1")
    return len(ids)


def logical_size_bytes(ctx: StateContext, tx: Tx) -> int:
    """Return the size of the file after its log is checkpointed into it."""
    return store_size(ctx.db, tx).bytes
