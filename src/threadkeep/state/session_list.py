"""The list of sessions: a page costs the same in a file of 200 and of 200,000 of them.

Every page is read along an index: by start, by source and start, or by last activity. Preview and
last activity come from indexes on the messages, which SQLite itself keeps right, whoever writes.
"""

import heapq
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import Any, Final

from threadkeep.base.tx import Row, Tx
from threadkeep.errors import Invalid
from threadkeep.state.context import Json, StateContext
from threadkeep.state.lineage import all_continuations, compressed_before, compression_chain
from threadkeep.state.rows import decode_content, preview_of, read_sessions
from threadkeep.state.search.index_fill import newest_first
from threadkeep.state.sessions import SessionFilter, archived_or_not, asked_sources

_FEW: Final = 2_000  # sessions that are sorted in 60 ms
# What a continuation shows of itself in the place of the session it continues with.
_PROJECTED: Final = (
    *("id", "ended_at", "end_reason", "message_count", "tool_call_count", "title", "last_active"),
    *("preview", "model", "system_prompt", "cwd", "git_branch", "git_repo_root"),
)
_NOT_COMPACT: Final = ("system_prompt", "system_prompt_hash", "git_metadata_generation")
_UNSPOKEN: Final = re.compile(r"[\W_]+")


def list_sessions_rich(
    ctx: StateContext,
    tx: Tx,
    source: str | None = None,
    sources: Sequence[str] | None = None,
    exclude_sources: Sequence[str] | None = None,
    cwd_prefix: str | None = None,
    limit: int = 20,
    offset: int = 0,
    include_children: bool = False,  # noqa: FBT001, FBT002
    min_message_count: int = 0,
    project_compression_tips: bool = True,  # noqa: FBT001, FBT002
    order_by_last_active: bool = False,  # noqa: FBT001, FBT002
    include_archived: bool = False,  # noqa: FBT001, FBT002
    archived_only: bool = False,  # noqa: FBT001, FBT002
    id_query: str | None = None,
    search_query: str | None = None,
    compact_rows: bool = False,  # noqa: FBT001, FBT002
    include_pinned: bool = False,  # noqa: FBT001, FBT002
    session_key: str | None = None,
    include_hidden: bool = False,  # noqa: FBT001, FBT002
) -> list[Json]:
    """List sessions with a preview and their last activity, the newest first.

    Roots, branches and what began after a reset are listed, with `include_children` all. A
    compressed session is shown as its newest continuation, with the start of its first one and
    `_lineage_root_id`; by last activity a chain stands where its latest member does. Pinned ones
    that the page leaves out follow behind it with `include_pinned`. `id_query` and `search_query`
    (part of a title or id) count only by last activity; `compact_rows` leaves out the prompts.
    """
    if not isinstance(limit, int) or not isinstance(offset, int) or offset < 0:
        msg = f"a page has a limit and an offset, not {limit!r} and {offset!r}"
        raise Invalid(msg, hint="pass whole numbers")
    wanted = SessionFilter(
        asked_sources(source, sources),
        list(exclude_sources or ()),
        cwd_prefix,
        session_key,
        min_message_count,
        archived_or_not(include=include_archived, only=archived_only),
        hidden=include_hidden,
        children=include_children,
    )
    if order_by_last_active:
        ids = _by_activity(ctx, tx, wanted, _matching(ctx, tx, id_query, search_query))
    else:
        ids = _by_start(ctx, tx, wanted, -1 if limit < 0 else offset + limit)
    page = list(islice(ids, offset, None if limit < 0 else offset + limit))
    if include_pinned:
        pinned = [str(row[0]) for row in tx.all("list_pinned", wanted.params(ctx))]
        page += [each for each in pinned if each not in page]
    rows = _rich(ctx, tx, page, compact=compact_rows)
    project = project_compression_tips and not include_children
    return _projected(ctx, tx, rows, compact=compact_rows) if project else rows


