"""The frame: help pages, usage errors, exit codes, and how errors are told."""

import io
import shlex
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests.cli.conftest import HOSTILE, Run, Start, talk
from tests.conftest import REPO
from threadkeep import ChatStore, errors
from threadkeep.cli.app import main
from threadkeep.cli.command import Commands, command, confirm
from threadkeep.cli.root import SECTIONS, cli

PIPES = ("|", "<", ">")


def commands(
    group: click.Group = cli, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    lazy = group.entries() if isinstance(group, Commands) else {}
    context = click.Context(group)
    for name in (*lazy, *group.commands):
        found = group.get_command(context, name)
        assert found is not None, name
        yield (*path, name), found
        if isinstance(found, click.Group):
            yield from commands(found, (*path, name))


ALL = dict(commands())
LEAVES = {path: found for path, found in ALL.items() if not isinstance(found, click.Group)}


def test_every_command_of_the_contract_is_there() -> None:
    chat = "ls show search tail record fork rewind archive export import diff rm size prune verify"
    rest = "paths status demo backup restore migrate completion man import up export resume"
    rest += " capture watch sessions show search sources usage raw forget tail"
    rest += " commands events run shell-init import-history lessons probe label labels"
    rest += " compare sql budget uninstall"
    rest += " version tui statusline native-host native-messaging-host gh-poll"
    rest += " gh-pending-notifications"
    rest += " memories recall ask timeline fixed similar context open enrich embed doctor serve"
    state = "ls show search stats lineage title pin unpin archive rewind undo export import rm"
    state += " prune compact sizes check reindex release"
    mail = "new ls send poll ack tail trace retry pause verify sweep serve next ncl prune"
    mail += " echo demo"
    chat, state, mail = f"{chat} check sizes", f"{state} verify size", f"{mail} check"
    groups = {"chat": chat, "state": state, "mail": mail, "mcp": "install uninstall"}
    groups |= {"redact": "test rules add rescan undo", "knowledge": "check migrate"}
    groups |= {"projects": "list ls rename merge split"}
    groups |= {"browser": "install uninstall domains", "github": "poll watch pending runs"}
    groups |= {"send-event": "shell watchlist", "watchdog": "run"}
    groups |= {"alarms": "list ls ack prune", "service": "install status uninstall"}
    groups |= {"web": "logins revoke"}
    grouped = [f"{group} {name}" for group, names in groups.items() for name in names.split()]
    named = [*grouped, *rest.split()]
    assert sorted(" ".join(path) for path in LEAVES) == sorted(named)


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_help_page_has_an_example_that_parses(path: tuple[str, ...], run: Run) -> None:
    page = run(*path, "--help").stdout
    examples = page.partition("Example:\n")[2].splitlines()
    assert examples
    for line in examples:
        words = shlex.split(line.partition('"$(')[2].rstrip(')"') or line)
        words = words[words.index("threadkeep") + 1 :]
        ends = [at for at, word in enumerate(words) if word in PIPES]
        parse(words[: ends[0]] if ends else words)


def parse(words: list[str]) -> None:
    """Parse a command line to the end, without running it."""
    context = cli.make_context("threadkeep", list(words))
    while isinstance(context.command, click.Group):
        rest = [*context._protected_args, *context.args]
        if not rest and context.command.invoke_without_command:
            return
        name, found, arguments = context.command.resolve_command(context, rest)
        assert found is not None
        context = found.make_context(name, arguments, parent=context)


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_every_command_answers_in_json_when_asked(path: tuple[str, ...]) -> None:
    assert "--json" in {name for param in LEAVES[path].params for name in param.opts}


def test_the_same_thing_has_the_same_name_everywhere() -> None:
    for path, leaf in LEAVES.items():
        named = {name: param for param in leaf.params for name in param.opts}
        if "--limit" in named:
            assert "-n" in named["--limit"].opts, path
        assert "--harness" not in named, path
        for name in ("--project", "--db"):
            if name in named:
                assert named[name]._custom_shell_complete is not None, (path, name)


def test_what_is_listed_comes_as_lines_of_json_as_well() -> None:
    listing = "sessions search recall similar fixed timeline commands lessons sources usage show"
    for name in (*listing.split(), "chat ls", "state search", "mail ls", "alarms list"):
        options = {one for param in LEAVES[tuple(name.split())].params for one in param.opts}
        assert "--jsonl" in options, name


def test_the_root_lists_every_command_in_one_line_of_80_columns(run: Run) -> None:
    lines = run("--help").stdout.splitlines()
    shown = [entry.summary for title, part in SECTIONS.items() if title for entry in part.values()]
    assert all(summary and len(summary) <= 58 for summary in shown)
    assert all(any(line.endswith(f"  {summary}") for line in lines) for summary in shown)
    assert all(f"{title}:" in lines for title in SECTIONS if title)


def test_help_and_completion_of_the_root_load_no_command(start: Start) -> None:
    script = (
        "import sys; from threadkeep.cli.app import main; main(['--help']);"
        "print(*(one for one in sys.modules if one.startswith(('threadkeep.', 'rich'))))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    loaded = set(done.stdout.decode().splitlines()[-1].split())
    assert "threadkeep.cli.root" in loaded
    assert not {one for one in loaded if one.startswith(("rich", "threadkeep.home.home"))}
    assert "threadkeep.cli.memory.recall" not in loaded


@pytest.mark.parametrize("path", [("chat", "rm"), ("chat", "prune"), ("restore",)], ids=" ".join)
def test_what_deletes_has_a_dry_run(path: tuple[str, ...]) -> None:
    assert "--dry-run" in {name for param in LEAVES[path].params for name in param.opts}


def test_the_version_is_the_one_of_the_project(run: Run) -> None:
    project = tomllib.loads((REPO / "pyproject.toml").read_text("utf-8"))["project"]
    assert run("--version").stdout == f"threadkeep {project['version']}\n"


def test_without_a_command_the_help_page_is_shown(run: Run) -> None:
    assert "Usage:" in run().stdout
    assert "Usage:" in run("chat").stdout


# ---------------------------------------------------------------------- exit codes

EXPECTED = {
    "ThreadkeepError": 1,
    "NotFound": 3,
    "NoStore": 3,
    "Invalid": 2,
    "TooLarge": 2,
    "ProtocolViolation": 2,
    "UnsupportedEngine": 2,
    "Conflict": 1,
    "Busy": 4,
    "SchemaMismatch": 5,
    "Damaged": 1,
    "StorageFull": 1,
    "ReadOnly": 1,
    "Unreachable": 4,
    "Closed": 1,
}


def test_the_table_of_exit_codes_names_every_error() -> None:
    kinds = {name for name, kind in vars(errors).items() if isinstance(kind, type)}
    assert kinds == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_an_error_is_told_with_its_hint_and_its_exit_code(name: str, home: Path) -> None:
    error: errors.ThreadkeepError = getattr(errors, name)(f"it {HOSTILE} broke", hint="fix it")

    @command("try", "threadkeep try")
    def fails(_call: object) -> None:
        raise error

    result = CliRunner().invoke(fails)
    assert result.exit_code == EXPECTED[name]
    assert result.stdout == ""
    first, second = result.stderr.splitlines()
    assert first.startswith("error: it red [bold]markup[/bold]")
    assert "\x1b" not in first
    assert second == "hint: fix it"


def test_ctrl_c_exits_with_130(home: Path) -> None:
    @command("try", "threadkeep try")
    def interrupted(_call: object) -> None:
        raise KeyboardInterrupt

    result = CliRunner().invoke(interrupted)
    assert (result.exit_code, result.stderr) == (130, "interrupted\n")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("answer, goes_on", [("y\n", True), ("n\n", False), ("\n", False)])
def test_a_person_is_asked(*, answer: str, goes_on: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    with nullcontext() if goes_on else pytest.raises(errors.ThreadkeepError, match="nothing was"):
        confirm("delete it?", yes=False)
    confirm("delete it?", yes=True)


@pytest.mark.parametrize(
    "words, code, said",
    [
        (["nonsense"], 2, "error: No such command"),
        (["recal", "x"], 2, "error: No such command 'recal'.\nhint: did you mean `recall`?"),
        (["sessions", "--sinse", "7d"], 2, "error: No such option '--sinse'.\nhint: did you mean"),
        (["show", "message:12"], 3, "error: there is no knowledge store"),
        (["chat", "ls", "--nonsense"], 2, "error: No such option"),
        (["chat", "show"], 2, "error: Missing argument"),
        (["chat", "ls"], 3, "error: there is no chat store"),
        (["--home", "postgres://host/db", "backup"], 2, "error: no backup of the chat store"),
    ],
)
def test_errors_of_a_real_run(
    words: list[str], code: int, said: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(said)
    assert "\nhint: " in shown.err


def test_a_newer_file_is_refused_with_5(run: Run, store: ChatStore, home: Path) -> None:
    store.close()
    with sqlite3.connect(home / "chat.db") as database:
        database.execute("UPDATE tk_meta SET value = '99' WHERE key = 'schema_version'")
    database.close()
    assert "schema version 99" in run("chat", "ls", code=5).stderr


def test_a_name_that_several_sessions_share_is_refused(run: Run, store: ChatStore) -> None:
    first, second = talk(store), talk(store)
    shown = run("chat", "show", "ses_", code=2).stderr
    assert first.id in shown
    assert second.id in shown


@pytest.mark.parametrize("length", [30, 28])
def test_a_session_is_found_by_a_beginning_of_its_id(
    length: int, run: Run, store: ChatStore
) -> None:
    session = talk(store)
    assert session.id in run("chat", "show", session.id[:length]).stdout
    assert session.id in run("chat", "show", session.id[len("ses_") : length]).stdout


def test_last_is_the_session_that_changed_last(run: Run, store: ChatStore) -> None:
    first = talk(store, "first")
    talk(store, "second")
    store.say(first, "again")
    assert "first" in run("chat", "show", "last").stdout


# ---------------------------------------------------------------------- as a process


def test_python_m_threadkeep_runs(start: Start) -> None:
    process = start("--version")
    out, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
    assert out.startswith(b"threadkeep ")


def test_a_reader_that_leaves_is_no_failure(start: Start, store: ChatStore) -> None:
    session = store.create_session(agent="build", model="p/m")
    for _ in range(40):
        store.say(session, "a long line " * 1000)  # more than a pipe holds
    process = start("chat", "export", session.id)
    assert process.stdout is not None
    assert process.stdout.read(10) == b'{"type":"s'
    process.stdout.close()
    assert process.wait() == 0
    assert process.stderr is not None
    assert process.stderr.read() == b""


@pytest.mark.parametrize("setting", ["", "NO_COLOR"])
def test_colour_is_for_terminals_that_want_it(setting: str, home: Path, store: ChatStore) -> None:
    import os
    import pty

    talk(store, HOSTILE)
    main_end, terminal = pty.openpty()
    environ = os.environ | {"PYTHONPATH": str(REPO / "src"), "TERM": "xterm", "COLUMNS": "200"}
    environ |= {setting: "1"} if setting else {}
    shown = [sys.executable, "-m", "threadkeep", "chat", "show", "last"]
    with subprocess.Popen(shown, env=environ, stdin=terminal, stdout=terminal, stderr=terminal):
        os.close(terminal)
        output = b"".join(iter(lambda: read_or_end(main_end), b""))
    os.close(main_end)
    assert b"an answer" in output
    assert b"[bold]markup[/bold]" in output  # never read as markup
    assert b"\x1b]0;" not in output
    assert "\u202e".encode() not in output
    assert (b"\x1b[1;32muser" in output) == (setting == "")


def read_or_end(descriptor: int) -> bytes:
    import os

    try:
        return os.read(descriptor, 4096)
    except OSError:  # Linux says so when the last program has closed the terminal
        return b""


def test_output_in_an_old_encoding_shows_numbers_instead_of_failing(
    start: Start, store: ChatStore
) -> None:
    talk(store, "naïve 😀")
    process = start("chat", "ls", PYTHONIOENCODING="latin-1")
    out, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
    assert b"na\xefve \\U0001f600" in out
