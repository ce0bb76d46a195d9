"""Runs of CI: what is stored of them, what their server said last, and how they are read.

Texts come here masked. One run is stored in one transaction; what it brought is counted when its
jobs are all known, once for each attempt, however many programs look at it.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec

from threadkeep.base.json import decode, encode
from threadkeep.base.tx import Sql, Tx
from threadkeep.errors import Invalid, NotFound
from threadkeep.knowledge.entities import strip_worktrees
from threadkeep.knowledge.lessons import LessonKey, LessonRules, learn, note_fix
from threadkeep.knowledge.query import EVERYTHING, Query, refuse_others
from threadkeep.knowledge.records import Evidence, Watch
from threadkeep.knowledge.row_conditions import RowConditions

COMPLETED: Final = "completed"
# Hippo tells of `failure` alone. A run that timed out, could not start or waits for somebody did
# not pass either, so it is told of as a failure, too.
FAILED: Final = frozenset({"failure", "timed_out", "startup_failure", "action_required"})
CANCELLED: Final = "cancelled"
BAD: Final = FAILED | {CANCELLED}
# A part of a run that cannot be had is asked for again after 1, 4, 16, 64 and 256 minutes; then the
# run is taken as it is.
TRIES: Final = 6
_FIRST_PAUSE_MS: Final = 60_000
_OPEN_RUNS: Final = 20
_ANSWERS_KEPT_MS: Final = 7 * 86_400_000  # longer than anybody follows one run


class WorkflowRun(msgspec.Struct, frozen=True):
    """One run of a workflow, as its server tells it."""

    id: int
    repo: str
    head_sha: str
    head_branch: str | None = None
    event: str = ""
    status: str = ""
    conclusion: str | None = None
    started_at: int | None = None
    completed_at: int | None = None
    html_url: str = ""
    actor: str | None = None
    raw_json: str = "{}"
    attempt: int = 1

    @property
    def is_complete(self) -> bool:
        """Whether nothing of this attempt runs any more."""
        return self.status == COMPLETED


class Annotation(msgspec.Struct, frozen=True):
    """What a job said about a line of code."""

    level: str
    message: str
    path: str | None = None
    start_line: int | None = None
    tool: str | None = None
    rule_id: str | None = None


class Excerpt(msgspec.Struct, frozen=True):
    """The end of a job's log."""

    text: str
    truncated: bool = False


class Job(msgspec.Struct, frozen=True):
    """One job of a run, with what it said; None where that could not be had."""

    id: int
    name: str = ""
    status: str = ""
    conclusion: str | None = None
    started_at: int | None = None
    completed_at: int | None = None
    runner_name: str | None = None
    raw_json: str = "{}"
    attempt: int | None = None  # None: its server does not say
    annotations: tuple[Annotation, ...] | None = None
    excerpt: Excerpt | None = None


class Details(msgspec.Struct, frozen=True):
    """The jobs of a completed run; `missing` counts what may be had at another time."""

    jobs: tuple[Job, ...] = ()
    missing: int = 0


class StoredRun(NamedTuple):
    """What the store has of a run."""

    attempt: int
    detailed: bool
    tries: int
    due_at: int
    is_there: bool  # False: it was forgotten, and is not wanted again
    status: str
    conclusion: str | None
    completed_at: int | None


class RunUpdate(NamedTuple):
    """What storing a run did."""

    changed: bool = False
    detailed: bool = False
    lessons: int = 0  # failures that are lessons by now
    again: bool = False  # it was started again


# ---------------------------------------------------------------------- deciding


def is_outdated(known: StoredRun | None, run: WorkflowRun) -> bool:
    """Tell whether the store has a later state of a run, or was told to forget it."""
    if known is None or run.attempt > known.attempt:
        return known is not None and not known.is_there
    if not known.is_there or run.attempt < known.attempt:
        return True
    return known.status == COMPLETED and not run.is_complete


def is_same(known: StoredRun | None, run: WorkflowRun) -> bool:
    """Tell whether a run is as the store has it."""
    if known is None or known.attempt != run.attempt:
        return False
    now = (run.status, run.conclusion, run.completed_at)
    return (known.status, known.conclusion, known.completed_at) == now


