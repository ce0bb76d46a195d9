"""What happened in a span of time, as rows: commands, visits, runs, slices and turns."""

from typing import Any, Final, NamedTuple

import msgspec

from threadkeep.base.tx import Row, Sql, Tx
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.records import CapturedSession, EntryRow, to_entry, to_session
from threadkeep.knowledge.search_scope import of_project
from threadkeep.knowledge.session_sql import page, where

_COMMAND: Final = (
    "e.id, e.timestamp, e.command, e.exit_code, e.duration_ms, e.cwd, e.git_repo, e.git_branch,"
    " e.git_commit, e.source_kind, e.tool_name"
)
# Tool calls of sessions that are archived are told with their turns, but for commits.
_TOLD: Final = (
    "e.source_kind = 'shell' OR NOT EXISTS (SELECT 1 FROM tk_sessions AS t"
    " JOIN sessions AS s ON s.terminal = t.session_id WHERE s.id = e.session_id)"
)
_NOT_ARCHIVED: Final = (
    " AND NOT EXISTS (SELECT 1 FROM tk_sessions AS t"
    " WHERE t.harness = a.harness AND t.session_id = a.session_id)"
)
_ENDED: Final = "coalesce(r.completed_at, r.started_at, r.first_seen_at)"


class RowSpan(NamedTuple):
    """A stretch of time, which projects are meant, and how many rows at most."""

    since: int
    until: int
    within: Query
    limit: int
    archived: bool = True  # the file has an archive of sessions


def commands(tx: Tx, span: RowSpan) -> list[Row]:
    """Give commands, the latest first; the last column says whether they are told by themselves."""
    told = _TOLD if span.archived else "true"
    sql = (
        f"SELECT {_COMMAND}, {told} FROM events AS e"  # noqa: S608  (our own text)
        " WHERE e.timestamp >= :since AND e.timestamp < :until AND e.probe_tag IS NULL"
    )
    order = "e.timestamp DESC, e.id DESC"
    return _rows(tx, span, sql, order, "e.cwd", "e.git_repo")


def visits(tx: Tx, span: RowSpan) -> list[Row]:
    """Return visits, the latest first: whatever the project, they have none."""
    return tx.all("visits_in_span", {"since": span.since, "until": span.until, "limit": span.limit})


def runs(tx: Tx, span: RowSpan) -> list[Row]:
    """Return runs of CI, the latest first."""
    sql = (
        f"SELECT r.id, {_ENDED}, r.repo, r.head_sha, r.head_branch, r.event, r.status,"  # noqa: S608
        " r.conclusion, r.raw_json FROM workflow_runs AS r"
        f" WHERE {_ENDED} >= :since AND {_ENDED} < :until"
    )
    return _rows(tx, span, sql, "2 DESC", None, "r.repo")


def slices(tx: Tx, span: RowSpan) -> list[Row]:
    """Return slices of sessions that another program stored, and the archive does not have."""
    sql = (
        "SELECT a.id, a.start_time, a.harness, a.session_id, a.title,"
        " substr(a.summary_text, 1, 1000), a.cwd FROM agentic_sessions AS a"
        " WHERE a.end_time >= :since AND a.start_time < :until AND a.probe_tag IS NULL"
        " AND a.is_subagent = 0"
    )
    sql += _NOT_ARCHIVED if span.archived else ""
    return _rows(tx, span, sql, "a.start_time DESC", "a.cwd", None)


def sessions(tx: Tx, span: RowSpan, now: int) -> list[CapturedSession]:
    """Return the sessions that a person held in the span, the latest first."""
    asked = msgspec.structs.replace(span.within, since=span.since, until=span.until)
    return [to_session(row) for row in page(tx, where(tx, asked, now), None, span.limit)]


def turns(tx: Tx, session: int, since: int, until: int) -> list[EntryRow]:
    """Return what was said and done in a session in a span, in its order."""
    values = {"session": session, "since": since, "until": until}
    return [to_entry(row) for row in tx.all("turns_in_span", values)]


def _rows(
    tx: Tx, span: RowSpan, sql: str, order: str, cwd: str | None, repo: str | None
) -> list[Row]:
    params: dict[str, Any] = {"since": span.since, "until": span.until, "limit": span.limit}
    if span.within.project:
        place = of_project(tx, span.within, params, cwd, repo, archived=span.archived)
        sql = f"{sql} AND {place}"
    return tx.all(Sql(f"{sql} ORDER BY {order} LIMIT :limit"), params)
