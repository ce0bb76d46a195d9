"""What a forgetting may take: the rows of a session, of a log, of a span of time. It only reads."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from threadkeep.base.json import encode
from threadkeep.base.tx import Sql, Tx
from threadkeep.knowledge.archive import LogRow, load_log_by_id
from threadkeep.knowledge.kinds import Kind
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.records import CapturedSession, to_session
from threadkeep.knowledge.search_scope import of_project
from threadkeep.knowledge.session_list import exact_sessions
from threadkeep.knowledge.session_sql import is_below, like, refuse_parts, split_projects

_OF_RUNS: Final[dict[Kind, str]] = {
    "job": "jobs_of_runs",
    "annotation": "annotations_of_runs",
    "excerpt": "excerpts_of_runs",
}


def _ids(tx: Tx, query: str, values: Mapping[str, Any]) -> set[int]:
    return {row[0] for row in tx.all(query, values)}


# ---------------------------------------------------------------------- sessions


def sessions_to_forget(tx: Tx, query: Query) -> list[CapturedSession]:
    """Return all sessions that a query means, whenever they were, in the order in which they came.

    Names must be whole: where only a part fits, that is refused.
    """
    refuse_parts(tx, query, lambda name: _is_worked_in(tx, name))
    whenever = replace(query, session=(), since=None, until=None)
    return exact_sessions(tx, whenever)


def _is_worked_in(tx: Tx, project: str) -> bool:
    """Tell whether something else than a session is of a project."""
    query = Query(project=(project,))
    return bool(commands_of_project(tx, query) or memory_of_project(tx, query, whole=True))


def was_forgotten(tx: Tx, name: str, agents: Sequence[str]) -> bool:
    """Tell whether a session with this id was forgotten before."""
    values = {"session_id": name.rpartition(":")[2], "agents": _listed(agents)}
    return tx.value("any_forgotten_named", values) is not None


def _listed(agents: Sequence[str]) -> str | None:
    return encode(agents) if agents else None


def forgotten_but_there(tx: Tx) -> list[CapturedSession]:
    """Return the sessions that are named as forgotten and have not gone yet."""
    return [to_session(row) for row in tx.all("forgotten_but_there")]


def segments_of(tx: Tx, session: CapturedSession) -> set[int]:
    """Return the numbers of a session's segments."""
    return _ids(tx, "segments_of_session", _named(session))


def legacy_of(tx: Tx, session: CapturedSession) -> set[int]:
    """Return the numbers of a session's frozen rows."""
    return _ids(tx, "legacy_of_session", _named(session))


def events_of(tx: Tx, terminals: Iterable[str]) -> set[int]:
    """Return the numbers of the tool calls that are stored under the names of a session."""
    found = (_ids(tx, "tool_events_of_session", {"terminal": one}) for one in terminals)
    return set().union(*found)


def continuations_of(tx: Tx, session: CapturedSession) -> list[tuple[str, str]]:
    """Give harness and id of the sessions that begin with a copy of one."""
    return [(row[0], row[1]) for row in tx.all("all_continuations_of", _named(session))]


def _named(session: CapturedSession) -> dict[str, str]:
    return {"harness": session.agent, "session_id": session.session_id}


# ---------------------------------------------------------------------- logs


def logs_in_scope(tx: Tx, agents: Sequence[str]) -> Iterator[LogRow]:
    """Yield the logs of some agents, or all, in which something may be looked for."""
    return _logs(tx, "logs_to_search", {"agents": _listed(agents)})


def logs_without_entries(tx: Tx, harness: str) -> Iterator[LogRow]:
    """Yield the logs that say nothing themselves, such as lists of names."""
    return _logs(tx, "logs_without_entries", {"harness": harness})


def _logs(tx: Tx, query: str, values: Mapping[str, Any]) -> Iterator[LogRow]:
    for (number,) in tx.all(query, values):
        log = load_log_by_id(tx, number)
        if log is not None:
            yield log


def span_of_log(tx: Tx, log_id: int) -> tuple[int, int] | None:
    """Return the times of the first and the last entry of a log; None if there are none."""
    first, last = tx.one("span_of_log", {"log": log_id}) or (None, None)
    return None if first is None or last is None else (first, last)