def wants_details(known: StoredRun | None, run: WorkflowRun, now: int) -> bool:
    """Tell whether the jobs of a run are to be fetched now."""
    if not run.is_complete or is_outdated(known, run):
        return False
    if known is None or known.attempt != run.attempt:
        return True
    return not known.detailed and known.due_at <= now


def next_due(tries: int, now: int) -> int:
    """Return when to look again at a run of which so many looks brought not everything."""
    return now + (_FIRST_PAUSE_MS << 2 * (tries - 1))


# ---------------------------------------------------------------------- storing


def known_run(tx: Tx, run_id: int) -> StoredRun | None:
    """Return what the store has of a run, None if it never saw it."""
    row = tx.one("ci_known", {"id": run_id})
    return None if row is None else StoredRun(*row)


def keep_run(
    tx: Tx,
    run: WorkflowRun,
    details: Details | None,
    key_of: Callable[[Annotation], LessonKey],
    rules: LessonRules,
    now: int,
) -> RunUpdate:
    """Store a run with its details; what another program stored meanwhile is left as it is.

    `details` is None while they are not known.
    """
    known = known_run(tx, run.id)
    if is_outdated(known, run):
        return RunUpdate()
    changed = not is_same(known, run)
    again = known is not None and known.attempt < run.attempt
    tx.run("ci_put_run", {**_columns(run), "now": now})
    state = _State(run.attempt)
    if known is not None and known.attempt == run.attempt:
        state = _State(run.attempt, known.detailed, known.tries, known.due_at)
    if details is None or state.detailed:
        _put_state(tx, run.id, state)
        return RunUpdate(changed, again=again)
    for job in details.jobs:
        _put_job(tx, run, job)
    if details.missing and state.tries + 1 < TRIES:
        tries = state.tries + 1
        _put_state(tx, run.id, state._replace(tries=tries, due_at=next_due(tries, now)))
        return RunUpdate(changed, again=again)
    _put_state(tx, run.id, state._replace(detailed=True))
    tx.run("ci_enqueue", {"id": run.id, "now": now})
    at = min(run.completed_at or now, now)
    lessons = sum(learn(tx, key_of(a), rules, at) for a in failures(run, details.jobs))
    return RunUpdate(changed, detailed=True, lessons=lessons, again=again)


def failures(run: WorkflowRun, jobs: Iterable[Job]) -> list[Annotation]:
    """Return the failing annotations that this attempt brought.

    Where only some jobs are started again, the others are listed with the attempt they had.
    """
    own = (job for job in jobs if job.attempt is None or job.attempt == run.attempt)
    return [a for job in own for a in job.annotations or () if a.level == "failure"]


def note_gone(tx: Tx, run_id: int, now: int) -> None:
    """Write down that the server does not know a run any more."""
    known = known_run(tx, run_id)
    if known is not None:
        tries = known.tries + 1
        state = _State(known.attempt, known.detailed or tries >= TRIES, tries, next_due(tries, now))
        _put_state(tx, run_id, state)


class _State(NamedTuple):
    """A row of `tk_ci_runs`."""

    attempt: int
    detailed: bool = False
    tries: int = 0
    due_at: int = 0


def _put_state(tx: Tx, run_id: int, state: _State) -> None:
    tx.run("ci_put_state", {"id": run_id, **state._asdict()})


def _put_job(tx: Tx, run: WorkflowRun, job: Job) -> None:
    tx.run("ci_put_job", {**_columns(job), "run_id": run.id})
    if job.annotations is not None:
        tx.run("ci_drop_annotations", {"job_id": job.id})
        for annotation in job.annotations:
            tx.run("ci_put_annotation", {**_columns(annotation), "job_id": job.id})
    if job.excerpt is not None:
        tx.run("ci_drop_excerpts", {"job_id": job.id})
        values = {"excerpt": job.excerpt.text, "truncated": job.excerpt.truncated}
        tx.run("ci_put_excerpt", {"job_id": job.id, **values})


def _columns(record: WorkflowRun | Job | Annotation) -> dict[str, object]:
    plain = set(record.__struct_fields__) - {"attempt", "annotations", "excerpt"}
    return {name: getattr(record, name) for name in plain}


