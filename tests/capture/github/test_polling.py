"""Polling a real server: what is stored, once; what goes wrong, without loss."""

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.capture.github.conftest import TOKEN, Poller
from tests.capture.github.server import (
    REPO,
    SHA,
    Ci,
    Handler,
    annotation_json,
    cut_short,
    hang_up,
    job_json,
    refuse,
    run_json,
    stream,
)
from tests.support.knowledge import NOW, assert_sound
from threadkeep.base.engines import is_url
from threadkeep.base.tx import Sql
from threadkeep.capture.github.client import RETRIES
from threadkeep.capture.github.poll import poll
from threadkeep.errors import ReadOnly
from threadkeep.knowledge.forget import erase
from threadkeep.knowledge.lessons import list_lessons
from threadkeep.knowledge.workflow_runs import TRIES, list_runs, run_details

MINUTE = 60_000
RUN_1 = f"/repos/{REPO}/actions/runs/1"
F401 = "F401 'os' imported but unused"


def test_a_failed_run_is_stored_with_all_it_said(ci: Ci, poller: Poller) -> None:
    ci.token = TOKEN
    ci.add_failure(1, F401, log=b"\xef\xbb\xbfone\nk\xc3\xa4se\n")
    ci.jobs[1].append(job_json(11, name="build", conclusion="success"))
    ci.annotations[11] = [annotation_json("Node 16 is old", annotation_level="warning")]
    report = poller.poll_well()
    assert (report.repos, report.runs, report.detailed, report.lessons) == (1, 1, 1, 0)
    found = poller.read(lambda tx: run_details(tx, 1))
    assert (found.run.repo, found.run.conclusion, found.run.actor) == (REPO, "failure", "octocat")
    assert (found.run.first_seen_at, found.run.last_seen_at) == (NOW, NOW)
    failed, built = found.jobs
    assert (failed.name, failed.runner_name) == ("ruff", "runner-1")
    (said,) = failed.annotations
    assert (said.tool, said.rule_id, said.path, said.start_line) == (
        *("ruff", "F401"),
        *("src/app/main.py", 3),
    )
    assert failed.excerpt.text == "\ufeffone\nkäse\n"
    assert not failed.excerpt.truncated
    assert built.excerpt is None
    assert [a.level for a in built.annotations] == ["warning"]
    queue = "SELECT run_id, status, priority, enqueued_at FROM workflow_enrichment_queue"
    assert poller.rows(queue) == [(1, "pending", 5, NOW)]
    assert poller.health() == (1_799_997_000_000, NOW, 0, None)
    assert [run.id for run in poller.shown] == [1]
    if not is_url(poller.world.place):
        assert_sound(poller.world.database)


def test_a_second_look_changes_nothing_and_costs_one_request(ci: Ci, poller: Poller) -> None:
    ci.add_failure(1, F401)
    ci.add_run(2)
    poller.poll_well()
    before = poller.world.contents()
    ci.asked.clear()
    report = poller.poll_well()
    assert (report.runs, report.detailed, report.requests) == (0, 0, 1)
    assert poller.world.contents() == before
    poller.now += MINUTE
    poller.poll_well()
    assert poller.rows("SELECT DISTINCT last_seen_at FROM workflow_runs") == [(poller.now,)]


def test_a_run_is_detailed_once_though_the_list_changes(ci: Ci, poller: Poller) -> None:
    ci.add_failure(1, F401)
    poller.poll_well()
    ci.add_run(2, status="in_progress", conclusion=None)
    report = poller.poll_well()
    assert (report.runs, report.detailed) == (1, 0)
    assert len(ci.paths("/jobs?")) == 1


def test_a_run_is_detailed_when_it_is_complete(ci: Ci, poller: Poller) -> None:
    run = ci.add_failure(1, F401)
    run |= {"status": "in_progress", "conclusion": None}
    poller.poll_well()
    assert ci.paths("/jobs?") == []
    assert poller.rows("SELECT status, completed_at FROM workflow_runs") == [("in_progress", None)]
    run |= {"status": "completed", "conclusion": "failure"}
    assert poller.poll_well().detailed == 1
    assert poller.rows("SELECT conclusion FROM workflow_runs") == [("failure",)]


