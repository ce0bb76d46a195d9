"""Hostile reports: huge, broken, absurd, too many; what is good beside them is stored once."""

import errno
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.faults.collect_world import (
    AT,
    SESSION,
    World,
    begin,
    end,
    record,
    shell_line,
    visit_line,
)
from tests.lengths import at_length, examples
from threadkeep.base import spool as spool_module
from threadkeep.base.spool import Spool
from threadkeep.capture.observed.backend import StoreBackend
from threadkeep.capture.observed.intake import BatchReport
from threadkeep.capture.observed.shell_history import HistoryFile
from threadkeep.errors import StorageFull
from threadkeep.knowledge.records import Command, Watch
from threadkeep.knowledge.store import QUERIES

REPO = Path(__file__).resolve().parents[2]
MIB = 1 << 20
LARGEST = (1 << 63) - 1
GOOD = Command("11111111-0000-4000-8000-0000000000aa", SESSION, AT * 1000, "good", "/u", 0)

# Collects a home in a process of its own; tells what came of it and how much memory it took.
MEASURED = """
import json, resource, sys
from threadkeep import Home
with Home(sys.argv[1], environ={}).observations() as observations:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    came = observations.collect()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"new": came.new, "refused": came.refused, "grown": (after - before) >> 10}))
"""


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "home")


def measured(world: World) -> dict[str, int]:
    run = [sys.executable, "-c", MEASURED, str(world.folder)]
    environ = {**os.environ, "PYTHONPATH": str(REPO / "src")}
    done = subprocess.run(run, capture_output=True, check=True, env=environ)
    found: dict[str, int] = json.loads(done.stdout)
    print(found)
    return found


# ---------------------------------------------------------------------- sizes


def test_a_huge_command_and_a_huge_line_take_little_memory(world: World) -> None:
    size = at_length(1024, 256) * MIB
    head = end(1, "echo ").removesuffix(b"\x1d\n")
    shell = world.spool.folder / "zsh-7-1.tk"
    with shell.open("wb") as file:  # a hole in the file: its bytes are NUL
        file.write(head)
        file.truncate(size)
        file.seek(size)
        file.write(b"\x1d\n" + end(2, "after"))
    with (world.spool.folder / "1-a.jsonl").open("wb") as file:
        file.write(b'{"envelope_id": "')
        file.truncate(size)
        file.seek(size)
        file.write(b'"}\n' + shell_line(command="the next line"))
    came = measured(world)
    assert (came["new"], came["refused"]) == (3, 1)  # the line; the command is cut
    assert came["grown"] < 150
    lengths = dict(world.rows("SELECT substr(command, 1, 5), length(command) FROM events"))
    assert lengths.keys() == {"echo ", "after", "the n"}
    assert lengths["echo "] < 2 * MIB


@pytest.mark.slow
def test_thousands_of_sessions_are_collected(world: World) -> None:
    count, began = at_length(6_000, 2_000), time.monotonic()
    sessions = (f"{number:08x}-2222-4222-8222-222222222222" for number in range(count))
    world.append(b"".join(end(1, f"c {name}", session=name, at=AT) for name in sessions))
    came = measured(world)
    seconds = time.monotonic() - began
    print(f"{count / seconds:,.0f} records per second")
    assert came["new"] == count
    assert came["grown"] < 300
    assert world.rows("SELECT count(*), count(DISTINCT session_id) FROM events") == [(count, count)]


def test_commands_of_one_moment_are_not_all_compared_with_each_other(world: World) -> None:
    """They were once: 20,000 of them took a minute, and as many without an end one at each look."""
    world.append(b"".join(end(n, f"c{n}", at=AT) + begin(n + 900, at=AT) for n in range(300)))
    world.collect()
    assert world.rows("SELECT count(*) FROM events") == [(600,)]
    queries = {
        "seen_another_way": "tk_events_way (origin=? AND started_at>? AND started_at<?)",
        "unended_commands": "tk_events_running (started_at<?)",
        "note_others": "events USING INTEGER PRIMARY KEY (rowid>?)",
    }
    for name, index in queries.items():
        sql = re.sub(r":\w+", "1", QUERIES[name])
        assert index in str(world.rows(f"EXPLAIN QUERY PLAN {sql}")), name


# ---------------------------------------------------------------------- bytes and numbers


@settings(max_examples=examples(40))
@given(st.lists(st.binary(max_size=80), max_size=6))
def test_whatever_bytes_lie_around_it_a_good_record_is_stored(
    tmp_path_factory: pytest.TempPathFactory, junk: list[bytes]
) -> None:
    world = World(tmp_path_factory.mktemp("any") / "home")
    world.append(b"".join(piece + end(n, f"good {n}") for n, piece in enumerate(junk)))
    world.append(b"\xff\x00" + end(99, "last"), "b\udcff.tk")
    world.spool.put(b"\n".join(junk) + b"\n" + shell_line(command="line"))
    world.collect()
    commands = world.commands()
    assert {f"good {n}" for n in range(len(junk))} | {"last", "line"} <= set(commands)
    for command in commands:
        command.encode()


