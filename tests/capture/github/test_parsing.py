"""From the API's JSON to records: meaning, odd fields, secrets, the ends of logs."""

import json
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from tests.capture.github.server import annotation_json, job_json, run_json
from threadkeep.capture.github.http import (
    LONGEST_WAIT,
    GithubBadAnswer,
    back_off,
    next_page,
    repo_path,
    wait_after,
)
from threadkeep.capture.github.runs import (
    MARGIN,
    Blame,
    check_run,
    cut_excerpt,
    find_blame,
    lesson_key,
    path_prefix,
    read_annotations,
    read_jobs,
    read_run,
    read_runs,
    rows_of,
)
from threadkeep.capture.redact.engine import Redactor
from threadkeep.errors import Invalid
from threadkeep.knowledge.workflow_runs import Annotation

SECRET = "ghp_" + "a1B2c3D4" * 4 + "e5F6"
CLEAN = Redactor.default().text


def same(text: str) -> str:
    return text


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@pytest.mark.parametrize(
    "job, message, blame",
    [
        ("build", "error[E0308]: mismatched types", Blame("cargo", "E0308")),
        ("ruff", "error[E0308]: F401 unused", Blame("cargo", "E0308")),
        ("Lint (3.11)", "F401 'os' imported but unused", Blame("ruff", "F401")),
        ("build", "F401 'os' imported but unused", Blame()),
        ("lint", "no rule here, ABCDE123", Blame()),
        ("mypy", "incompatible type  [arg-type]\n", Blame("mypy", "arg-type")),
        (
            "typecheck",
            "Cannot find it [reportMissingImports]",
            Blame("mypy", "reportMissingImports"),
        ),
        (
            "pyright",
            "Cannot find it [reportMissingImports]",
            Blame("pyright", "reportMissingImports"),
        ),
        ("types", "closed [stderr]", Blame()),
        ("types", "[arg-type] is not at the end", Blame()),
        ("pytest 3.12", "FAILED tests/test_a.py::test_b", Blame("pytest")),
        ("unit tests", "AssertionError: 1 != 2", Blame("pytest")),
        ("unit tests", "it failed", Blame()),
        ("lint and test", "AssertionError E501", Blame("ruff", "E501")),
    ],
)
def test_the_tool_and_the_rule(job: str, message: str, blame: Blame) -> None:
    assert find_blame(job, message) == blame


@given(st.text(), st.text())
def test_blame_is_found_in_the_message_or_not_at_all(job: str, message: str) -> None:
    blame = find_blame(job, message)
    assert blame.tool in {None, "cargo", "ruff", "mypy", "pyright", "pytest"}
    assert blame.rule_id is None or blame.rule_id in message
    assert blame.rule_id is None or blame.tool is not None


@pytest.mark.parametrize(
    "path, prefix",
    [
        (None, ""),
        ("", ""),
        ("setup.py", "setup.py"),
        ("src/a.py", "src/a.py/"),
        ("src/app/main.py", "src/app/"),
        ("src//app/./main.py", "src/app/"),
        ("/home/x/y.py", "/home/"),
        (".github", ".github"),
    ],
)
def test_the_beginning_of_a_path(path: str | None, prefix: str) -> None:
    assert path_prefix(path, 2) == prefix


@given(st.lists(st.sampled_from(["a", "src", "käse", "x.py"]), min_size=1), st.integers(1, 6))
def test_a_prefix_is_the_path_or_its_first_parts(parts: list[str], segments: int) -> None:
    prefix = path_prefix("/".join(parts), segments)
    if len(parts) < segments:
        assert prefix == "/".join(parts)
    else:
        assert prefix == "/".join(parts[:segments]) + "/"


def test_failures_count_together_by_tool_rule_and_place() -> None:
    found = Annotation("failure", "m", "src/app/x.py", 1, "ruff", "F401")
    assert lesson_key("o/r", found, 2) == ("o/r", "ruff", "F401", "src/app/")
    assert lesson_key("o/r", Annotation("failure", "m"), 2) == ("o/r", "", "", "")


def test_a_run_is_read() -> None:
    run = read_run(run_json(7, run_attempt=2), "o/r", same)
    assert run is not None
    assert (run.id, run.repo, run.attempt, run.actor) == (7, "o/r", 2, "octocat")
    assert (run.started_at, run.completed_at) == (1_799_996_400_000, 1_799_997_000_000)
    raw = json.loads(run.raw_json)
    assert raw["display_title"] == "A change"
    assert "repository" not in raw


def test_a_run_that_goes_on_has_no_end() -> None:
    run = read_run(run_json(7, status="in_progress", conclusion=None), "o/r", same)
    assert run is not None
    assert run.completed_at is None


@given(st.dictionaries(st.sampled_from([*run_json(1), *job_json(1)]), JSON))
@example({"id": 1 << 70, "head_sha": "a" * 40})
@example({"id": True})
@example({"id": 1, "head_sha": "a" * 40, "updated_at": "0001-01-01T00:00:00+23:59", "status": "x"})
@example({"id": 1, "head_sha": "a" * 40, "head_branch": "half \ud800", "actor": "octocat"})
def test_odd_fields_do_no_harm(odd: dict[str, Any]) -> None:
    for number, whole in ((0, {}), (5, run_json(5))):
        value = whole | odd
        run = read_run(value, "o/r", same)
        jobs = read_jobs([value, number, None, []], same)
        for record in (run, *(job for job, _ in jobs)):
            if record is not None:
                assert 0 <= record.id < 1 << 63
                json.loads(record.raw_json)
                for name in ("status", "conclusion", "head_branch", "actor", "name"):
                    (getattr(record, name, None) or "").encode()


