"""CI as users have it: looked at, followed, waited for, told of, learned from; over real HTTP."""

import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from tests.capture.github.conftest import TOKEN, Poller
from tests.capture.github.server import REPO, SHA, Ci as Server, refuse
from threadkeep.capture.github.ci import Ci
from threadkeep.capture.github.client import Api
from threadkeep.capture.github.http import GithubRefusal
from threadkeep.capture.github.poll import PollReport
from threadkeep.errors import Closed, Invalid, ReadOnly
from threadkeep.knowledge.query import Query

GOING: dict[str, Any] = {"status": "in_progress", "conclusion": None}
OTHER = "b" * 40


class Waits(threading.Event):
    """Waits without time: each wait moves the clock and lets something happen, in turn."""

    def __init__(self, poller: Poller, *happens: Callable[[], object]) -> None:
        super().__init__()
        self.poller = poller
        self.happens = list(happens)
        self.waited: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.waited.append(timeout)
        self.poller.now += int(timeout * 1000)
        if self.happens:
            self.happens.pop(0)()
        else:
            assert len(self.waited) < 100, "it waits for ever"
        return self.is_set()


@pytest.fixture
def facade(poller: Poller) -> Ci:
    def api(sleep: Callable[[float], None]) -> Api:
        return Api(poller.url, TOKEN, sleep=sleep, clock=lambda: poller.now / 1000)

    return Ci(poller.store, poller.settings, poller.clean, api)


def end_run(ci: Server, conclusion: str = "success", at: int = 0) -> None:
    ci.runs[REPO][at] |= {"status": "completed", "conclusion": conclusion}


# ---------------------------------------------------------------------- looking


def test_a_look_brings_runs_with_their_jobs_and_what_they_said(ci: Server, facade: Ci) -> None:
    ci.add_failure(1, "F401 unused", log=b"first\nlast\n")
    ci.add_run(2, **GOING)
    shown: list[int] = []
    report = facade.poll(lambda run: shown.append(run.id))
    assert (report.repos, report.runs, report.detailed, report.errors) == (1, 2, 1, [])
    assert shown == [1, 2]
    assert {run.id: run.conclusion for run in facade.store.evidence.runs()} == {
        1: "failure",
        2: None,
    }
    assert facade.store.evidence.runs(Query(project=("octo/none",))) == []
    assert len(facade.store.evidence.runs(Query(project=(REPO.upper(),)), limit=1)) == 1
    details = facade.store.evidence.run(1)
    assert details is not None
    (job,) = details.jobs
    assert job.annotations is not None
    assert [(a.tool, a.rule_id) for a in job.annotations] == [("ruff", "F401")]
    assert job.excerpt is not None
    assert job.excerpt.text.endswith("last\n")
    assert facade.store.evidence.run(99) is None


def test_without_a_repository_or_a_commit_there_is_nothing_to_look_at(
    facade: Ci, ci: Server
) -> None:
    facade.settings = msgspec.structs.replace(facade.settings, watched_repos=())
    with pytest.raises(Invalid, match="no repository and no commit is watched"):
        facade.poll()
    assert ci.asked == []
    ci.add_run(1)
    facade.watch(SHA, REPO)
    assert facade.poll().runs == 1


# ---------------------------------------------------------------------- waiting for a commit


def test_a_commit_is_named_one_way(facade: Ci, poller: Poller) -> None:
    one = facade.watch(SHA.upper(), REPO, 60)
    assert (one.sha, one.expires_at - one.created_at) == (SHA, 60_000)
    facade.watch(SHA, REPO)
    (watched,) = facade.watched()
    assert watched.expires_at == poller.now + facade.settings.watchlist_ttl_secs * 1000
    for sha, repo in (("../x", REPO), (SHA, "octo"), (SHA, "octo/../x"), ("", "")):
        with pytest.raises(Invalid):
            facade.watch(sha, repo)
    assert facade.watch(OTHER, REPO, 1 << 62).expires_at < poller.now + 31 * 86_400_000
    assert len(facade.watched()) == 2


def test_waiting_ends_when_all_runs_have_passed(ci: Server, facade: Ci, poller: Poller) -> None:
    ci.add_run(1, **GOING)
    ci.add_run(2, **GOING)
    reports: list[PollReport] = []
    stop = Waits(poller, lambda: end_run(ci, at=0), lambda: end_run(ci, at=1))
    assert facade.wait_for(facade.watch(SHA, REPO), stop, reports.append) == "success"
    assert stop.waited == [45.0, 45.0]  # closely
    assert [report.runs for report in reports] == [2, 1, 1]
    assert facade.watched() == []
    assert facade.pending() == []


@pytest.mark.parametrize("conclusion, said", [("failure", "failure"), ("cancelled", "cancelled")])
def test_waiting_tells_what_failed(
    ci: Server, facade: Ci, poller: Poller, conclusion: str, said: str
) -> None:
    ci.add_run(1, **GOING)
    stop = Waits(poller, lambda: None, lambda: end_run(ci, conclusion))
    assert facade.wait_for(facade.watch(SHA, REPO), stop) == said
    (told,) = facade.pending(REPO)
    assert (told.status, [run.id for run in told.runs]) == (said, [1])


