"""`threadkeep github`: ask CI what it did, and wait for a commit's runs."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
import msgspec

from threadkeep.cli.command import INTERRUPTED, PROBLEMS, Call, alias, group, store_command, typed
from threadkeep.cli.observed.setup import native_host
from threadkeep.cli.options import complete_project, limit_option, query_options
from threadkeep.cli.output import counted, document, note, one_line, paging, table, warn, write
from threadkeep.cli.signals import ended_by_signals
from threadkeep.cli.words import Json, printed, when
from threadkeep.errors import Busy, Invalid, NotFound

if TYPE_CHECKING:
    import threading

    from threadkeep.capture.github.ci import Ci
    from threadkeep.capture.github.poll import PollReport
    from threadkeep.knowledge.lessons import Lesson
    from threadkeep.knowledge.query import Query
    from threadkeep.knowledge.workflow_runs import (
        CommitFailure,
        Job,
        RunDetails,
        RunRow,
        WatchedCommit,
        WorkflowRun,
    )


# ------------------------------------------------------------------------------
# What is known about CI: pending failures, runs with their jobs, lessons; no server is asked.

_SHORT = 7
_RUNS = ("run", "when", "result", "repository", "branch", "commit", "address")
_SUMMARY = 200
_SHOWN = {"lines": 40, "characters": 8000}
_ALL = 2**31
_NO_LESSON = "No failure is known to have recurred"
_NONE_YET = "CI was not polled yet; `threadkeep github poll --project owner/name` does it"


@contextmanager
def known(call: Call) -> Iterator["Ci | None"]:
    """Open what is known about CI without changing it; None where there is no store yet."""
    if not call.home.has("knowledge", call.db):
        yield None
        return
    with call.home.ci(call.db, read_only=True) as ci:
        yield ci


# ---------------------------------------------------------------------- pending failures


_of_repository = click.option(
    "--project",
    "repo",
    shell_complete=complete_project,
    metavar="R",
    help="Only this repository: owner/name.",
)


@store_command(
    "pending",
    "threadkeep github pending",
    "threadkeep github pending --project owner/name --ack",
    lists=True,
)
@_of_repository
@click.option("--ack", is_flag=True, help="Mark these as reported.")
def pending(call: Call, *, repo: str | None, ack: bool) -> None:
    """List watched commits with failed CI that were not reported yet.

    Prints nothing if there are none, so an agent can read it at the start of a session.
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
    "runs",
    "threadkeep github runs --project owner/name",
    "threadkeep github runs outcome:failed branch:main",
    "threadkeep github runs 8123456",
    lists=True,
)
@query_options("project", "branch", "since", "until", "failed", everything=False)
@limit_option(20, "How many; -1 for all.")
@click.option("--full", is_flag=True, help="All that is kept of a RUN's logs.")
def runs(call: Call, *, query: "Query", limit: int, full: bool) -> None:
    """List runs, latest first; or show one RUN with its errors."""
    run = int(query.text) if re.fullmatch("[0-9]{1,18}", query.text, re.ASCII) else None
    with known(call) as ci:
        if run is not None:
            _show_run(call, run, None if ci is None else ci.store.evidence.run(run), full=full)
            return
        found = [] if ci is None else ci.store.evidence.runs(query, _page(limit))
    if call.as_json:
        call.answer("runs", runs=found)
        return
    table(_RUNS, [_row(one) for one in found], wide="address", spare=("commit", "branch"))
    if not found:
        note("No runs match" if any(msgspec.structs.astuple(query)) else _NONE_YET)


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
        raise NotFound(f"there is no run {run_id}", hint="`threadkeep github runs` lists them")
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
    "threadkeep lessons --project owner/name",
    "threadkeep lessons --path src/parser.py --tool ruff --json",
    lists=True,
    pages=True,
)
@_of_repository
@click.option("--path", metavar="P", help="Only about this file or folder.")
@click.option("--tool", metavar="T", help="Only what this tool found, such as ruff.")
@limit_option(10, "How many; -1 for all.")
def lessons(
    call: Call, *, repo: str | None, path: str | None, tool: str | None, limit: int
) -> None:
    """List recurring failures of CI, shells and agents, most frequent first.

    Each is listed with its latest fix, if known.
    """
    with known(call) as ci:
        found = [] if ci is None else ci.store.evidence.lessons(repo, path, tool, _page(limit))
    if call.as_json:
        call.answer("lessons", lessons=found)
        return
    with paging(wanted=call.pager):
        for one in found:
            _show_lesson(call, one)
    if not found:
        is_chosen = repo or path or tool
        note("No lessons match" if is_chosen else _NO_LESSON)


def _show_lesson(call: Call, one: "Lesson") -> None:
    what = one_line(one.summary, _SUMMARY) or f"{one.tool}: {one.rule_id} {one.path_prefix}"
    write(f"{one.occurrences:,} times  {what}", "bold")
    if one.fix_hint:
        write(f"  then    {one_line(one.fix_hint, _SUMMARY)}")
    facts = (one.repo, one.tool, one.rule_id, one.path_prefix)
    told = " · ".join(one_line(fact) for fact in facts if fact)
    write(f"  {told} · last {when(one.last_seen_at)}", "dim")
    write(f"  {typed(call, 'open', f'lesson:{one.id}')}", "dim")


_LONGEST_TTL = 30 * 86_400  # seconds