# ---------------------------------------------------------------------- what the server said last


class RunListAnswer(NamedTuple):
    """The tag of an answer, and the runs that it told of."""

    etag: str
    runs: tuple[int, ...]


def last_answer(tx: Tx, url: str) -> RunListAnswer | None:
    """Return the tag of the last answer to a request, None if there is none."""
    row = tx.one("ci_answer", {"url": url})
    return None if row is None else RunListAnswer(row[0], tuple(decode(row[1])))


def keep_answer(tx: Tx, url: str, etag: str, runs: Sequence[int], now: int) -> None:
    """Remember an answer; only when all of its runs are stored, or some would never be."""
    tx.run("ci_put_answer", {"url": url, "etag": etag, "runs": encode(list(runs)), "now": now})


def same_answer(tx: Tx, url: str, answer: RunListAnswer, now: int) -> None:
    """Note that a request was answered as before: its runs were seen again."""
    tx.run("ci_touch_answer", {"url": url, "now": now})
    touch_runs(tx, answer.runs, now)


def touch_runs(tx: Tx, runs: Sequence[int], now: int) -> None:
    """Note that runs were seen again, unchanged."""
    tx.run("ci_touch_runs", {"ids": encode(list(runs)), "now": now})


def drop_old_answers(tx: Tx, now: int) -> None:
    """Drop the tags of requests that nobody makes any more."""
    tx.run("ci_drop_answers", {"before": now - _ANSWERS_KEPT_MS})


def knows_repo(tx: Tx, repo: str) -> bool:
    """Tell whether the store has any run of a repository."""
    return tx.value("ci_any_run", {"repo": repo}) is not None


def open_runs(tx: Tx, repo: str, now: int) -> dict[int, str]:
    """Return the newest runs of a repository that are not completely known yet, by their status."""
    values = {"repo": repo, "now": now, "limit": _OPEN_RUNS}
    return dict(tx.all("ci_open_runs", values))


# ---------------------------------------------------------------------- reading


class RunRow(msgspec.Struct, frozen=True):
    """One stored run, for lists."""

    id: int
    repo: str
    head_sha: str
    head_branch: str | None
    event: str
    status: str
    conclusion: str | None
    started_at: int | None
    completed_at: int | None
    html_url: str
    actor: str | None
    first_seen_at: int
    last_seen_at: int


class RunDetails(msgspec.Struct, frozen=True):
    """One stored run with its jobs, of all attempts."""

    run: RunRow
    jobs: tuple[Job, ...]


_RUNS: Final = """SELECT r.id, r.repo, r.head_sha, r.head_branch, r.event, r.status, r.conclusion,
  r.started_at, r.completed_at, r.html_url, r.actor, r.first_seen_at, r.last_seen_at
FROM workflow_runs AS r WHERE {} ORDER BY coalesce(r.started_at, r.first_seen_at) DESC, r.id DESC
LIMIT :limit"""
_ENDED: Final = {
    "success": "r.conclusion = 'success'",
    "failure": "r.conclusion IN ('failure', 'timed_out')",
    "unknown": "coalesce(r.conclusion, '') NOT IN ('success', 'failure', 'timed_out')",
}


def list_runs(tx: Tx, query: Query = EVERYTHING, limit: int = 20) -> list[RunRow]:
    """Return the newest runs; each has every word that is asked for."""
    refuse_others(query, "run")
    conditions = RowConditions(tx, query, ["true"])
    conditions.words("r.repo", "r.head_branch", "r.head_sha", "r.event", "r.actor")
    conditions.span("coalesce(r.started_at, r.first_seen_at)")
    conditions.place(None, "r.repo", "workflow_runs")
    conditions.branches("r.head_branch", "workflow_runs")
    conditions.outcomes(_ENDED)
    sql = _RUNS.format(" AND ".join(conditions.texts))
    return [RunRow(*row) for row in tx.all(Sql(sql), {**conditions.params, "limit": limit})]


