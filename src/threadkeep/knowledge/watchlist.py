"""Commits whose CI somebody waits for: registered, settled by their runs, told of once."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from threadkeep.base.json import encode
from threadkeep.base.tx import Tx
from threadkeep.knowledge.observed import Watch
from threadkeep.knowledge.workflows import BAD, CANCELLED, COMPLETED, FAILED, RunRow


class WatchedCommit(msgspec.Struct, frozen=True):
    """A commit that somebody waits for."""

    sha: str
    repo: str
    created_at: int
    expires_at: int
    terminal_status: str | None = None
    notified: bool = False
    is_open: bool = True  # runs of it go on, or none was seen yet


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
    """Give the commits that are watched, the newest first."""
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
    """Give the failures of watched commits that nobody was told yet."""
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
