"""The list of sessions: a page costs the same in a file of 200 and of 200,000 of them.

Every page is read along an index: by start, by source and start, or by last activity. Preview and
last activity come from indexes on the messages, which SQLite itself keeps right, whoever writes.
"""

import heapq
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

from threadkeep.base.sqlite import Row, Tx
from threadkeep.errors import Invalid
from threadkeep.state.activity import newest_first
from threadkeep.state.context import SESSION_COLUMNS, Context, Json
from threadkeep.state.lineage import compression_chain, compression_root
from threadkeep.state.rows import read_session

_PREVIEW: Final = 60
_BATCH: Final = 32
_FEW: Final = 2_000  # sessions that are sorted in 60 ms
_PROJECTED: Final = (
    *("id", "ended_at", "end_reason", "message_count", "tool_call_count", "title", "last_active"),
    *("preview", "model", "system_prompt"),
)
_PARENT: Final = SESSION_COLUMNS.index("parent_session_id")
_STARTED: Final = SESSION_COLUMNS.index("started_at")
_REASON: Final = SESSION_COLUMNS.index("end_reason")
_ARCHIVED: Final = len(SESSION_COLUMNS)  # behind the columns, then the relation


class Wanted(NamedTuple):
    """Which sessions a listing is about, and whether a chain of compressions is shown as one."""

    sources: Sequence[str] | None
    children: bool
    archived: bool
    least: int
    project: bool

    def takes(self, row: Row) -> bool:
        """Tell whether a session belongs into the list."""
        session = dict(zip(SESSION_COLUMNS, row, strict=False))
        archived_at, relation = row[-2:]
        return (
            (self.children or relation == "branch" or session["parent_session_id"] is None)
            and (self.sources is None or session["source"] in self.sources)
            and (self.archived or archived_at is None)
            and (session["message_count"] or 0) >= self.least
        )


def list_sessions_rich(
    ctx: Context,
    tx: Tx,
    source: str | None = None,
    exclude_sources: Sequence[str] | None = None,
    limit: int = 20,
    offset: int = 0,
    include_children: bool = False,  # noqa: FBT001, FBT002
    project_compression_tips: bool = True,  # noqa: FBT001, FBT002
    *,
    order_by_last_active: bool = False,
    include_archived: bool = False,
    min_message_count: int = 0,
) -> list[Json]:
    """List sessions with a preview and their last activity, the newest first.

    Sessions with a parent are left out unless `include_children`, but for branches. A compressed
    session is shown as its newest continuation, with the start of its first one and
    `_lineage_root_id`; by last activity it stands where that one does.
    """
    if not isinstance(limit, int) or not isinstance(offset, int) or offset < 0:
        msg = f"a page has a limit and an offset, not {limit!r} and {offset!r}"
        raise Invalid(msg, hint="pass whole numbers")
    wanted = Wanted(
        _sources(tx, source, exclude_sources),
        children=include_children,
        archived=include_archived or not ctx.side,
        least=min_message_count,
        project=project_compression_tips and not include_children,
    )
    rows = _by_activity(ctx, tx, wanted) if order_by_last_active else _by_start(ctx, tx, wanted)
    shown = _with_tips(ctx, tx, wanted, rows)
    page = islice(shown, offset, None if limit < 0 else offset + limit)
    return [_listed(ctx, tx, row, tip) for row, tip in page]


def _sources(tx: Tx, source: str | None, excluded: Sequence[str] | None) -> Sequence[str] | None:
    """Say which sources are wanted, None for all: excluding is asking for the others."""
    if source is None and not excluded:
        return None
    known = [source] if source is not None else _known_sources(tx)
    return [name for name in known if name not in (excluded or ())]


def _known_sources(tx: Tx) -> list[str]:
    """Step from source to source along their index: a few steps, however many sessions."""
    found: list[str] = []
    current = tx.value("first_source")
    while current is not None:
        found.append(current)
        current = tx.value("next_source", {"source": current})
    return found


# ---------------------------------------------------------------------- orders


def _by_start(ctx: Context, tx: Tx, wanted: Wanted) -> Iterator[Row]:
    side = "" if ctx.side else "_plain"
    if wanted.sources is None:
        names = ["list_all"] if wanted.children else ["list_roots", "list_branches"]
        runs = [_along(tx, name + side, wanted, {}) for name in names]
        return heapq.merge(*runs, key=_start, reverse=True)
    runs = [
        _along(tx, f"list_source{side}", wanted, {"source": source}) for source in wanted.sources
    ]
    return heapq.merge(*runs, key=_start, reverse=True)


