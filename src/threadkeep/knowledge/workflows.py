"""Runs of CI: what is stored of them, what their server said last, and how they are read.

Texts come here masked. One run is stored in one transaction; what it brought is counted when its
jobs are all known, once for each attempt, however many programs look at it.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from threadkeep.base.json import decode, encode
from threadkeep.base.tx import Tx
from threadkeep.knowledge.lessons import LessonKey, LessonRules, learn

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
    """Give when to look again at a run of which so many looks brought not everything."""
    return now + (_FIRST_PAUSE_MS << 2 * (tries - 1))


# ---------------------------------------------------------------------- storing


def known_run(tx: Tx, run_id: int) -> StoredRun | None:
    """Give what the store has of a run, None if it never saw it."""
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
    """Give the failing annotations that this attempt brought.

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
    """Give the tag of the last answer to a request, None if there is none."""
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
    """Give the newest runs of a repository that are not completely known yet, by their status."""
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


def list_runs(tx: Tx, repo: str | None = None, limit: int = 20) -> list[RunRow]:
    """Give the newest runs, of all repositories or of one."""
    return [RunRow(*row) for row in tx.all("ci_list_runs", {"repo": repo, "limit": limit})]


def run_details(tx: Tx, run_id: int) -> RunDetails | None:
    """Give a run with its jobs, their annotations and the ends of their logs."""
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
