"""Watching: what changes is captured, by being told of it or by looking."""

import importlib.util
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.toy_sources import conversation, said
from tests.support.worlds import World
from threadkeep.capture import watch
from threadkeep.capture.records import CaptureReport

PATIENCE = 120  # looks, then the test gives up


class Script:
    """Writes into the world step by step, each when the one before has been captured."""

    def __init__(self, steps: list[Callable[[], None]]) -> None:
        self._steps: Iterator[Callable[[], None]] = iter(steps)
        self._looks = 0
        self.lines: list[int] = []
        self.done = False

    def show(self, report: CaptureReport) -> None:
        self.lines.append(sum(part.lines for part in report.agents.values()))
        step = next(self._steps, None)
        if step is None:
            self.done = True
        else:
            step()

    def stop(self) -> bool:
        self._looks += 1
        assert self._looks < PATIENCE, f"captured only {self.lines}"
        return self.done


@pytest.fixture(params=["told", "looking"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "looking":
        monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    return str(request.param)


def test_what_is_appended_is_captured(tmp_path: Path, way: str) -> None:
    world = World(tmp_path)
    world.write(said(0))
    script = Script([lambda: world.append(said(1)), lambda: world.append(conversation(2, start=2))])
    with world.history() as history:
        history.watch(script.stop, script.show, poll_seconds=0.01)
    assert script.lines == [1, 1, 2]
    assert len(world.held()["entries"]) == 4


def test_a_program_that_is_used_for_the_first_time_is_noticed(tmp_path: Path, way: str) -> None:
    world = World(tmp_path)
    world.write(said(0))

    def begin(text: str) -> None:
        record = {"id": "d", "kind": "prompt", "text": text}
        world.write(json.dumps({"two": {"d": record}}).encode(), to=tmp_path / "docs" / "a.json")

    script = Script([lambda: begin("first"), lambda: begin("second")])
    with world.history() as history:
        history.watch(script.stop, script.show, poll_seconds=0.01)
    assert script.lines == [1, 1, 1]


@pytest.mark.parametrize(
    "trouble",
    [
        OSError(28, "inotify watch limit reached"),
        ImportError("the inotify part of the package was built for another machine"),
    ],
)
def test_a_system_that_cannot_tell_is_looked_at(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    trouble: Exception,
) -> None:
    def refused(roots: object) -> Iterator[set[str] | None]:
        raise trouble

    monkeypatch.setattr(watch, "_told", refused)
    world = World(tmp_path)
    world.write(said(0))
    script = Script([lambda: world.append(said(1))])
    with world.history() as history:
        history.watch(script.stop, script.show, poll_seconds=0.01)
    assert script.lines == [1, 1]
    assert "cannot tell what changes" in caplog.text


def test_our_own_writing_wakes_nobody(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.write(said(0))
    with world.history() as history:
        around, sources = history.around, history.sources
        own = {str(around.store.file), f"{around.store.file}-wal"}
        assert watch._touched(around, sources, own) == {}


def test_the_end_is_not_as_late_as_the_next_look(tmp_path: Path) -> None:
    waited: list[float] = []
    with World(tmp_path).history() as history:
        watch.watch(
            *(history.around, {}, lambda: bool(waited), lambda _: None),
            poll_seconds=60.0,
            wait=waited.append,
        )
    assert sum(waited) <= 0.5
