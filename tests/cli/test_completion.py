"""Shell completion: the scripts, and session ids with their titles."""

from pathlib import Path

import pytest

from tests.cli.conftest import HOSTILE, Run, Start, document, talk
from threadkeep import ChatStore


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell(shell: str, run: Run) -> None:
    assert "_THREADKEEP_COMPLETE" in run("completion", shell).stdout
    assert document(run("completion", shell, "--json"))["shell"] == shell


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
