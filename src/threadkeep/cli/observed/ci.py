"""`threadkeep github`: ask CI what it did, and wait for a commit's runs."""

import os
from typing import TYPE_CHECKING

import click

from threadkeep.cli.command import INTERRUPTED, PROBLEMS, Call, group, store_command
from threadkeep.cli.ending import ended_by_signals
from threadkeep.cli.history.words import when
from threadkeep.cli.observed.ci_listing import pending, runs
from threadkeep.cli.output import counted, document, note, one_line, warn, write
from threadkeep.errors import Busy, Invalid

if TYPE_CHECKING:
    import threading

    from threadkeep.capture.github.ci import Ci
    from threadkeep.capture.github.poll import PollReport
    from threadkeep.knowledge.workflow_runs import WatchedCommit, WorkflowRun

_SHORT = 7  # so many characters of a commit are shown
_LONGEST_TTL = 30 * 86_400  # seconds


@group(
    "github",
    "threadkeep github poll --repo owner/name",
    "threadkeep github watch --wait",
    "threadkeep github pending --ack",
)
def github() -> None:
    """What GitHub Actions did: runs, failed jobs, failures to know about."""


@store_command("poll", "threadkeep github poll", "threadkeep github poll --repo owner/name --json")
@click.option("--repo", "repos", multiple=True, metavar="R", help="Instead of those: owner/name.")
def poll(call: Call, *, repos: tuple[str, ...]) -> int:
    """Look once at the runs of all followed repositories and watched commits.

    [github] watched_repos in the configuration names the repositories to follow.
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
    "watch", "threadkeep github watch --wait", "threadkeep github watch --repo owner/name --ttl 600"
)
@click.argument("sha", required=False)
@click.option("--repo", metavar="R", help="owner/name; else the origin of this folder.")
@click.option(
    "--ttl", type=click.IntRange(1, _LONGEST_TTL), metavar="SECONDS", help="How long to wait."
)
@click.option("--wait", is_flag=True, help="Follow it closely until it is settled.")
def watch(call: Call, *, sha: str | None, repo: str | None, ttl: int | None, wait: bool) -> int:
    """Wait for the runs of a commit: SHA, or what this folder has checked out.

    `threadkeep watch` follows it, and `github pending` tells if it failed. With --wait the exit
    code is 0 if all runs passed, 1 if one failed or was cancelled, 4 if the time was over before.
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
        raise Invalid(msg, hint="name it: --repo owner/name")
    made = commit_to_watch(wanted, name, 1, 0)
    return made.sha, made.repo


def _follow(call: Call, ci: "Ci", one: "WatchedCommit", stop: "threading.Event") -> int:
    if not call.as_json:
        note(f"following CI of {_named(one)}; Ctrl-C ends it")
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
        msg = f"the runs of {_named(one)} were not over in time"
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
