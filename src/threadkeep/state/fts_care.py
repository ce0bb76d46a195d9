"""Care of Hermes's own full-text tables: how far a rebuild is, one more step of it, merging.

Their layout is Hermes's to change. A rebuild that it has begun is carried on in the layout that the
file has, which is read from the definitions of the tables.
"""

import logging
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from threadkeep.base.tx import Tx
from threadkeep.errors import ThreadkeepError
from threadkeep.state.context import Json, StateContext, reading
from threadkeep.state.index import reindex
from threadkeep.state.meta import get_meta, put_meta
from threadkeep.state.verbs import write

log = logging.getLogger(__name__)

_WORDS, _TRIGRAMS, _CJK = "messages_fts", "messages_fts_trigram", "messages_fts_cjk"
_TABLES: Final = (_WORDS, _TRIGRAMS, _CJK)
_MAIN, _OF_CJK = "fts_rebuild", "fts_cjk_rebuild"
# So many ids are indexed in one transaction.
_CHUNK: Final = 2_000
_CONTENT: Final = re.compile(r"""\bcontent\s*=\s*['"]?(\w+)""", re.IGNORECASE)
_ROWID: Final = re.compile(r"""\bcontent_rowid\s*=\s*['"]?(\w+)""", re.IGNORECASE)


class Layout(NamedTuple):
    """A full-text table that takes its rows from another table or view."""

    name: str
    source: str
    rowid: str
    columns: tuple[str, ...]


def fts_rebuild_status(ctx: StateContext, tx: Tx) -> Json | None:
    """Tell how far a rebuild of the full-text tables is, None if none is under way."""
    return _status(ctx, tx, _MAIN)


def fts_cjk_rebuild_status(ctx: StateContext, tx: Tx) -> Json | None:
    """Tell how far a rebuild of the table for CJK is, None if none is under way."""
    return _status(ctx, tx, _OF_CJK)


def _status(ctx: StateContext, tx: Tx, rebuild: str) -> Json | None:
    total = _number(get_meta(ctx, tx, f"{rebuild}_high_water"))
    if total <= 0:
        return None
    done = _number(get_meta(ctx, tx, f"{rebuild}_progress"))
    return {
        "pending": True,
        "total": total,
        "indexed": done,
        "percent": min(100, 100 * done // total),
    }


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdigit() else 0


def fts_optimize_available(ctx: StateContext, tx: Tx) -> bool:
    """Tell whether a rebuild that Hermes has begun can be carried on here."""
    return not ctx.db.read_only and fts_rebuild_status(ctx, tx) is not None


def fts_rebuild_step(ctx: StateContext) -> bool:
    """Carry a rebuild of the full-text tables on by one step; True if more is left."""
    return _step(ctx, _MAIN, (_WORDS, _TRIGRAMS))


def fts_cjk_rebuild_step(ctx: StateContext) -> bool:
    """Carry a rebuild of the table for CJK on by one step; its words need Hermes's library."""
    return _step(ctx, _OF_CJK, (_CJK,))


def _step(ctx: StateContext, rebuild: str, tables: tuple[str, ...]) -> bool:
    try:
        return write(ctx, _index_some, rebuild, tables)
    except ThreadkeepError as error:
        log.warning("the full-text tables of %s were not filled: %s", ctx.db.path, error)
        return False


def _index_some(ctx: StateContext, tx: Tx, rebuild: str, tables: tuple[str, ...]) -> bool:
    """Index the next ids and note how far that is, in one transaction: nobody does them twice."""
    status = _status(ctx, tx, rebuild)
    if status is None:
        return False
    layouts = [layout for name in tables if (layout := layout_of(tx, name)) is not None]
    if not layouts:
        return False
    first, last = status["indexed"], min(status["indexed"] + _CHUNK, status["total"])
    for layout in layouts:
        names = ", ".join(layout.columns)
        tx.execute(
            f"INSERT INTO {layout.name}(rowid, {names}) SELECT {layout.rowid}, {names}"  # noqa: S608
            f" FROM {layout.source} WHERE {layout.rowid} > ? AND {layout.rowid} <= ?",
            (first, last),
        )
    if last < status["total"]:
        put_meta(ctx, tx, f"{rebuild}_progress", str(last))
        return True
    for key in ("high_water", "progress"):
        tx.run("drop_state_value", {"key": f"{rebuild}_{key}"})
    return False


def layout_of(tx: Tx, name: str) -> Layout | None:
    """Read the layout of a full-text table; None if there is none, or it keeps its own rows."""
    sql = str(tx.value("definition_of", {"name": name}) or "")
    source, rowid = _CONTENT.search(sql), _ROWID.search(sql)
    if source is None:
        return None
    columns = tuple(str(row[1]) for row in tx.execute(f"PRAGMA table_info({name})"))
    return Layout(name, source[1], "rowid" if rowid is None else rowid[1], columns)


def optimize_fts_storage(
    ctx: StateContext,
    *,
    progress_cb: Callable[[Json], None] | None = None,
    vacuum: bool = True,
) -> Json:
    """Carry a rebuild that Hermes has begun on to its end; the layout stays what it is."""
    if ctx.db.read_only:
        return {"ok": False, "reason": "read_only"}
    steps = 0
    more = reading(ctx, lambda tx: fts_optimize_available(ctx, tx))
    while more:
        more = fts_rebuild_step(ctx)
        steps += 1
        if progress_cb is not None:
            progress_cb(_told(ctx, "backfill"))
    left = reading(ctx, lambda tx: fts_rebuild_status(ctx, tx))
    if left is not None:
        return {"ok": False, "reason": "unknown_layout", **left}
    if vacuum and steps:
        ctx.db.vacuum()
    return {"ok": True, "steps": steps, "vacuumed": bool(vacuum and steps)}


def _told(ctx: StateContext, phase: str) -> Json:
    status = reading(ctx, lambda tx: fts_rebuild_status(ctx, tx))
    done = {"percent": 100, "indexed": 0, "total": 0}
    return {"phase": phase, **({k: status[k] for k in done} if status is not None else done)}


def optimize_fts(ctx: StateContext) -> int:
    """Merge each full-text table into one piece; count those that were merged."""
    return _command(ctx, "optimize")


def rebuild_fts(ctx: StateContext) -> int:
    """Fill each full-text table anew from the messages; count those that were filled."""
    if not ctx.side:
        return _command(ctx, "rebuild")
    reindex(ctx)
    return reading(ctx, lambda tx: sum(_is_there(tx, name) for name in _TABLES))


def _command(ctx: StateContext, command: str) -> int:
    return sum(_run(ctx, name, command) for name in _TABLES)


def _run(ctx: StateContext, name: str, command: str) -> bool:
    def act(_ctx: StateContext, tx: Tx) -> bool:
        if not _is_there(tx, name):
            return False
        tx.execute(f"INSERT INTO {name}({name}) VALUES (?)", (command,))  # noqa: S608
        return True

    try:
        return write(ctx, act)
    except ThreadkeepError as error:  # the words of one table may need a library that is not here
        log.warning("%s of %s in %s failed: %s", command, name, ctx.db.path, error)
        return False


def _is_there(tx: Tx, name: str) -> bool:
    return tx.value("definition_of", {"name": name}) is not None
