"""A run of capture as a whole: what it opens, what it leaves alone, what stops it and what not."""

import os
import shutil
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPO
from tests.support.toy_sources import ToyDocuments, ToyLines, conversation, line, said, stamp_back
from tests.support.user_homes import made_up_home
from tests.support.worlds import World
from threadkeep.capture import engine, intake
from threadkeep.capture.engine import CaptureFilter
from threadkeep.sources import files
from threadkeep.sources.claude.transcripts import SOURCE as CLAUDE
from threadkeep.sources.files import LogFile
from threadkeep.sources.records import Harvest, Log, Parser, UserHome
from threadkeep.sources.registry import foreign_sources
from threadkeep.testing import KnowledgeFactory

CLAUDE_FIXTURES = REPO / "tests" / "fixtures" / "sources" / "claude-code"


@pytest.fixture
def world(tmp_path: Path, knowledge_factory: KnowledgeFactory) -> World:
    return World(tmp_path, knowledge_factory)


def document(*sessions: str) -> bytes:
    entries = (f'"{name}": {{"k": {said(0).decode()}}}' for name in sessions)
    return ("{" + ", ".join(entries) + "}").encode()


def fill(world: World) -> None:
    for name in ("a", "b", "c"):
        world.write(conversation(5), name)
    world.write(document("s1", "s2"), to=world.home / "docs" / "d.json")


# ---------------------------------------------------------------------- a second run


def test_a_second_run_opens_nothing_and_writes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(world)
    world.capture()
    before = world.state()
    opened: list[str] = []

    class Counting(LogFile):
        def __init__(self, path: str, root: str = "") -> None:
            opened.append(path)
            super().__init__(path, root)

    monkeypatch.setattr(engine, "LogFile", Counting)
    world.documents.opened.clear()
    report = world.capture()
    assert opened == world.documents.opened == []
    assert [part.changed for part in report.agents.values()] == [0, 0]
    assert world.state() == before
    world.append(said(9), "b")
    world.capture()
    assert set(opened) == {str(world.log("b"))}