def test_waiting_ends_with_its_time_or_when_it_is_told_to(
    ci: Server, facade: Ci, poller: Poller
) -> None:
    ci.add_run(1, **GOING)
    stop = Waits(poller)
    assert facade.wait_for(facade.watch(SHA, REPO, 100), stop) is None
    assert sum(stop.waited) == 100
    told = Waits(poller)
    told.happens = [told.set]
    assert facade.wait_for(facade.watch(SHA, REPO, 100), told) is None
    assert len(told.waited) == 1


def test_a_repository_that_nobody_knows_is_not_waited_for(facade: Ci, poller: Poller) -> None:
    stop = Waits(poller)
    with pytest.raises(GithubRefusal, match="octo/none"):
        facade.wait_for(facade.watch(SHA, "octo/none"), stop)
    assert stop.waited == []


def test_waiting_goes_on_while_the_server_is_in_trouble(
    ci: Server, facade: Ci, poller: Poller
) -> None:
    ci.add_run(1)
    ci.misbehave("actions/runs", refuse(429, retry_after="7"), refuse(500), refuse(503))
    reports: list[PollReport] = []
    stop = Waits(poller)
    assert facade.wait_for(facade.watch(SHA, REPO), stop, reports.append) == "success"
    assert stop.waited[0] == 7.0
    assert [bool(report.errors) for report in reports][-1] is False


# ---------------------------------------------------------------------- following


def test_following_looks_again_and_closely_while_somebody_waits(
    ci: Server, facade: Ci, poller: Poller
) -> None:
    ci.add_run(1)
    reports: list[PollReport] = []
    stop = Waits(poller)
    looked_at: list[int] = []

    def tell(report: PollReport) -> None:
        reports.append(report)
        looked_at.append(poller.now)
        if len(reports) == 2:
            ci.add_run(2, head_sha=OTHER, **GOING)
            facade.watch(OTHER, REPO, 200)
        elif len(reports) == 5:
            stop.set()

    facade.follow(stop, tell)
    pauses = [(b - a) // 1000 for a, b in pairwise(looked_at)]
    assert pauses[0] == facade.settings.poll_interval_secs
    assert set(pauses[1:]) == {facade.settings.tight_poll_interval_secs}
    assert all(seconds <= 5 for seconds in stop.waited)  # a commit may be registered any time


def test_following_ends_at_once_even_while_the_server_says_not_now(
    ci: Server, facade: Ci, poller: Poller
) -> None:
    ci.misbehave("actions/runs", *[refuse(429, retry_after="300")] * 20)
    stop = Waits(poller)
    stop.happens = [stop.set]
    facade.follow(stop)
    assert stop.waited[0] == 300.0


# ---------------------------------------------------------------------- telling


def test_a_failure_is_told_until_it_is_acknowledged(ci: Server, facade: Ci) -> None:
    ci.add_failure(1, "F401 x")
    facade.watch(SHA, REPO)
    facade.poll()
    assert [one.failed_jobs for one in facade.pending()] == [("ruff",)]
    assert facade.pending("octo/other", acknowledge=True) == []
    (told,) = facade.pending(REPO, acknowledge=True)
    assert told.sha == SHA
    assert facade.pending() == []
    facade.poll()
    assert facade.pending() == []


def test_what_went_wrong_twice_is_a_lesson(ci: Server, facade: Ci) -> None:
    ci.add_failure(1, "F401 x")
    facade.poll()
    assert facade.store.evidence.lessons() == []
    ci.add_failure(2, "F401 y", head_sha=OTHER)
    facade.poll()
    (lesson,) = facade.store.evidence.lessons(REPO, path="src/app/main.py", tool="ruff")
    assert (lesson.rule_id, lesson.occurrences) == ("F401", 2)
    assert (
        facade.store.evidence.lessons(tool="mypy")
        == facade.store.evidence.lessons("octo/none")
        == []
    )
    facade.poll()
    assert facade.store.evidence.lessons()[0].occurrences == 2


def test_a_store_that_is_only_read_is_not_changed(ci: Server, poller: Poller) -> None:
    ci.add_failure(1, "F401 x")
    with poller.open(read_only=True) as store:
        reader = Ci(store, poller.settings, poller.clean, lambda _: poller.api)
        for attempt in (
            reader.poll,
            lambda: reader.watch(SHA, REPO),
            lambda: reader.pending(acknowledge=True),
        ):
            with pytest.raises(ReadOnly):
                attempt()
        assert (
            reader.store.evidence.runs(),
            reader.pending(),
            reader.watched(),
            reader.store.evidence.lessons(),
        ) == (*([], [], [], []),)
    assert ci.asked == []


def test_the_store_is_closed_with_it(facade: Ci) -> None:
    with facade as inside:
        inside.store.evidence.runs()
    with pytest.raises(Closed):
        facade.store.evidence.runs()