def test_separators_inside_fields_cost_that_record_alone(world: World) -> None:
    for hostile in ("a\x1fb", "a\x1eb", "a\x1db", "a\x1d\nb"):
        world.append(end(1, hostile))
    world.append(end(2, "good"))
    world.append(end(3, "\x1b]0;title\x07\x1b[31m\x9b1m\u202e"))
    world.collect()
    assert "good" in world.commands()
    assert "\x1b]0;title\x07\x1b[31m\x9b1m\u202e" in world.commands()  # kept as it was typed
    assert world.rows("SELECT count FROM tk_drops WHERE reason = 'damaged'")


ABSURD = {
    "a watch for ever": {
        "type": "watch",
        "sha": "abcd",
        "repo": "o/r",
        "at": 0,
        "ttl_secs": LARGEST,
    },
    "a watch from the end of time": {"type": "watch", "sha": "abcd", "repo": "o/r", "at": LARGEST},
    "a watch for nothing": {"type": "watch", "sha": "../x", "repo": "?", "at": 0},
    "a heartbeat of the future": {"type": "heartbeat", "source": "browser", "at": LARGEST},
    "a source of no name": {"type": "heartbeat", "source": "\0\ud800", "at": -LARGEST},
    "no object": [1],
    "numbers": {"envelope_id": 10**400},
}


@pytest.mark.parametrize("name", ABSURD)
def test_an_absurd_line_keeps_nothing_else_from_being_stored(world: World, name: str) -> None:
    world.spool.put(json.dumps(ABSURD[name]).encode() + b"\n" + shell_line())
    assert world.collect().new == 1
    assert world.collect() == BatchReport()
    assert world.spool.waiting() == []
    now = time.time() * 1000
    for (until,) in world.rows("SELECT expires_at FROM sha_watchlist"):
        assert until < now + 31 * 86_400_000
    for (at,) in world.rows("SELECT last_heartbeat_ts FROM source_health"):
        assert at is None or at <= now + 60_000


@pytest.mark.parametrize(
    "changed",
    [
        {"duration_ms": LARGEST, "stamp": "0001-01-01T00:00:00Z"},
        {"stamp": "9999-12-31T23:59:59Z"},
        {"exit_code": -LARGEST - 1},
        {"command": "a\0b\ud83d\udca9\ud83d", "cwd": "/\0\ud800"},
        {"command": "", "cwd": ""},
        {"env_snapshot": {"PATH": "\0", "HOME": "\ud800", "": ""}},
        {"git_state": {"repo": "\ud800", "branch": "\0", "commit": "", "is_dirty": None}},
        {"stdout": {"content": "\x1b[2J\0", "truncated": True, "original_bytes": LARGEST}},
        {"shell": {"Unknown": "\ud800"}, "hostname": "\0", "tool_name": "\udfff"},
    ],
)
def test_absurd_values_are_stored_as_far_as_columns_hold_them(
    world: World, changed: dict[str, Any]
) -> None:
    world.spool.put(shell_line(**changed) + shell_line(2, command="good"))
    assert world.collect().new == 2
    last = world.rows("SELECT last_event_ts FROM source_health WHERE source = 'shell'")
    assert last != [(None,)] or "tool_name" in changed
    assert all(at is None or at <= time.time() * 1000 for (at,) in last)


@pytest.mark.parametrize("at", ["0", "253402300799.999", "1,5", "99999999999999999999", "-1", "x"])
def test_times_of_hooks_that_cannot_be_are_refused_or_kept(world: World, at: str) -> None:
    fields = (SESSION, 7, 1, "zsh", "vm", "me", at, at, 0, "/u", 4, "make")
    world.append(record("end1", *fields) + end(2, "good"))
    came = world.collect()
    assert "good" in world.commands()
    assert came.new + came.refused == 2


# ---------------------------------------------------------------------- files


