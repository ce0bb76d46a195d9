"""Commands and tool calls as they were tried: their rows in the archive, in events and in CI."""

from collections.abc import Iterator
from typing import Any

from threadkeep.base.match import Match
from threadkeep.base.tx import Row, Sql, Tx
from threadkeep.knowledge.records import EntryRow, to_entry
from threadkeep.knowledge.schema import ENTRY_WORDS
from threadkeep.knowledge.search_scope import Scope

_ENTRY = (
    "e.id, e.session, e.key, e.log_id, e.line, e.part, e.role, e.kind, e.at, e.tool, e.error,"
    " e.hash"
)
_NO_PROBE = (
    "NOT EXISTS (SELECT 1 FROM agentic_sessions AS p WHERE p.session_id = s.session_id"
    " AND p.harness = s.harness AND p.probe_tag IS NOT NULL)"
)


def failed_results(tx: Tx, match: Match, scope: Scope, limit: int) -> list[Row]:
    """Return results of tools that have words, the best first, each with its session.

    Those that failed come first: others may have failed inside of a pipe.
    """
    wanted = f" AND {scope.entries.sql()}" if scope.entries.conditions else ""
    sql = (
        f"SELECT {_ENTRY}, s.session_id, s.harness, s.cwd, s.project"  # noqa: S608
        f" FROM {ENTRY_WORDS.ranked} AS f JOIN tk_entries AS e ON e.id = f.id"
        " JOIN tk_sessions AS s ON s.id = e.session"
        f" WHERE e.kind = 'tool_result' AND {_NO_PROBE}{wanted}"
        " ORDER BY e.error = 0, f.score LIMIT :limit"
    )
    values = {**scope.entries.params, "match": ENTRY_WORDS.scored(tx, match), "limit": limit}
    return tx.all(Sql(sql), values)


def calls_before(tx: Tx, row: EntryRow, limit: int) -> Iterator[EntryRow]:
    """Yield the calls of tools before an entry, the nearest first: as a rule nobody asks on."""
    yield from _beside(tx, "calls_before", row, 1)
    yield from _beside(tx, "calls_before", row, limit)[1:]


def results_behind(tx: Tx, row: EntryRow, limit: int) -> list[EntryRow]:
    """Return the results of tools behind an entry, the nearest first."""
    return _beside(tx, "result_behind", row, limit)


def entries_behind(tx: Tx, row: EntryRow, limit: int) -> list[EntryRow]:
    """Return what is behind an entry in its session."""
    return _beside(tx, "entries_behind", row, limit)


def _beside(tx: Tx, query: str, row: EntryRow, limit: int) -> list[EntryRow]:
    place = {"log": row.log_id, "line": row.line, "part": row.part, "session": row.session}
    return [to_entry(one) for one in tx.all(query, {**place, "limit": limit})]


def results_after(tx: Tx, after: int, limit: int) -> tuple[list[Row], int]:
    """Return the results among the next entries, each with its session, and the last entry."""
    upto = tx.value("entries_to", {"after": after, "limit": limit})
    if upto is None:
        return [], after
    return tx.all("results_between", {"after": after, "upto": upto}), int(upto)


def later_calls(tx: Tx, match: Match, values: dict[str, Any], limit: int) -> list[Row]:
    """Return later calls with words in a project, but for those of one session."""
    return tx.all("later_calls", {**values, "match": ENTRY_WORDS.asked(tx, match), "limit": limit})


def command_row(tx: Tx, number: int) -> Row | None:
    """Return a command as `run_of_row` takes it."""
    return tx.one("one_run", {"id": number})


def commands_since(tx: Tx, at: int, without: int, limit: int) -> list[Row]:
    """Return the commands from a moment on, the earliest first, but for one."""
    return tx.all("runs_since", {"at": at, "id": without, "limit": limit})


def newest_failures(tx: Tx, limit: int) -> list[int]:
    """Return the commands that failed last."""
    return [row[0] for row in tx.all("newest_failures", {"limit": limit})]


def failed_jobs(tx: Tx, run: int) -> tuple[list[Row], str]:
    """Return the jobs of a run of CI that failed, and all that the run says of it."""
    texts = "\n".join(str(row[0]) for row in tx.all("ci_texts", {"id": run}))
    return tx.all("ci_failed_steps", {"id": run}), texts


def next_success(tx: Tx, repo: str, job: str | None, branch: str | None, at: int) -> Row | None:
    """Return the next run of CI in which a job passed, on the same branch if there is one."""
    return tx.one("ci_next_success", {"repo": repo, "job": job, "branch": branch, "at": at})
