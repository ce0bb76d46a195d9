"""The pager: on a terminal alone, the user's own, and never against their will."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.histories import captured
from tests.cli.test_app import read_or_end
from tests.conftest import REPO


def on_a_terminal(*words: str) -> str:
    main_end, terminal = pty.openpty()
    environ = os.environ | {"PYTHONPATH": str(REPO / "src"), "TERM": "xterm", "COLUMNS": "60"}
    environ |= {"PAGER": "sed s/^/paged:/", "NO_COLOR": "1"}
    shown = [sys.executable, "-m", "threadkeep", *words]
    with subprocess.Popen(shown, env=environ, stdin=terminal, stdout=terminal, stderr=terminal):
        os.close(terminal)
        output = b"".join(iter(lambda: read_or_end(main_end), b""))
    os.close(main_end)
    return output.decode()


def test_long_answers_go_through_the_pager(run: Run) -> None:
    captured(run)
    assert "paged:id" in on_a_terminal("sessions")
    assert "paged:" in on_a_terminal("show", "last")
    assert "paged:" not in on_a_terminal("sessions", "--no-pager")


@pytest.mark.parametrize("width", [40, 80, 200])
def test_tables_fit_the_terminal(run: Run, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from threadkeep.cli.output import _console

    captured(run)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(width))
    for words in (
        ["sessions"],
        ["usage", "daily", "--breakdown"],
        ["usage", "blocks"],
        ["commands"],
    ):
        _console.cache_clear()
        lines = run(*words).stdout.replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines()
        assert lines
        assert max(map(len, lines)) <= width
    _console.cache_clear()


def test_quiet_leaves_data_warnings_and_errors(run: Run, home: Path) -> None:
    captured(run)
    assert run("sessions", "-n", "1").stderr != ""
    assert run("--quiet", "sessions", "-n", "1").stderr == ""
    assert run("-q", "show", "nothing-like-it", code=3).stderr != ""