def test_a_file_that_cannot_be_read_does_not_keep_the_others_waiting(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.append(end(1, "of root"), "zsh-1-1.tk")
    world.append(end(2, "mine"), "zsh-2-1.tk")
    read = spool_module._read

    def refused(descriptor: int, offset: int, limit: int) -> bytes:
        name = Path(f"/proc/self/fd/{descriptor}").readlink().name
        if name.startswith("zsh-1-1"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return read(descriptor, offset, limit)

    with monkeypatch.context() as patch:
        patch.setattr(spool_module, "_read", refused)
        assert world.collect() == BatchReport(new=1, refused=1)
        assert world.collect() == BatchReport()  # it is counted once
    (kept,) = (world.spool.folder / "refused").iterdir()
    kept.rename(world.spool.folder / "zsh-1-1.tk")  # somebody has mended it
    assert world.collect() == BatchReport(new=1)
    (said,) = world.rows("SELECT last_error_msg FROM source_health WHERE source = 'shell'")
    assert "zsh-1-1.tk" in said[0]
    assert world.rows("SELECT count FROM tk_drops WHERE reason = 'unreadable'") == [(1,)]


def test_a_file_that_vanishes_while_others_are_listed_hides_none(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.append(end(1), "a.tk")
    world.append(end(2), "b.tk")
    scan = os.scandir

    class Vanishing:
        """A folder whose first file is gone when it is looked at."""

        def __init__(self, folder: Path) -> None:
            self.entries = list(scan(folder))
            Path(self.entries[0].path).unlink()

        def __enter__(self) -> Iterator[Any]:
            return iter(self.entries)

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr("threadkeep.base.spool.os.scandir", Vanishing)
    assert len(Spool(world.spool.folder).waiting()) == 1


def test_what_is_refused_is_set_aside_once_however_often_the_store_fails(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.spool.put(b"{broken\n" + shell_line())

    def full(*_: object) -> None:
        raise StorageFull("the disk is full", hint="free some space")

    with monkeypatch.context() as patch:
        patch.setattr("threadkeep.capture.observed.intake.write_command", full)
        for _ in range(3):
            with pytest.raises(StorageFull):
                world.collect()
    assert world.collect() == BatchReport(new=1, refused=1)
    assert len(list((world.spool.folder / "refused").iterdir())) == 1
    assert world.rows("SELECT reason, count FROM tk_drops") == [("not understood", 1)]


def test_why_nothing_was_collected_is_told_as_soon_as_it_can_be(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.append(end(1))
    told = "SELECT last_error_msg, consecutive_failures FROM source_health WHERE source = 'shell'"
    with world.home.observations() as observations:
        with monkeypatch.context() as patch:

            def full(*_: object, **__: object) -> None:
                raise StorageFull("the disk is full", hint="free some space")

            patch.setattr("threadkeep.capture.observed.intake.write_command", full)
            with pytest.raises(StorageFull):
                observations.collect()
            assert world.rows(told) == [("the disk is full", 1)]
            patch.setattr(
                type(observations.store.database), "write", full
            )  # now nothing can be told
            with pytest.raises(StorageFull):
                observations.collect()
        assert world.rows(told) == [("the disk is full", 1)]
        assert observations.collect() == BatchReport(new=1)
    assert world.rows(told) == [("the disk is full", 0)]  # it went wrong last, and is well again


def test_a_clock_that_jumps_back_loses_and_doubles_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    for number, shift in enumerate((0.0, -86_400.0, -86_399.0, 3600.0, 0.5)):
        monkeypatch.setattr("threadkeep.base.spool.time.time", lambda shift=shift: now + shift)
        world.append(end(number, f"c{number}", at=AT - 100 * number))
        world.collect()
    assert sorted(world.commands()) == [f"c{number}" for number in range(5)]


# ---------------------------------------------------------------------- many ways


def test_one_command_that_comes_every_way_is_one_row(world: World, tmp_path: Path) -> None:
    at = AT + 1
    world.append(begin(1, "make all", at=at) + end(1, "make all", at=at))
    fallback = world.home.knowledge_path().parent / "fallback"
    fallback.mkdir()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at + 1))
    same: dict[str, Any] = {"command": "make all", "stamp": stamp, "duration_ms": 900}
    (fallback / "a.jsonl").write_bytes(shell_line(9, **same))  # at first it was not delivered
    history = tmp_path / "zsh_history"
    history.write_text(f": {at}:0;make all\n")
    hippo = Command(
        *("11111111-0000-4000-8000-000000000009", SESSION, (at + 1) * 1000, "make all", "/u"),
        duration_ms=950,
        exit_code=0,
    )
    with world.home.observations() as observations:
        StoreBackend(observations, "1").store([hippo])
        observations.collect()
        observations.import_history([HistoryFile("zsh", history)])
        StoreBackend(observations, "1").store([hippo])
    assert world.commands() == ["make all"]


def test_five_hundred_equal_commands_of_one_second_are_five_hundred_rows(world: World) -> None:
    world.append(b"".join(end(n, "ls", at=AT + n / 500) for n in range(500)))
    assert world.collect().new == 500
    assert world.commands() == ["ls"] * 500


def test_the_store_is_sound_whatever_it_was_told(world: World) -> None:
    world.append(record("env1", SESSION, 7, "LANG=C", "PATH=/bin") + begin(1) + end(1) + begin(2))
    world.spool.put(shell_line(tool_name="Bash", stdout={"content": "x"}) + visit_line())
    reporter = world.home.reporter()
    reporter.report(Watch("abcdef1", "o/r", AT * 1000))
    world.collect()
    with world.home.observations() as observations:
        for source in ("shell", "claude-tool", "browser"):
            assert observations.probe(source).lag_ms is not None
    assert world.rows("PRAGMA integrity_check") == [("ok",)]
    assert world.rows("PRAGMA foreign_key_check") == []
    assert world.rows("PRAGMA user_version") == [(18,)]
    kinds = world.rows("SELECT DISTINCT source_kind FROM events ORDER BY 1")
    assert kinds == [("claude-tool",), ("shell",)]
    shown = world.rows("SELECT command FROM events WHERE probe_tag IS NULL ORDER BY id")
    assert sorted(row[0] for row in shown) == ["ls", "make", "make"]
