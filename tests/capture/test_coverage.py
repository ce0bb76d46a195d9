"""Coverage: what is on the disk against what is in the store."""

from pathlib import Path

import pytest

from tests.support.toy_sources import conversation, line, said
from tests.support.worlds import World
from threadkeep.capture.coverage import Coverage, SourceCoverage
from threadkeep.sources.files import LogFile
from threadkeep.testing import KnowledgeFactory


@pytest.fixture
def world(tmp_path: Path, knowledge_factory: KnowledgeFactory) -> World:
    world = World(tmp_path, knowledge_factory)
    for name in ("a", "b"):
        world.write(conversation(4), name)
    return world


def cover(world: World) -> Coverage:
    with world.history() as history:
        return history.coverage()


def lines_of(coverage: Coverage) -> SourceCoverage:
    return next(part for part in coverage.sources if part.name == "toy")


def test_nothing_is_covered_before_the_first_run(world: World) -> None:
    part = lines_of(cover(world))
    assert (part.found, part.current, part.percent) == (2, 0, 0.0)
    assert part.behind == [str(world.log("a")), str(world.log("b"))]
    assert part.places == [str(world.home / "logs")]


def test_all_is_covered_after_it(world: World) -> None:
    world.capture()
    coverage = cover(world)
    part = lines_of(coverage)
    assert (part.found, part.current, part.percent, part.behind) == (2, 2, 100.0, [])
    stored = coverage.stored["pi"]
    assert (stored.logs, stored.lines, stored.bad_lines) == (2, 8, 0)
    assert stored.source_bytes == part.bytes_found == 2 * len(conversation(4))
    assert (stored.sessions, stored.entries, stored.captured_at) == (2, 8, world.now)


def test_a_grown_log_is_behind_by_what_is_new(world: World) -> None:
    world.capture()
    size = len(conversation(4))
    world.append(conversation(4), "a")
    part = lines_of(cover(world))
    assert (part.current, part.behind) == (1, [str(world.log("a"))])
    assert (part.bytes_found, part.bytes_current) == (3 * size, 2 * size)


def test_deleted_logs_are_counted_as_kept(world: World) -> None:
    world.capture()
    world.log("a").unlink()
    world.capture()
    coverage = cover(world)
    assert (lines_of(coverage).found, lines_of(coverage).gone) == (1, 1)
    assert (coverage.stored["pi"].gone, coverage.stored["pi"].lines) == (1, 8)


def test_excluded_logs_are_current_and_counted(world: World) -> None:
    world.exclude = (str(world.log("a")),)
    world.capture()
    part = lines_of(cover(world))
    assert (part.current, part.excluded, part.percent) == (2, 1, 100.0)
    assert cover(world).stored["pi"].excluded == 1


def test_a_log_that_could_not_be_read_is_behind(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> LogFile:
        raise OSError(5, "Input/output error", path)

    with monkeypatch.context() as patch:
        patch.setattr("threadkeep.capture.engine.LogFile", refuse)
        world.capture()
    coverage = cover(world)
    assert (lines_of(coverage).current, coverage.stored["pi"].failed) == (0, 2)
    assert lines_of(coverage).percent == 0.0  # nothing was read of them


def test_drift_is_told_with_the_log_where_it_was_seen(world: World) -> None:
    world.append(line(kind="brand-new") * 3, "b")
    world.append(said(9) + line(kind="brand-new"), "b")
    world.capture()
    (unknown,) = cover(world).unknown
    assert (unknown.agent, unknown.kind, unknown.count) == ("pi", "brand-new", 4)
    assert (unknown.path, unknown.last_seen) == (str(world.log("b")), world.now)


def test_looking_opens_no_log(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.capture()
    monkeypatch.setattr(LogFile, "__init__", lambda *_: pytest.fail("a log was opened"))
    assert lines_of(cover(world)).current == 2


def test_an_empty_home_is_wholly_covered(tmp_path: Path) -> None:
    part = lines_of(cover(World(tmp_path)))
    assert (part.found, part.percent, part.places) == (0, 100.0, [])
