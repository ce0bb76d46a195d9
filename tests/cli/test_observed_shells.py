"""shell-init and import-history: what they change, what they bring in, what they say."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Run, document


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the user's home an empty folder: no test looks at the real one."""
    home = tmp_path / "user"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("ZDOTDIR", "HISTFILE", "ATUIN_DB_PATH", "THREADKEEP_SESSION_ID"):
        monkeypatch.delenv(name, raising=False)
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "HIPPO_SESSION_ID"):
        monkeypatch.delenv(name, raising=False)
    return home


# ---------------------------------------------------------------------- shell-init


def test_the_hook_is_installed_once_and_taken_out_byte_for_byte(
    run: Run, home: Path, user: Path
) -> None:
    start_up = user / ".zshrc"
    start_up.write_bytes(b"alias ll='ls -l'")  # no line end
    first = run("shell-init", "zsh")
    assert f"changed\t{start_up}" in first.stdout
    assert "open a new zsh" in first.stderr
    assert str(home / "spool") in (home / "hooks" / "hook.zsh").read_text("utf-8")
    again = run("shell-init", "zsh")
    assert "nothing to do" in again.stderr
    removed = document(run("shell-init", "zsh", "--uninstall", "--json"))
    assert [one["action"] for one in removed["files"]] == ["change", "remove"]
    assert start_up.read_bytes() == b"alias ll='ls -l'"
    assert "not installed" in run("shell-init", "zsh", "--uninstall").stderr


@pytest.mark.parametrize("shell", ["zsh", "bash", "fish"])
def test_a_dry_run_changes_nothing(shell: str, run: Run, home: Path, user: Path) -> None:
    shown = run("shell-init", shell, "--dry-run")
    assert shown.stdout.startswith("create\t")
    assert "nothing was changed" in shown.stderr
    assert list(user.iterdir()) == []
    assert not home.exists()


def test_the_hook_can_be_printed_instead(run: Run, home: Path, user: Path) -> None:
    script = run("shell-init", "bash", "--print").stdout
    assert f"'{home / 'spool'}'" in script
    assert document(run("shell-init", "bash", "--print", "--json"))["script"] == script
    assert not home.exists()
    assert "alone" in run("shell-init", "bash", "--print", "--uninstall", code=2).stderr


def test_a_shell_that_nobody_knows_is_a_usage_error(run: Run, user: Path) -> None:
    run("shell-init", "tcsh", code=2)


def test_commands_of_a_shell_with_the_hook_are_listed(run: Run, home: Path, user: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    run("shell-init", "bash")
    typed = "cd /\nfalse hello\nexit\n"
    environ = {"HOME": str(user), "PATH": "/usr/bin:/bin", "TERM": "dumb"}
    words = [bash, "--noprofile", "--rcfile", str(user / ".bashrc"), "-i"]
    subprocess.run(words, input=typed.encode(), env=environ, capture_output=True, check=False)
    found = document(run("commands", "false", "--json"))["commands"]
    assert [(one["command"], one["exit_code"], one["cwd"]) for one in found] == [
        ("false hello", 1, "/")
    ]


# ---------------------------------------------------------------------- import-history


def test_where_there_is_no_history_it_says_so(run: Run, home: Path, user: Path) -> None:
    assert "No shell history found" in run("import-history").stderr
    assert document(run("import-history", "--json"))["files"] == []
    assert not home.exists()


def test_histories_are_brought_in_once(run: Run, home: Path, user: Path) -> None:
    (user / ".bash_history").write_text("echo one\necho two\n")
    (user / ".zsh_history").write_text(": 1700000000:3;cargo test\n")
    rows = [line.split("\t") for line in run("import-history").stdout.splitlines()]
    assert sorted((row[0], *row[2:5]) for row in rows) == [
        ("bash", "2", "2", "0"),
        ("zsh", "1", "1", "0"),
    ]
    again = run("import-history", "--shell", "bash")
    assert again.stdout.split("\t")[2:5] == ["2", "0", "2"]
    assert "0 new commands" in again.stderr
    found = document(run("commands", "--json"))["commands"]
    assert {one["command"] for one in found} == {"echo one", "echo two", "cargo test"}


def test_a_dry_run_counts_and_begins_no_store(run: Run, home: Path, user: Path) -> None:
    (user / ".bash_history").write_text("echo one\necho two\n")
    assert "would look at 2 commands" in run("import-history", "--dry-run").stderr
    (file,) = document(run("import-history", "--dry-run", "--json"))["files"]
    assert file["commands"] == 2
    assert not home.exists()


def test_a_file_can_be_named(run: Run, home: Path, user: Path, tmp_path: Path) -> None:
    old = tmp_path / "old.txt"
    old.write_text("make all\n")
    assert "--shell" in run("import-history", str(old), code=2).stderr
    assert run("import-history", str(old), "--shell", "bash").stdout.split("\t")[3] == "1"
    assert "there is no file" in run("import-history", str(tmp_path / "none"), code=3).stderr


def test_a_history_that_cannot_be_read_does_not_stop_the_others(
    run: Run, home: Path, user: Path
) -> None:
    (user / ".bash_history").write_text("echo one\n")
    broken = user / ".local" / "share" / "atuin" / "history.db"
    broken.parent.mkdir(parents=True)
    broken.write_text("this is no database")
    result = run("import-history", code=1)
    assert "bash" in result.stdout
    assert str(broken) in result.stderr


def test_commands_that_the_user_keeps_out_are_not_imported(
    run: Run, home: Path, user: Path
) -> None:
    home.mkdir()
    (home / "config.toml").write_text('[shell]\nexclude = ["pass *"]\n')
    (user / ".bash_history").write_text("echo one\npass show bank\n")
    assert run("import-history").stdout.strip().split("\t")[2:6] == ["2", "1", "0", "1"]
    assert "bank" not in run("commands", "--json").stdout
