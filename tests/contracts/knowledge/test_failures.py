"""Lessons from failures: what counts, what makes two the same, what ended them."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.support.tickets import Factory, add_run, insert
from tests.support.worlds import World
from threadkeep.base.tx import Sql, Tx
from threadkeep.knowledge.commands import write_command, write_tool_runs
from threadkeep.knowledge.failures import drop_unfounded, learn_failures
from threadkeep.knowledge.lessons import Lesson, LessonKey, LessonRules, learn, list_lessons
from threadkeep.knowledge.records import Command, GitState, Output, ToolRun
from threadkeep.knowledge.shapes import (
    aim_of,
    exit_step,
    generalize,
    is_failure,
    main_step,
    project_of,
    rule_of,
    shape_of,
    shell_words,
    target_of,
)
from threadkeep.memory.fixed import archived_runs, command_in
from threadkeep.sources.pi import SOURCE as PI

NOW = 1_800_000_000_000
RULES = LessonRules()
MISSING = "Traceback:\nE   ModuleNotFoundError: No module named 'yaml'\n1 failed in 0.31s"

# ---------------------------------------------------------------------- shapes of commands


@pytest.mark.parametrize(
    "again",
    [
        "pytest tests/test_a.py",
        "cd /u/app && pytest -x tests/test_a.py 2>&1 | tail -20",
        "FOO=1 uv run pytest -q tests/test_a.py::test_b -k name",
        ".venv/bin/python -m pytest -vv -n 4 ./tests/test_a.py > out.txt",
        "timeout 60 pytest tests/test_a.py | grep FAILED",
        "bash -lc 'cd x && pytest tests/test_a.py'",
    ],
)
def test_another_try_of_a_command_has_its_shape(again: str) -> None:
    assert shape_of(again) == "pytest tests/test_a.py"
    assert target_of(again) == "tests/test_a.py"


def test_other_targets_and_subcommands_are_other_commands() -> None:
    commands = ["cargo test", "cargo build", "cargo test -p core", "make test", "make"]
    assert len({shape_of(command) for command in commands}) == len(commands)
    assert shape_of("git add . && git commit -m 'one'") == shape_of("git add . && git commit -m 2")


def test_a_line_is_run_for_its_last_step_that_works() -> None:
    assert main_step("git pull && git push && git status").text == "git push"
    assert main_step("cat > a.sh <<'END'\nrm x\nEND\nbash a.sh | tail").text == "bash a.sh"
    assert main_step("ls -la").text == "ls"
    assert exit_step("make all | grep -c x").program == "grep"
    assert [aim_of(line) for line in ("make test", "npm run lint", "ruff check src/a.py")] == [
        *("test", "run lint", "src/a.py"),
    ]


def test_a_target_stands_below_its_folder_and_a_project_is_the_repository_or_the_folder() -> None:
    assert target_of("edit /u/app/src/a.py", "/u/app") == "src/a.py"
    assert target_of("npm run build") == ""
    assert project_of("o/app", "/u/x") == "o/app"
    assert project_of(None, "/u/app/.claude/worktrees/busy-name") == "app"
    assert project_of(None, "/") == ""


@given(st.text())
def test_any_text_has_a_shape_that_is_its_own(command: str) -> None:
    assert isinstance(shape_of(command), str)
    assert isinstance(target_of(command, command), str)


@given(
    st.sampled_from(["pytest", "make", "cargo", "npm"]),
    st.lists(st.sampled_from(["test", "build", "src/a.py", "lib"]), min_size=1, max_size=3),
    st.lists(st.sampled_from(["-v", "--quiet", "-x", "--no-cov"]), max_size=3),
)
def test_flags_folders_and_pipes_change_no_shape(
    program: str, words: list[str], flags: list[str]
) -> None:
    plain = " ".join([program, *words])
    dressed = f"cd /some/where && A=b {program} {' '.join([*words, *flags])} 2>&1 | tail -5"
    assert shape_of(dressed) == shape_of(plain) == plain


# ---------------------------------------------------------------------- signatures of errors


@given(st.text("ab'\"\\ ;&|<>()\n\t$=/-.é#", max_size=16))
def test_a_command_has_the_words_that_shlex_finds(command: str) -> None:
    lexer = shlex.shlex(command.replace("\n", " ; "), posix=True, punctuation_chars=True)
    lexer.commenters, lexer.whitespace_split = "", True
    try:
        words = list(lexer)
    except ValueError:  # a quote that is never closed
        words = command.split()
    assert shell_words(command) == words


@pytest.mark.parametrize(
    "program, output, rule",
    [
        ("pytest", MISSING, "ModuleNotFoundError"),
        ("pytest", "E   assert 1 == 2\n= 1 failed, 2 passed in 0.1s =", "AssertionError"),
        ("python", "json.decoder.JSONDecodeError: Expecting value", "JSONDecodeError"),
        ("cargo", "error[E0425]: cannot find value `x` in this scope", "E0425"),
        ("tsc", "src/a.ts(3,1): error TS2304: Cannot find name 'x'.", "TS2304"),
        ("npm", "npm ERR! code ERESOLVE\nnpm ERR! A complete log of this run", "ERESOLVE"),
        ("ruff", "src/a.py:1:8: F401 `os` imported but unused\nFound 1 error.", "F401"),
        ("mypy", 'a.py:3: error: Name "x" is not defined  [name-defined]', "name-defined"),
        ("foo", "bash: foo: command not found", "command not found"),
        ("git", "fatal: pathspec 'b.py' did not match any files", None),
        ("make", "make: *** [Makefile:12: test] Error 2", "exit 2"),
        ("make", "", "exit 2"),
    ],
)
def test_the_kind_of_an_error_is_a_word(program: str, output: str, rule: str | None) -> None:
    expected = "fatal: pathspec … did not match any files" if rule is None else rule
    assert rule_of(program, output, 2) == expected


@given(
    st.integers(0, 10**9),
    st.integers(0, 10**9),
    st.from_regex(r"[a-z]{1,8}(/[a-z]{1,8}){1,3}\.py", fullmatch=True),
)
def test_numbers_paths_and_names_change_no_signature(one: int, two: int, path: str) -> None:
    first = f"error: could not read '{path}' at line {one} of {path}"
    second = f"error: could not read 'x y' at line {two} of src/b.py"
    assert rule_of("tool", first, 1) == rule_of("tool", second, 1)


@given(st.text())
def test_any_output_has_a_short_rule(output: str) -> None:
    assert 0 < len(rule_of("x", output, 1)) <= 60
    assert not any(one.isdecimal() for one in generalize(output))
    assert "\n" not in generalize(output)


@pytest.mark.parametrize(
    "command, code, output",
    [
        ("grep x y", 1, ""),
        ("cat a | grep x", 1, ""),
        ("make && grep x out.txt", 1, ""),
        ("test -f x", 1, ""),
        ("[ -f x ]", 1, ""),
        ("diff a b", 1, ""),
        ("git diff --exit-code", 1, ""),
        ("false", 1, ""),
        ("sleep 100", 130, ""),
        ("make", None, ""),
        ("make", 0, "error: no"),
        ("rg name src", 1, "Exit code 1"),
        ("rm -r x", 1, "The user doesn't want to proceed with this tool use."),
        ("make test", 1, "Exit code 130"),
    ],
)
def test_an_answer_a_wish_and_a_success_are_no_failures(
    command: str, code: int | None, output: str
) -> None:
    assert not is_failure(command, code, output)


def test_the_rest_is_a_failure() -> None:
    assert is_failure("make test", 2)
    assert is_failure("grep x missing", 2)
    assert is_failure("git push", 1)


# ---------------------------------------------------------------------- counting


@pytest.fixture
def tx(factory: Factory) -> Iterator[Tx]:
    with (
        factory.open(clock=lambda: NOW) as store,
        store.context.db.write() as tx,
    ):
        yield tx


class Shell:
    """Somebody at a terminal, and an agent beside: one thing after the other, a minute apart."""

    def __init__(self, tx: Tx) -> None:
        self.tx = tx
        self.minute = 0

    def ran(self, command: str, code: int | None = 0, output: str = "", **fields: Any) -> None:
        self.minute += 1
        values: dict[str, Any] = {"cwd": "/u/app", "git": GitState("o/app", "main"), **fields}
        one = Command(
            envelope_id=f"e-{self.minute}",
            session="s",
            at=NOW - 10**7 + self.minute * 60_000,
            command=command,
            exit_code=code,
            stdout=Output(output) if output else None,
            **values,
        )
        write_command(self.tx, one, NOW)

    def called(self, tool: str, command: str, code: int = 0, output: str | None = "ok") -> None:
        self.minute += 1
        at = NOW - 10**7 + self.minute * 60_000
        run = ToolRun(f"c-{self.minute}", "a", at, tool, command, "/u/app", "main")
        run.exit_code, run.output, run.duration_ms = code, output, 0 if output is None else 5
        who = {"shell": "claude", "hostname": "h", "username": "u"}
        write_tool_runs(self.tx, [run], now=NOW, **who)

    def learn(self, rules: LessonRules = RULES, **options: Any) -> int:
        return learn_failures(self.tx, rules, NOW, **options)

    def lessons(self) -> list[Lesson]:
        return list_lessons(self.tx, limit=50)


@pytest.fixture
def shell(tx: Tx) -> Shell:
    return Shell(tx)


def key(lesson: Lesson) -> tuple[str, str, str, str]:
    return lesson.repo, lesson.tool, lesson.rule_id, lesson.path_prefix


def test_a_failure_that_comes_back_is_a_lesson_with_what_ended_it(shell: Shell) -> None:
    shell.ran("pytest tests/test_a.py", 1, MISSING)
    shell.ran("ls -la")
    shell.ran("pytest -x tests/test_a.py", 1, MISSING.replace("0.31", "9.99"))
    shell.ran("pip install pyyaml")
    shell.ran("pytest tests/test_a.py")
    assert shell.learn() == 2
    (lesson,) = shell.lessons()
    assert key(lesson) == ("o/app", "pytest", "ModuleNotFoundError", "tests/test_a.py")
    assert lesson.occurrences == 2
    assert "No module named 'yaml'" in lesson.summary
    assert lesson.fix_hint == "`pip install pyyaml`; then `pytest tests/test_a.py` passed"


def test_one_failure_is_none_and_other_errors_are_others(shell: Shell) -> None:
    shell.ran("pytest tests/test_a.py", 1, MISSING)
    shell.ran("pytest tests/test_b.py", 1, MISSING)
    shell.ran("pytest tests/test_a.py", 1, "E  KeyError: 'x'")
    shell.ran("pytest tests/test_a.py", 1, MISSING, cwd="/u/lib", git=GitState("o/lib"))
    assert shell.learn() == 4
    assert shell.lessons() == []


def test_nothing_counts_twice_however_it_is_asked(shell: Shell, tx: Tx) -> None:
    for _ in range(3):
        shell.ran("make test", 2)
    assert [shell.learn(limit=2), shell.learn(limit=2), shell.learn(limit=2)] == [2, 1, 0]
    tx.run(Sql("UPDATE tk_learned SET seen = 0"))
    assert shell.learn() == 0
    assert shell.lessons()[0].occurrences == 3


def test_probes_answers_and_wishes_are_not_counted(shell: Shell) -> None:
    for _ in range(3):
        shell.ran("make probe", 2, probe_tag="p")
        shell.ran("grep x y", 1)
        shell.ran("make watch", 130)
    assert shell.learn() == 0
    assert shell.lessons() == []


def test_agents_and_people_fail_at_the_same_things(shell: Shell) -> None:
    shell.called("Bash", "cd /u/app && pytest tests/test_a.py", 1, f"Exit code 1\n{MISSING}")
    shell.called("Bash", "pytest tests/test_a.py -x", 1, f"Exit code 1\n{MISSING}")
    shell.called("Edit", "edit /u/app/pyproject.toml")
    shell.ran("pytest tests/test_a.py")
    shell.learn()
    (lesson,) = shell.lessons()
    assert key(lesson) == ("app", "pytest", "ModuleNotFoundError", "tests/test_a.py")
    assert lesson.fix_hint == "edit of pyproject.toml; then `pytest tests/test_a.py` passed"


def test_a_tool_that_fails_at_a_file_names_both(shell: Shell) -> None:
    for _ in range(2):
        shell.called("Edit", "edit /u/app/src/a.py", 1, "String to replace not found in file.")
        shell.called("WebFetch", "WebFetch", 1, "Connection refused")
    assert shell.learn() == 2
    (lesson,) = shell.lessons()
    assert key(lesson) == ("app", "Edit", "String to replace not found", "src/a.py")


def test_a_run_that_had_not_ended_is_looked_at_again(shell: Shell, tx: Tx) -> None:
    shell.ran("make test", 2)
    shell.called("Bash", "make test", 0, None)
    shell.ran("make long", None, origin="hook")
    assert shell.learn() == 1
    tx.run(
        Sql("UPDATE events SET exit_code = 1, stdout = 'boom error', duration_ms = 9 WHERE id = 2")
    )
    assert shell.learn() == 1
    assert shell.learn() == 0
    tx.run(Sql("UPDATE events SET exit_code = 2 WHERE id = 3"))
    assert shell.learn() == 1


def test_a_run_that_never_ends_is_not_waited_for_for_ever(shell: Shell, tx: Tx) -> None:
    shell.called("Bash", "make test", 0, None)
    shell.learn()
    assert tx.one(Sql("SELECT count(*) FROM tk_unended")) == (1,)
    learn_failures(tx, RULES, NOW + 10 * 86_400_000)
    assert tx.one(Sql("SELECT count(*) FROM tk_unended")) == (0,)


def test_what_ended_the_first_failure_is_told_when_the_second_makes_it_a_lesson(
    shell: Shell,
) -> None:
    shell.ran("make test", 2, "error: bad lock file")
    shell.ran("rm poetry.lock")
    shell.ran("make test")
    shell.ran("make test", 2, "error: bad lock file")
    shell.learn()
    assert shell.lessons()[0].fix_hint == "`rm poetry.lock`; then `make test` passed"
    shell.ran("make clean")
    shell.ran("make test")
    shell.learn()
    assert shell.lessons()[0].fix_hint == "`make clean`; then `make test` passed"


def test_without_a_change_between_the_command_itself_is_told(shell: Shell) -> None:
    for _ in range(2):
        shell.ran("npm test", 1, "Error: connect ECONNREFUSED")
    shell.ran("npm test --offline")
    shell.learn()
    assert shell.lessons()[0].fix_hint == "`npm test --offline` passed instead"


def test_work_in_another_project_ends_nothing(shell: Shell) -> None:
    shell.ran("make test", 2)
    shell.ran("make test", 2)
    shell.ran("rm x", cwd="/u/lib", git=GitState("o/lib"))
    shell.ran("make test", 0, cwd="/u/lib", git=GitState("o/lib"))
    shell.learn()
    assert shell.lessons()[0].fix_hint is None


def test_what_is_forgotten_teaches_nothing(shell: Shell, tx: Tx) -> None:
    for _ in range(3):
        shell.ran("make test", 2, "ValueError: swordfish")
    shell.ran("make swordfish")
    shell.ran("make test")
    shell.ran("make other", 2)
    shell.learn()
    assert "swordfish" in shell.lessons()[0].summary
    assert shell.lessons()[0].fix_hint
    tx.run(Sql("DELETE FROM enrichment_queue"))
    tx.run(Sql("DELETE FROM events WHERE id = 2"))
    assert drop_unfounded(tx) == 1
    (lesson,) = shell.lessons()
    assert (lesson.fix_hint, lesson.occurrences) == (None, 3)
    assert "swordfish" not in lesson.summary
    tx.run(Sql("DELETE FROM events"))
    assert shell.learn() == 0
    assert shell.lessons() == []
    assert tx.one(Sql("SELECT count(*) FROM lesson_pending")) == (0,)
    assert drop_unfounded(tx) == 0


def test_an_id_that_is_given_again_ends_nothing(shell: Shell, tx: Tx) -> None:
    shell.ran("make test", 2)
    shell.ran("make test", 2)
    shell.learn()
    tx.run(Sql("DELETE FROM enrichment_queue"))
    tx.run(Sql("DELETE FROM events"))
    shell.ran("ls")
    shell.ran("ls")
    shell.ran("make test")
    assert shell.learn() == 0
    assert all(lesson.fix_hint is None for lesson in shell.lessons())


def test_no_table_of_counting_holds_a_text(shell: Shell, tx: Tx) -> None:
    for _ in range(2):
        shell.ran("make very_secret_name", 2)
    shell.learn()
    for table in ("tk_learned", "tk_unended", "tk_counted", "tk_failures"):
        assert "very_secret" not in repr(tx.all(Sql(f"SELECT * FROM {table}")))


# ---------------------------------------------------------------------- CI


def test_a_lesson_of_ci_names_the_commit_with_which_the_job_passed_again(tx: Tx) -> None:
    runs = [(1, "aaaa1", "failure", 10), (2, "bbbb2", "success", 20), (3, "cccc3", "success", 30)]
    for run, sha, conclusion, at in runs:
        raw = '{"head_commit": {"message": "Import less\\n\\nlong"}}'
        ended: dict[str, Any] = {"head_branch": "main", "conclusion": conclusion, "started_at": at}
        add_run(tx, run, repo="o/app", head_sha=sha * 8, raw_json=raw, **ended)
        job = {"status": "completed", "conclusion": conclusion, "raw_json": "{}"}
        insert(tx, "workflow_jobs", id=run, run_id=run, name="lint", **job)
    said = {"rule_id": "F401", "path": "src/app/main.py", "message": "m"}
    insert(tx, "workflow_annotations", job_id=1, level="failure", tool="ruff", **said)
    for _ in range(2):
        learn(tx, LessonKey("o/app", "ruff", "F401", "src/app/"), RULES, 10)
    learn_failures(tx, RULES, NOW)
    (lesson,) = list_lessons(tx)
    assert (lesson.summary, lesson.occurrences) == ("ruff:F401 in src/app/", 2)
    assert lesson.fix_hint == "lint passed again with bbbb2bbbb2: Import less"


# ---------------------------------------------------------------------- archived tool calls


@pytest.mark.parametrize(
    "tool, text, command",
    [
        ("bash", "make test\ntimeout: 5000", "make test"),
        ("shell", 'command: ["bash","-lc","make test"]\nworkdir: /x', "make test"),
        ("shell", 'command: ["git","log","a b"]', "git log 'a b'"),
        ("shell", "command: [broken", "command: [broken"),
        ("apply_patch", "*** Begin Patch\n*** Update File: src/a.py\n", "apply_patch src/a.py"),
        ("edit", "filePath: /x/a.py\noldString: b", "edit /x/a.py"),
        ("todo", "items: 3", "todo"),
    ],
)
def test_what_a_call_ran_is_read_from_its_text(tool: str, text: str, command: str) -> None:
    assert command_in(tool, text) == command


def pi_log(*steps: tuple[str, str, bool]) -> bytes:
    """Make a session of pi: commands with their outputs."""
    records: list[dict[str, Any]] = [
        {"type": "session", "version": 3, "id": "p1", "timestamp": _time(0), "cwd": "/u/app"}
    ]
    for number, (command, output, failed) in enumerate(steps, 1):
        call = {
            "type": "toolCall",
            "id": f"c{number}",
            "name": "bash",
            "arguments": {"command": command},
        }
        result = {
            "role": "toolResult",
            "toolCallId": f"c{number}",
            "toolName": "bash",
            "content": [{"type": "text", "text": output}],
            "isError": failed,
        }
        for message in ({"role": "assistant", "content": [call]}, result):
            at = len(records)
            records.append(
                {"type": "message", "id": f"m{at}", "timestamp": _time(at), "message": message}
            )
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def _time(second: int) -> str:
    return f"2026-10-01T10:00:{second:02}.000Z"


def test_agents_whose_calls_stand_in_the_archive_alone_teach_too(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.sources = {"pi": PI}
    world.write(
        pi_log(
            ("pytest tests/test_a.py", MISSING, True),
            ("cat setup.py", "", False),
            ("pytest tests/test_a.py -x", MISSING, True),
            ("pip install pyyaml", "", False),
            ("pytest tests/test_a.py", "1 passed", False),
        ),
        to=tmp_path / ".pi" / "agent" / "sessions" / "--u-app--" / "2026_p1.jsonl",
    )
    world.capture()
    with world.history() as history, history.store.context.db.write() as tx:
        look = archived_runs(history.sources)
        assert learn_failures(tx, RULES, NOW, 3, look) >= 1
        while learn_failures(tx, RULES, NOW, 3, look) or _waits(tx):
            pass
        (lesson,) = list_lessons(tx)
        tx.run(Sql("UPDATE tk_learned SET seen = 0"))
        assert learn_failures(tx, RULES, NOW, 1000, look) == 0
    assert key(lesson) == ("app", "pytest", "ModuleNotFoundError", "tests/test_a.py")
    assert lesson.occurrences == 2
    assert lesson.fix_hint == "`pip install pyyaml`; then `pytest tests/test_a.py` passed"


def _waits(tx: Tx) -> bool:
    sql = "SELECT max(id) > (SELECT seen FROM tk_learned WHERE origin = 'entry') FROM tk_entries"
    return bool(tx.value(Sql(sql)))