# ---------------------------------------------------------------------- orders


def _by_start(ctx: StateContext, tx: Tx, wanted: SessionFilter, most: int) -> Iterator[str]:
    params = {**wanted.params(ctx), "limit": most}
    if not wanted.sources and not wanted.excluded:
        return (str(row[1]) for row in tx.all("list_by_start", params))
    known = wanted.sources or _known_sources(tx)
    runs = [
        tx.all("list_source_by_start", {**params, "source": source})
        for source in dict.fromkeys(known)
        if source not in wanted.excluded
    ]
    return (str(row[1]) for row in heapq.merge(*runs, key=_start, reverse=True))


def _start(row: Row) -> Any:
    return row[0]


def _known_sources(tx: Tx) -> list[str]:
    """Step from source to source along their index: a few steps, however many sessions."""
    found: list[str] = []
    current = tx.value("first_source")
    while current is not None:
        found.append(current)
        current = tx.value("next_source", {"source": current})
    return found


def _by_activity(
    ctx: StateContext, tx: Tx, wanted: SessionFilter, matching: set[str] | None
) -> Iterable[str]:
    """Sort where only few are meant: they may lie behind all others in the order."""
    if matching is not None:
        few = _listed(ctx, tx, wanted, matching)
    elif wanted.sources and _are_few(tx, wanted.sources):
        few = list(_by_start(ctx, tx, wanted, -1))
    else:
        return _along_activity(ctx, tx, wanted)
    return sorted(few, key=lambda each: _chain_activity(ctx, tx, each), reverse=True)


def _are_few(tx: Tx, sources: Sequence[str]) -> bool:
    each = (tx.value("count_some", {"source": source, "limit": _FEW}) for source in sources)
    return sum(map(int, each)) < _FEW


def _chain_activity(ctx: StateContext, tx: Tx, session_id: str) -> float:
    members = all_continuations(ctx, tx, session_id)
    return max(float(tx.value("activity_of", {"id": each})) for each in members)


def _along_activity(ctx: StateContext, tx: Tx, wanted: SessionFilter) -> Iterator[str]:
    """Return a chain of compressions the place of the one among its members that was used last."""
    seen: set[str] = set()
    for _, several in groupby(newest_first(ctx, tx), key=_start):
        chains = [compressed_before(ctx, tx, session_id) for _, session_id in several]
        fresh = {member for chain in chains for member in chain} - seen
        seen |= fresh
        yield from _listed(ctx, tx, wanted, fresh)


def _listed(ctx: StateContext, tx: Tx, wanted: SessionFilter, ids: Iterable[str]) -> list[str]:
    params = {**wanted.params(ctx), "ids": json.dumps(list(ids))}
    return [str(row[0]) for row in tx.all("list_some", params)]


def _matching(ctx: StateContext, tx: Tx, of_id: str | None, of_any: str | None) -> set[str] | None:
    """Return the sessions that match or continue in one that does, None if nothing is asked for."""
    asked: list[tuple[str, Json]] = []
    if needle := (of_id or "").strip().lower():
        asked.append(("ids_with", {"needle": needle}))
    if needle := (of_any or "").strip().lower():
        params = {"needle": needle, "bare": _UNSPOKEN.sub("", needle)}
        asked.append(("ids_or_titles_with", params))
    found = [
        {up for (match,) in tx.all(name, params) for up in compressed_before(ctx, tx, match)}
        for name, params in asked
    ]
    return set.intersection(*found) if found else None


# ---------------------------------------------------------------------- what is shown


def _rich(ctx: StateContext, tx: Tx, ids: Iterable[str], *, compact: bool) -> list[Json]:
    rows = [row for each in ids for row in read_sessions(ctx, tx, "list_row", {"id": each})]
    for row in rows:
        row["preview"] = preview_of(tx, row["id"])
        row["unread"] = session_unread(row)
        for name in _NOT_COMPACT if compact else ():
            row.pop(name, None)
    return rows