def test_a_run_that_is_started_again_is_fetched_again(ci: Ci, poller: Poller) -> None:
    run = ci.add_failure(1, F401)
    poller.poll_well()
    run |= {"run_attempt": 2, "status": "in_progress", "conclusion": None}
    poller.poll_well()
    assert poller.rows("SELECT status FROM workflow_runs") == [("in_progress",)]
    run |= {"status": "completed", "conclusion": "failure", "updated_at": "2027-01-15T07:30:00Z"}
    # One job was run again; the other is listed as it was, with the attempt it had.
    ci.jobs[1].append(job_json(19, run_attempt=2))
    ci.annotations[19] = [annotation_json(F401)]
    report = poller.poll_well()
    assert (report.detailed, report.lessons) == (1, 1)
    (lesson,) = poller.read(list_lessons)
    assert lesson.occurrences == 2
    assert len(poller.rows("SELECT id FROM workflow_jobs")) == 2
    assert len(poller.rows("SELECT run_id FROM workflow_enrichment_queue")) == 1


def test_an_answer_that_is_older_than_the_store_is_passed_over(ci: Ci, poller: Poller) -> None:
    run = ci.add_failure(1, F401)
    poller.poll_well()
    run |= {"status": "in_progress", "conclusion": None}
    assert poller.poll_well().runs == 0
    assert poller.rows("SELECT status, conclusion FROM workflow_runs") == [("completed", "failure")]


# ---------------------------------------------------------------------- pages


def test_the_first_look_takes_twenty_runs(ci: Ci, poller: Poller) -> None:
    ci.runs[REPO] = [run_json(number) for number in range(50, 0, -1)]
    assert poller.poll_well().runs == 20
    assert len(ci.paths("actions/runs?")) == 1


def test_later_looks_go_back_to_what_is_known(ci: Ci, poller: Poller) -> None:
    ci.add_run(1)
    poller.poll_well()
    for number in range(2, 60):
        ci.add_run(number)
    assert poller.poll_well().runs == 58
    ids = [row[0] for row in poller.rows("SELECT id FROM workflow_runs ORDER BY id")]
    assert ids == list(range(1, 60))


def test_many_jobs_and_annotations_come_in_pages(ci: Ci, poller: Poller) -> None:
    ci.add_run(1, conclusion="failure")
    ci.jobs[1] = [job_json(number, conclusion="skipped") for number in range(1000, 1249)]
    ci.jobs[1].append(job_json(9))
    ci.annotations[9] = [annotation_json(f"{F401} {n}") for n in range(130)]
    ci.logs[9] = b""
    poller.poll_well()
    assert poller.rows("SELECT count(*) FROM workflow_jobs") == [(250,)]
    assert poller.rows("SELECT count(*) FROM workflow_annotations") == [(130,)]
    assert len(ci.paths("/jobs?")) == 3
    assert len(ci.paths("/annotations?")) == 2


def test_a_run_that_left_the_list_unfinished_is_asked_for(ci: Ci, poller: Poller) -> None:
    slow = ci.add_failure(1, F401)
    slow |= {"status": "in_progress", "conclusion": None}
    poller.poll_well()
    assert poller.poll_well().requests == 1
    for number in range(2, 40):
        ci.add_run(number)
    poller.poll_well()
    for _ in range(2):
        assert (poller.poll_well().requests, ci.asked[-1].path) == (2, RUN_1)
    assert all("if-none-match" in one.headers for one in ci.asked[-2:])
    slow |= {"status": "completed", "conclusion": "failure"}
    assert poller.poll_well().detailed == 1
    ci.asked.clear()
    assert poller.poll_well().requests == 1