@group(
    "github",
    "threadkeep github poll --project owner/name",
    "threadkeep github watch --wait",
    "threadkeep github pending --ack",
    bare="runs",
)
def github() -> None:
    """GitHub Actions: runs, failed jobs, failures to report."""


@store_command(
    "poll", "threadkeep github poll", "threadkeep github poll --project owner/name --json"
)
@click.option(
    "--project",
    "repos",
    shell_complete=complete_project,
    multiple=True,
    metavar="R",
    help="Instead of those: owner/name.",
)
def poll(call: Call, *, repos: tuple[str, ...]) -> int:
    """Poll the runs of all followed repositories and watched commits once.

    [github] watched_repos in the configuration lists the repositories to follow.
    """
    from threadkeep.home.observed import collect_now

    collect_now(call.home, call.db)  # a commit to wait for may still lie in the spool
    with call.home.ci(call.db, repos=repos) as ci:
        report = ci.poll(_quiet if call.as_json else _show)
    if call.as_json:
        document(poll=report)
    else:
        looked = "1 repository" if report.repos == 1 else f"{report.repos:,} repositories"
        note(f"{looked}, {counted(report.runs, 'run')} new or changed")
    return _tell_errors(report)


def _quiet(_: "WorkflowRun") -> None:
    pass


def _show(run: "WorkflowRun") -> None:
    ended = run.conclusion or run.status
    told = [run.repo, str(run.id), ended, run.head_branch or "", run.head_sha[:_SHORT]]
    write("\t".join(one_line(fact) for fact in told))


def _tell_errors(report: "PollReport") -> int:
    told = [one_line(f"{trouble.repo or 'CI'}: {trouble.message}") for trouble in report.errors]
    for text in dict.fromkeys(told):  # a repository and its watched commits meet the same
        warn(text)
    return PROBLEMS if report.errors else 0


# ---------------------------------------------------------------------- waiting for a commit


@store_command(
    "watch",
    "threadkeep github watch --wait",
    "threadkeep github watch --project owner/name --ttl 600",
)
@click.argument("sha", required=False)
@click.option(
    "--project",
    "repo",
    shell_complete=complete_project,
    metavar="R",
    help="owner/name; else the origin of this folder.",
)
@click.option(
    "--ttl", type=click.IntRange(1, _LONGEST_TTL), metavar="SECONDS", help="How long to wait."
)
@click.option("--wait", is_flag=True, help="Follow it until it has finished.")
def watch(call: Call, *, sha: str | None, repo: str | None, ttl: int | None, wait: bool) -> int:
    """Watch the CI runs of a commit: SHA, or the one checked out in this folder.

    `threadkeep watch` follows it, and `github pending` reports a failure. With --wait the exit code
    is 0 if all runs passed, 1 if one failed or was cancelled, 4 after a timeout.
    """
    commit, name = _commit(sha, repo)
    with call.home.ci(call.db) as ci:
        one = ci.watch(commit, name, ttl)
        if wait:
            with ended_by_signals() as stop:
                return _follow(call, ci, one, stop)
    if call.as_json:
        document(watch=one)
    else:
        note(f"waiting for CI of {_named(one)} until {when(one.expires_at)}")
    return 0


def _commit(sha: str | None, repo: str | None) -> tuple[str, str]:
    """Say which commit is meant; what is not given, the folder tells."""
    from threadkeep.home.observed import commit_to_watch, head_of

    head = head_of(os.getcwd())  # noqa: PTH109  (text, whatever its bytes)
    wanted, name = (sha or head.sha or "").lower(), repo or head.repo
    if len(wanted) >= _SHORT and (head.sha or "").startswith(wanted):
        wanted = head.sha or wanted
    if not wanted:
        raise Invalid("this folder has no commit checked out", hint="name it: github watch SHA")
    if not name:
        msg = "this folder has no origin that names a repository"
        raise Invalid(msg, hint="name it: --project owner/name")
    made = commit_to_watch(wanted, name, 1, 0)
    return made.sha, made.repo


def _follow(call: Call, ci: "Ci", one: "WatchedCommit", stop: "threading.Event") -> int:
    if not call.as_json:
        note(f"following CI of {_named(one)}; Ctrl-C to stop")
    told: set[str] = set()

    def tell(report: "PollReport") -> None:
        for trouble in report.errors:
            if trouble.message not in told:  # the next look often meets the same
                told.add(trouble.message)
                warn(one_line(f"{trouble.repo or 'CI'}: {trouble.message}"))

    ended = ci.wait_for(one, stop, tell)
    if ended is None and stop.is_set():
        note("interrupted; the commit stays watched")
        return INTERRUPTED
    if ended is None:
        msg = f"the runs of {_named(one)} did not finish in time"
        raise Busy(msg, hint="wait longer with --ttl SECONDS")
    if call.as_json:
        document(watch=one, outcome=ended)
    else:
        write(f"{_named(one)}: {ended}", "green" if ended == "success" else "bold red")
    return 0 if ended == "success" else PROBLEMS


def _named(one: "WatchedCommit") -> str:
    return f"{one.repo} at {one.sha[:_SHORT]}"


for _command in (poll, watch, pending, runs):
    github.add_command(_command)


# ------------------------------------------------------------------------------
# Names under which Hippo's own scripts call: the same commands, left out of the help page.

ALIASES = (
    alias(native_host, "native-messaging-host"),
    alias(poll, "gh-poll"),
    alias(pending, "gh-pending-notifications"),
)
