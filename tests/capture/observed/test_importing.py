"""Importing shell histories: each command once, also when hooks saw it, and however often."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from threadkeep import Home
from threadkeep.capture.observed.observed import Observations
from threadkeep.capture.observed.shell_history import HistoryFile
from threadkeep.knowledge.records import Command

AT = 1_800_000_000
ID = "11111111-0000-4000-8000-000000000001"
SESSION = "22222222-2222-4222-8222-222222222222"


@pytest.fixture
def observations(tmp_path: Path) -> Iterator[Observations]:
    with Home(tmp_path / "h").observations() as observations:
        yield observations


def history(tmp_path: Path, kind: str, text: str) -> HistoryFile:
    path = tmp_path / f"{kind}_history"
    path.write_text(text)
    os.utime(path, (AT + 99, AT + 99))
    return HistoryFile(kind, path)  # type: ignore[arg-type]


def test_a_history_with_times_is_brought_in_once(
    tmp_path: Path, observations: Observations
) -> None:
    file = history(tmp_path, "zsh", f": {AT}:3;make\n: {AT + 9}:0;ls\n: {AT + 9}:0;ls\n")
    assert observations.import_history([file]).new == 3
    assert observations.import_history([file]).new == 0
    found = [(e.timestamp, e.command, e.duration_ms) for e in observations.events()]
    assert sorted(found) == [
        ((AT + 3) * 1000, "make", 3000),
        ((AT + 9) * 1000, "ls", 0),
        ((AT + 9) * 1000, "ls", 0),
    ]
    assert all(event.exit_code is None for event in observations.events())


def test_what_a_hook_saw_is_not_brought_in_again(
    tmp_path: Path, observations: Observations
) -> None:
    seen = Command(ID, SESSION, (AT + 3) * 1000 + 420, "make", "/u", 0, 3200, origin="hook")
    observations.report(seen)
    observations.collect()
    file = history(tmp_path, "zsh", f": {AT}:3;make\n: {AT + 60}:3;make\n")
    (came,) = observations.import_history([file]).files
    assert (came.commands, came.stored.new, came.stored.known) == (2, 1, 1)


def test_without_times_every_command_is_kept_once(
    tmp_path: Path, observations: Observations
) -> None:
    observations.report(Command(ID, SESSION, AT * 1000, "ls", "/u", 0))
    observations.collect()
    file = history(tmp_path, "bash", "ls\nmake\nls\nmake\ngit push\n")
    assert observations.import_history([file]).new == 2
    events = observations.events()
    assert sorted(e.command for e in events) == ["git push", "ls", "make"]
    assert {e.timestamp for e in events if e.command != "ls"} == {(AT + 99) * 1000}


def test_a_dry_run_stores_nothing(tmp_path: Path, observations: Observations) -> None:
    file = history(tmp_path, "fish", f"- cmd: make\n  when: {AT}\n")
    (came,) = observations.import_history([file], dry_run=True).files
    assert (came.commands, came.stored.new) == (1, 0)
    assert observations.events() == []


def test_secrets_are_masked_and_exclusions_hold(tmp_path: Path) -> None:
    folder = tmp_path / "h"
    folder.mkdir()
    (folder / "config.toml").write_text('[shell]\nexclude = ["pass"]\n')
    secret = "AKIA" + "Q3EGWTZ5XLN7RBVD"
    file = history(tmp_path, "zsh", f": {AT}:0;export K={secret}\n: {AT}:0;pass show x\n")
    with Home(folder).observations() as observations:
        (came,) = observations.import_history([file]).files
        assert (came.stored.new, came.stored.excluded) == (1, 1)
        assert secret not in observations.events()[0].command


def test_what_run_reported_by_itself_is_left_out(
    tmp_path: Path, observations: Observations
) -> None:
    lines = f": {AT}:0;threadkeep run -- make\n: {AT}:0;threadkeep run true; ls\n"
    assert observations.import_history([history(tmp_path, "zsh", lines)]).new == 1
    assert [e.command for e in observations.events()] == ["threadkeep run true; ls"]