def test_an_unfinished_run_that_was_deleted_is_asked_for_less_and_less(
    ci: Ci, poller: Poller
) -> None:
    ci.add_run(1, status="queued", conclusion=None)
    poller.poll_well()
    ci.runs[REPO].clear()
    for _ in range(50):
        poller.poll_well()
        poller.now += 10 * MINUTE
    assert len(ci.paths("/actions/runs/1")) == TRIES
    assert [run.id for run in poller.read(list_runs)] == [1]


# ---------------------------------------------------------------------- logs


def test_the_end_of_a_long_log_is_kept(ci: Ci, poller: Poller) -> None:
    ci.add_failure(1, log=b"x" * 79 + b"\n" + b"line\n" * 100_000)
    poller.poll_well()
    ((text, truncated),) = poller.rows("SELECT excerpt, truncated FROM workflow_log_excerpts")
    assert truncated == 1
    assert len(text) == poller.settings.log_excerpt_max_bytes
    assert text.endswith("line\nline\n")


def test_a_log_of_many_megabytes_is_no_burden(ci: Ci, poller: Poller) -> None:
    ci.add_failure(1)
    ci.misbehave("/10?sig", stream(b"a line of the log\n" * 4096, 256))
    poller.poll_well()
    ((size,),) = poller.rows("SELECT length(excerpt) FROM workflow_log_excerpts")
    assert size == poller.settings.log_excerpt_max_bytes


def test_a_log_that_breaks_off_is_fetched_again(ci: Ci, poller: Poller) -> None:
    ci.add_failure(1, log=b"all of it\n")
    ci.misbehave("/10?sig", cut_short(b"all", 10), cut_short(b"", 10), hang_up)
    poller.poll_well()
    assert poller.rows("SELECT excerpt FROM workflow_log_excerpts") == [("all of it\n",)]
    assert poller.slept == [1, 2, 4]


@pytest.mark.parametrize("status", [404, 410])
def test_a_deleted_job_has_no_log_and_the_rest_is_stored(
    ci: Ci, poller: Poller, status: int
) -> None:
    ci.add_failure(1, F401)
    ci.misbehave("/logs", refuse(status))
    assert poller.poll_well().detailed == 1
    assert poller.rows("SELECT count(*) FROM workflow_log_excerpts") == [(0,)]
    assert poller.rows("SELECT count(*) FROM workflow_annotations") == [(1,)]


@pytest.mark.parametrize("part", ["/logs", "/annotations?", "/jobs?"])
def test_what_cannot_be_had_is_asked_for_again_and_counted_once(
    ci: Ci, poller: Poller, part: str
) -> None:
    poller.settings = type(poller.settings)(watched_repos=(REPO,), lesson_min_occurrences=1)
    ci.add_failure(1, F401)
    ci.misbehave(part, *[refuse(500)] * (RETRIES + 1))
    report = poller.poll()
    assert [trouble.repo for trouble in report.errors] == [REPO]
    assert "HTTP 500" in report.errors[0].message
    assert (report.runs, report.detailed) == (1, 0)
    assert poller.health()[2] == 1
    ci.add_run(2)
    asked = len(ci.paths("/runs/1/jobs"))
    assert poller.poll_well().runs == 1
    assert len(ci.paths("/runs/1/jobs")) == asked  # not yet
    poller.now += MINUTE
    report = poller.poll_well()
    assert (report.detailed, report.lessons) == (1, 1)
    assert poller.rows("SELECT count(*) FROM workflow_log_excerpts") == [(1,)]
    assert poller.rows("SELECT occurrences FROM lessons") == [(1,)]
    assert poller.health()[2] == 0


def test_what_can_never_be_had_is_given_up(ci: Ci, poller: Poller) -> None:
    ci.add_failure(1, F401)
    ci.misbehave("/logs", *[refuse(403)] * 50)
    for _ in range(50):
        poller.poll()
        poller.now += 10 * MINUTE
    assert len(ci.paths("/logs")) == TRIES
    assert poller.rows("SELECT detailed FROM tk_ci_runs") == [(1,)]
    assert poller.rows("SELECT count(*) FROM workflow_enrichment_queue") == [(1,)]


