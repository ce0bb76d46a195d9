"""Looking at CI again and again: closely while somebody waits for a commit, else now and then."""

import time
from collections.abc import Callable, Sequence
from typing import Final

from threadkeep.base.clock import Clock
from threadkeep.base.config import GithubSettings
from threadkeep.errors import Busy
from threadkeep.github.api import Api
from threadkeep.github.parsing import Clean
from threadkeep.github.polling import PollReport, RepositoryProblem, Show, poll
from threadkeep.knowledge.context import KnowledgeContext
from threadkeep.knowledge.watchlist import WatchedCommit, watched

# A commit may be registered at any time, by another program: the list is read so often.
_LOOK_SECONDS: Final = 5.0


def next_wait(settings: GithubSettings, waiting: Sequence[WatchedCommit], now: int) -> float:
    """Give the seconds between two looks: fewer while runs of a watched commit go on."""
    if any(one.is_open and one.expires_at > now for one in waiting):
        return float(min(settings.tight_poll_interval_secs, settings.poll_interval_secs))
    return float(settings.poll_interval_secs)


def follow(
    api: Api,
    context: KnowledgeContext,
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
        left = 0 if last is None else _pause(context, settings, clock()) - (clock() - last)
        if (
            last is not None and left > 0 and clock() >= last
        ):  # a clock that was set back is no rest
            wait(min(left / 1000, _LOOK_SECONDS))
        else:
            last = clock()
            tell(_looked(api, context, settings, clean, clock, show))


def _pause(context: KnowledgeContext, settings: GithubSettings, now: int) -> int:
    with context.db.read() as tx:
        waiting = watched(tx, now)
    return int(next_wait(settings, waiting, now) * 1000)


def _looked(
    api: Api,
    context: KnowledgeContext,
    settings: GithubSettings,
    clean: Clean,
    clock: Clock,
    show: Show,
) -> PollReport:
    try:
        return poll(api, context, settings, clean, clock, show)
    except Busy as error:  # somebody writes for long; the next look finds the same
        return PollReport(errors=[RepositoryProblem("", str(error))])
