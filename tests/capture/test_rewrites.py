"""A change behind the place that was read to: noticed at the next capture, wherever it is."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from tests.lengths import examples
from tests.support.toy_sources import conversation, said
from tests.support.worlds import World
from threadkeep.capture import logs
from threadkeep.capture.coverage import cover
from threadkeep.capture.engine import CaptureFilter
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.testing import KnowledgeFactory

LINES = 200  # some 15 KB: more than the head and the tail that are remembered by themselves
LIVE = CaptureFilter(again=False)
WEEK = 7 * 24 * 3_600_000


@pytest.fixture
def world(tmp_path: Path, knowledge_factory: KnowledgeFactory) -> World:
    made = World(tmp_path, knowledge_factory)
    made.write(conversation(LINES))
    made.capture()
    return made


def rewritten(world: World, number: int = 100) -> bytes:
    """Return the log with another word in one line, as long as before."""
    data = world.log().read_bytes()
    changed = data.replace(b'"word%d"' % number, b'"WORD%d"' % number)
    assert len(changed) == len(data)
    assert changed != data
    return changed


def in_place(path: Path, data: bytes) -> None:
    """Write over a file and put its time back, as a careful tool does."""
    status = path.stat()
    with path.open("r+b") as file:
        file.write(data)
        file.truncate()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_one_with_the_same_size_and_time(world: World) -> None:
    in_place(world.log(), rewritten(world))
    assert world.lines_report(world.capture()).lines == 1
    assert "WORD100" in world.texts()
    assert world.lines_report(world.capture()).changed == 0


@pytest.mark.parametrize("wanted", [CaptureFilter(), LIVE], ids=["captured", "watched"])
def test_one_that_keeps_the_beginning_and_the_end_and_grows(
    world: World, wanted: CaptureFilter
) -> None:
    world.write(rewritten(world) + said(LINES))
    assert world.lines_report(world.capture(wanted)).lines == 2
    assert {"WORD100", f"word{LINES}"} <= set(world.texts())


@settings(max_examples=examples(10), deadline=None)
@given(st.data())
def test_any_byte(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    world = World(tmp_path_factory.mktemp("any"))
    world.write(conversation(LINES))
    world.capture()
    text = bytearray(world.log().read_bytes())
    at = data.draw(st.integers(0, len(text) - 1).filter(lambda place: text[place] != ord("\n")))
    text[at] ^= 1
    in_place(world.log(), bytes(text))
    assert world.lines_report(world.capture()).lines == 1
    assert bytes(text).split(b"\n")[bytes(text[:at]).count(b"\n")] in world.raw()


def other_file(path: Path, data: bytes) -> None:
    status = path.stat()
    other = path.with_name("other")
    other.write_bytes(data)
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(path)


@pytest.mark.parametrize("write", [in_place, other_file])
def test_however_it_is_written(world: World, write: Callable[[Path, bytes], None]) -> None:
    write(world.log(), rewritten(world))
    assert world.lines_report(world.capture()).lines == 1


def test_what_only_touches_a_log_reads_nothing_again(world: World) -> None:
    before = world.held()
    world.log().chmod(0o600)
    report = world.lines_report(world.capture())
    assert (report.changed, report.lines) == (1, 0)
    assert world.held() == before
    assert world.lines_report(world.capture()).changed == 0


def test_a_large_log_that_grows_is_compared_now_and_then(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever watches must not read all of it at every line, nor forget what is to be done."""
    monkeypatch.setattr(logs, "_CHECK_MS_PER_MB", 1_000_000)
    world.now += 1000
    world.write(rewritten(world) + said(LINES))
    assert world.lines_report(world.capture(LIVE)).lines == 1
    with world.history() as history:
        (lines, _) = history.coverage().sources
    assert (lines.current, lines.unchecked) == (1, 1)
    world.now += 1_000_000
    assert world.lines_report(world.capture()).lines == 1
    with world.history() as history:
        (lines, _) = history.coverage().sources
    assert (lines.unchecked, lines.checked_at) == (0, world.now)
    assert "WORD100" in world.texts()


def test_a_system_without_a_time_of_change_is_compared_once_a_week(world: World) -> None:
    in_place(world.log(), rewritten(world))
    now = world.log().stat().st_ctime_ns
    world.do(f"UPDATE tk_logs SET ctime_ns = {now} WHERE session_id = 'one'")
    assert world.lines_report(world.capture()).changed == 0
    world.now += WEEK
    assert world.lines_report(world.capture()).lines == 1


def test_a_log_of_an_older_version_is_summed_up_at_the_next_look(world: World) -> None:
    forget = "UPDATE tk_logs SET ctime_ns = 0, crc = NULL, checked_at = NULL"
    world.do(forget)
    assert world.lines_report(world.capture()).lines == 0
    assert world.lines_report(world.capture()).changed == 0
    in_place(world.log(), rewritten(world))
    assert world.lines_report(world.capture()).lines == 1


def test_a_store_of_an_older_version_can_be_looked_at_and_is_brought_up(world: World) -> None:
    for column in ("ctime_ns", "crc", "checked_at"):
        world.do(f"ALTER TABLE tk_logs DROP COLUMN {column}")
    with KnowledgeStore.open(world.database, read_only=True) as store:
        (lines, _) = cover(world.around(store), world.sources).sources
    assert (lines.current, lines.unchecked, lines.percent) == (1, 1, 100.0)
    world.append(said(LINES))
    assert world.lines_report(world.capture()).lines == 1
    assert world.log_row()["crc"] is not None
