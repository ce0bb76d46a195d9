"""Size and retention: what takes the space, and letting old sessions go, on request only."""

import os

import msgspec

from threadkeep.base.text import from_sql
from threadkeep.base.tx import Row, Tx
from threadkeep.chat import search
from threadkeep.chat.context import ChatContext, optional_text, optional_whole
from threadkeep.chat.records import session_of
from threadkeep.chat.sessions import delete_session
from threadkeep.errors import Invalid, ThreadkeepError

_LARGEST = 10
_COUNTED = ("chat_sessions", "chat_messages", "chat_parts", "chat_events", "tk_runs")


class SizeReport(msgspec.Struct, frozen=True):
    """What a store takes on disk, and where it goes."""

    file_bytes: int
    wal_bytes: int
    free_bytes: int
    rows: dict[str, int]
    content_bytes: dict[str, int]
    largest: list[dict[str, object]]


class PruneReport(msgspec.Struct, frozen=True):
    """Which sessions were let go, or would be in a dry run."""

    dry_run: bool
    sessions: list[dict[str, object]]
    freed_bytes: int


def size_report(ctx: ChatContext) -> SizeReport:
    """Measure a store."""
    with ctx.db.read() as tx:
        pages = int(tx.execute("PRAGMA page_count").fetchone()[0])
        free = int(tx.execute("PRAGMA freelist_count").fetchone()[0])
        page = int(tx.execute("PRAGMA page_size").fetchone()[0])
        rows = {table: _count(tx, table) for table in _COUNTED}
        largest = [
            dict(zip(("session_id", "title", "bytes", "parts"), _texts(row), strict=True))
            for row in tx.all("largest_sessions", {"limit": _LARGEST})
        ]
    content = _content(ctx)
    return SizeReport(pages * page, ctx.db.wal.size(), free * page, rows, content, largest)


def _count(tx: Tx, table: str) -> int:
    return int(tx.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0])  # noqa: S608


def _content(ctx: ChatContext) -> dict[str, int]:
    """Bytes by table, from SQLite's own page statistics where they are compiled in."""
    try:
        with ctx.db.read() as tx:
            rows = tx.all("pages_by_table")
    except ThreadkeepError:
        with ctx.db.read() as tx:
            rows = tx.all("text_by_table")
    return {str(name): int(size) for name, size in rows}


def prune(
    ctx: ChatContext,
    *,
    before: int | None = None,
    keep: int | None = None,
    agent: str | None = None,
    archived_only: bool = False,
    dry_run: bool = False,
) -> PruneReport:
    """Delete the sessions unchanged since `before`, or all but the newest `keep`.

    With both, only those that are old and beyond the count. A session that is being recorded, or
    was used again in the meantime, stays.
    """
    if before is None and keep is None:
        raise Invalid("nothing says which sessions to prune", hint="give an age or a count")
    params = {
        "before": optional_whole(before, "before"),
        "keep": optional_whole(keep, "keep"),
        "agent": optional_text(agent, "agent"),
        "archived_only": bool(archived_only),
    }
    with ctx.db.read() as tx:
        chosen = [_describe(tx, row) for row in tx.all("old_sessions", params)]
    # One transaction each: other writers get their turn between two sessions.
    gone = chosen if dry_run else [session for session in chosen if _delete(ctx, session)]
    return PruneReport(dry_run, gone, sum(int(str(session["bytes"])) for session in gone))


def _describe(tx: Tx, row: Row) -> dict[str, object]:
    size = tx.one("session_size", {"id": row[0]}) or (0, 0)
    names = ("id", "title", "updated_at", "total_tokens", "bytes", "parts")
    return dict(zip(names, (*_texts(row), *size), strict=True))


def _texts(row: Row) -> Row:
    return tuple(from_sql(value) if isinstance(value, bytes) else value for value in row)


def _delete(ctx: ChatContext, chosen: dict[str, object]) -> bool:
    with ctx.db.write() as tx:
        row = tx.one("get_session", {"id": chosen["id"]})
        if row is None or session_of(row).updated_at != chosen["updated_at"]:
            return False
        if tx.one("session_recordings", {"session_id": chosen["id"]}) is not None:
            return False
        delete_session(ctx, tx, str(chosen["id"]))
    return True


def vacuum(ctx: ChatContext) -> int:
    """Give free pages back to the disk and drop stale postings; tells how many bytes it freed."""
    search.reindex(ctx)
    before = os.stat(ctx.db.path).st_size
    ctx.db.vacuum()
    return before - os.stat(ctx.db.path).st_size
