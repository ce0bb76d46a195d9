"""`threadkeep serve` and `threadkeep service`, as they are typed."""

import json
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from threadkeep.cli.serve import serve, service
from threadkeep.service import unit_files


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the user's home an empty folder, on a system that has no service manager."""
    home = tmp_path / "user"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("THREADKEEP_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "THREADKEEP_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(
        unit_files,
        "run_tool",
        lambda words: unit_files.SystemCommand(words, done=True, said="active"),
    )
    return home


def run(*words: str, code: int = 0) -> Result:
    root = click.Group(
        "threadkeep",
        commands={one.name or "": one for one in (serve, service)},
        params=[click.Option(["--home"])],
        callback=lambda home: None,
    )
    result = CliRunner().invoke(root, words)
    assert result.exit_code == code, (result.exit_code, result.output, result.exception)
    return result


def answer(*words: str, code: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*words, "--json", code=code).stdout)
    return found


def unit_file(user: Path) -> Path:
    return user / ".config" / "systemd" / "user" / "threadkeep.service"


def test_a_dry_run_shows_everything_and_writes_nothing(user: Path, tmp_path: Path) -> None:
    shown = run("--home", "h", "service", "install", "--hippo-dir", "--dry-run")
    assert f'"--home" "{Path("h").absolute()}" "serve" "--hippo-dir"' in shown.stdout
    assert f'"{user}/.local/share/hippo"' in shown.stdout
    assert "would run systemctl --user enable threadkeep.service" in shown.stderr
    assert list(user.iterdir()) == []
    assert not (tmp_path / "home").exists()


def test_installed_then_uninstalled_nothing_is_left(user: Path) -> None:
    run("service", "install")
    assert sys.executable in unit_file(user).read_text()
    state = answer("service", "status", code=1)
    assert state["unit"]["installed"] is True
    assert state["unit"]["active"] == "active"
    assert state["serving"]["running"] is False
    run("service", "uninstall", "--dry-run")
    assert unit_file(user).exists()
    assert answer("service", "uninstall")["action"] == "remove"
    assert list(user.iterdir()) == []


def test_without_a_service_manager_the_commands_are_named(
    user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        unit_files,
        "run_tool",
        lambda words: unit_files.SystemCommand(words, done=False, said="no systemctl here"),
    )
    told = run("service", "install", code=1).stderr
    assert "run it by hand: systemctl --user daemon-reload (no systemctl here)" in told
    assert "run it by hand: systemctl --user restart threadkeep.service" in told
    assert unit_file(user).exists()


def test_serving_is_told_where_everything_is(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, Any]] = []

    def note(_home: object, _stop: object, tell: Any, **options: Any) -> None:
        tell("it works")
        given.append(options)

    monkeypatch.setattr("threadkeep.service.serve.serve", note)
    run("serve", "--hippo-dir", "--no-socket", "--no-web")
    run("serve", "--hippo-dir", "/d", "--user-home", str(user), "--no-web")
    assert [one["hippo_dir"] for one in given] == [user / ".local/share/hippo", Path("/d")]
    assert [one["socket"] for one in given] == [False, True]
    lines = run("serve", "--json", "--no-web").stdout.splitlines()
    assert [json.loads(line)["told"] for line in lines] == ["it works", "ended"]
    assert [one["more"] for one in given] == [()] * 3


def test_serving_brings_the_page_and_says_where(
    user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[Any, ...]] = []
    monkeypatch.setattr("threadkeep.service.serve.serve", lambda *_, more, **__: given.append(more))
    told = run("serve").stderr
    assert "the page is at http://127.0.0.1:" in told
    assert [[part.name for part in more] for more in given] == [["web"]]


def test_serving_goes_on_without_what_the_page_needs(
    user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[Any, ...]] = []
    monkeypatch.setattr("threadkeep.service.serve.serve", lambda *_, more, **__: given.append(more))
    monkeypatch.setattr("threadkeep.cli.serve.missing_packages", lambda: ["starlette"])
    assert "pip install 'threadkeep[web]'" in run("serve").stderr
    assert given == [()]
