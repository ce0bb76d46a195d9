"""A CI server, a knowledge store, and a poller whose time is the test's."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.capture.github.server import REPO, Ci, listening
from tests.support.knowledge import NOW
from tests.support.worlds import World
from threadkeep.base.config import GithubSettings
from threadkeep.base.tx import Tx
from threadkeep.capture.github.client import Api
from threadkeep.capture.github.poll import PollReport, follow, poll
from threadkeep.capture.redact.engine import Redactor
from threadkeep.knowledge.records import Watch
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.knowledge.workflow_runs import WorkflowRun, register
from threadkeep.testing import KnowledgeFactory

TOKEN = "toktoktok-0123456789"


@cache
def _redactor() -> Redactor:
    return Redactor.default()


class Poller:
    """Polls the server into a store; nothing sleeps, and time moves when a test says so."""

    def __init__(self, ci: Ci, url: str, world: World) -> None:
        self.ci = ci
        self.url = url
        self.world = world
        self.now = NOW
        self.slept: list[float] = []
        self.shown: list[WorkflowRun] = []
        self.settings = GithubSettings(watched_repos=(REPO,), api_url=url)
        self.store = self.open()
        self.clean: Callable[[str], str] = _redactor().text
        self.api = self.new_api()

    def open(self, *, read_only: bool = False) -> KnowledgeStore:
        return KnowledgeStore.open(self.world.prepared(), read_only=read_only, clock=self.clock)

    def clock(self) -> int:
        return self.now

    def new_api(self, **options: Any) -> Api:
        given: dict[str, Any] = {"sleep": self.slept.append, "clock": lambda: self.now / 1000}
        return Api(self.url, TOKEN, **(given | options))

    def poll(self) -> PollReport:
        store = self.store
        return poll(self.api, store, self.settings, self.clean, self.clock, self.shown.append)

    def poll_well(self) -> PollReport:
        report = self.poll()
        assert report.errors == []
        return report

    def follow(self, stop: Callable[[], bool], wait: Callable[[float], None]) -> list[PollReport]:
        reports: list[PollReport] = []
        world = (self.store, self.settings, self.clean, self.clock, self.shown.append)
        follow(self.api, *world, stop=stop, wait=wait, tell=reports.append)
        return reports

    def watch(self, sha: str, repo: str = REPO, ttl: int = 1200) -> None:
        self.do(lambda tx: register(tx, Watch(sha, repo, self.now, ttl)))

    def do(self, step: Callable[[Tx], Any]) -> Any:
        with self.store.context.db.write() as tx:
            return step(tx)

    def read(self, step: Callable[[Tx], Any]) -> Any:
        with self.store.context.db.read() as tx:
            return step(tx)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.world.ask(sql)

    def health(self) -> tuple[Any, ...]:
        sql = "SELECT last_event_ts, last_success_ts, consecutive_failures, last_error_msg"
        return self.rows(f"{sql} FROM source_health WHERE source = 'github-actions'")[0]


@pytest.fixture
def ci() -> Iterator[Ci]:
    world = Ci()
    with ExitStack() as stack:
        world.blobs = stack.enter_context(listening(world, is_blobs=True))
        yield world


@pytest.fixture
def url(ci: Ci) -> Iterator[str]:
    with listening(ci) as address:
        yield address


@pytest.fixture
def poller(
    ci: Ci, url: str, tmp_path: Path, knowledge_factory: KnowledgeFactory
) -> Iterator[Poller]:
    poller = Poller(ci, url, World(tmp_path, knowledge_factory))
    with poller.store:
        yield poller