# ---------------------------------------------------------------------- secrets and odd things


def test_no_secret_and_no_token_is_stored(ci: Ci, poller: Poller) -> None:
    secret = "ghp_" + "a1B2c3D4" * 4 + "e5F6"
    log = f"export TOKEN={secret}\n".encode() * 5000
    ci.add_failure(1, f"{F401} {secret}", log=log, display_title=secret, head_branch=secret)
    ci.misbehave("octo/gone", refuse(404, json.dumps({"message": TOKEN + secret}).encode()))
    poller.settings = type(poller.settings)(watched_repos=(REPO, "octo/gone"))
    report = poller.poll()
    assert len(report.errors) == 1
    held = repr(poller.world.contents()) + repr(report)
    assert secret not in held
    assert TOKEN not in held
    assert "[REDACTED]" in held


def test_unicode_comes_through(ci: Ci, poller: Poller) -> None:
    ci.add_failure(1, "F401 🦉 \ud83d", log="päng 🦉\n".encode() + b"\xff", head_branch="fix/ü")
    poller.poll_well()
    (row,) = poller.read(list_runs)
    assert row.head_branch == "fix/ü"
    assert poller.rows("SELECT message FROM workflow_annotations") == [("F401 🦉 \ufffd",)]
    assert poller.rows("SELECT excerpt FROM workflow_log_excerpts") == [("päng 🦉\n\ufffd",)]


def test_what_is_no_run_is_passed_over(ci: Ci, poller: Poller) -> None:
    odd: list[Any] = [None, 5, {}, {"id": "x"}, {"id": 3}, {"id": 1 << 80, "head_sha": SHA}]
    ci.misbehave("/actions/runs?", lambda handler: handler.say(200, {"workflow_runs": odd}))
    assert poller.poll_well().runs == 0
    ci.runs[REPO] = [run_json(9, actor=None, head_branch=None, run_started_at=5, html_url=None)]
    assert poller.poll_well().runs == 1


def test_a_run_that_was_forgotten_does_not_come_back(ci: Ci, poller: Poller) -> None:
    run = ci.add_failure(1, F401)
    poller.poll_well()
    poller.do(lambda tx: erase(tx, "run", [1]))
    ci.add_run(2)
    poller.poll_well()
    run |= {"run_attempt": 2}
    poller.poll_well()
    assert [run.id for run in poller.read(list_runs)] == [2]
    assert poller.rows("SELECT count(*) FROM workflow_jobs") == [(0,)]


def test_a_run_that_hippo_has_learnt_from_is_not_counted_again(ci: Ci, poller: Poller) -> None:
    ci.add_failure(1, F401)
    poller.poll_well()
    poller.do(lambda tx: tx.run(Sql("DELETE FROM tk_ci_runs")))
    poller.do(lambda tx: tx.run(Sql("DELETE FROM tk_ci_answers")))
    poller.do(lambda tx: tx.run(Sql("UPDATE workflow_runs SET enriched = 1")))
    assert poller.poll_well().detailed == 0
    assert len(ci.paths("/jobs?")) == 1


# ---------------------------------------------------------------------- trouble


def test_an_error_in_one_repository_does_not_stop_the_others(ci: Ci, poller: Poller) -> None:
    ci.add_run(1)
    repos = ("octo/none", "no name", REPO)
    poller.settings = type(poller.settings)(watched_repos=repos)
    report = poller.poll()
    assert [trouble.repo for trouble in report.errors] == ["octo/none", "no name"]
    assert report.runs == 1
    last_event, success, failures, message = poller.health()
    assert (last_event, success, failures) == (1_799_997_000_000, NOW, 1)
    assert message.startswith("octo/none: GET 127.0.0.1/repos/octo/none/actions/runs: HTTP 404")


