"""fish's own ways: private mode, its history, events of others, a clock in whole seconds."""

import re
import time
from pathlib import Path

import pytest

from tests.capture.observed.terminals import World, make_world
from threadkeep.capture.observed.shell_hooks import render


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path)


@pytest.mark.parametrize("setting", ["set -g fish_private_mode 1", "set -g fish_history ''"])
def test_without_a_history_nothing_is_written(world: World, setting: str) -> None:
    with world.shell("fish") as terminal:
        terminal.run("echo before")
        terminal.run(setting)
        terminal.run("echo hidden")
    assert world.commands() == ["echo before", setting]
    assert len(world.records("start1")) == 2


def test_the_users_own_choice_is_heard(world: World) -> None:
    choice = "function fish_should_add_to_history; not string match -q '*secret*' -- $argv; end"
    with world.shell("fish", after=choice) as terminal:
        terminal.run("echo secret")
        terminal.run("echo open")
    assert world.commands() == ["echo open"]


def test_others_find_the_status_as_it_was(world: World) -> None:
    theirs = """
    function theirs --on-event fish_postexec
        set -g last "<$status:$pipestatus>"
    end
    """
    shown = []
    for hook in (True, False):
        with world.shell("fish", after=theirs, hook=hook) as terminal:
            terminal.run("sh -c 'exit 3' | sh -c 'exit 4'")
            shown.append(terminal.run("echo $last $status").partition("\n")[2])
            terminal.run("sh -c 'exit 5'")
            shown[-1] += terminal.run("echo $status").partition("\n")[2]
    assert "<4:3 4>" in shown[1]
    assert [line.split("\x1b")[0] for line in shown] == [shown[1].split("\x1b")[0]] * 2


def test_commands_of_one_second_stay_in_order(world: World) -> None:
    with world.shell("fish") as terminal:
        for number in range(12):
            terminal.run(f"sleep 0.0{number % 3}")
    ends = world.records("end1")
    times = [float(value) for record in ends for value in (record["started"], record["ended"])]
    assert times == sorted(times)


def test_a_start_that_ended_has_the_same_start_in_both(world: World) -> None:
    with world.shell("fish") as terminal:
        terminal.run("true")
        terminal.run("false")
    starts = [(r["seq"], r["started"]) for r in world.records("start1")]
    assert starts == [(r["seq"], r["started"]) for r in world.records("end1")]


def test_an_older_fish_asks_linux_for_the_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def older(name: str, spool: Path) -> str:
        return render(name, spool).replace("(builtin --names)", "history")

    monkeypatch.setattr("tests.capture.observed.terminals.render", older)
    before = time.time()
    with world.shell("fish") as terminal:
        terminal.run("true")
        terminal.run("false")
    times = [float(r["started"]) for r in world.records("end1")]
    # The time of the last start is told in whole seconds.
    assert [before - 2 < at < time.time() + 2 for at in times] == [True, True]
    (file,) = world.spool.iterdir()
    assert re.fullmatch(r"fish-\d+-\d+\.tk", file.name)
