"""How much is written for one line of a log that somebody watches: counted, not timed."""

import json
import random
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.forgetting import said as spoken, write_claude
from tests.support.toy_sources import conversation, line, said
from tests.support.user_homes import open_history
from tests.support.worlds import World
from threadkeep.capture.engine import CaptureFilter, capture
from threadkeep.capture.records import AgentReport
from threadkeep.knowledge.archive import all_logs
from threadkeep.knowledge.store import KnowledgeStore

LIVE = CaptureFilter(again=False)
# Each table and index that a line belongs into is a page: entries 4, words 6, the archive 4, the
# log 1, and what makes room for them.
MOST_PAGES = 19
PAGE_BYTES = 4096


class Watched:
    """A store that stays open while lines come, as it does for whoever watches."""

    def __init__(self, world: World, store: KnowledgeStore) -> None:
        self._world = world
        self._store = store
        self._lines = 0

    def look(self, wanted: CaptureFilter = LIVE) -> AgentReport:
        report = capture(self._world.around(self._store), self._world.sources, wanted)
        return self._world.lines_report(report)

    def pages(self, line: bytes) -> int:
        """Append a line, look, and give how many pages that wrote."""
        wal = Path(f"{self._world.database}-wal")
        before = _frames(wal)
        self._world.append(line)
        assert self.look().lines == 1
        return _frames(wal) - before


def _frames(wal: Path) -> int:
    data = wal.read_bytes() if wal.exists() else b""
    if len(data) < 32:
        return 0
    size = struct.unpack(">I", data[8:12])[0] + 24
    salt, found = data[16:24], 0
    for at in range(32, len(data) - size + 1, size):
        if data[at + 8 : at + 16] != salt:
            break
        found += 1
    return found


@contextmanager
def watched(world: World) -> Iterator[Watched]:
    with KnowledgeStore.open(world.prepared(), clock=lambda: world.now) as store:
        yield Watched(world, store)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def noise(size: int, number: int) -> str:
    """Return text that cannot be packed."""
    letters = random.Random(number)
    return "".join(letters.choice("abcdefghijklmnopqrstuvwxyz0123456789") for _ in range(size))


def soon(number: int) -> bytes:
    """Return a line of 2 KB, a second after the one before."""
    at = 50 * 60_000 + number * 1000
    return line(id=f"e{number}", kind="text", text=noise(1900, number), at=at)


def test_a_line_costs_the_same_however_much_stands_before_it(world: World) -> None:
    """The open block was packed and rewritten for each line: up to 256 KB of it."""
    world.write(conversation(3))
    with watched(world) as store:
        store.look(CaptureFilter())
        short = [store.pages(soon(number)) for number in range(3, 13)]
        world.append(said(50, noise(200_000, 50)))
        store.look(CaptureFilter())
        long = [store.pages(soon(number)) for number in range(60, 70)]
    assert sum(long) <= sum(short) * 1.3
    assert sum(long) / len(long) <= MOST_PAGES
    assert world.ask("PRAGMA page_size") == [(PAGE_BYTES,)]


def test_what_came_line_by_line_is_stored_as_what_came_at_once(
    world: World, tmp_path: Path
) -> None:
    lines = [said(number, f"text {number} " * 200) for number in range(120)]
    with watched(world) as store:
        world.write(lines[0])
        store.look(CaptureFilter())
        for one in lines[1:-1]:
            world.append(one)
            store.look()
            assert len(world.ask("SELECT 1 FROM tk_log_blocks")) <= 34
        world.append(lines[-1])
        store.look(CaptureFilter())
    assert world.raw() == [one.rstrip(b"\n") for one in lines]
    other = World(tmp_path / "at once")
    other.write(b"".join(lines))
    other.capture()
    assert world.held()["log_blocks"] == other.held()["log_blocks"]
    assert world.held()["blocks"] == other.held()["blocks"]


def test_what_a_live_look_leaves_out_is_made_up_for_at_the_next_look_at_all(
    world: World, tmp_path: Path
) -> None:
    world.write(conversation(3))
    with watched(world) as store:
        store.look(CaptureFilter())
        before = world.ask("SELECT message_count FROM agentic_sessions")
        world.now += 1000
        world.append(said(3))
        store.look()
        assert world.texts()[-1] == "word3"
        assert world.session().entries == 4
        assert world.ask("SELECT message_count FROM agentic_sessions") == before
        world.now += 30_000
        report = store.look(CaptureFilter())
        assert (report.changed, report.lines) == (1, 0)
        assert store.look(CaptureFilter()).changed == 0
    other = World(tmp_path / "at once")
    other.now = world.now
    other.write(conversation(4))
    other.capture()
    (ours,), (theirs,) = (one.held()["agentic_sessions"] for one in (world, other))
    assert {**ours, "created_at": 0} == {**theirs, "created_at": 0}


