"""What is known about CI: pending failures, runs with their jobs, lessons; no server is asked."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
import msgspec

from threadkeep.cli.command import Call, store_command
from threadkeep.cli.history.opening import typed
from threadkeep.cli.history.words import Json, when
from threadkeep.cli.observed.folding import printed
from threadkeep.cli.options import limit_option
from threadkeep.cli.output import note, one_line, paging, table, write
from threadkeep.errors import NotFound

if TYPE_CHECKING:
    from threadkeep.capture.github.ci import Ci
    from threadkeep.knowledge.lessons import Lesson
    from threadkeep.knowledge.workflow_runs import CommitFailure, Job, RunDetails, RunRow

_SHORT = 7
_RUNS = ("run", "when", "result", "repository", "branch", "commit", "address")
_SUMMARY = 200
_SHOWN = {"lines": 40, "characters": 8000}
_ALL = 2**31
_NO_LESSON = "nothing failed more than once, as far as is known here"
_NONE_YET = "CI was not asked yet; `threadkeep github poll --repo owner/name` does it"


@contextmanager
def known(call: Call) -> Iterator["Ci | None"]:
    """Open what is known about CI without changing it; None where there is no store yet."""
    if not call.home.knowledge_path(call.db).exists():
        yield None
        return
    with call.home.ci(call.db, read_only=True) as ci:
        yield ci


# ---------------------------------------------------------------------- pending failures


@store_command(
    "pending",
    "threadkeep github pending",
    "threadkeep github pending --repo owner/name --ack",
    lists=True,
)
@click.option("--repo", metavar="R", help="Only of this one: owner/name.")
@click.option("--ack", is_flag=True, help="These were told; do not tell them again.")
def pending(call: Call, *, repo: str | None, ack: bool) -> None:
    """Tell of watched commits whose CI failed and that nobody was told of yet.

    Nothing is printed if there are none, so that an agent can read it when its session starts.
    """
    found = _pending(call, repo, ack=ack)
    if call.as_json:
        call.answer("pending", pending=[_pending_json(one) for one in found])
        return
    for one in found:
        for line in pending_lines(one):
            write(line)


def _pending(call: Call, repo: str | None, *, ack: bool) -> list["CommitFailure"]:
    with known(call) as ci:
        found = [] if ci is None else ci.pending(repo)
    if not found or not ack:
        return found
    with call.home.ci(call.db, must_exist=True) as ci:
        return ci.pending(repo, acknowledge=True)


def _pending_json(one: "CommitFailure") -> Json:
    shown: Json = msgspec.to_builtins(one)
    return shown


def pending_lines(one: "CommitFailure") -> Iterator[str]:
    """Write a failure as a block of lines: what failed, in which runs and jobs, where to look."""
    branches = {run.head_branch for run in one.runs if run.head_branch}
    on = f" on {', '.join(sorted(branches))}" if branches else ""
    yield one_line(f"CI {one.status}: {one.repo} at {one.sha[:_SHORT]}{on}")
    for run in one.runs:
        yield "  " + one_line(f"run {run.id}: {run.conclusion or run.status} {run.html_url}")
    if one.failed_jobs:
        yield "  " + one_line(f"failed jobs: {', '.join(one.failed_jobs)}")


# ---------------------------------------------------------------------- runs


@store_command(
    "runs", "threadkeep github runs --repo owner/name", "threadkeep github runs 8123456", lists=True
)
@click.argument("run", required=False, type=int)
@click.option("--repo", metavar="R", help="Only of this one: owner/name.")
@limit_option(20, "How many; -1 for all.")
@click.option("--full", is_flag=True, help="All that is kept of the logs of a RUN.")
def runs(call: Call, *, run: int | None, repo: str | None, limit: int, full: bool) -> None:
    """List runs that are known, the latest first; or show one RUN with its jobs and errors."""
    with known(call) as ci:
        if run is not None:
            _show_run(call, run, None if ci is None else ci.run(run), full=full)
            return
        found = [] if ci is None else ci.runs(repo, limit=_page(limit))
    if call.as_json:
        call.answer("runs", runs=found)
        return
    table(_RUNS, [_row(one) for one in found], wide="address", spare=("commit", "branch"))
    if not found:
        note(f"no run of {one_line(repo)} is known" if repo else _NONE_YET)


def _page(limit: int) -> int:
    return _ALL if limit < 0 else limit


def _row(run: "RunRow") -> tuple[str, ...]:
    return (
        str(run.id),
        when(run.completed_at or run.started_at or run.first_seen_at),
        run.conclusion or run.status,
        run.repo,
        run.head_branch or "",
        run.head_sha[:_SHORT],
        run.html_url,
    )


def _show_run(call: Call, run_id: int, found: "RunDetails | None", *, full: bool) -> None:
    if found is None:
        raise NotFound(f"run {run_id} is not known", hint="`threadkeep github runs` lists them")
    if call.as_json:
        jobs = [_job_json(job) for job in found.jobs]
        call.answer("jobs", run=found.run, jobs=jobs)
        return
    run = found.run
    named = f"{run.repo} run {run.id}: {run.conclusion or run.status}"
    write(one_line(f"{named} · {run.head_branch or ''} {run.head_sha[:_SHORT]}"), "bold")
    write(one_line(run.html_url), "dim")
    for job in found.jobs:
        _show_job(job, full=full)


def _job_json(job: "Job") -> Json:
    shown: Json = msgspec.structs.asdict(job)
    del shown["raw_json"]
    return shown


def _show_job(job: "Job", *, full: bool) -> None:
    write(one_line(f"{job.name}: {job.conclusion or job.status}"))
    for said in job.annotations or ():
        line = f":{said.start_line}" if said.start_line else ""
        place = f"{said.path}{line}: " if said.path else ""
        write("  " + one_line(f"{said.level}: {place}{said.message}"))
    if job.excerpt is not None:
        write(printed(job.excerpt.text, full=full, **_SHOWN), "dim")


# ---------------------------------------------------------------------- lessons


@store_command(
    "lessons",
    "threadkeep lessons --repo owner/name",
    "threadkeep lessons --path src/parser.py --tool ruff --json",
    lists=True,
    pages=True,
)
@click.option("--repo", metavar="R", help="Only of this one: owner/name.")
@click.option("--path", metavar="P", help="Only about this file or folder.")
@click.option("--tool", metavar="T", help="Only what this tool found, such as ruff.")
@limit_option(10, "How many; -1 for all.")
def lessons(
    call: Call, *, repo: str | None, path: str | None, tool: str | None, limit: int
) -> None:
    """List failures that came back, the most frequent first: of CI, in shells, of agents.

    With each stands what ended it the last time, where that is known.
    """
    with known(call) as ci:
        found = [] if ci is None else ci.lessons(repo, path=path, tool=tool, limit=_page(limit))
    if call.as_json:
        call.answer("lessons", lessons=found)
        return
    with paging(wanted=call.pager):
        for one in found:
            _show_lesson(call, one)
    if not found:
        is_chosen = repo or path or tool
        note("no lesson is like that" if is_chosen else _NO_LESSON)


def _show_lesson(call: Call, one: "Lesson") -> None:
    what = one_line(one.summary, _SUMMARY) or f"{one.tool}: {one.rule_id} {one.path_prefix}"
    write(f"{one.occurrences:,} times  {what}", "bold")
    if one.fix_hint:
        write(f"  then    {one_line(one.fix_hint, _SUMMARY)}")
    facts = (one.repo, one.tool, one.rule_id, one.path_prefix)
    told = " · ".join(one_line(fact) for fact in facts if fact)
    write(f"  {told} · last {when(one.last_seen_at)}", "dim")
    write(f"  {typed(call, 'open', f'lesson:{one.id}')}", "dim")
