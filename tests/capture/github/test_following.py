"""Watched commits: what decides them, how closely they are followed, who is told."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.capture.github.conftest import Poller
from tests.capture.github.server import REPO, SHA, Ci, refuse
from tests.support.knowledge import NOW
from threadkeep.base.config import GithubSettings
from threadkeep.capture.github import poll as following
from threadkeep.capture.github.client import RETRIES, ask_gh, find_token
from threadkeep.capture.github.poll import next_wait, poll
from threadkeep.errors import Busy
from threadkeep.knowledge.workflow_runs import FAILED, WatchedCommit, ack, pending, verdict, watched

OTHER = "b" * 40
GOING: dict[str, Any] = {"status": "in_progress", "conclusion": None}
DONE = {"status": "completed", "conclusion": "success"}


def told(poller: Poller, repo: str | None = None) -> list[Any]:
    found: list[Any] = poller.read(lambda tx: pending(tx, repo, poller.now))
    return found


def watches(poller: Poller) -> list[tuple[Any, ...]]:
    return poller.rows("SELECT sha, terminal_status, notified FROM sha_watchlist ORDER BY sha")


def test_a_commit_that_fails_is_told_of_once(ci: Ci, poller: Poller) -> None:
    poller.watch(SHA)
    ci.add_failure(1, "F401 unused")
    poller.poll_well()
    (found,) = told(poller)
    assert (found.sha, found.repo, found.status) == (SHA, REPO, "failure")
    assert ([run.id for run in found.runs], found.failed_jobs) == ([1], ("ruff",))
    assert told(poller, "octo/other") == []
    poller.do(lambda tx: ack(tx, [found]))
    assert told(poller, REPO) == []
    poller.poll_well()
    assert told(poller) == []
    assert watches(poller) == [(SHA, "failure", 1)]
    poller.now += 1_200_000
    poller.poll_well()
    assert watches(poller) == []


def test_a_commit_that_passes_is_watched_no_more(ci: Ci, poller: Poller) -> None:
    poller.watch(SHA)
    ci.add_run(1)
    poller.poll_well()
    assert watches(poller) == []


def test_a_commit_may_be_named_by_the_beginning_of_its_id(ci: Ci, poller: Poller) -> None:
    poller.watch(SHA[:7])
    run = ci.add_run(1, **GOING)
    poller.poll_well()
    assert watches(poller) == [(SHA[:7], None, 0)]
    run |= {"status": "completed", "conclusion": "failure"}
    poller.poll_well()
    assert [(one.sha, [r.id for r in one.runs]) for one in told(poller)] == [(SHA[:7], [1])]


@pytest.mark.parametrize("conclusion", sorted(FAILED))
def test_whatever_did_not_pass_is_told_of_as_a_failure(
    ci: Ci, poller: Poller, conclusion: str
) -> None:
    poller.watch(SHA)
    ci.add_run(1, conclusion=conclusion)
    poller.poll_well()
    assert [one.status for one in told(poller)] == ["failure"]


def test_the_first_run_that_passes_does_not_hide_the_second(ci: Ci, poller: Poller) -> None:
    poller.watch(SHA)
    ci.add_run(1)
    second = ci.add_run(2, **GOING)
    poller.poll_well()
    assert watches(poller) == [(SHA, None, 0)]
    second |= {"status": "completed", "conclusion": "cancelled"}
    poller.poll_well()
    assert [one.status for one in told(poller)] == ["cancelled"]


def test_a_failure_is_told_of_while_other_runs_go_on(ci: Ci, poller: Poller) -> None:
    poller.watch(SHA)
    ci.add_failure(1)
    going = ci.add_run(2, **GOING)
    poller.poll_well()
    assert len(told(poller)) == 1
    assert [one.is_open for one in poller.read(lambda tx: watched(tx, poller.now))] == [True]
    going |= DONE
    poller.poll_well()
    assert [one.is_open for one in poller.read(lambda tx: watched(tx, poller.now))] == [False]


def test_a_run_that_is_started_again_and_fails_again_is_told_of_again(
    ci: Ci, poller: Poller
) -> None:
    poller.watch(SHA)
    run = ci.add_failure(1)
    poller.poll_well()
    poller.do(lambda tx: ack(tx, told(poller)))
    run |= {"run_attempt": 2, **GOING}
    poller.poll_well()
    assert watches(poller) == [(SHA, None, 0)]
    run |= {"status": "completed", "conclusion": "failure"}
    poller.poll_well()
    assert len(told(poller)) == 1
    poller.do(lambda tx: ack(tx, told(poller)))
    run |= {"run_attempt": 3}  # and it failed before anybody looked
    poller.poll_well()
    assert len(told(poller)) == 1


def test_a_commit_is_not_settled_by_half_of_its_runs(ci: Ci, poller: Poller) -> None:
    poller.settings = GithubSettings()
    poller.watch(SHA)
    ci.add_run(1)
    ci.add_failure(2)
    ci.misbehave("/runs/2/jobs", *[refuse(429, Retry_After="1")] * (RETRIES + 1))
    assert len(poller.poll().errors) == 1
    assert watches(poller) == [(SHA, None, 0)]
    poller.poll_well()
    assert watches(poller) == [(SHA, "failure", 0)]


def test_nobody_is_told_after_the_time_is_over(ci: Ci, poller: Poller) -> None:
    poller.watch(SHA, ttl=60)
    ci.add_failure(1)
    poller.poll_well()
    poller.now += 60_000
    assert told(poller) == []


def test_a_commit_of_old_runs_is_found_by_its_name(ci: Ci, poller: Poller) -> None:
    ci.add_failure(1, head_sha=OTHER)
    for number in range(2, 60):
        ci.add_run(number)
    poller.settings = GithubSettings()
    poller.watch(OTHER)
    assert poller.poll_well().detailed == 1
    assert ci.paths("head_sha=") == [f"/repos/{REPO}/actions/runs?head_sha={OTHER}&per_page=100"]
    assert [one.sha for one in told(poller)] == [OTHER]


def test_a_commit_that_is_registered_after_its_runs_were_seen(ci: Ci, poller: Poller) -> None:
    ci.add_failure(1)
    poller.poll_well()
    poller.watch(SHA)
    poller.poll_well()
    assert [one.sha for one in told(poller)] == [SHA]


def test_a_repository_is_the_same_in_large_letters(ci: Ci, poller: Poller) -> None:
    ci.runs["Octo/APP"] = ci.runs[REPO]
    run = ci.add_failure(1)
    poller.poll_well()
    poller.watch(SHA, repo="Octo/APP")
    poller.poll_well()
    assert [one.failed_jobs for one in told(poller, REPO)] == [("ruff",)]
    poller.do(lambda tx: ack(tx, told(poller)))
    run |= {"run_attempt": 2}
    poller.poll_well()
    assert len(told(poller)) == 1


def test_a_commit_of_a_repository_that_is_none_harms_nobody(ci: Ci, poller: Poller) -> None:
    poller.watch(SHA, repo="../../user")
    ci.add_run(1)
    report = poller.poll()
    assert (len(report.errors), report.runs) == (1, 1)


def test_registering_again_lengthens_the_time(poller: Poller) -> None:
    poller.watch(SHA, ttl=100)
    poller.watch(SHA, ttl=50)
    poller.now += 1000
    poller.watch(SHA, ttl=200)
    rows = poller.rows("SELECT created_at, expires_at FROM sha_watchlist")
    assert rows == [(NOW, NOW + 201_000)]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["completed", "in_progress"]),
            st.sampled_from([None, "success", "skipped", "cancelled", *sorted(FAILED)]),
        )
    )
)
def test_all_runs_of_a_commit_decide(runs: list[tuple[str, str | None]]) -> None:
    said = verdict(runs)
    ended = [conclusion for status, conclusion in runs if status == "completed"]
    assert (said == "failure") == any(conclusion in FAILED for conclusion in ended)
    assert said != "" or (ended and len(ended) == len(runs) and "cancelled" not in ended)
    assert said is not None or len(ended) < len(runs) or not runs


# ---------------------------------------------------------------------- how often


def test_the_interval() -> None:
    settings = GithubSettings()
    waiting = WatchedCommit(SHA, REPO, NOW, NOW + 1000)
    settled = WatchedCommit(SHA, REPO, NOW, NOW + 1000, "failure", is_open=False)
    assert next_wait(settings, [], NOW) == 300
    assert next_wait(settings, [settled], NOW) == 300
    assert next_wait(settings, [settled, waiting], NOW) == 45
    assert next_wait(settings, [waiting], NOW + 1000) == 300
    assert next_wait(GithubSettings(poll_interval_secs=10), [waiting], NOW) == 10


class Day:
    """Lets time pass while the poller waits, and things happen at their minute."""

    def __init__(self, poller: Poller, seconds: int) -> None:
        self.poller = poller
        self.end = poller.now + seconds * 1000
        self.plan: dict[int, Any] = {}
        self.looks: list[int] = []

    def at(self, second: int, step: Any) -> None:
        self.plan[NOW + second * 1000] = step

    def wait(self, seconds: float) -> None:
        assert 0 < seconds <= 5
        self.poller.now += int(seconds * 1000)
        for at in [at for at in self.plan if at <= self.poller.now]:
            self.plan.pop(at)()

    def stop(self) -> bool:
        return self.poller.now >= self.end

    def run(self) -> list[int]:
        """Return the seconds at which the server was asked for the newest runs."""
        asked = self.poller.ci.asked
        reports = 0

        def stop() -> bool:
            nonlocal reports
            if len(asked) > reports:
                reports = len(asked)
                self.looks.append((self.poller.now - NOW) // 1000)
            return self.stop()

        self.poller.follow(stop, self.wait)
        return self.looks


def test_a_commit_that_comes_in_between_is_followed_closely_until_it_is_done(
    ci: Ci, poller: Poller
) -> None:
    first = ci.add_run(1, head_sha=OTHER, **GOING)
    second = ci.add_run(2, head_sha=OTHER, **GOING)
    day = Day(poller, 1000)
    day.at(100, lambda: poller.watch(OTHER))
    day.at(150, lambda: first.update(DONE))
    day.at(240, lambda: second.update(DONE))
    assert day.run() == [0, 100, 145, 190, 235, 280, 580, 880]


def test_a_commit_without_runs_is_followed_until_its_time_is_over(ci: Ci, poller: Poller) -> None:
    poller.watch(OTHER, ttl=100)
    assert Day(poller, 700).run() == [0, 45, 90, 390, 690]


def test_a_clock_that_is_set_back_does_not_stop_the_looks(ci: Ci, poller: Poller) -> None:
    day = Day(poller, 400)
    day.at(100, lambda: setattr(poller, "now", NOW - 10_000_000))
    waits = 0

    def stop() -> bool:
        return len(ci.asked) >= 2

    def wait(seconds: float) -> None:
        nonlocal waits
        waits += 1
        assert waits < 100
        day.wait(seconds)

    poller.follow(stop, wait)
    assert poller.now < NOW


def test_errors_and_a_busy_store_do_not_end_the_following(
    ci: Ci, poller: Poller, monkeypatch: pytest.MonkeyPatch
) -> None:
    ci.misbehave("/runs", refuse(401))
    calls = iter(range(9))

    def poll_or_wait(*given: Any) -> Any:
        if next(calls) == 1:
            raise Busy("the file is locked")
        return poll(*given)

    monkeypatch.setattr(following, "poll", poll_or_wait)
    day = Day(poller, 700)
    reports = poller.follow(day.stop, day.wait)
    assert [len(report.errors) for report in reports] == [1, 1, 0]
    assert "locked" in reports[1].errors[0].message


# ---------------------------------------------------------------------- the token


def test_the_token_comes_from_the_first_place_that_has_one() -> None:
    url = "https://api.github.com"
    asked: list[str] = []

    def ask(host: str) -> str:
        asked.append(host)
        return "from-gh"

    env = {"MINE": " a ", "HIPPO_GITHUB_TOKEN": "b", "GITHUB_TOKEN": "c", "GH_TOKEN": "d"}
    for name, token in (("MINE", "a"), *zip(list(env)[1:], "bcd", strict=True)):
        assert find_token("MINE", url, env, ask) == token
        env[name] = ""
    assert asked == []
    assert find_token("MINE", url, env, ask) == "from-gh"
    assert find_token("MINE", "https://ghe.example:8443/api/v3", {}, ask) == "from-gh"
    assert asked == ["github.com", "ghe.example"]


@pytest.mark.parametrize(
    "script, token",
    [
        ('echo "tok-$3-$4"', "tok---hostname-h.example"),
        ("exit 1", None),
        ("echo no token; exit 4", None),
        ("true", None),
        (None, None),
    ],
)
def test_gh_is_asked(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, script: str | None, token: str | None
) -> None:
    if script is not None:
        (tmp_path / "gh").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "gh").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ask_gh("h.example") == token