def test_the_place_of_a_session_in_lists_follows_within_half_a_minute(
    world: World, tmp_path: Path
) -> None:
    """Eight lists were written for each line, for a session that stayed where it was in them."""
    world.write(said(0) + said(1))
    with watched(world) as store:
        store.look(CaptureFilter())
        for number in range(3):
            world.now += 1000
            said_at = 60_000 + 9000 * (number + 1)
            world.append(line(id=f"n{number}", kind="prompt", text=f"new{number}", at=said_at))
            store.look()
            assert world.texts()[-1] == f"new{number}"
        session = world.session()
        assert (session.entries, session.prompts, session.ended_at) == (2, 1, 60_000)
        world.append(line(id="later", kind="text", text="later", at=100_000))
        store.look()
        session = world.session()
        assert (session.entries, session.prompts, session.ended_at) == (6, 4, 100_000)
        world.append(line(id="last", kind="text", text="last", at=101_000))
        store.look()
        world.now += 30_000
        store.look(CaptureFilter())
    other = World(tmp_path / "at once")
    other.now = world.now
    other.write(world.log().read_bytes())
    other.capture()
    assert world.held()["tk_sessions"] == other.held()["tk_sessions"]


def test_a_prompt_that_names_its_session_is_in_the_list_at_once(world: World) -> None:
    world.write(line(id="a", kind="text", text="a", at=1000))
    with watched(world) as store:
        store.look(CaptureFilter())
        world.append(line(id="b", kind="prompt", text="what it is about", at=2000))
        store.look()
        session = world.session()
    assert (session.first_prompt, session.entries) == ("what it is about", 2)


def test_where_a_parser_stopped_is_written_in_a_page_and_read_as_it_was_before(
    world: World, tmp_path: Path
) -> None:
    lines = [said(number, f"word{number} and more " * 20) for number in range(40)]
    world.write(b"".join(lines[:-1]))
    world.capture()
    ((packed,),) = world.ask("SELECT parser FROM tk_logs")
    with world.history() as history, history.store.context.db.read() as tx:
        (row,) = all_logs(tx)
    assert row.parser is not None
    assert len(packed) < 3072 < len(row.parser)
    world.ask("UPDATE tk_logs SET parser = ?", row.parser)  # as older versions store it
    world.append(lines[-1])
    assert not world.lines_report(world.capture()).errors
    other = World(tmp_path / "at once")
    other.write(b"".join(lines))
    other.capture()
    assert world.held()["agentic_sessions"] == other.held()["agentic_sessions"]
    assert world.ask("SELECT parser FROM tk_logs") == other.ask("SELECT parser FROM tk_logs")


def test_a_damaged_state_stops_its_own_log_only(world: World) -> None:
    world.write(conversation(3))
    world.write(conversation(3), name="two")
    world.capture()
    world.ask("UPDATE tk_logs SET parser = x'28b52ffd00' WHERE session_id = 'one'")
    world.append(said(3))
    world.append(said(3), name="two")
    report = world.lines_report(world.capture())
    assert [Path(path).stem for path in report.errors] == ["one"]
    assert world.texts("two")[-1] == "word3"


def test_a_line_is_found_at_once_and_its_place_waits_for_a_look_at_all_logs(tmp_path: Path) -> None:
    log = write_claude(tmp_path / "user", "s1", [spoken("s1", 1, "a swan")])

    def add(number: int, text: str) -> None:
        with log.open("a") as file:
            file.write(json.dumps(spoken("s1", number, text)) + "\n")

    with open_history(tmp_path / "home", tmp_path / "user") as history:
        history.capture()
        assert history.store.index() == 0
        add(2, "a zeppelin")
        history.capture(LIVE)
        assert [hit.shown.entry.text for hit in history.search("zeppelin")] == ["a zeppelin"]
        assert history.store.index() == 1
        add(3, "a balloon")
        history.capture(LIVE)
        history.capture()
        assert history.store.index() == 0
