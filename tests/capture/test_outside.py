"""What lies outside the log folders, and what may not be looked into: never read, always told."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.histories import claude_log, said
from tests.conftest import need_tool
from tests.support.toy_sources import conversation
from tests.support.worlds import World
from threadkeep.capture import records
from threadkeep.errors import Invalid
from threadkeep.home.home import Home
from threadkeep.sources.files import LogFile
from threadkeep.sources.records import Log

SECRET = conversation(3, start=500)


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.write(conversation(2))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.jsonl").write_bytes(SECRET)
    return made


def held(world: World) -> bytes:
    with world.history() as history:
        return b"\n".join(line for one in history.sessions() for line in history.raw(one))


# ---------------------------------------------------------------------- links


def test_a_link_to_a_file_is_passed_over_and_told(world: World) -> None:
    link = world.home / "logs" / "x.jsonl"
    link.symlink_to(world.home / "elsewhere" / "x.jsonl")
    report = world.lines_report(world.capture())
    assert (report.found, report.errors) == (1, {})
    assert "link" in report.passed[str(link)]
    assert b"word500" not in held(world)
    with world.history() as history:
        assert str(link) in history.coverage().sources[0].passed


def test_a_link_to_a_folder_is_passed_over_and_told(world: World) -> None:
    link = world.home / "logs" / "more"
    link.symlink_to(world.home / "elsewhere")
    report = world.lines_report(world.capture())
    assert list(report.passed) == [str(link)]
    assert b"word500" not in held(world)


def test_a_root_that_is_a_link_is_followed(world: World) -> None:
    shutil.move(world.home / "logs", world.home / "disk")
    (world.home / "logs").symlink_to(world.home / "disk")
    assert world.lines_report(world.capture()).lines == 2


@pytest.mark.parametrize("swapped", ["file", "folder"])
def test_what_becomes_a_link_after_it_was_found_is_not_read(
    world: World, monkeypatch: pytest.MonkeyPatch, swapped: str
) -> None:
    inner = world.home / "logs" / "inner"
    world.write(conversation(2, start=9), to=inner / "x.jsonl")
    real = records.rooted

    def swap(log: Log, roots: list[str]) -> Log:
        if log.path.endswith("x.jsonl"):
            target = world.home / "elsewhere"
            place = inner / "x.jsonl" if swapped == "file" else inner
            shutil.rmtree(inner) if swapped == "folder" else place.unlink()
            place.symlink_to(target / "x.jsonl" if swapped == "file" else target)
        return real(log, roots)

    monkeypatch.setattr(records, "rooted", swap)
    report = world.lines_report(world.capture())
    assert list(report.errors) == [str(inner / "x.jsonl")]
    assert b"word500" not in held(world)


@pytest.mark.parametrize("name", ["link.jsonl", "folder/x.jsonl", "pipe"])
def test_only_plain_files_inside_the_root_are_opened(world: World, name: str) -> None:
    root = world.home / "logs"
    (root / "link.jsonl").symlink_to(world.home / "elsewhere" / "x.jsonl")
    (root / "folder").symlink_to(world.home / "elsewhere")
    os.mkfifo(root / "pipe")
    with pytest.raises(Invalid):
        LogFile(str(root / name), str(root))
    with pytest.raises(Invalid):
        LogFile(str(root / ".." / "elsewhere" / "x.jsonl"), str(root))


def test_every_program_passes_over_links(tmp_path: Path) -> None:
    """The folders of all programs, each with a link where a log would be."""
    secret = tmp_path / "shadow"
    secret.write_text("root:x:0:0\n")
    user, home = tmp_path / "user", Home(tmp_path / "tk", environ={})
    places = [
        *(".claude/projects/-p/x.jsonl", ".codex/sessions/2026/rollout-x.jsonl"),
        *(".codex/session_index.jsonl", ".cursor/projects/p/agent-transcripts/x.jsonl"),
        *(".cursor/chats/p/c/store.db", ".config/Cursor/User/globalStorage/state.vscdb"),
        *(".local/share/opencode/opencode.db", ".local/share/opencode/storage/session/p/s.json"),
        *(".gemini/tmp/p/chats/x.jsonl", ".gemini/tmp/p/chats/x.json"),
        *(".copilot/session-state/s/events.jsonl", ".copilot/session-state/x.jsonl"),
        *(".pi/agent/sessions/p/x.jsonl", ".openclaw/agents/a/sessions/x.jsonl"),
        *("projects/p/.aider.chat.history.md", ".hermes/state.db"),
    ]
    for place in places:
        (user / place).parent.mkdir(parents=True, exist_ok=True)
        (user / place).symlink_to(secret)
    with home.history(user_home=user) as history:
        report = history.capture()
        assert report.errors == 0
        assert sum(part.found for part in report.agents.values()) == 0
        told = {path for part in report.agents.values() for path in part.passed}
        assert told == {str(user / place) for place in places}


# ---------------------------------------------------------------------- folders that are closed


def bound(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run a command whom permissions bind: they do not bind root, unless it gives that up."""
    weak = [need_tool("setpriv"), "--inh-caps=-all", "--bounding-set=-all"]
    env = {"HOME": str(folder), "THREADKEEP_HOME": str(folder / "tk"), "PATH": os.environ["PATH"]}
    command = [sys.executable, "-m", "threadkeep", *words]
    return subprocess.run(
        [*weak, *command] if os.geteuid() == 0 else command,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_closed_project_folder_is_told_by_everybody(tmp_path: Path) -> None:
    project = claude_log(tmp_path, said("user", "hello")).parent
    project.chmod(0)
    fix = f"chmod u+rX {project}"
    captured = bound(tmp_path, "capture")
    assert captured.returncode == 1, captured.stderr
    assert str(project) in captured.stderr
    assert fix in captured.stderr
    listed = bound(tmp_path, "sources", "--json")
    (claude,) = [
        one for one in json.loads(listed.stdout)["sources"] if one["name"] == "claude-code"
    ]
    assert fix in claude["unseen"][str(project)]
    assert fix in bound(tmp_path, "sources").stderr
    judged = json.loads(bound(tmp_path, "doctor", "--json").stdout)
    (finding,) = [one for one in judged["findings"] if one["check"] == "coverage claude-code"]
    assert (finding["level"], finding["fix"]) == ("fail", fix)
    watched = bound(tmp_path, "watchdog", "run")
    assert fix in watched.stdout + watched.stderr
    project.chmod(0o700)
    assert bound(tmp_path, "capture").returncode == 0


def test_what_was_captured_before_its_folder_closed_is_not_called_gone(tmp_path: Path) -> None:
    log = claude_log(tmp_path, said("user", "hello"))
    assert bound(tmp_path, "capture").returncode == 0
    log.parent.chmod(0)
    assert bound(tmp_path, "capture").returncode == 1
    assert "no longer on the disk" not in bound(tmp_path, "sources").stderr
    watched = bound(tmp_path, "watchdog", "run")  # right behind a capture
    assert f"chmod u+rX {log.parent}" in watched.stdout + watched.stderr
    log.parent.chmod(0o700)
    log.chmod(0)
    captured = bound(tmp_path, "capture")
    assert captured.returncode == 1
    assert f"(chmod u+r {log})" in captured.stderr


def test_a_closed_folder_above_the_logs_is_named_itself(tmp_path: Path) -> None:
    claude_log(tmp_path, said("user", "hello"))
    (tmp_path / ".claude").chmod(0)
    captured = bound(tmp_path, "capture")
    assert captured.returncode == 1
    assert f"chmod u+rX {tmp_path / '.claude'}" in captured.stderr


@pytest.mark.parametrize("code, told", [(5, True), (116, True), (40, True), (2, False)])
def test_whatever_keeps_us_from_looking_is_told_but_that_nothing_is_there(
    world: World, monkeypatch: pytest.MonkeyPatch, code: int, *, told: bool
) -> None:
    """EIO of a dying disk, ESTALE of a lost mount, ELOOP; and ENOENT."""
    world.capture()
    real = os.scandir

    def failing(place: str) -> Iterator[os.DirEntry[str]]:
        if str(place) == str(world.home / "logs"):
            raise OSError(code, os.strerror(code), place)
        return real(place)

    monkeypatch.setattr(os, "scandir", failing)
    report = world.lines_report(world.capture())
    assert list(report.errors) == ([str(world.home / "logs")] if told else [])
    assert (world.log_row()["gone_at"] is None) is told
    with world.history() as history:
        assert bool(history.coverage().sources[0].unseen) is told