def session_unread(session_row: Json) -> bool:
    """Tell whether something happened in a session after it was last read.

    One that was never marked counts as read.
    """
    read_at = session_row.get("last_read_at")
    if read_at is None:
        return False
    active_at = session_row.get("last_active") or session_row.get("started_at")
    return float(active_at or 0) > float(read_at)


def _projected(ctx: StateContext, tx: Tx, rows: list[Json], *, compact: bool) -> list[Json]:
    """Show each compressed session as the one in which it continues."""
    return [_shown(ctx, tx, row, compact=compact) for row in rows]


def _shown(ctx: StateContext, tx: Tx, row: Json, *, compact: bool) -> Json:
    if row["end_reason"] != "compression":
        return row
    tip_id = compression_chain(ctx, tx, row["id"])[-1]
    tips = [] if tip_id == row["id"] else _rich(ctx, tx, [tip_id], compact=compact)
    if not tips:
        return row
    newer: Json = {name: tips[0][name] for name in _PROJECTED if name in tips[0]}
    shown: Json = {**row, **newer, "_lineage_root_id": row["id"]}
    return {**shown, "unread": session_unread(shown)}


# ---------------------------------------------------------------------- other lists


def get_session_rich_row(
    ctx: StateContext,
    tx: Tx,
    session_id: str,
    compact_rows: bool = False,  # noqa: FBT001, FBT002
) -> Json | None:
    """Return one session as it appears in lists, None if there is none."""
    rows = _rich(ctx, tx, [session_id], compact=compact_rows)
    return rows[0] if rows else None


def search_sessions_by_id(
    ctx: StateContext,
    tx: Tx,
    query: str,
    limit: int = 20,
    include_archived: bool = True,  # noqa: FBT001, FBT002
    source: str | None = None,
    sources: Sequence[str] | None = None,
    exclude_sources: Sequence[str] | None = None,
) -> list[Json]:
    """Find sessions by part of an id: exact matches first, then prefixes, then the rest.

    The id of any session of a chain of compressions finds the one that a list shows.
    """
    needle = (query or "").strip().lower()
    if not needle or limit <= 0:
        return []
    found = list_sessions_rich(
        ctx,
        tx,
        source,
        sources,
        exclude_sources,
        limit=limit * 4,
        order_by_last_active=True,
        include_archived=include_archived,
        id_query=needle,
    )
    return sorted(found, key=lambda row: _nearness(row, needle))[:limit]


def _nearness(row: Json, needle: str) -> int:
    ids = [str(row[name]).lower() for name in ("id", "_lineage_root_id") if row.get(name)]
    if needle in ids:
        return 0
    return 1 if any(each.startswith(needle) for each in ids) else 2


def list_cron_job_runs(
    ctx: StateContext, tx: Tx, job_id: str, limit: int = 20, offset: int = 0
) -> list[Json]:
    """List the sessions of a scheduled job, whose ids begin with `cron_<job>_`, newest first."""
    first = f"cron_{job_id}_"
    behind = first[:-1] + chr(ord(first[-1]) + 1)
    params = {"first": first, "behind": behind, "limit": limit, "offset": offset}
    ids = [str(row[0]) for row in tx.all("cron_runs", params)]
    return _rich(ctx, tx, ids, compact=False)


def list_skill_scaffolded_sessions(_ctx: StateContext, tx: Tx, limit: int = 200) -> list[Json]:
    """Return titled sessions that began with a skill call: id, title and that message."""
    return tx.dicts("begun_with_skill", {"limit": int(limit)})


def get_first_assistant_text(_ctx: StateContext, tx: Tx, session_id: str) -> str:
    """Return the first answer of a session as text, empty if there is none or it is not text."""
    text = decode_content(tx.value("first_assistant_text", {"session_id": session_id}))
    return text if isinstance(text, str) else ""
