"""What a forgetting may take: the rows of a session, of a log, of a span of time. It only reads."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from threadkeep.base.json import encode
from threadkeep.base.tx import Tx
from threadkeep.knowledge.archive import LogRow, load_log_by_id
from threadkeep.knowledge.forget import Kind
from threadkeep.knowledge.records import CapturedSession, to_session
from threadkeep.knowledge.sessions import CapturedSessionFilter

_BETWEEN: Final[dict[Kind, str]] = {
    "event": "shell_events_between",
    "visit": "visits_between",
    "run": "runs_between",
    "watch": "watches_between",
    "lesson": "lessons_between",
    "waiting_lesson": "waiting_lessons_between",
    "revision": "revisions_between",
}
_OF_RUNS: Final[dict[Kind, str]] = {
    "job": "jobs_of_runs",
    "annotation": "annotations_of_runs",
    "excerpt": "excerpts_of_runs",
}


def _ids(tx: Tx, query: str, values: Mapping[str, Any]) -> set[int]:
    return {row[0] for row in tx.all(query, values)}


# ---------------------------------------------------------------------- sessions


def sessions_to_forget(tx: Tx, among: CapturedSessionFilter) -> list[CapturedSession]:
    """Give all sessions of a program or a project, whenever they were."""
    values = {**among.params(), "since": None, "until": None}
    return [to_session(row) for row in tx.all("sessions_to_forget", values)]


def was_forgotten(tx: Tx, name: str, harness: str | None) -> bool:
    """Tell whether a session with this id was forgotten before."""
    values = {"session_id": name.rpartition(":")[2], "harness": harness}
    return tx.value("any_forgotten_named", values) is not None


def forgotten_but_there(tx: Tx) -> list[CapturedSession]:
    """Give the sessions that are named as forgotten and have not gone yet."""
    return [to_session(row) for row in tx.all("forgotten_but_there")]


def segments_of(tx: Tx, session: CapturedSession) -> set[int]:
    """Give the numbers of a session's segments."""
    return _ids(tx, "segments_of_session", _named(session))


def legacy_of(tx: Tx, session: CapturedSession) -> set[int]:
    """Give the numbers of a session's frozen rows."""
    return _ids(tx, "legacy_of_session", _named(session))


def events_of(tx: Tx, terminals: Iterable[str]) -> set[int]:
    """Give the numbers of the tool calls that are stored under the names of a session."""
    found = (_ids(tx, "tool_events_of_session", {"terminal": one}) for one in terminals)
    return set().union(*found)


def continuations_of(tx: Tx, session: CapturedSession) -> list[tuple[str, str]]:
    """Give harness and id of the sessions that begin with a copy of one."""
    return [(row[0], row[1]) for row in tx.all("all_continuations_of", _named(session))]


def _named(session: CapturedSession) -> dict[str, str]:
    return {"harness": session.agent, "session_id": session.session_id}


# ---------------------------------------------------------------------- logs


def logs_in_scope(tx: Tx, harness: str | None) -> Iterator[LogRow]:
    """Yield the logs of a program, or all, in which something may be looked for."""
    return _logs(tx, "logs_to_search", harness)


def logs_without_entries(tx: Tx, harness: str) -> Iterator[LogRow]:
    """Yield the logs that say nothing themselves, such as lists of names."""
    return _logs(tx, "logs_without_entries", harness)


def _logs(tx: Tx, query: str, harness: str | None) -> Iterator[LogRow]:
    for (number,) in tx.all(query, {"harness": harness}):
        log = load_log_by_id(tx, number)
        if log is not None:
            yield log


def span_of_log(tx: Tx, log_id: int) -> tuple[int, int] | None:
    """Give the times of the first and the last entry of a log; None if there are none."""
    first, last = tx.one("span_of_log", {"log": log_id}) or (None, None)
    return None if first is None or last is None else (first, last)


def is_shared(tx: Tx, log_id: int, session: int) -> bool:
    """Tell whether a log holds other sessions than one, too."""
    return tx.value("log_has_others", {"log": log_id, "session": session}) is not None


def own_lines(tx: Tx, log_id: int) -> set[int]:
    """Give the lines of a log that are no copies."""
    return {line for (line,) in tx.all("own_lines_of_log", {"log": log_id})}


# ---------------------------------------------------------------------- work


def work_between(tx: Tx, kind: Kind, span: Mapping[str, Any]) -> set[int]:
    """Give what shells, browsers and CI did in a span of time, by kind."""
    return _ids(tx, _BETWEEN[kind], span)


def memory_of_project(tx: Tx, span: Mapping[str, Any], *, whole: bool) -> set[int]:
    """Give the files of memory of a project, `whole`, or their states in a span of time."""
    return _ids(tx, "documents_of_project" if whole else "revisions_of_project", span)


def parts_of_runs(tx: Tx, runs: Iterable[int]) -> dict[Kind, set[int]]:
    """Give the jobs, annotations and excerpts of runs of CI."""
    values = {"runs": encode(sorted(runs))}
    return {kind: _ids(tx, query, values) for kind, query in _OF_RUNS.items()}


def revisions_of_chunks(tx: Tx, chunks: Iterable[int]) -> set[int]:
    """Give the states of files of memory that sections are of."""
    return set().union(*(_ids(tx, "revision_of_chunk", {"id": one}) for one in chunks))