def run_details(tx: Tx, run_id: int) -> RunDetails | None:
    """Return a run with its jobs, their annotations and the ends of their logs."""
    row = tx.one("ci_run", {"id": run_id})
    if row is None:
        return None
    jobs = tuple(_stored_job(tx, *job) for job in tx.all("ci_jobs", {"id": run_id}))
    return RunDetails(RunRow(*row), jobs)


def _stored_job(tx: Tx, job_id: int, *columns: object) -> Job:
    said = tuple(Annotation(*row) for row in tx.all("ci_annotations", {"id": job_id}))
    log = tx.one("ci_excerpt", {"id": job_id})
    excerpt = None if log is None else Excerpt(log[0], bool(log[1]))
    job = Job(job_id, *columns)  # type: ignore[arg-type]  # the columns of the query, in order
    return msgspec.structs.replace(job, annotations=said, excerpt=excerpt)


# ------------------------------------------------------------------------------
# Commits whose CI somebody waits for: registered, settled by their runs, told of once.


class WatchedCommit(msgspec.Struct, frozen=True):
    """A commit that somebody waits for."""

    sha: str
    repo: str
    created_at: int
    expires_at: int
    terminal_status: str | None = None
    notified: bool = False
    is_open: bool = True  # runs of it continue, or none was seen yet


class CommitFailure(msgspec.Struct, frozen=True):
    """A watched commit that failed, and nobody was told yet."""

    sha: str
    repo: str
    status: str  # failure or cancelled
    created_at: int
    expires_at: int
    runs: tuple[RunRow, ...] = ()  # those that did not pass
    failed_jobs: tuple[str, ...] = ()


def verdict(
    outcomes: Iterable[tuple[str, str | None]],
) -> Literal["failure", "cancelled", ""] | None:
    """Judge all runs of a commit by status and conclusion; None while it is not decided.

    The first failure decides. An empty text means that all are done and none failed.
    """
    runs = list(outcomes)
    ended = {conclusion for status, conclusion in runs if status == COMPLETED}
    if ended & FAILED:
        return "failure"
    if CANCELLED in ended:
        return "cancelled"
    return "" if runs and all(status == COMPLETED for status, _ in runs) else None


def register(tx: Tx, watch: Watch) -> None:
    """Watch a commit; doing so again lengthens the time."""
    expires = watch.at + watch.ttl_secs * 1000
    values = {"sha": watch.sha, "repo": watch.repo, "at": watch.at, "expires_at": expires}
    tx.run("ci_watch", values)


def watched(tx: Tx, now: int) -> list[WatchedCommit]:
    """Return the commits that are watched, the newest first."""
    rows = tx.all("ci_watched", {"now": now})
    return [WatchedCommit(*row[:5], *map(bool, row[5:])) for row in rows]


def reopen(tx: Tx, sha: str, repo: str) -> None:
    """Take back what was said about a commit: a run of it was started again."""
    tx.run("ci_set_terminal", {"sha": sha, "repo": repo, "status": None})


def settle(tx: Tx, sha: str, repo: str) -> None:
    """Bring a watched commit in line with its runs: failed, passed and gone, or still open.

    All of its runs must be stored: the ones that passed would hide another that is to come.
    """
    key = {"sha": sha, "repo": repo}
    said = verdict(tx.all("ci_outcomes", key))
    if said == "":
        tx.run("ci_unwatch", key)
    else:
        tx.run("ci_set_terminal", {**key, "status": said})


def pending(tx: Tx, repo: str | None, now: int) -> list[CommitFailure]:
    """Return the failures of watched commits that nobody was told yet."""
    rows = tx.all("ci_pending", {"repo": repo, "now": now})
    return [_pending(tx, CommitFailure(*row)) for row in rows]


def ack(tx: Tx, told: Iterable[CommitFailure]) -> None:
    """Note that somebody was told of these failures."""
    for one in told:
        tx.run("ci_ack", {"sha": one.sha, "repo": one.repo, "status": one.status})


def clean_up(tx: Tx, now: int) -> None:
    """Drop watches that are over and told."""
    tx.run("ci_clean_watches", {"now": now})