def _start(row: Row) -> Any:
    return row[_STARTED]


def _along(tx: Tx, name: str, wanted: Wanted, params: Json) -> Iterator[Row]:
    """Walk along an index in steps, and leave out what is not wanted."""
    offset, size = 0, _BATCH
    while True:
        rows = tx.all(name, {**params, "limit": size, "offset": offset})
        for row in rows:
            if wanted.takes(row):
                yield row
        if len(rows) < size:
            return
        offset, size = offset + size, size * 2


def _by_activity(ctx: Context, tx: Tx, wanted: Wanted) -> Iterator[Row]:
    """Sort the sessions of a source that has few: they may lie behind all others in the order."""
    if wanted.sources is not None and _are_few(tx, wanted.sources):
        key = partial(_last_active, ctx, tx, wanted)
        return iter(sorted(_by_start(ctx, tx, wanted), key=key, reverse=True))
    return _along_activity(ctx, tx, wanted)


def _are_few(tx: Tx, sources: Sequence[str]) -> bool:
    each = (tx.value("count_some", {"source": source, "limit": _FEW}) for source in sources)
    return sum(map(int, each)) < _FEW


def _last_active(ctx: Context, tx: Tx, wanted: Wanted, row: Row) -> Any:
    tip = _tip(ctx, tx, wanted, row)
    return tx.value("activity_of", {"id": (tip or row)[0]})


def _along_activity(ctx: Context, tx: Tx, wanted: Wanted) -> Iterator[Row]:
    for session_id in newest_first(ctx, tx):
        row = _row(ctx, tx, session_id)
        if row is not None and wanted.project and _in_chain(row):
            row = _shown_as(ctx, tx, session_id)
        if row is not None and wanted.takes(row):
            yield row


def _row(ctx: Context, tx: Tx, session_id: str) -> Row | None:
    return tx.one("list_one" if ctx.side else "list_one_plain", {"id": session_id})


def _in_chain(row: Row) -> bool:
    return row[_PARENT] is not None or row[_REASON] == "compression"


def _shown_as(ctx: Context, tx: Tx, session_id: str) -> Row | None:
    """Give the first session of a chain in the place of the one that stands for it, its last."""
    root = compression_root(ctx, tx, session_id)
    stands_for_it = compression_chain(ctx, tx, root)[-1] == session_id
    return _row(ctx, tx, root) if stands_for_it else None


# ---------------------------------------------------------------------- what is shown


def _with_tips(
    ctx: Context, tx: Tx, wanted: Wanted, rows: Iterator[Row]
) -> Iterator[tuple[Row, Row | None]]:
    """Give sessions with the one in which they go on; archiving that one archives what is shown."""
    for row in rows:
        tip = _tip(ctx, tx, wanted, row)
        if tip is None or wanted.archived or tip[_ARCHIVED] is None:
            yield row, tip


def _tip(ctx: Context, tx: Tx, wanted: Wanted, row: Row) -> Row | None:
    if not wanted.project or row[_REASON] != "compression":
        return None
    tip_id = compression_chain(ctx, tx, row[0])[-1]
    return None if tip_id == row[0] else _row(ctx, tx, tip_id)


def _listed(ctx: Context, tx: Tx, row: Row, tip: Row | None) -> Json:
    """Show a session, a compressed one as the session in which it goes on."""
    session = _rich(ctx, tx, row)
    if tip is None:
        return session
    last = _rich(ctx, tx, tip)
    shown = {**session, **{name: last[name] for name in _PROJECTED}}
    return {**shown, "_lineage_root_id": session["id"]}


def _rich(ctx: Context, tx: Tx, row: Row) -> Json:
    session = read_session(ctx, tx, row[0]) or {}
    session["preview"] = preview_of(tx, session["id"])
    last = tx.value("last_active", {"session_id": session["id"]})
    session["last_active"] = session["started_at"] if last is None else last
    return session


def preview_of(tx: Tx, session_id: str) -> str:
    """Give the beginning of the first thing that the user said, on one line."""
    text = tx.value("first_user_text", {"session_id": session_id})
    if text is None:
        return ""
    line = str(text).replace("\r", " ").replace("\n", " ").strip()
    return line[:_PREVIEW] + ("..." if len(line) > _PREVIEW else "")
