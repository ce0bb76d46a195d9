"""Shell completion: the scripts in their real shells, and session ids with their titles."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from tests.cli.conftest import HOSTILE, Run, Start, document, talk
from tests.cli.histories import CLAUDE, captured
from tests.conftest import REPO, need_tool
from threadkeep import ChatStore
from threadkeep.cli.root import cli


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell(shell: str, run: Run) -> None:
    assert "_THREADKEEP_COMPLETE" in run("completion", shell).stdout
    assert document(run("completion", shell, "--json"))["shell"] == shell


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_installed_where_its_shell_looks(
    shell: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    said = run("completion", shell, "--install").stderr
    (written,) = [path for path in tmp_path.rglob("*threadkeep*") if path.is_file()]
    assert str(written) in said
    assert written.read_text("utf-8") == run("completion", shell).stdout


def offered(start: Start, *words: str) -> list[str]:
    process = start(
        _THREADKEEP_COMPLETE="zsh_complete",
        COMP_WORDS=" ".join(["threadkeep", *words]),
        COMP_CWORD=str(len(words)),
    )
    out, err = process.communicate()
    assert err == b""
    return [line for line in out.decode().splitlines() if line]


def test_session_ids_are_offered_with_their_titles(start: Start, store: ChatStore) -> None:
    session = talk(store, HOSTILE)
    lines = offered(start, "chat", "show", "ses_")
    assert session.id in lines
    title = lines[lines.index(session.id) + 1]
    assert title.startswith("red [bold]markup[/bold]")
    assert not set(title) & {"\x1b", "\x07", "\u202e"}
    assert offered(start, "chat", "show", "nothing-like-it") == []


def test_completion_looks_into_the_file_that_is_named(
    start: Start, store: ChatStore, tmp_path: object
) -> None:
    session = talk(store)
    path = str(store.path)
    assert session.id in offered(start, "--home", "/nowhere", "chat", "--db", path, "rm", "ses_")


def test_completion_is_silent_where_there_is_no_store(start: Start) -> None:
    assert offered(start, "chat", "show", "ses_") == []


def test_commands_are_offered(start: Start) -> None:
    assert "record" in offered(start, "chat", "rec")


def test_sessions_with_a_mailbox_are_offered_and_folders(
    start: Start, run: Run, tmp_path: Path
) -> None:
    made = document(run("mail", "new", HOSTILE, "--json"))["session"]
    lines = offered(start, "mail", "send", "sess-")
    assert made in lines
    assert not set(lines[lines.index(made) + 1]) & {"\x1b", "\x07", "\u202e"}
    assert "dir" in offered(start, "mail", "ls", f"{tmp_path}/")
    assert offered(start, "--home", "/nowhere", "mail", "send", "sess-") == []


@pytest.mark.parametrize(
    "words, typed, expected",
    [
        (["sessions", "--project"], "h", ["harbor"]),
        (["usage", "--agent"], "co", ["codex", "copilot-cli"]),
        (["show"], "la", ["last"]),
        (["status", "--store"], "ch", ["chat"]),
        (["usage"], "sta", ["statusline"]),
        ([], "usa", ["usage"]),
        (["--home", "/nowhere", "sessions", "--project"], "h", []),
    ],
)
def test_what_a_command_line_may_go_on_with(
    words: list[str], typed: str, expected: list[str], run: Run
) -> None:
    captured(run)
    shell = ShellComplete(cli, {}, "threadkeep", "_THREADKEEP_COMPLETE")
    assert [one.value for one in shell.get_completions(words, typed)] == expected


# ---------------------------------------------------------------------- in the real shells

TITLE = "Fix the flaky test of the departures board"
BASH = """
compopt() { :; }
source "$SCRIPT"
complete_words() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _threadkeep threadkeep; }
complete_words threadkeep show 5f0c; printf '%s\\n' "${COMPREPLY[@]}"
complete_words threadkeep show Fix; printf '%s\\n' "${COMPREPLY[@]}"
"""
ZSH = """
compdef() { : }
_describe() { print -l -- ${(P)3} }
compadd() { print -l -- ${(P)4} }
source "$SCRIPT"
words=(threadkeep show 5f0c); CURRENT=3; _threadkeep
words=(threadkeep show Fix); CURRENT=3; _threadkeep
"""
FISH = """
source "$SCRIPT"
complete -C 'threadkeep show 5f0c'
complete -C 'threadkeep show Fix'
"""


@pytest.mark.parametrize(
    "shell, words, between",
    [("bash", BASH, None), ("zsh", ZSH, ":"), ("fish", FISH, "\t")],
    ids=["bash", "zsh", "fish"],
)
def test_ids_and_titles_complete(
    shell: str, words: str, between: str | None, run: Run, tmp_path: Path
) -> None:
    captured(run)
    script, command = tmp_path / "script", tmp_path / "bin" / "threadkeep"
    script.write_text(run("completion", shell).stdout, "utf-8")
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m threadkeep "$@"\n', "utf-8")
    command.chmod(0o755)
    path = f"{command.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [need_tool(shell), "-c", words],
        env=os.environ
        | {"SCRIPT": str(script), "PATH": path, "HOME": str(tmp_path)}
        | {"PYTHONPATH": str(REPO / "src")},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    lines = done.stdout.splitlines()
    found = lines if between is None else [line.partition(between)[0] for line in lines]
    assert found == [CLAUDE, TITLE]
    if between is not None:
        assert lines[0].endswith(TITLE)