def test_a_limit_in_the_middle_leaves_the_rest_for_the_next_look(ci: Ci, poller: Poller) -> None:
    for number in (1, 2, 3):
        ci.add_failure(number, F401)
    ci.misbehave("/runs/2/jobs", *[refuse(429, Retry_After="5")] * (RETRIES + 1))
    report = poller.poll()
    assert len(report.errors) == 1
    assert [run.id for run in poller.shown] == [1]
    assert poller.poll_well().detailed == 2
    assert poller.rows("SELECT occurrences FROM lessons") == [(3,)]


class Crash(BaseException):
    """The process dies here."""


@pytest.mark.parametrize("at", range(1, 6))
def test_a_crash_between_runs_loses_and_doubles_nothing(ci: Ci, poller: Poller, at: int) -> None:
    for number in range(1, 6):
        ci.add_failure(number, F401)
    left = iter(range(at))
    keep_showing = poller.shown.append

    def crash(run: Any) -> None:
        keep_showing(run)
        if next(left, None) == at - 1:
            raise Crash

    with pytest.raises(Crash):
        poll(poller.api, poller.store, poller.settings, poller.clean, poller.clock, crash)
    assert poller.poll_well().detailed == 5 - at
    assert poller.rows("SELECT occurrences FROM lessons") == [(5,)]
    assert [run.id for run in poller.shown] == [1, 2, 3, 4, 5]


def test_a_crash_on_the_way_back_to_what_is_known_loses_nothing(ci: Ci, poller: Poller) -> None:
    ci.add_run(1)
    poller.poll_well()
    for number in range(2, 60):
        ci.add_run(number)
    left = iter(range(7))

    def crash(_: Any) -> None:
        if next(left, None) is None:
            raise Crash

    store, settings = poller.store, poller.settings
    with pytest.raises(Crash):
        poll(poller.api, store, settings, poller.clean, poller.clock, crash)
    poller.poll_well()
    assert poller.rows("SELECT count(*) FROM workflow_runs WHERE id < 60") == [(59,)]


def test_a_crash_while_a_run_is_fetched_leaves_nothing_half(ci: Ci, poller: Poller) -> None:
    ci.add_failure(1, F401)
    good = poller.clean

    def crash(text: str) -> str:
        if text == "boom\n":
            raise Crash
        return good(text)

    poller.clean = crash
    with pytest.raises(Crash):
        poller.poll()
    assert poller.rows("SELECT count(*) FROM workflow_runs") == [(0,)]
    poller.clean = good
    assert poller.poll_well().detailed == 1


def test_two_pollers_at_once_count_a_failure_once(ci: Ci, poller: Poller) -> None:
    for number in range(1, 6):
        ci.add_failure(number, F401)
    barrier = threading.Barrier(2)

    def together(number: str) -> Callable[[Handler], None]:
        """Both have asked for this before one of them is answered, so both fetch the run."""

        def fault(handler: Handler) -> None:
            barrier.wait(60)
            handler._jobs({"per_page": "100"}, number)

        return fault

    for number in range(1, 6):
        ci.misbehave(f"/runs/{number}/jobs", *[together(str(number))] * 2)
    detailed: list[int] = []

    def look() -> None:
        with poller.open() as store:
            world = (store, poller.settings, poller.clean, poller.clock)
            report = poll(poller.new_api(), *world)
            assert report.errors == []
            detailed.append(report.detailed)

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(detailed) == 5
    assert len(ci.paths("/jobs?")) == 10
    assert poller.rows("SELECT occurrences FROM lessons") == [(5,)]
    assert poller.rows("SELECT count(*) FROM workflow_annotations") == [(5,)]


def test_a_store_that_may_not_be_written_is_not_polled_into(ci: Ci, poller: Poller) -> None:
    with (
        poller.open(read_only=True) as store,
        pytest.raises(ReadOnly, match="read-only"),
    ):
        poll(poller.api, store, poller.settings, poller.clean, poller.clock)
    assert ci.asked == []
