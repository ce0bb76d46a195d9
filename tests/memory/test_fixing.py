"""fixed: an error, the next success of the same command, and what came between."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.lengths import examples
from tests.support.remembered import Machine
from tests.support.user_homes import open_history, settle
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.records import GitState
from threadkeep.memory.fixed import Fix, FixStep, best_first, error_words, fixed
from threadkeep.memory.memory import Memory
from threadkeep.testing import KnowledgeFactory

BOOM = "Traceback\nModuleNotFoundError: No module named 'yaml'"
CLAUDE = "5e550000-0000-4000-8000-000000000001"


@pytest.fixture
def machine(tmp_path: Path, knowledge_factory: KnowledgeFactory) -> Machine:
    return Machine(tmp_path, knowledge_factory)


def found(machine: Machine, text: str, **filters: Any) -> list[Fix]:
    with machine.memory() as memory:
        fixes = fixed(memory, text, Query(**filters))
        for fix in fixes:
            steps = [fix.failure, *fix.between, *([fix.success] if fix.success else [])]
            assert all(memory.open(step.ref, 0).text for step in steps)
    return fixes


def told(fix: Fix) -> tuple[str, list[str], str | None, str]:
    passed = fix.success.text if fix.success else None
    return fix.command, [step.text for step in fix.between], passed, fix.evidence


def test_a_command_that_failed_passed_after_something_was_done(machine: Machine) -> None:
    machine.shell(1, "pytest tests/test_a.py", 1, BOOM)
    machine.shell(2, "ls")
    machine.shell(3, "pip install pyyaml")
    machine.shell(4, "make docs", cwd="/u/lib", git=GitState("o/lib"))
    machine.shell(5, "pytest -q tests/test_a.py")
    machine.shell(6, "rm -r build")
    (fix,) = found(machine, "No module named 'yaml'")
    assert told(fix) == (
        "pytest tests/test_a.py",
        ["pip install pyyaml"],
        "pytest -q tests/test_a.py",
        "same session",
    )
    assert fix.error == "ModuleNotFoundError: No module named 'yaml'"
    assert (fix.failure.ref, fix.match) == ("command:1", 1.0)


@pytest.mark.parametrize(
    "line, ended",
    [("tsc --noEmit && npm run build", True), ("tsc --noEmit; npm run build", False)],
)
def test_it_may_have_passed_among_others(machine: Machine, line: str, *, ended: bool) -> None:
    machine.shell(1, "npx tsc --noEmit", 1, "a.ts(1,2): error TS2304: Cannot find name 'x'.")
    machine.shell(2, line)
    (fix,) = found(machine, "TS2304 cannot find name")
    assert (fix.success is not None) == ended


def test_a_coloured_error_is_known_and_a_short_one_must_be_the_same(machine: Machine) -> None:
    machine.shell(1, "npm test", 1, "\x1b[31mTestingLibraryElementError\x1b[39m: no such button")
    (fix,) = found(machine, "TestingLibraryElementError")
    assert fix.error == "TestingLibraryElementError: no such button"
    assert found(machine, "no such frobnicator") == []


def test_a_failure_without_a_telling_line_shows_the_line_with_the_words(machine: Machine) -> None:
    machine.shell(1, "npm run check", 1, "checked 3 files\nneeds formatting: a.ts\nbye")
    (fix,) = found(machine, "needs formatting")
    assert fix.error == "needs formatting: a.ts"


@pytest.mark.parametrize("agent", ["pi", "claude"])
def test_an_agent_that_failed_shows_how_it_went_on(machine: Machine, agent: str) -> None:
    getattr(machine, agent)(
        CLAUDE,
        (1, "prompt", "run the tests"),
        (2, "cd /u/app && pytest tests/test_a.py", BOOM, True),
        (3, "cat setup.py", "text", False),
        (4, "prompt", "use the extra"),
        (5, "pip install pyyaml", "ok", False),
        (6, "pytest tests/test_a.py 2>&1 | tail -3", "1 passed", False),
    )
    (fix,) = found(machine, BOOM)
    assert told(fix) == (
        "cd /u/app && pytest tests/test_a.py",
        ["use the extra", "pip install pyyaml"],
        "pytest tests/test_a.py 2>&1 | tail -3",
        "same session",
    )
    assert [step.kind for step in fix.between] == ["prompt", "command"]


def test_another_session_may_have_ended_it(machine: Machine) -> None:
    machine.pi("p1", (1, "make test", BOOM, True))
    machine.pi("p2", (60, "make test", "ok", False))
    (fix,) = found(machine, "ModuleNotFoundError yaml")
    assert fix.success is not None
    assert told(fix)[2:] == ("make test", "later session")


def test_somebody_at_the_shell_may_have_ended_what_an_agent_began(machine: Machine) -> None:
    machine.pi("p1", (1, "make test", BOOM, True))
    machine.shell(5, "pip install pyyaml")
    machine.shell(6, "make test")
    (fix,) = found(machine, "ModuleNotFoundError yaml")
    assert told(fix)[1:3] == (["pip install pyyaml"], "make test")


def test_a_pipe_hides_a_failure_and_the_same_error_again_is_no_success(machine: Machine) -> None:
    error = "./a_test.go:3:2: undefined: SliceFromLine"
    test = "go test ./... 2>&1 | tail -5"
    machine.pi(
        "p1",
        (1, test, error, False),
        (2, test, error, False),
        (3, "sed -i s/x/y/ a.go", "done", False),
        (4, test, "ok  app 0.1s", False),
    )
    (fix,) = found(machine, "undefined: SliceFromLine")
    assert told(fix) == (test, ["sed -i s/x/y/ a.go"], test, "same session")
    assert found(machine, "SliceFromLine undefined") == []  # another error has these words too


def test_what_passed_days_later_was_not_fixed_by_that(machine: Machine) -> None:
    machine.pi("p1", (1, "git push", "fatal: the remote end hung up unexpectedly", True))
    machine.pi("p2", (1 + 4 * 24 * 60, "git push", "ok", False))
    (fix,) = found(machine, "fatal: the remote end hung up unexpectedly")
    assert (fix.success, fix.evidence) == (None, "not fixed yet")


def test_where_nothing_passed_the_next_steps_are_shown(machine: Machine) -> None:
    error = "go: cannot run *_test.go files"
    machine.pi(
        "p1",
        (1, "go run a_test.go", error, True),
        (2, "mv a_test.go a.go", "done", False),
        (3, "go run a.go", "it works", False),
    )
    (fix,) = found(machine, error)
    assert told(fix) == (
        "go run a_test.go",
        ["mv a_test.go a.go", "go run a.go"],
        None,
        "not fixed yet",
    )


def test_evidence_comes_first_and_what_still_fails_last(machine: Machine) -> None:
    machine.shell(1, "npm test", 1, "Error: cannot find module left-pad")
    machine.shell(2, "npm install left-pad")
    machine.shell(3, "npm test")
    machine.shell(9, "yarn build", 1, "Error: cannot find module left-pad")
    fixes = found(machine, "cannot find module left-pad")
    assert [told(fix)[0] for fix in fixes] == ["npm test", "yarn build"]
    assert (fixes[1].success, fixes[1].evidence) == (None, "not fixed yet")


def test_a_success_before_it_or_elsewhere_ends_nothing(machine: Machine) -> None:
    machine.shell(1, "make test")
    machine.shell(2, "make test", 2, "error: bad wolf")
    machine.shell(3, "make build")
    machine.shell(4, "make test", 0, cwd="/u/lib", git=GitState("o/lib"))
    (fix,) = found(machine, "bad wolf")
    assert fix.success is None


def test_ci_that_failed_passed_with_a_later_commit(machine: Machine) -> None:
    machine.ci(7, 1, "failure", "AssertionError: totals differ in ledger")
    machine.ci(8, 20, "success")
    (fix,) = found(machine, "totals differ in ledger")
    assert told(fix) == (
        "test on main at 0000000000",
        ["0000000000 change 8"],
        "test on main at 0000000000",
        "same session",
    )
    assert fix.success is not None
    assert (fix.failure.ref, fix.success.ref) == ("run:7", "run:8")


def test_filters_hold(machine: Machine) -> None:
    machine.pi("p1", (1, "make test", BOOM, True))
    machine.shell(2, "make all", 1, BOOM)
    assert [fix.command for fix in found(machine, BOOM, kind=("command",))] == ["make all"]
    assert [fix.command for fix in found(machine, BOOM, agent=("pi",))] == ["make test"]
    assert found(machine, BOOM, project=("elsewhere",)) == []


def test_nothing_is_found_where_nothing_failed(machine: Machine) -> None:
    machine.shell(1, "echo ModuleNotFoundError yaml", 0)
    machine.shell(2, "grep yaml x", 1, "")
    machine.shell(3, "make probe", 1, BOOM, probe_tag="p")
    with machine.memory() as memory:
        assert fixed(memory, BOOM) == []
        assert fixed(memory, "") == fixed(memory, "!?") == fixed(memory, BOOM, limit=0) == []


@given(st.text())
def test_any_error_has_a_bounded_number_of_words(text: str) -> None:
    assert len(error_words(text)) <= 40


def _step(ref: str, at: int) -> FixStep:
    return FixStep(ref, at, "make", "command")


FIXES = st.lists(
    st.builds(
        Fix,
        failure=st.builds(_step, st.sampled_from(["command:1", "command:2"]), st.integers(0, 9)),
        success=st.none()
        | st.builds(_step, st.sampled_from(["command:8", "command:9"]), st.just(9)),
        between=st.just(()),
        evidence=st.just("same session"),
        match=st.just(1.0),
        score=st.floats(0, 3),
        error=st.just("e"),
    )
)


@settings(max_examples=examples(50))
@given(FIXES)
def test_the_best_come_first_and_none_twice(fixes: list[Fix]) -> None:
    ranked = best_first(fixes)
    assert [fix.score for fix in ranked] == sorted((f.score for f in ranked), reverse=True)
    ends = [(fix.command, fix.success and fix.success.ref) for fix in ranked]
    assert len(set(ends)) == len(ends)
    assert {f.success and f.success.ref for f in fixes} == {e for _, e in ends}


def test_a_real_session_shows_how_its_error_ended(shared_data: Path, tmp_path: Path) -> None:
    place = "-Users-paul-src-entireio-cli"
    logs = shared_data / "data" / "harness" / "claude" / "entireio__cli" / "projects" / place
    if not logs.is_dir():
        pytest.skip("needs real transcripts in the optional test data (data/harness)")
    folder = tmp_path / "user" / ".claude" / "projects" / place
    folder.mkdir(parents=True)
    for log in logs.glob("*.jsonl"):
        (folder / log.name).write_bytes(log.read_bytes())
    settle(tmp_path / "user")
    with open_history(tmp_path / "home", tmp_path / "user") as history:
        history.capture()
        memory = Memory(history.store, history.sources)
        fix = fixed(memory, "cannot use silentLogger{} as posthog.Logger value in struct literal")[
            0
        ]
    assert fix.success is not None
    assert "mise run lint" in fix.command
    assert "mise run lint" in fix.success.text
    assert "silentLogger does not implement posthog.Logger" in fix.error
    assert any(step.kind == "edit" and "telemetry.go" in step.text for step in fix.between)
    assert fix.failure.at < fix.between[0].at <= fix.success.at
