"""send-event and run: what they leave in the spool, and that they do nothing else."""

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.cli.conftest import Run, Start, document
from threadkeep.cli.app import main

SESSION = "0b8a3c52-5d0e-4b7e-9a53-0c7d5a0f3f6e"
SHELL = ("send-event", "shell", "--exit", "2", "--cwd", "/srv/harbor", "--duration-ms", "1500")


@pytest.fixture(autouse=True)
def around(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HIPPO_SESSION_ID", "THREADKEEP_SESSION_ID", "THREADKEEP_SHELL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SHELL", "/usr/bin/zsh")


def left(home: Path) -> list[dict[str, Any]]:
    """Read what lies in the spool, in the order of its files."""
    files = sorted((home / "spool").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]


def payload(home: Path) -> dict[str, Any]:
    (report,) = left(home)
    found: dict[str, Any] = report["payload"]["data"]
    return found


# ---------------------------------------------------------------------- send-event shell


def test_a_report_goes_into_the_spool_and_no_store_is_begun(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIPPO_SESSION_ID", SESSION)
    result = run(*SHELL, "--cmd", "make test")
    assert (result.stdout, result.stderr) == ("", "")
    assert not (home / "knowledge.db").exists()
    data = payload(home)
    assert (data["command"], data["exit_code"], data["duration_ms"]) == ("make test", 2, 1500)
    assert (data["cwd"], data["shell"], data["session_id"]) == ("/srv/harbor", "Zsh", SESSION)
    assert data["git_state"] is None  # the collector looks for itself


def test_secrets_are_masked_and_other_variables_stay_out(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_PRIVATE_THING", "do-not-keep-me")
    monkeypatch.setenv("EDITOR", "vi")
    token = "ghp_" + "x7Kq2VbN9mWd4RfT8sLc1HgZ6pJy3QeA5uXi"
    run(*SHELL, "--cmd", "deploy --password=hunter2hunter2", "--output", f"token {token}")
    data = payload(home)
    kept = json.dumps(data)
    assert not any(secret in kept for secret in ("hunter2", token, "do-not-keep-me"))
    assert data["env_snapshot"]["EDITOR"] == "vi"
    assert data["stdout"]["original_bytes"] == 46


def test_every_flag_of_hippo_is_understood(run: Run, home: Path) -> None:
    tag = "5f0c2a7e-41d3-4c1b-9a52-0c6d1be2a901"
    git = ("--git-repo", "o/n", "--git-branch", "b", "--git-commit", "abc1234", "--git-dirty")
    tool = ("--source-kind", "claude-tool", "--tool-name", "Bash", "--probe-tag", tag)
    run(*SHELL, "--cmd", "ls", *git, *tool, "--output", "a\nb")
    (report,) = left(home)
    assert (report["envelope_id"], report["probe_tag"]) == (tag, tag)
    data = report["payload"]["data"]
    assert data["tool_name"] == "Bash"
    assert data["git_state"] == {"repo": "o/n", "branch": "b", "commit": "abc1234"} | {
        "is_dirty": True
    }
    assert data["stdout"]["content"] == "a\nb"


def test_the_repository_is_found_where_only_the_branch_was_said(
    run: Run, home: Path, tmp_path: Path
) -> None:
    git = tmp_path / "work" / ".git"
    git.mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "config").write_text('[remote "origin"]\n\turl = git@example.org:octo/app.git\n')
    words = ("--exit", "0", "--cwd", str(git.parent), "--duration-ms", "1", "--git-branch", "topic")
    run("send-event", "shell", "--cmd", "ls", *words)
    state = payload(home)["git_state"]
    assert (state["repo"], state["branch"]) == ("octo/app", "topic")


def test_a_tool_needs_its_name(run: Run, home: Path) -> None:
    told = run(*SHELL, "--cmd", "ls", "--source-kind", "claude-tool", code=2).stderr
    assert "--tool-name" in told
    assert not home.exists()


@pytest.mark.parametrize("given", ["", "not a uuid"])
def test_without_a_session_there_is_a_new_one(
    given: str, run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIPPO_SESSION_ID", given)
    said = document(run(*SHELL, "--cmd", "ls", "--json"))
    assert said["kept"] is True
    assert str(UUID(said["session"])) == payload(home)["session_id"]


def test_what_the_user_keeps_out_is_not_even_left_in_the_spool(run: Run, home: Path) -> None:
    home.mkdir()
    (home / "config.toml").write_text('[shell]\nexclude = ["pass *"]\n')
    assert document(run(*SHELL, "--cmd", "pass show bank", "--json"))["kept"] is False
    assert left(home) == []


def test_a_folder_is_kept_out_however_its_path_is_written(
    run: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = tmp_path / "private"
    private.mkdir()
    home.mkdir()
    (home / "config.toml").write_text(f'[capture]\nexclude = ["{private}"]\n')
    monkeypatch.chdir(private)
    words = ("send-event", "shell", "--cmd", "ls", "--exit", "0", "--duration-ms", "1", "--cwd")
    for folder in (".", f"{tmp_path}//private/", f"{private}/../private"):
        assert document(run(*words, folder, "--json"))["kept"] is False
    run(*words, "..")
    assert payload(home)["cwd"] == str(tmp_path)


def test_reports_are_left_while_somebody_holds_the_store(run: Run, home: Path) -> None:
    run("probe")
    database = sqlite3.connect(home / "knowledge.db", isolation_level=None)
    database.execute("BEGIN EXCLUSIVE")
    run(*SHELL, "--cmd", "make test")
    database.close()
    assert payload(home)["command"] == "make test"


def test_reports_load_no_other_commands(home: Path) -> None:
    words = [*SHELL, "--cmd", "ls"]
    script = f"import sys; from threadkeep.cli.app import main; main({words}); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    loaded = set(done.stdout.decode().split())
    assert "threadkeep.cli.observed.spool" in loaded
    assert not {"rich", "threadkeep.cli.memory.recall", "threadkeep.cli.history.show"} & loaded


def test_wrong_words_are_told_as_everywhere(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SHELL]) == 2
    shown = capsys.readouterr()
    assert "Missing option '--cmd'" in shown.err
    assert "threadkeep send-event shell --help" in shown.err


# ---------------------------------------------------------------------- send-event watchlist


def test_a_commit_to_wait_for_is_left_in_the_spool(run: Run, home: Path) -> None:
    assert run("send-event", "watchlist", "--sha", "ABC1234", "--repo", "o/n").stdout == ""
    (report,) = left(home)
    assert (report["type"], report["sha"], report["repo"]) == ("watch", "abc1234", "o/n")
    assert report["ttl_secs"] == 1200


@pytest.mark.parametrize("sha, repo", [("no commit", "o/n"), ("abc1234", "no repo")])
def test_what_is_no_commit_is_refused(sha: str, repo: str, run: Run, home: Path) -> None:
    run("send-event", "watchlist", "--sha", sha, "--repo", repo, code=2)
    assert not home.exists()


# ---------------------------------------------------------------------- run


def test_a_command_runs_as_by_itself_and_its_output_is_kept(start: Start, home: Path) -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    process = start("run", "--", sys.executable, "-c", code, THREADKEEP_SESSION_ID=SESSION)
    out, err = process.communicate()
    assert (process.returncode, out, err) == (3, b"out\n", b"err\n")
    data = payload(home)
    assert (data["exit_code"], data["session_id"]) == (3, SESSION)
    assert (data["stdout"]["content"], data["stderr"]["content"]) == ("out\n", "err\n")
    assert left(home)[0]["threadkeep"]["origin"] == "run"


def test_options_of_the_command_are_its_own(start: Start, home: Path) -> None:
    process = start("run", sys.executable, "-c", "print('--json')", "--json", "-c")
    out, _ = process.communicate()
    assert (process.returncode, out) == (0, b"--json\n")


def test_a_text_is_run_by_the_shell(start: Start, home: Path) -> None:
    process = start("run", "--json", "-c", "echo abc | tr a-c x-z; exit 4", SHELL="/bin/sh")
    out, err = process.communicate()
    assert (process.returncode, out) == (4, b"xyz\n")
    assert json.loads(err)["run"]["exit_code"] == 4
    assert payload(home)["command"] == "echo abc | tr a-c x-z; exit 4"


def test_nothing_is_kept_when_it_is_off(start: Start, home: Path) -> None:
    process = start("run", "echo", "secret", THREADKEEP_SHELL="off")
    assert process.communicate()[0] == b"secret\n"
    assert left(home) == []


def test_a_spool_that_cannot_be_written_is_no_failure_of_the_command(
    start: Start, home: Path
) -> None:
    home.mkdir()
    (home / "spool").write_text("in the way")
    process = start("run", "echo", "done")
    out, err = process.communicate()
    assert (process.returncode, out) == (0, b"done\n")
    assert b"nothing was kept of it" in err


def test_a_missing_program_is_127(start: Start, home: Path) -> None:
    process = start("run", "no-such-program-here")
    assert b"no such program" in process.communicate()[1]
    assert process.returncode == 127


@pytest.mark.parametrize("words", [[], ["-c", "ls", "ls"]], ids=["none", "both"])
def test_one_command_must_be_given(words: list[str], run: Run, home: Path) -> None:
    assert "give one command" in run("run", *words, code=2).stderr