@given(JSON)
def test_annotations_of_any_shape(value: Any) -> None:
    if not isinstance(value, list):
        with pytest.raises(GithubBadAnswer):
            read_annotations(value, "job", same)
    else:
        assert len(read_annotations(value, "job", same)) <= len(value)


@given(JSON)
def test_a_list_is_a_list_or_no_answer(value: Any) -> None:
    assert rows_of({"jobs": [value]}, "jobs") == [value]
    if not (isinstance(value, dict) and isinstance(value.get("jobs"), list)):
        with pytest.raises(GithubBadAnswer):
            rows_of(value, "jobs")


def test_secrets_are_masked_in_every_text() -> None:
    dirty = {"head_branch": SECRET, "display_title": f"use {SECRET}", "actor": {"login": SECRET}}
    dirty |= {"html_url": f"https://x/?t={SECRET}", "event": SECRET, "head_commit": {"m": [SECRET]}}
    run = read_run(run_json(1, **dirty), "o/r", CLEAN)
    job = read_jobs([job_json(1, name=SECRET, runner_name=SECRET, steps=[{"name": SECRET}])], CLEAN)
    said = read_annotations([annotation_json(f"x {SECRET}", path=SECRET)], "lint", CLEAN)
    assert SECRET not in repr((run, job, said))
    assert repr((run, job, said)).count("[REDACTED]") == 17


def test_a_secret_in_brackets_is_no_rule() -> None:
    key = "AKIA" + "QWERTYUIOPASDFGH"
    (said,) = read_annotations([annotation_json(f"denied [{key}]")], "mypy", CLEAN)
    assert key not in repr(said)
    assert (said.tool, said.rule_id) == (None, None)


def test_a_huge_run_is_written_in_short() -> None:
    run = read_runs([run_json(3, junk=["x" * 1000] * 1000, title="t")], "o/r", same)[0]
    raw = json.loads(run.raw_json)
    assert raw["title"] == "t"
    assert "junk" not in raw


def test_the_number_of_a_check_run_is_taken_and_its_host_is_not() -> None:
    assert check_run("https://evil.example/repos/o/r/check-runs/99", 5) == 99
    assert check_run("https://evil.example/", 5) == 5
    assert check_run(None, 5) == 5


# ---------------------------------------------------------------------- ends of logs


@given(st.text(), st.integers(1, 400))
def test_an_excerpt_is_the_end_of_the_log(text: str, keep: int) -> None:
    data = text.encode("utf-8", "replace")
    found = cut_excerpt(data, len(data), keep, same)
    assert len(found.text.encode()) <= keep
    assert data.decode().endswith(found.text)
    assert found.truncated == (len(data) > keep)
    assert len(found.text.encode()) > min(len(data), keep) - 4


def test_a_secret_at_the_cut_is_masked_whole() -> None:
    line = f"token={SECRET}\n".encode()
    for over in range(len(line)):
        log = b"start\n" * 9000 + line + b"y\n" * 50
        keep = 100 + over
        data = log[-(keep + MARGIN) :]
        text = cut_excerpt(data, len(log), keep, CLEAN).text
        assert not any(SECRET[at : at + 10] in text for at in range(len(SECRET) - 10))
        assert text.endswith("y\n" * 50)


def test_half_a_secret_at_the_start_is_left_out_though_masks_are_short() -> None:
    line = f"token={SECRET}\n".encode()
    log = line * 2000
    for over in range(len(line)):
        data = log[-(20_000 + over) :]
        text = cut_excerpt(data, len(log), 20_000, CLEAN).text
        assert set(text.splitlines()) == {"token=[REDACTED]"}


def test_a_log_of_one_endless_line_loses_its_margin() -> None:
    data = b"x" * (MARGIN + 50)
    assert cut_excerpt(data, 10_000_000, 50, same).text == "x" * 50


# ---------------------------------------------------------------------- addresses and waits


@pytest.mark.parametrize("repo", ["", "a", "a/b/c", "../x", "a/..", "a/b?x", "a /b", "ä/b", "a/"])
def test_a_name_that_is_no_repository(repo: str) -> None:
    with pytest.raises(Invalid, match="is not a repository"):
        repo_path(repo)


@given(st.text())
def test_the_next_page_stays_on_the_path(link: str) -> None:
    following = next_page("/repos/o/r/actions/runs?per_page=20", link)
    assert following is None or following.startswith("/repos/o/r/actions/runs?")


def test_the_next_page_is_the_query_of_the_link() -> None:
    link = (
        '<https://x/repositories/1/runs?page=1>; rel="prev", <https://x/r?page=3&a=b c>; rel="next"'
    )
    assert next_page("/runs?page=2", link) == "/runs?page=3&a=b%20c"
    assert next_page("/runs", '<https://x/r?page=3>; rel="last"') is None
    assert next_page("/runs", None) is None


@given(
    st.integers(100, 599),
    st.dictionaries(
        st.sampled_from(["retry-after", "x-ratelimit-remaining", "x-ratelimit-reset"]),
        st.text() | st.integers().map(str) | st.just("0"),
    ),
    st.integers(0, 10_000),
)
def test_a_wait_is_never_long_and_never_none_after_a_limit(
    status: int, headers: dict[str, str], tries: int
) -> None:
    seconds = wait_after(status, headers, tries, 1.8e9)
    assert seconds is None or 1.0 <= seconds <= LONGEST_WAIT
    assert (seconds is None) == (
        status < 500
        and status != 429
        and not (
            status == 403
            and (
                "retry-after" in headers or headers.get("x-ratelimit-remaining", "").strip() == "0"
            )
        )
    )
    assert 1.0 <= back_off(tries) <= LONGEST_WAIT