def test_a_second_run_does_not_begin_a_transaction(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(world)

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("a run with nothing to do began to write")

    with world.history() as history:
        history.capture()
    with world.history() as history:
        monkeypatch.setattr(history.store.context.db, "write", refuse)
        history.capture()


def test_a_dry_run_tells_what_is_new_and_writes_nothing(world: World) -> None:
    world.capture()
    fill(world)
    before = world.state()
    report = world.capture(dry_run=True)
    assert (report.dry_run, report.of("pi").changed, report.of("aider").changed) == (True, 3, 1)
    assert world.state() == before


# ---------------------------------------------------------------------- which logs


def test_only_wanted_harnesses_are_looked_at(world: World) -> None:
    fill(world)
    report = world.capture(CaptureFilter(agents=frozenset({"aider"})))
    assert set(report.agents) == {"aider"}
    assert world.ask("SELECT DISTINCT harness FROM tk_sessions") == [("aider",)]


def test_since_leaves_older_logs_for_another_time(world: World) -> None:
    fill(world)
    old = world.now - 1000
    stamp_back(world.log("a"), old)
    report = world.capture(CaptureFilter(since=world.now))
    assert (report.of("pi").found, report.of("pi").changed) == (3, 2)
    assert world.lines_report(world.capture()).changed == 1
    assert world.texts("a") == [f"word{n}" for n in range(5)]


def test_where_not_all_may_be_read_those_written_last_are(world: World) -> None:
    size = len(conversation(5))
    for age, name in enumerate(("newest", "newer", "old", "older")):
        world.write(conversation(5), name)
        stamp_back(world.log(name), world.now - 1000 * age)
    report = world.capture(CaptureFilter(most=2 * size))
    assert (report.of("pi").changed, report.of("pi").changed_bytes) == (4, 4 * size)
    named = {name for (name,) in world.ask("SELECT session_id FROM tk_sessions")}
    assert named == {"newest", "newer"}
    world.capture(CaptureFilter(most=1))  # none fits: one of them all the same
    assert world.ask("SELECT count(*) FROM tk_sessions") == [(3,)]
    world.capture()
    assert world.texts("older") == [f"word{n}" for n in range(5)]


def test_a_deleted_log_is_kept_and_comes_back_as_the_same(world: World) -> None:
    fill(world)
    world.capture()
    data = world.log("a").read_bytes()
    world.log("a").unlink()
    world.now += 5
    world.capture()
    assert world.log_row("a")["gone_at"] == world.now
    before = world.state()
    world.now += 5
    world.capture()
    assert world.state() == before  # it is gone once
    assert len(world.raw("a")) == 5
    world.write(data + said(9), "a")
    assert world.lines_report(world.capture()).lines == 1
    assert world.log_row("a")["gone_at"] is None


def test_logs_of_a_place_that_is_not_there_are_not_called_gone(world: World) -> None:
    fill(world)
    world.capture()
    (world.home / "logs").rename(world.home / "unmounted")
    world.capture()
    assert world.log_row("a")["gone_at"] is None


@pytest.mark.parametrize("harness", ["pi", "claude-code"])
def test_a_file_name_that_is_no_utf8_is_one_log_for_ever(world: World, harness: str) -> None:
    name = b"odd\xff.jsonl".decode("utf-8", "surrogateescape")
    folder = {"pi": "logs", "claude-code": ".claude/projects/-u-app"}[harness]
    world.sources = {"toy": ToyLines(), "claude-code": CLAUDE}
    path = world.write(conversation(3), to=world.home / folder / name)
    try:
        report = world.capture()
        assert (report.of(harness).lines, report.errors) == (3, 0)
        assert world.capture().of(harness).changed == 0
        path.unlink()
        world.capture()
        assert world.ask("SELECT count(gone_at) FROM tk_logs") == [(1,)]
    finally:
        path.unlink(missing_ok=True)  # pytest could not print it


# ---------------------------------------------------------------------- what goes wrong


class Fragile(ToyLines):
    """Breaks in one of its places, for one log."""

    broken: str = ""

    def parser(self, log: Log, state: bytes | None) -> Parser:
        if log.session_id == "b" and self.broken == "parser":
            raise ValueError("no such state")
        found = super().parser(log, state)
        if log.session_id == "b" and self.broken in {"harvest", "state"}:
            monkey: Any = found
            setattr(monkey, self.broken, self._fail)
        return found

    @staticmethod
    def _fail() -> Harvest:
        raise LookupError("a parser's mistake")


@pytest.mark.parametrize("broken", ["parser", "harvest", "state"])
def test_a_parsers_mistake_costs_one_log(world: World, broken: str) -> None:
    fragile = Fragile()
    fragile.broken = broken
    world.sources = {"toy": fragile}
    fill(world)
    report = world.capture()
    assert list(report.of("pi").errors) == [str(world.log("b"))]
    assert world.texts("a") == world.texts("c") == [f"word{n}" for n in range(5)]
    assert world.log_row("b")["error"]
    assert world.health()["consecutive_failures"] == 1
    assert str(world.log("b")) in world.health()["last_error_msg"]
    world.capture()
    assert world.health()["consecutive_failures"] == 2
    fragile.broken = ""
    world.capture()
    assert (world.log_row("b")["error"], world.health()["consecutive_failures"]) == (None, 0)
    assert world.texts("b") == world.texts("a")


def test_a_record_that_a_parser_cannot_read_costs_that_record(world: World) -> None:
    world.write(said(0) + line(boom="x") + said(1))
    part = world.lines_report(world.capture())
    assert (part.lines, part.errors, part.unknown) == (3, {}, {"KeyError: 'x'": 1})
    assert world.texts() == ["word0", "word1"]


class Unreadable(LogFile):
    """A file whose disk fails behind the first piece."""

    def pieces(self, start: int) -> Iterator[files.LogChunk]:
        for number, piece in enumerate(super().pieces(start)):
            if number:
                raise OSError(5, "Input/output error")
            yield piece


def test_a_read_error_in_the_middle_takes_back_that_log_only(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "PIECE_BYTES", 100)
    world.write(conversation(2), "a")
    world.write(conversation(2, start=5), "c")
    with monkeypatch.context() as patch:
        patch.setattr(engine, "LogFile", _unreadable_for(str(world.log("b"))))
        world.write(conversation(9), "b")
        report = world.capture()
    assert list(report.of("pi").errors) == [str(world.log("b"))]
    assert [row[0] for row in world.ask("SELECT session_id FROM tk_sessions")] == ["a", "c"]
    assert world.ask("SELECT lines FROM tk_logs WHERE error IS NOT NULL") == [(0,)]
    with world.history() as history:
        assert [hit.session.session_id for hit in history.search("word1")] == ["a"]
    world.capture()
    assert world.texts("b") == [f"word{n}" for n in range(9)]
    assert world.health()["consecutive_failures"] == 0


def _unreadable_for(path: str) -> Callable[[str, str], LogFile]:
    return lambda given, root: Unreadable(given) if given == path else LogFile(given, root)


def test_a_log_without_permission_is_reported_and_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, root: str) -> LogFile:
        if path == str(world.log("b")):
            raise PermissionError(13, "Permission denied", path)
        return LogFile(path, root)

    fill(world)
    with monkeypatch.context() as patch:
        patch.setattr(engine, "LogFile", refuse)
        report = world.capture()
    assert report.errors == 1
    assert "Permission denied" in world.ask("SELECT error FROM tk_logs WHERE error > ''")[0][0]
    assert world.capture().errors == 0
    assert world.texts("b") == [f"word{n}" for n in range(5)]


