"""github and lessons: asked over HTTP, followed, told of; and the names that Hippo has for them."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.capture.github.server import REPO, SHA, Ci, listening
from tests.cli.conftest import HOSTILE, Run, Start, document

OTHER = "b" * 40
RULE = "src/app/main.py:3:1: F401 unused import"


@pytest.fixture
def ci() -> Iterator[Ci]:
    world = Ci()
    with listening(world, is_blobs=True) as blobs:
        world.blobs = blobs
        yield world


@pytest.fixture(autouse=True)
def server(ci: Ci, home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Let the home ask a server on this machine; no test asks another."""
    monkeypatch.setenv("THREADKEEP_GITHUB_TOKEN", "toktoktok-0123456789")
    monkeypatch.chdir(tmp_path)
    with listening(ci) as url:
        home.mkdir()
        settings = f'[github]\napi_url = "{url}"\nwatched_repos = ["{REPO}"]\n'
        (home / "config.toml").write_text(settings + "tight_poll_interval_secs = 1\n")
        yield


def checkout(folder: Path, sha: str = SHA, origin: str = f"https://github.example/{REPO}") -> None:
    git = folder / ".git"
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "refs" / "heads" / "main").write_text(f"{sha}\n")
    (git / "config").write_text(f'[remote "origin"]\n\turl = {origin}.git\n')


# ---------------------------------------------------------------------- poll, runs, lessons


def test_runs_are_brought_in_and_shown(run: Run, ci: Ci) -> None:
    ci.add_failure(7, RULE, log=b"the log\nboom\n")
    first = run("github", "poll")
    assert first.stdout == f"{REPO}\t7\tfailure\tmain\t{SHA[:7]}\n"
    assert "1 repository, 1 run new or changed" in first.stderr
    assert document(run("github", "poll", "--json"))["poll"]["runs"] == 0
    (line,) = run("github", "runs").stdout.splitlines()
    assert line.split("\t")[2:4] == ["failure", REPO]
    shown = run("github", "runs", "7").stdout
    assert "ruff: failure" in shown
    assert f"failure: src/app/main.py:3: {RULE}" in shown
    assert "boom" in shown
    (job,) = document(run("github", "runs", "7", "--json"))["jobs"]
    assert job["annotations"][0]["rule_id"] == "F401"


def test_a_terminal_shows_the_end_of_a_log_where_the_error_is(
    run: Run, ci: Ci, monkeypatch: pytest.MonkeyPatch
) -> None:
    ci.add_failure(7, log=b"fetching\n" + b"quiet work\n" * 500 + b"boom\n")
    run("github", "poll")
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = run("github", "runs", "7").stdout
    assert "boom" in shown
    assert "before this (--full shows all)" in shown
    assert "fetching" not in shown
    assert "fetching" in run("github", "runs", "7", "--full").stdout


def test_all_runs_can_be_asked_for_and_none_is_told_as_it_is(run: Run, ci: Ci) -> None:
    ci.add_run(7)
    ci.add_run(8)
    run("github", "poll")
    assert len(run("github", "runs", "--limit", "-1").stdout.splitlines()) == 2
    assert "No runs match" in run("github", "runs", "--project", "octo/other").stderr
    assert "No lessons match" in run("lessons", "--tool", "ruff").stderr


def test_the_same_trouble_is_told_once(run: Run, ci: Ci) -> None:
    run("github", "watch", OTHER, "--repo", REPO)
    ci.token = "another"
    told = run("github", "poll", code=1).stderr
    assert told.count("warning") == 1
    assert "check the token" in told


def test_a_server_that_fails_is_a_problem(run: Run, ci: Ci) -> None:
    told = run("gh-poll", "--repo", "octo/nothing", code=1).stderr
    assert "octo/nothing" in told
    assert "toktoktok" not in told


def test_without_a_repository_it_says_how_to_name_one(run: Run, home: Path) -> None:
    (home / "config.toml").unlink()
    assert "--project owner/name" in run("github", "poll", code=2).stderr


def test_what_is_not_known_is_told_gently(run: Run, home: Path) -> None:
    assert "github poll" in run("github", "runs").stderr
    assert "there is no run" in run("github", "runs", "1", code=3).stderr
    assert document(run("lessons", "--json"))["lessons"] == []
    assert "No failure is known" in run("lessons").stderr
    assert not (home / "knowledge.db").exists()  # looking begins nothing


