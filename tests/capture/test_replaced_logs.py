"""Logs that became other files: cut, rewritten, rotated, renamed, compressed, replaced, deleted."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from tests.support.toy_sources import conversation, said
from tests.support.worlds import World
from threadkeep.testing import KnowledgeFactory


@pytest.fixture
def world(tmp_path: Path, knowledge_factory: KnowledgeFactory) -> World:
    return World(tmp_path, knowledge_factory)


def test_a_log_truncated_to_nothing_keeps_what_was_captured(world: World) -> None:
    world.write(conversation(5))
    world.capture()
    world.write(b"")
    world.capture()
    assert len(world.raw()) == 5
    world.append(conversation(3, start=7))
    world.capture()
    assert world.texts() == [f"word{n}" for n in (0, 1, 2, 3, 4, 7, 8, 9)]


def test_a_log_cut_back_to_a_part_of_itself_loses_and_doubles_nothing(world: World) -> None:
    world.write(conversation(6))
    world.capture()
    before = world.held()
    world.write(conversation(3))
    assert world.lines_report(world.capture()).lines == 0
    assert world.held()["entries"] == before["entries"]
    world.append(b"".join(said(n) for n in (3, 9)))
    assert world.lines_report(world.capture()).lines == 1
    assert world.texts() == [f"word{n}" for n in (0, 1, 2, 3, 4, 5, 9)]


def test_a_log_written_anew_piece_by_piece_is_not_archived_twice(world: World) -> None:
    world.write(conversation(9))
    world.capture()
    data = conversation(12)
    world.write(b"")
    for at in range(0, len(data), 100):
        world.append(data[at : at + 100])
        world.capture()
    assert b"\n".join(world.raw()) + b"\n" == data
    assert world.session().entries == 12


def test_truncated_and_written_with_something_else(world: World) -> None:
    world.write(conversation(5))
    world.capture()
    world.write(conversation(4, start=20))
    assert world.lines_report(world.capture()).lines == 4
    assert b"\n".join(world.raw()) + b"\n" == conversation(5) + conversation(4, start=20)


def test_a_longer_file_with_another_beginning_is_read_from_its_start(world: World) -> None:
    world.write(conversation(3))
    world.capture()
    world.write(conversation(5, start=30) + conversation(3))
    assert world.lines_report(world.capture()).lines == 5
    assert len(world.raw()) == 8


def test_a_change_behind_the_head_is_seen(world: World) -> None:
    data = conversation(200)
    world.write(data)
    world.capture()
    end = said(200, text="other")
    world.write(data[: -len(said(199))] + end + said(201))
    assert world.lines_report(world.capture()).lines == 2
    assert world.texts()[-3:] == ["word199", "other", "word201"]


def test_rotation_keeps_the_old_log_and_reads_the_new(world: World) -> None:
    path = world.write(conversation(4))
    world.capture()
    path.replace(path.with_name("one-old.jsonl"))
    world.write(conversation(3, start=50))
    report = world.capture()
    assert world.lines_report(report).errors == {}
    assert world.texts()[-3:] == ["word50", "word51", "word52"]
    lines = [raw for name in ("one", "one-old") for raw in _raw_or_nothing(world, name)]
    assert set(lines) == set((conversation(4) + conversation(3, start=50)).splitlines())


def _raw_or_nothing(world: World, name: str) -> list[bytes]:
    return (
        world.raw(name) if world.ask("SELECT 1 FROM tk_sessions WHERE session_id=?", name) else []
    )


def test_a_new_file_with_the_inode_of_the_old_is_another_log(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = world.write(conversation(4))
    world.capture()
    path.rename(world.log("two"))  # the same inode, as if the system had given it anew
    world.log("two").write_bytes(conversation(4, start=80))
    world.capture()
    assert world.texts("one") == [f"word{n}" for n in range(4)]
    assert world.texts("two") == [f"word{n}" for n in range(80, 84)]
    assert world.log_row("one")["gone_at"] == world.now


def test_a_reused_inode_with_a_like_beginning_is_another_log(world: World) -> None:
    alike = conversation(120)  # longer than the first bytes that are compared
    path = world.write(alike + said(200))
    world.capture()
    path.rename(world.log("two"))
    world.log("two").write_bytes(alike + said(300) + said(301))
    world.capture()
    assert world.texts("one")[-2:] == ["word119", "word200"]
    assert world.texts("two")[-3:] == ["word119", "word300", "word301"]
    assert world.log_row("one")["gone_at"] == world.now


def test_a_renamed_log_goes_on_as_the_same_session(world: World) -> None:
    path = world.write(conversation(4))
    world.capture()
    archived = world.home / "logs" / "archived" / "one.jsonl"
    archived.parent.mkdir()
    path.rename(archived)
    with archived.open("ab") as file:
        file.write(conversation(2, start=4))
    assert world.lines_report(world.capture()).lines == 2
    assert world.log_row()["path"] == str(archived)
    assert world.log_row()["gone_at"] is None
    assert world.texts() == [f"word{n}" for n in range(6)]


def test_a_log_under_a_new_name_stays_one_session_in_every_table(world: World) -> None:
    path = world.write(conversation(4))
    world.capture()
    path.rename(world.log("other"))
    with world.log("other").open("ab") as file:
        file.write(conversation(2, start=4))
    world.capture()
    assert world.ask("SELECT DISTINCT session_id FROM agentic_sessions") == [("one",)]
    assert world.texts() == [f"word{n}" for n in range(6)]


def test_two_copies_of_a_vanished_log_do_not_share_its_row(world: World) -> None:
    path = world.write(conversation(4))
    world.capture()
    data = path.read_bytes()
    path.unlink()
    for folder in ("a", "b"):
        world.write(data, to=world.home / "logs" / folder / "one.jsonl")
    world.capture()
    paths = {row[0] for row in world.ask("SELECT path FROM tk_logs")}
    assert paths == {str(world.home / "logs" / folder / "one.jsonl") for folder in ("a", "b")}
    assert world.lines_report(world.capture()).changed == 0
    assert world.session().entries == 4


def test_compressed_and_back_again_is_one_log(world: World) -> None:
    path = world.write(conversation(4))
    world.capture()
    packed = path.with_name("one.jsonl.zst")
    world.write(zstandard.ZstdCompressor().compress(path.read_bytes()), to=packed)
    path.unlink()
    assert world.lines_report(world.capture()).lines == 0
    assert world.log_row()["path"] == str(packed)
    assert world.lines_report(world.capture()).changed == 0
    packed.unlink()
    world.write(conversation(6))
    assert world.lines_report(world.capture()).lines == 2
    assert b"\n".join(world.raw()) + b"\n" == conversation(6)
    assert len(world.ask("SELECT 1 FROM tk_logs")) == 1


def test_a_log_that_is_only_there_compressed(world: World) -> None:
    data = conversation(2000)
    packed = world.home / "logs" / "one.jsonl.zst"
    world.write(zstandard.ZstdCompressor().compress(data), to=packed)
    world.capture()
    assert b"\n".join(world.raw()) + b"\n" == data


Change = Callable[[Path], None]


def _open_files() -> int:
    """Count what this process has open, where the system tells."""
    place = Path("/proc/self/fd")
    return len(list(place.iterdir())) if place.exists() else 0


def _make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _make_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _make_dangling_link(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.with_name("nowhere"))


@pytest.mark.parametrize("change", [_make_folder, _make_fifo, _make_dangling_link, Path.unlink])
@pytest.mark.parametrize("known", [0, 1])
def test_something_else_in_the_place_of_a_log(world: World, change: Change, known: int) -> None:
    """It happens between the look and the reading: the other logs are captured all the same."""
    path = world.write(conversation(2), "a")
    if known:
        world.capture()
        world.append(conversation(2, start=2), "a")
    world.write(conversation(2), "b")
    done: list[str] = []

    def show(_: object) -> None:
        if not done:
            done.append("changed")
            change(path)

    before = _open_files()
    world.capture(show=show)
    assert _open_files() <= before
    assert world.texts("b") == ["word0", "word1"]
    world.capture()
    if known:
        assert world.texts("a") == ["word0", "word1"]
        assert world.log_row("a")["gone_at"] == world.now


def test_a_log_that_vanishes_before_it_is_opened_is_no_failure(world: World) -> None:
    world.write(conversation(2), "a")

    def show(_: object) -> None:
        world.log("a").unlink(missing_ok=True)

    report = world.capture(show=show)
    assert report.errors == 0
    assert world.ask("SELECT 1 FROM tk_logs") == []
