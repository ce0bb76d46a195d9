"""Runs that are stopped anywhere, and runs at the same time: the result is that of one run."""

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.toy_sources import conversation, said
from tests.support.worlds import World
from threadkeep.capture import intake
from threadkeep.capture.records import Progress
from threadkeep.sources import files


def document(*sessions: str) -> bytes:
    entries = (f'"{name}": {{"k": {said(0).decode()}}}' for name in sessions)
    return ("{" + ", ".join(entries) + "}").encode()


def big(world: World) -> World:
    for name in ("a", "b", "c"):
        world.write(conversation(40, text=f"words of {name}"), name)
    world.write(document("s1", "s2"), to=world.home / "docs" / "d.json")
    return world


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PIECE_BYTES", 300)
    monkeypatch.setattr(intake, "BATCH_BYTES", 700)


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("kind", [KeyboardInterrupt, RuntimeError])
def test_interrupted_anywhere_the_next_run_completes_it(
    tmp_path: Path, kind: type[BaseException]
) -> None:
    once = big(World(tmp_path / "once"))
    seen: list[str] = []
    once.capture(show=lambda progress: seen.append(progress.path))
    for stop_at in range(1, len(seen), 3):
        world = big(World(tmp_path / f"stopped-{stop_at}"))
        with pytest.raises(kind):
            world.capture(show=_stopping(stop_at, kind))
        world.capture()
        assert world.held() == once.held()


def _stopping(after: int, kind: type[BaseException]) -> Callable[[Progress], None]:
    count = iter(range(after))

    def show(_: Progress) -> None:
        if next(count, None) is None:
            raise kind

    return show


@pytest.mark.usefixtures("small_batches")
def test_interrupted_again_and_again_while_a_log_was_rewritten(tmp_path: Path) -> None:
    worlds = [World(tmp_path / name) for name in ("once", "stopped")]
    for world in worlds:
        world.write(conversation(30))
        world.capture()
        world.write(conversation(10, start=20) + conversation(30, start=50))
    worlds[0].capture()
    for stop_at in range(1, 12):
        with suppress(KeyboardInterrupt):
            worlds[1].capture(show=_stopping(stop_at, KeyboardInterrupt))
    worlds[1].capture()
    assert worlds[1].held() == worlds[0].held()


@pytest.mark.usefixtures("small_batches")
def test_captured_by_two_at_once_it_is_the_same(tmp_path: Path) -> None:
    once = big(World(tmp_path / "once"))
    once.capture()
    world = big(World(tmp_path / "two"))
    with world.history():
        pass  # the file is there before both begin
    errors: list[BaseException] = []
    together = threading.Barrier(2)

    def run() -> None:
        try:
            together.wait()
            assert world.capture().errors == 0
        except BaseException as error:  # noqa: BLE001  (handed to the test)
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert world.held() == once.held()


@pytest.mark.usefixtures("small_batches")
def test_overtaken_in_the_middle_of_a_log_by_another_run(tmp_path: Path) -> None:
    once = big(World(tmp_path / "once"))
    once.capture()
    world = big(World(tmp_path / "overtaken"))
    overtaken: list[int] = []
    original = intake.Batches.commit

    with world.history() as first, world.history() as second:

        def commit(self: intake.Batches) -> None:
            """Between two batches nobody holds the lock: another run takes all the rest."""
            original(self)
            if not overtaken:
                overtaken.append(1)
                overtaken.append(world.lines_report(second.capture()).lines)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(intake.Batches, "commit", commit)
            assert first.capture().errors == 0
    assert overtaken[1] > 0
    assert world.held() == once.held()


def test_overtaken_in_the_middle_of_a_document_by_another_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    once, world = World(tmp_path / "once"), World(tmp_path / "overtaken")
    for one in (once, world):
        one.write(document("s1", "s2"), to=one.home / "docs" / "d.json")
    once.capture()
    monkeypatch.setattr(intake, "BATCH_BYTES", 1)  # each session is committed by itself
    original = intake.Batches.commit
    runs: list[int] = []
    with world.history() as first, world.history() as second:

        def commit(self: intake.Batches) -> None:
            original(self)
            if not runs:
                runs.append(0)
                runs.append(second.capture().errors)

        monkeypatch.setattr(intake.Batches, "commit", commit)
        assert first.capture().errors == 0
    assert runs == [0, 0]
    assert world.held() == once.held()