def test_failures_that_come_back_are_lessons(run: Run, ci: Ci) -> None:
    ci.add_failure(1, RULE)
    ci.add_failure(2, RULE)
    run("github", "poll")
    (lesson,) = document(run("lessons", "--json"))["lessons"]
    assert (lesson["tool"], lesson["rule_id"], lesson["occurrences"]) == ("ruff", "F401", 2)
    row = run("lessons", "--project", REPO, "--tool", "ruff", "--path", "src/app/main.py").stdout
    assert row.startswith("2 times  ruff:F401 in src/app/")
    assert run("lessons", "--tool", "mypy").stdout == ""


# ---------------------------------------------------------------------- watch, pending


def test_a_failure_is_told_once(run: Run, ci: Ci) -> None:
    ci.add_failure(7, RULE)
    assert run("github", "pending").stdout == ""
    run("send-event", "watchlist", "--sha", SHA, "--repo", REPO)
    run("github", "poll")
    shown = run("github", "pending", "--repo", REPO).stdout.splitlines()
    assert shown[0] == f"CI failure: {REPO} at {SHA[:7]} on main"
    assert shown[1].startswith("  run 7: failure https://")
    assert shown[2] == "  failed jobs: ruff"
    assert run("github", "pending", "--repo", "octo/other").stdout == ""
    (one,) = document(run("gh-pending-notifications", "--repo", REPO, "--ack", "--json"))["pending"]
    assert (one["sha"], one["failed_jobs"]) == (SHA, ["ruff"])
    again = run("gh-pending-notifications", "--repo", REPO, "--ack")
    assert (again.stdout, again.stderr) == ("", "")
    assert document(run("github", "pending", "--json"))["pending"] == []


def test_hostile_names_never_reach_the_terminal(run: Run, ci: Ci) -> None:
    ci.add_failure(7, HOSTILE, log=HOSTILE.encode(), head_branch=HOSTILE)
    ci.jobs[7][0]["name"] = HOSTILE
    run("github", "watch", SHA, "--repo", REPO)
    for words in (["poll"], ["runs"], ["runs", "7"], ["pending"], ["pending", "--json"]):
        shown = run("github", *words).stdout
        assert not set(shown) & {"\x1b", "\x07", "\u202e"}


def test_the_folder_tells_the_commit_and_the_repository(run: Run, tmp_path: Path) -> None:
    checkout(tmp_path)
    for words in ([], [SHA[:7]]):
        one = document(run("github", "watch", *words, "--ttl", "60", "--json"))["watch"]
        assert (one["sha"], one["repo"]) == (SHA, REPO)
        assert one["expires_at"] - one["created_at"] == 60_000
    assert f"{REPO} at {OTHER[:7]}" in run("github", "watch", OTHER).stderr


@pytest.mark.parametrize(
    "words, said",
    [
        ([], "no commit checked out"),
        ([SHA], "--project owner/name"),
        (["abcxyz1", "--repo", REPO], "not a commit"),
        ([SHA, "--repo", "nonsense"], "not a repository"),
    ],
)
def test_what_cannot_be_waited_for_is_refused(words: list[str], said: str, run: Run) -> None:
    assert said in run("github", "watch", *words, code=2).stderr


@pytest.mark.parametrize("conclusion, code", [("success", 0), ("failure", 1), ("cancelled", 1)])
def test_waiting_ends_as_the_runs_do(conclusion: str, code: int, run: Run, ci: Ci) -> None:
    ci.add_run(7, conclusion=conclusion)
    words = ("github", "watch", SHA, "--repo", REPO, "--wait")
    assert document(run(*words, "--json", code=code))["outcome"] == conclusion


def test_waiting_that_is_over_before_the_runs_says_so(run: Run, ci: Ci) -> None:
    ci.add_run(7, status="in_progress", conclusion=None)
    words = ("github", "watch", SHA, "--repo", REPO, "--wait", "--ttl", "1")
    assert "--ttl" in run(*words, code=4).stderr


def test_waiting_can_be_interrupted(start: Start, run: Run, ci: Ci) -> None:
    ci.add_run(7, status="in_progress", conclusion=None)
    process = start("github", "watch", SHA, "--repo", REPO, "--wait", PYTHONUNBUFFERED="1")
    assert process.stderr is not None
    assert b"following CI" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    ci.runs[REPO][0] |= {"status": "completed", "conclusion": "failure"}
    run("github", "poll")  # it is still watched
    pending = json.loads(run("github", "pending", "--json").stdout)["pending"]
    assert [one["status"] for one in pending] == ["failure"]
