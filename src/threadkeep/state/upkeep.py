"""What is done now and then: archive, prune and vacuum, but not too often; tidy up."""

import logging
from collections.abc import Callable
from typing import Any, Final

from threadkeep.base.tx import Tx
from threadkeep.state.context import Json, StateContext
from threadkeep.state.deletion import Folder
from threadkeep.state.lineage import get_compression_lineage
from threadkeep.state.marks import set_session_archived
from threadkeep.state.meta import get_meta, put_meta
from threadkeep.state.rows import refresh_session_hash
from threadkeep.state.selection import DAY, escaped, select, selection

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
    """Archive the sessions that nobody touched for so many days, open ones too; count them."""
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
) -> Json:
    """Prune if that was not done lately, and vacuum if something went and that is longer ago.

    Says whether it was skipped, how many sessions went and whether the file was vacuumed; what goes
    wrong is in `error`, and never raised.
    """
    result: Json = {"skipped": False, "pruned": 0, "vacuumed": False}

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
        log.warning("%s was not vacuumed: %s", store.db_path, error)
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
    """Archive idle sessions if that was not done lately; what goes wrong is in `error`."""
    result: Json = {"skipped": False, "archived": 0}

    def act() -> None:
        found = store.archive_stale_sessions(idle_days, exclude_pinned=exclude_pinned)
        result["archived"] = found

    return _now_and_then(store, "last_auto_archive", min_interval_hours, result, act)


def _now_and_then(
    store: Any, key: str, hours: float, result: Json, act: Callable[[], None]
) -> Json:
    """Do something unless it was done within so many hours, and note when; a start goes on."""
    try:
        result["skipped"] = _was_done(store, key, hours * _HOUR)
        if not result["skipped"]:
            act()
            store.set_meta(key, str(store.context.clock()))
    except Exception as error:  # noqa: BLE001  (upkeep must not keep a program from starting)
        log.warning("upkeep of %s failed: %s", store.db_path, error)
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
    """End continuations of compressed sessions that nobody used for a week; count them."""
    now = ctx.clock()
    return tx.run("stranded_continuations", {"now": now, "cutoff": now - _STRANDED})


def retag_kanban_worker_sessions(ctx: StateContext, tx: Tx, workspaces_root: str) -> int:
    """Give sessions of the command line below a board's folder the source kanban, once."""
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


def logical_size_bytes(_ctx: StateContext, tx: Tx) -> int:
    """Give the size that the file has once its log is written into it."""
    names = ("page_count", "page_size")
    pages, size = (int(tx.execute(f"PRAGMA {name}").fetchone()[0]) for name in names)
    return pages * size
