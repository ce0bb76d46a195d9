"""The list of sessions: a page costs the same in a file of 200 and of 200,000 of them.

Every page is read along an index: by start, by source and start, or by last activity. Preview and
last activity come from indexes on the messages, which SQLite itself keeps right, whoever writes.
"""

import heapq
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

from threadkeep.base.sqlite import Row, Tx
from threadkeep.errors import Invalid
from threadkeep.state.activity import newest_first
from threadkeep.state.context import SESSION_COLUMNS, Context, Json
from threadkeep.state.lineage import compression_chain
from threadkeep.state.rows import complete_session, read_session

_PREVIEW: Final = 60
_BATCH: Final = 32
_PROJECTED: Final = (
    *("id", "ended_at", "end_reason", "message_count", "tool_call_count", "title", "last_active"),
    *("preview", "model", "system_prompt"),
)


class Wanted:
    """Which sessions a listing is about."""

    def __init__(
        self,
        ctx: Context,
        sources: Sequence[str] | None,
        *,
        children: bool,
        archived: bool,
        least: int,
    ) -> None:
        self.sources = sources
        self.children = children
        self.archived = archived or not ctx.side
        self.least = least

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
    `_lineage_root_id`.
    """
    if not isinstance(limit, int) or not isinstance(offset, int) or offset < 0:
        msg = f"a page has a limit and an offset, not {limit!r} and {offset!r}"
        raise Invalid(msg, hint="pass whole numbers")
    wanted = Wanted(
        ctx,
        _sources(tx, source, exclude_sources),
        children=include_children,
        archived=include_archived,
        least=min_message_count,
    )
    rows = _by_activity(ctx, tx, wanted) if order_by_last_active else _by_start(ctx, tx, wanted)
    page = islice(rows, offset, None if limit < 0 else offset + limit)
    listed = [_rich(ctx, tx, row) for row in page]
    if include_children or not project_compression_tips:
        return listed
    return [_projected(ctx, tx, session) for session in listed]


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
    return row[SESSION_COLUMNS.index("started_at")]


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
    name = "list_one" if ctx.side else "list_one_plain"
    for session_id in newest_first(ctx, tx):
        row = tx.one(name, {"id": session_id})
        if row is not None and wanted.takes(row):
            yield row


# ---------------------------------------------------------------------- what is shown


def _rich(ctx: Context, tx: Tx, row: Row) -> Json:
    session = complete_session(
        ctx, tx, dict(zip(SESSION_COLUMNS, row[: len(SESSION_COLUMNS)], strict=True))
    )
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


def _projected(ctx: Context, tx: Tx, session: Json) -> Json:
    """Show a compressed session as the one in which it goes on."""
    if session["end_reason"] != "compression":
        return session
    tip_id = compression_chain(ctx, tx, session["id"])[-1]
    tip = None if tip_id == session["id"] else read_session(ctx, tx, tip_id)
    if tip is None:
        return session
    tip["preview"] = preview_of(tx, tip_id)
    last = tx.value("last_active", {"session_id": tip_id})
    tip["last_active"] = tip["started_at"] if last is None else last
    shown = {**session, **{name: tip[name] for name in _PROJECTED}}
    return {**shown, "_lineage_root_id": session["id"]}
