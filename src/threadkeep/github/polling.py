"""One look at CI: every watched repository and commit, one transaction for each run.

Runs are stored from the oldest to the newest, and the tag of an answer last. Whoever is stopped in
between, at any place, finds what is left at the next look.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import msgspec

from threadkeep.base.clock import Clock
from threadkeep.base.config import GithubSettings
from threadkeep.base.sqlite import Database
from threadkeep.errors import NotFound, ThreadkeepError
from threadkeep.github.api import Api
from threadkeep.github.fetching import Fetched, Look, fetch_details, fetch_run, gather_runs
from threadkeep.github.parsing import Clean, lesson_key
from threadkeep.knowledge.context import Context
from threadkeep.knowledge.health import note_failure, note_success
from threadkeep.knowledge.lessons import LessonKey, LessonRules
from threadkeep.knowledge.opening import refuse_write
from threadkeep.knowledge.watchlist import Watched, clean_up, settle, watched
from threadkeep.knowledge.workflows import (
    Annotation,
    Run,
    drop_old_answers,
    is_outdated,
    is_same,
    keep_answer,
    keep_run,
    known_run,
    knows_repo,
    last_answer,
    note_gone,
    open_runs,
    same_answer,
    touch_runs,
    wants_details,
)

SOURCE: Final = "github-actions"  # its row in `source_health`

Show = Callable[[Run], None]


class Trouble(msgspec.Struct, frozen=True):
    """What went wrong with a repository."""

    repo: str
    message: str


class Report(msgspec.Struct):
    """What one look brought."""

    repos: int = 0  # looked at
    runs: int = 0  # new or changed
    detailed: int = 0  # runs whose jobs are known now
    lessons: int = 0  # failures among them that are lessons
    requests: int = 0
    last_event: int | None = None
    errors: list[Trouble] = msgspec.field(default_factory=list)


class _Pass(msgspec.Struct):
    """What one look works with."""

    api: Api
    db: Database
    settings: GithubSettings
    clean: Clean
    clock: Clock
    show: Show
    report: Report
    seen: set[int]
    unchanged: list[int]


def poll(
    api: Api,
    context: Context,
    settings: GithubSettings,
    clean: Clean,
    clock: Clock,
    show: Show = lambda _: None,
) -> Report:
    """Look once at all watched repositories and commits; `show` gets every run that changed.

    An error of one repository is reported and does not stop the others.
    """
    refuse_write(context.access)
    work = _Pass(api, context.db, settings, clean, clock, show, Report(), set(), [])
    before = api.requests
    with work.db.read() as tx:
        waiting = [one for one in watched(tx, clock()) if one.is_open]
    looks = plan_looks(settings.watched_repos, waiting)
    for look in looks:
        _guarded(work, look.repo, partial(_look_at, work, look))
    repos = list(dict.fromkeys(look.repo for look in looks))
    for repo in repos:
        _guarded(work, repo, partial(_look_at_open, work, repo))
    work.report.repos = len(repos)
    work.report.requests = api.requests - before
    _finish(work, waiting)
    return work.report


def plan_looks(repos: Sequence[str], waiting: Sequence[Watched]) -> list[Look]:
    """Say which lists to ask for, each once: commits that somebody waits for come first."""
    commits = [Look(one.repo, one.sha) for one in waiting]
    return list(dict.fromkeys([*commits, *(Look(repo) for repo in repos)]))


def _guarded(work: _Pass, repo: str, step: Callable[[], None]) -> None:
    try:
        step()
    except ThreadkeepError as error:
        _note(work, repo, error)


def _note(work: _Pass, repo: str, error: ThreadkeepError) -> None:
    work.report.errors.append(Trouble(repo, work.clean(str(error))))


def _finish(work: _Pass, waiting: Sequence[Watched]) -> None:
    report, now = work.report, work.clock()
    with work.db.write() as tx:
        for one in waiting:
            settle(tx, one.sha, one.repo)
        touch_runs(tx, work.unchanged, now)
        clean_up(tx, now)
        drop_old_answers(tx, now)
        if not report.errors or report.runs:
            note_success(tx, SOURCE, last_event=report.last_event, count=report.runs, now=now)
        if report.errors:
            first = report.errors[0]
            note_failure(tx, SOURCE, f"{first.repo}: {first.message}", now)


# ---------------------------------------------------------------------- lists of runs


def _look_at(work: _Pass, look: Look) -> None:
    url = work.api.url + look.path
    with work.db.read() as tx:
        answer = last_answer(tx, url)
        is_new = not knows_repo(tx, look.repo)
    reply = work.api.get(look.path, answer and answer.etag)
    if reply.is_same and answer is not None:
        with work.db.write() as tx:
            same_answer(tx, url, answer, work.clock())
        return

    def is_far_enough(runs: list[Run]) -> bool:
        return look.sha is None and (is_new or _any_known(work, runs))

    runs = gather_runs(work.api, look, reply, work.clean, is_far_enough)
    for run in reversed(runs):
        _keep(work, run)
    if reply.etag:
        with work.db.write() as tx:
            keep_answer(tx, url, reply.etag, [run.id for run in runs], work.clock())


def _any_known(work: _Pass, runs: Sequence[Run]) -> bool:
    with work.db.read() as tx:
        return any(known_run(tx, run.id) is not None for run in runs)


def _look_at_open(work: _Pass, repo: str) -> None:
    """Ask for runs that were not finished when they were last on a list, and are on none now."""
    with work.db.read() as tx:
        waiting = open_runs(tx, repo, work.clock())
    for run_id in waiting:
        if run_id not in work.seen:
            _guarded(work, repo, partial(_look_at_run, work, repo, run_id))


def _look_at_run(work: _Pass, repo: str, run_id: int) -> None:
    try:
        run = fetch_run(work.api, repo, run_id, work.clean)
    except NotFound:
        run = None
    if run is not None:
        _keep(work, run)
        return
    with work.db.write() as tx:
        note_gone(tx, run_id, work.clock())


# ---------------------------------------------------------------------- single runs


def _keep(work: _Pass, run: Run) -> None:
    """Fetch what is not known of a run, and store it."""
    with work.db.read() as tx:
        known = known_run(tx, run.id)
    work.seen.add(run.id)
    if is_outdated(known, run):
        return
    wanted = wants_details(known, run, work.clock())
    if is_same(known, run) and not wanted:
        work.unchanged.append(run.id)
        return
    keep = work.settings.log_excerpt_max_bytes
    _store(work, run, fetch_details(work.api, run, keep, work.clean) if wanted else None)


def _store(work: _Pass, run: Run, fetched: Fetched | None) -> None:
    settings = work.settings
    rules = LessonRules(settings.lesson_min_occurrences, settings.lesson_window_days)
    details = None if fetched is None else fetched.details

    def key_of(annotation: Annotation) -> LessonKey:
        return lesson_key(run.repo, annotation, settings.lesson_path_segments)

    with work.db.write() as tx:
        kept = keep_run(tx, run, details, key_of, rules, work.clock())
        settle(tx, run.head_sha, run.repo)
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