def _pending(tx: Tx, one: CommitFailure) -> CommitFailure:
    rows = tx.all("ci_runs_of_sha", {"sha": one.sha, "repo": one.repo})
    runs = tuple(run for run in (RunRow(*row) for row in rows) if run.conclusion in BAD)
    bad = encode(sorted(BAD))
    jobs = [row[0] for run in runs for row in tx.all("ci_failed_jobs", {"id": run.id, "bad": bad})]
    return msgspec.structs.replace(one, runs=runs, failed_jobs=tuple(dict.fromkeys(jobs)))


# ------------------------------------------------------------------------------
# What belongs to a run of CI: the commands that led to it, and the sessions that worked on it.
#
# A command belongs to a run when it ran on the same commit; where none did, a push at about the
# time
# of the run. A session belongs to it when it was at work then, in the same project: working at the
# same time on something else is no reason.

AROUND_MS: Final = 15 * 60_000
_COMMANDS: Final = 20
_SEGMENTS: Final = 10


def evidence_of_run(tx: Tx, run: int) -> Evidence:
    """Return a run with the commands and the segments that belong to it."""
    found = tx.one("run_to_link", {"id": run})
    if found is None:
        msg = f"there is no run {run} of CI"
        raise NotFound(msg, hint="it was deleted, or never stored")
    repo, sha, at = found
    window = {"since": at - AROUND_MS, "until": at + AROUND_MS, "at": at}
    on_commit = tx.all("events_of_commit", {"sha": sha, "limit": _COMMANDS})
    events = [event for event, _ in on_commit] or _pushes(tx, repo, window)
    folders = [cwd for _, cwd in on_commit]
    segments = [
        segment
        for segment, cwd, project_dir in tx.all("segments_around", window)
        if in_project(repo, cwd or project_dir, folders)
    ]
    return Evidence(events=tuple(events), segments=tuple(segments[:_SEGMENTS]), runs=(run,))


def in_project(repo: str, folder: str, folders: Iterable[str] = ()) -> bool:
    """Tell whether work in a folder is work on a repository.

    One of the folders on the way to it has the repository's name, or it is one of the `folders` in
    which commands ran on the repository's commits, or below one.
    """
    path = _plain(folder)
    named = repo.rpartition("/")[2].lower() in path.split("/")
    return named or any(
        path == known or path.startswith(known + "/") for known in map(_plain, folders) if known
    )


def _plain(folder: str) -> str:
    return strip_worktrees(folder.replace("\\", "/")).rstrip("/").lower()


def _pushes(tx: Tx, repo: str, window: dict[str, int]) -> list[int]:
    name = repo.rpartition("/")[2]
    values = {**window, "repo": repo, "name": name, "limit": _COMMANDS}
    return [event for (event,) in tx.all("pushes_around", values)]


# ------------------------------------------------------------------------------
# What ended a failure of CI: the commit with which the same job passed again.

_LESSONS: Final = 20  # of one pass: the newest without a hint
_SHORT_SHA: Final = 10
_LONGEST_MESSAGE: Final = 160


def learn_ci_fixes(tx: Tx) -> int:
    """Give lessons of CI the commit that ended the failure, where the job passed again."""
    rows = tx.all("ci_lessons_without_hint", {"limit": _LESSONS})
    return sum(_learn(tx, LessonKey(*row)) for row in rows)


def commit_message(raw_json: str) -> str:
    """Return the first line of a run's commit message, else its title; empty if it has neither."""
    try:
        told = decode(raw_json)
    except Invalid:
        return ""
    commit = _table(_table(told).get("head_commit"))
    for value in (commit.get("message"), _table(told).get("display_title")):
        if isinstance(value, str) and value.strip():
            return value.strip().splitlines()[0][:_LONGEST_MESSAGE]
    return ""


def _learn(tx: Tx, key: LessonKey) -> bool:
    failed = tx.one("ci_last_failure", key._asdict())
    if failed is None:
        return False
    job, branch, at = failed
    values = {"repo": key.repo, "job": job, "branch": branch, "at": at}
    passed = tx.one("ci_next_success", values)
    if passed is None:
        return False
    message = commit_message(passed[2])
    said = f": {message}" if message else ""
    return note_fix(tx, key, f"{job} passed again with {passed[1][:_SHORT_SHA]}{said}", passed[3])


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