def test_a_missing_file_beside_a_log_is_an_error_and_not_the_end_of_the_log(world: World) -> None:
    class Beside(ToyLines):
        def parser(self, log: Log, state: bytes | None) -> Parser:
            Path(log.path).with_suffix(".names").read_bytes()
            return super().parser(log, state)

    world.sources = {"toy": Beside()}
    world.write(conversation(2), "a")
    assert list(world.capture().of("pi").errors) == [str(world.log("a"))]
    assert world.log_row("a")["gone_at"] is None


class Lost(ToyDocuments):
    """A source whose folder cannot even be listed."""

    def find(self, user: UserHome) -> Iterator[Log]:
        raise PermissionError(13, "Permission denied", "docs")


def test_a_source_that_cannot_look_does_not_stop_the_others(world: World) -> None:
    fill(world)
    world.sources = {"lost": Lost(), "toy": ToyLines()}
    report = world.capture()
    assert report.errors == 1
    assert world.texts("a") == [f"word{n}" for n in range(5)]
    assert world.health("agentic-session-aider")["consecutive_failures"] == 1


# ---------------------------------------------------------------------- real programs


def claude(folder: Path) -> World:
    world = World(folder)
    world.sources = {"claude-code": CLAUDE}
    return world


LINE_SOURCES = {name: one for name, one in foreign_sources().items() if one.kind == "lines"}


