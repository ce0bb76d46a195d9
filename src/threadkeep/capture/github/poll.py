"""One look at CI: every watched repository and commit, one transaction for each run.

Runs are stored from the oldest to the newest, and the tag of an answer last. Whoever is stopped in
between, at any place, finds what is left at the next look.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import msgspec

from threadkeep.base.clock import Clock
from threadkeep.base.config import GithubSettings
from threadkeep.capture.github.client import Api, GithubReply
from threadkeep.capture.github.http import GithubRefusal
from threadkeep.capture.github.runs import (
    Clean,
    FetchResult,
    Look,
    fetch_details,
    gather_pages,
    lesson_key,
    read_run,
    run_path,
)
from threadkeep.capture.records import index_behind
from threadkeep.errors import Busy, NotFound, ThreadkeepError
from threadkeep.knowledge import workflow_runs
from threadkeep.knowledge.health import note_failure, note_success
from threadkeep.knowledge.lessons import LessonKey, LessonRules
from threadkeep.knowledge.opening import refuse_write
from threadkeep.knowledge.store import KnowledgeStore

SOURCE: Final = "github-actions"  # its row in `source_health`

Show = Callable[[workflow_runs.WorkflowRun], None]


class RepositoryProblem(msgspec.Struct, frozen=True):
    """What went wrong with a repository."""

    repo: str
    message: str
    final: bool = False  # the server has refused: asking again would be of no use


class PollReport(msgspec.Struct):
    """What one look brought."""

    repos: int = 0  # looked at
    runs: int = 0  # new or changed
    detailed: int = 0  # runs whose jobs are known now
    lessons: int = 0  # failures among them that are lessons
    requests: int = 0
    last_event: int | None = None
    errors: list[RepositoryProblem] = msgspec.field(default_factory=list)


class _Pass(msgspec.Struct):
    """What one look works with."""

    api: Api
    store: KnowledgeStore
    settings: GithubSettings
    clean: Clean
    clock: Clock
    show: Show
    report: PollReport
    seen: set[int]  # runs that were in an answer
    same: set[int]  # runs of which the server says that they are as they were
    unchanged: list[int]


def poll(
    api: Api,
    store: KnowledgeStore,
    settings: GithubSettings,
    clean: Clean,
    clock: Clock,
    show: Show = lambda _: None,
) -> PollReport:
    """Look once at all watched repositories and commits; `show` gets every run that changed.

    An error of one repository is reported and does not stop the others.
    """
    refuse_write(store.access)
    work = _Pass(api, store, settings, clean, clock, show, PollReport(), set(), set(), [])
    before = api.requests
    looks = plan_looks(settings.watched_repos, store.evidence.watched(clock()))
    for look in looks:
        _guarded(work, look.repo, partial(_look_at, work, look))
    repos = list(dict.fromkeys(look.repo for look in looks))
    for repo in repos:
        _guarded(work, repo, partial(_look_at_open, work, repo))
    work.report.repos = len(repos)
    work.report.requests = api.requests - before
    _finish(work)
    index_behind(store)
    return work.report


def plan_looks(repos: Sequence[str], waiting: Sequence[workflow_runs.WatchedCommit]) -> list[Look]:
    """Say which lists to ask for, each once: commits that somebody waits for come first."""
    commits = [Look(one.repo, one.sha) for one in waiting]
    return list(dict.fromkeys([*commits, *(Look(repo) for repo in repos)]))


def _guarded(work: _Pass, repo: str, step: Callable[[], None]) -> None:
    try:
        step()
    except (GithubRefusal, NotFound) as error:
        _note(work, repo, error, final=True)
    except ThreadkeepError as error:
        _note(work, repo, error)


def _note(work: _Pass, repo: str, error: ThreadkeepError, *, final: bool = False) -> None:
    work.report.errors.append(RepositoryProblem(repo, work.clean(str(error)), final))


def _finish(work: _Pass) -> None:
    report, now = work.report, work.clock()
    with work.store.write() as tx:
        workflow_runs.touch_runs(tx, work.unchanged, now)
        workflow_runs.clean_up(tx, now)
        workflow_runs.drop_old_answers(tx, now)
        if not report.errors or report.runs:
            note_success(tx, SOURCE, last_event=report.last_event, count=report.runs, now=now)
        if report.errors:
            first = report.errors[0]
            note_failure(tx, SOURCE, f"{first.repo}: {first.message}", now)


# ---------------------------------------------------------------------- lists of runs


def _look_at(work: _Pass, look: Look) -> None:
    is_new = not work.store.evidence.knows_repo(look.repo)
    reply = _ask(work, look.path)
    if reply is None:
        _settle(work, look)
        return

    def is_far_enough(runs: list[workflow_runs.WorkflowRun]) -> bool:
        return not look.is_of_commit and (is_new or _any_known(work, runs))

    pages = gather_pages(work.api, look, reply, work.clean, is_far_enough)
    # A run that comes while we turn the page moves others to the next one: they are there twice.
    for run in reversed({run.id: run for page in pages for run in page}.values()):
        _keep(work, run)
    _answered(work, look.path, reply, pages[0])  # the tag is that of the first page alone
    _settle(work, look)


def _ask(work: _Pass, path: str) -> GithubReply | None:
    """Ask for runs; None if they are as they were."""
    url = work.api.url + path
    answer = work.store.evidence.last_answer(url)
    reply = work.api.get(path, answer and answer.etag)
    if answer is None or not reply.is_same:
        return reply
    work.same.update(answer.runs)
    work.store.evidence.same_answer(url, answer, work.clock())
    return None


def _answered(
    work: _Pass, path: str, reply: GithubReply, runs: Sequence[workflow_runs.WorkflowRun]
) -> None:
    """Remember an answer, now that its runs are stored."""
    if reply.etag:
        ids = [run.id for run in runs]
        work.store.evidence.keep_answer(work.api.url + path, reply.etag, ids, work.clock())


def _settle(work: _Pass, look: Look) -> None:
    if look.sha is not None:
        work.store.evidence.settle(look.sha, look.repo)


def _any_known(work: _Pass, runs: Sequence[workflow_runs.WorkflowRun]) -> bool:
    return any(work.store.evidence.known_run(run.id) is not None for run in runs)


def _look_at_open(work: _Pass, repo: str) -> None:
    """Ask for runs that are not completely known and on no list, or of which a part is missing."""
    waiting = work.store.evidence.open_runs(repo, work.clock())
    for run_id, status in waiting.items():
        going_on = status != workflow_runs.COMPLETED
        if run_id not in work.seen and not (going_on and run_id in work.same):
            step = partial(_look_at_run, work, repo, run_id, going_on=going_on)
            _guarded(work, repo, step)


def _look_at_run(work: _Pass, repo: str, run_id: int, *, going_on: bool) -> None:
    path = run_path(repo, run_id)
    try:
        reply = _ask(work, path) if going_on else work.api.get(path)
    except NotFound:
        work.store.evidence.note_gone(run_id, work.clock())
        return
    run = None if reply is None else read_run(reply.value, repo, work.clean)
    if reply is not None and run is not None:
        _keep(work, run)
        _answered(work, path, reply, [run])


# ---------------------------------------------------------------------- single runs


def _keep(work: _Pass, run: workflow_runs.WorkflowRun) -> None:
    """Fetch what is not known of a run, and store it."""
    known = work.store.evidence.known_run(run.id)
    work.seen.add(run.id)
    if workflow_runs.is_outdated(known, run):
        return
    wanted = workflow_runs.wants_details(known, run, work.clock())
    if workflow_runs.is_same(known, run) and not wanted:
        work.unchanged.append(run.id)
        return
    keep = work.settings.log_excerpt_max_bytes
    _store(work, run, fetch_details(work.api, run, keep, work.clean) if wanted else None)


def _store(work: _Pass, run: workflow_runs.WorkflowRun, fetched: FetchResult | None) -> None:
    settings = work.settings
    rules = LessonRules(settings.lesson_min_occurrences, settings.lesson_window_days)
    details = None if fetched is None else fetched.details

    def key_of(annotation: workflow_runs.Annotation) -> LessonKey:
        return lesson_key(run.repo, annotation, settings.lesson_path_segments)

    with work.store.write() as tx:
        kept = workflow_runs.keep_run(tx, run, details, key_of, rules, work.clock())
        if kept.again:
            workflow_runs.reopen(tx, run.head_sha, run.repo)
    for trouble in fetched.troubles if fetched else ():
        _note(work, run.repo, trouble)
    report = work.report
    report.runs += kept.changed
    report.detailed += kept.detailed
    report.lessons += kept.lessons
    if kept.changed:
        at = run.completed_at or run.started_at
        report.last_event = max(filter(None, (report.last_event, at)), default=None)
        work.show(run)


# ------------------------------------------------------------------------------
# Looking at CI again and again: closely while somebody waits for a commit, else now and then.

# A commit may be registered at any time, by another program: the list is read so often.
_LOOK_SECONDS: Final = 5.0


def next_wait(
    settings: GithubSettings, waiting: Sequence[workflow_runs.WatchedCommit], now: int
) -> float:
    """Return the seconds between two looks: fewer while runs of a watched commit continue."""
    if any(one.is_open and one.expires_at > now for one in waiting):
        return float(min(settings.tight_poll_interval_secs, settings.poll_interval_secs))
    return float(settings.poll_interval_secs)


def follow(
    api: Api,
    store: KnowledgeStore,
    settings: GithubSettings,
    clean: Clean,
    clock: Clock,
    show: Show = lambda _: None,
    *,
    stop: Callable[[], bool],
    wait: Callable[[float], None] = time.sleep,
    tell: Callable[[PollReport], None] = lambda _: None,
) -> None:
    """Look at CI until `stop` says so; `tell` gets the report of every look.

    The list of watched commits is read every few seconds: one that comes in between makes the next
    look come earlier.
    """
    last: int | None = None
    while not stop():
        left = 0 if last is None else _pause(store, settings, clock()) - (clock() - last)
        if (
            last is not None and left > 0 and clock() >= last
        ):  # a clock that was set back is no rest
            wait(min(left / 1000, _LOOK_SECONDS))
        else:
            last = clock()
            tell(_looked(api, store, settings, clean, clock, show))


def _pause(store: KnowledgeStore, settings: GithubSettings, now: int) -> int:
    return int(next_wait(settings, store.evidence.watched(now), now) * 1000)


def _looked(
    api: Api,
    store: KnowledgeStore,
    settings: GithubSettings,
    clean: Clean,
    clock: Clock,
    show: Show,
) -> PollReport:
    try:
        return poll(api, store, settings, clean, clock, show)
    except Busy as error:  # somebody writes for long; the next look finds the same
        return PollReport(errors=[RepositoryProblem("", str(error))])
