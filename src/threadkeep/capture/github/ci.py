"""CI: runs, watched commits, pending failures and lessons of one store, and the server's API."""

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Self

from threadkeep.base.config import GithubSettings
from threadkeep.capture.github.client import Api
from threadkeep.capture.github.http import GithubRefusal
from threadkeep.capture.github.poll import PollReport, Show, follow, next_wait, poll
from threadkeep.capture.observed.protocol import RegisterWatchSha, watch_of
from threadkeep.errors import Invalid
from threadkeep.knowledge.opening import refuse_write
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.knowledge.workflow_runs import (
    CommitFailure,
    WatchedCommit,
    ack,
    pending,
)


def _quiet(_: object) -> None:
    """Tell nobody."""


def _wait(stop: threading.Event, seconds: float) -> None:
    stop.wait(seconds)


class Ci:
    """What CI did, as far as this store knows.

    `api` is called when a server is needed, with what waits while that says "not now".
    """

    def __init__(
        self,
        store: KnowledgeStore,
        settings: GithubSettings,
        clean: Callable[[str], str],
        api: Callable[[Callable[[float], None]], Api],
    ) -> None:
        self.store = store
        self.settings = settings
        self._clean = clean
        self._api = api

    def poll(self, show: Show = _quiet) -> PollReport:
        """Look once at all watched repositories and commits."""
        self._need_repos()
        store = self.store
        return poll(self._api(time.sleep), store, self.settings, self._clean, store.clock, show)

    def follow(self, stop: threading.Event, tell: Callable[[PollReport], None] = _quiet) -> None:
        """Look at CI until `stop` is set: closely while a commit is waited for."""
        wait = partial(_wait, stop)
        follow(
            *(self._api(wait), self.store, self.settings, self._clean, self.store.clock),
            stop=stop.is_set,
            wait=wait,
            tell=tell,
        )

    def watch(self, sha: str, repo: str, ttl_secs: int | None = None) -> WatchedCommit:
        """Wait for the CI runs of a commit."""
        refuse_write(self.store.access)
        now = self.store.clock()
        ttl = self.settings.watchlist_ttl_secs if ttl_secs is None else ttl_secs
        watch = watch_of(RegisterWatchSha(sha, repo, ttl), now)
        self.store.evidence.watch(watch)
        return WatchedCommit(watch.sha, watch.repo, now, now + watch.ttl_secs * 1000)

    def wait_for(
        self, one: WatchedCommit, stop: threading.Event, tell: Callable[[PollReport], None] = _quiet
    ) -> str | None:
        """Look closely at a watched commit until its runs are over.

        Gives `success`, `failure` or `cancelled`; None if the time was over before, or `stop` set.
        A server that knows no such repository, or does not want us, is not asked again: Refused.
        """
        store, api = self.store, self._api(partial(_wait, stop))
        while not stop.is_set():
            report = poll(api, store, self.settings, self._clean, store.clock)
            tell(report)
            for trouble in report.errors:
                if trouble.final and trouble.repo.lower() == one.repo.lower():
                    raise GithubRefusal(trouble.message, hint="waiting will not help")
            left = self._find(one)
            if left is None:
                return "success"
            now = store.clock()
            if left.terminal_status and not left.is_open:
                return left.terminal_status
            if left.expires_at <= now:
                return None
            stop.wait(min(next_wait(self.settings, [left], now), (left.expires_at - now) / 1000))
        return None

    def _find(self, one: WatchedCommit) -> WatchedCommit | None:
        found = self.store.evidence.watched(0)
        return next((w for w in found if (w.sha, w.repo) == (one.sha, one.repo)), None)

    def watched(self) -> list[WatchedCommit]:
        """Return the commits that are watched, the newest first."""
        return self.store.evidence.watched(self.store.clock())

    def pending(self, repo: str | None = None, *, acknowledge: bool = False) -> list[CommitFailure]:
        """Return the failures of watched commits that nobody was told yet; `acknowledge` tells."""
        now = self.store.clock()
        if not acknowledge:
            return self.store.evidence.pending(repo, now)
        refuse_write(self.store.access)
        with self.store.write() as tx:
            found = pending(tx, repo, now)
            ack(tx, found)
        return found

    def _need_repos(self) -> None:
        if not self.settings.watched_repos and not self.watched():
            msg = "no repository and no commit is watched"
            raise Invalid(
                msg, hint='name one: --project owner/name, or [github] watched_repos = ["…"]'
            )

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