@pytest.mark.parametrize("name", LINE_SOURCES)
def test_the_logs_of_every_program_grow_to_the_same_as_read_at_once(
    tmp_path: Path, name: str
) -> None:
    source = LINE_SOURCES[name]
    user = made_up_home(tmp_path / "user")
    for number, log in enumerate(source.find(UserHome(user))):
        data, place = Path(log.path).read_bytes(), Path(log.path).relative_to(user)
        once, grown = (World(tmp_path / f"{kind}{number}") for kind in ("once", "grown"))
        once.sources = grown.sources = {name: source}
        for part in (1, 3, 4, 9, 10):  # tenths, which end anywhere in a line
            grown.write(data[: len(data) * part // 10], to=grown.home / place)
            assert grown.capture().errors == 0
        once.write(data, to=once.home / place)
        assert once.capture().errors == 0
        assert _comparable(grown) == _comparable(once)


def _comparable(world: World) -> str:
    return repr(world.held()).replace(str(world.home), "~")


def test_the_contracts_own_watcher_finds_where_we_stopped(tmp_path: Path) -> None:
    world = claude(tmp_path)
    shutil.copytree(CLAUDE_FIXTURES, world.home / ".claude")
    world.capture()
    rows = world.ask(
        "SELECT path, session_id, byte_offset, inode, device, size_at_last_read, "
        "updated_at FROM claude_session_offsets"
    )
    assert rows
    for path, session_id, offset, inode, device, size, at in rows:
        status = Path(path).stat()
        assert (offset, size) == (status.st_size, status.st_size)
        assert (inode, device, at) == (status.st_ino, status.st_dev, world.now)
        assert session_id
    health = world.health("agentic-session-claude")
    newest = world.ask("SELECT max(end_time) FROM agentic_sessions")[0][0]
    assert health["last_event_ts"] == newest
    assert (health["last_success_ts"], health["consecutive_failures"]) == (world.now, 0)


# ---------------------------------------------------------------------- sizes


def test_many_tiny_lines_take_few_statements_and_blocks(world: World) -> None:
    world.write(b"{}\n" * 50_000)
    part = world.lines_report(world.capture())
    assert part.lines == 50_000
    blocks = world.ask("SELECT count(*), sum(lines) FROM tk_log_blocks")
    assert blocks == [(1, 50_000)]


def test_memory_does_not_grow_with_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "BATCH_BYTES", 500_000)
    monkeypatch.setattr(files, "PIECE_BYTES", 100_000)
    peaks: list[int] = []
    for count in (600, 600, 2400):  # the first time, modules and caches are loaded too
        world = World(tmp_path / f"{len(peaks)}")
        world.write(b"".join(said(n, f"word{n} " * 150) for n in range(count)))
        tracemalloc.start()
        world.capture()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < 1.3 * peaks[1]


def test_many_tiny_logs_are_looked_at_once_each(world: World) -> None:
    for number in range(600):
        world.write(said(number), f"log-{number:04}")
    assert world.lines_report(world.capture()).lines == 600
    assert world.lines_report(world.capture()).changed == 0


def test_logs_moved_to_another_place_are_compared_with_their_like_only(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(60):
        world.write(said(number), f"log-{number:04}")
    world.capture()
    for number in range(60):
        path = world.log(f"log-{number:04}")
        world.write(path.read_bytes(), to=world.home / "logs" / "moved" / path.name)
        path.unlink()
    opened: list[str] = []

    def counting(path: str, root: str) -> LogFile:
        opened.append(path)
        return LogFile(path, root)

    monkeypatch.setattr(engine, "LogFile", counting)
    assert world.lines_report(world.capture()).lines == 0
    assert len(opened) <= 3 * 60
    assert world.ask("SELECT count(*), count(gone_at) FROM tk_logs") == [(60, 0)]


def test_a_folder_that_may_not_be_looked_into_is_told_and_nothing_in_it_counts_as_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    world.write(said(0))
    world.capture()
    real = os.scandir

    def closed(place: str) -> Iterator[os.DirEntry[str]]:
        if place == str(tmp_path / "logs"):  # root may look into every folder
            raise PermissionError(13, "Permission denied", place)
        return real(place)

    monkeypatch.setattr(os, "scandir", closed)
    report = world.capture()
    assert list(report.agents["pi"].errors) == [str(tmp_path / "logs")]
    assert world.ask("SELECT gone_at FROM tk_logs") == [(None,)]