def is_shared(tx: Tx, log_id: int, session: int) -> bool:
    """Tell whether a log holds other sessions than one, too."""
    return tx.value("log_has_others", {"log": log_id, "session": session}) is not None


def own_lines(tx: Tx, log_id: int) -> set[int]:
    """Return the lines of a log that are no copies."""
    return {line for (line,) in tx.all("own_lines_of_log", {"log": log_id})}


# ---------------------------------------------------------------------- work


def work_between(tx: Tx, kind: Kind, span: Mapping[str, Any]) -> set[int]:
    """Return what shells, browsers and CI did in a span of time, by kind."""
    return _ids(tx, f"{kind}_between", span)


def commands_of_project(tx: Tx, query: Query) -> set[int]:
    """Return the commands that were typed in the folders of projects, in a span of time."""
    params: dict[str, Any] = {}
    inside = of_project(tx, query, params, "cwd", None, exact=True)
    sql = f"SELECT id FROM events WHERE source_kind = 'shell' AND {inside}"  # noqa: S608
    return _within(tx, query, sql, "timestamp", params)


def memory_of_project(tx: Tx, query: Query, *, whole: bool) -> set[int]:
    """Return the files of memory of projects, `whole`, or their states in a span of time."""
    if "memory_documents" not in tx.tables():
        return set()
    params: dict[str, Any] = {}
    told = _of_repository(query, params)
    beside = of_project(tx, query, params, "a.cwd", None, exact=True)
    notes = f"({told} OR (d.repository LIKE 'local:%/memory' AND {_TOLD_BESIDE} AND {beside})))"
    if whole:
        sql = f"SELECT d.id FROM memory_documents AS d WHERE {notes}"  # noqa: S608
        return {row[0] for row in tx.all(Sql(sql), params)}
    sql = (
        "SELECT r.id FROM memory_revisions AS r"  # noqa: S608  (our own names)
        f" JOIN memory_documents AS d ON d.id = r.document_id WHERE {notes}"
    )
    return _within(tx, query, sql, "r.created_at", params)


# Claude's folder of notes is mostly of no repository: the transcripts beside it say where the work
# was.
_TOLD_BESIDE: Final = (
    "EXISTS (SELECT 1 FROM agentic_sessions AS a"
    " WHERE a.source_file > substr(d.repository, 7, length(d.repository) - 12)"
    " AND a.source_file < substr(d.repository, 7, length(d.repository) - 13) || '0'"
)


def _of_repository(query: Query, params: dict[str, Any]) -> str:
    """Say that a file is of a project's repository.

    That is a name with its owner, or a folder behind `local-git:` or `local:`.
    """
    named, folders = split_projects(query.project)
    choices = ["false"]
    for number, name in enumerate(named):
        key = f"repository{number}"
        params[key] = like(name)
        choices += [
            f"d.repository LIKE {one} ESCAPE '\\'" for one in (f":{key}", f"'%/' || :{key}")
        ]
    for number, folder in enumerate(folders):
        choices += [
            is_below("d.repository", f"{before}{folder}", f"{key}{number}", params)
            for key, before in (("git", "local-git:"), ("local", "local:"))
        ]
    return f"({' OR '.join(choices)})"


def _within(tx: Tx, query: Query, sql: str, column: str, params: dict[str, Any]) -> set[int]:
    """Return the numbers of what is in a query's span of time."""
    for name, op in (("since", ">="), ("until", "<")):
        if getattr(query, name) is not None:
            params[name] = getattr(query, name)
            sql = f"{sql} AND {column} {op} :{name}"
    return {row[0] for row in tx.all(Sql(sql), params)}


def parts_of_runs(tx: Tx, runs: Iterable[int]) -> dict[Kind, set[int]]:
    """Return the jobs, annotations and excerpts of runs of CI."""
    values = {"runs": encode(sorted(runs))}
    return {kind: _ids(tx, query, values) for kind, query in _OF_RUNS.items()}


def revisions_of_chunks(tx: Tx, chunks: Iterable[int]) -> set[int]:
    """Return the states of files of memory that sections are of."""
    return set().union(*(_ids(tx, "revision_of_chunk", {"id": one}) for one in chunks))
