"""Collecting while programs are killed, disks are full and others collect: each report once."""

import json
import os
import random
import resource
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.capture.observed.recorders import ANSWER_SECONDS
from tests.faults.collect_world import AT, SESSION, World, begin, end
from tests.lengths import at_length
from threadkeep.capture.observed.client import CollectorClient
from threadkeep.capture.observed.protocol import CollectorStatus, GetStatus
from threadkeep.home.home import socket_path
from threadkeep.knowledge.records import Command

pytestmark = pytest.mark.faults

HERE = Path(__file__).resolve().parent
REPO = HERE.parents[1]
EVENTS = 300


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "home")


@contextmanager
def program(name: str, *words: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a program of ours, and kill it at the end."""
    command = [sys.executable, "-B", str(HERE / name), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        try:
            yield child
        finally:
            child.kill()


def lines(child: "subprocess.Popen[bytes]") -> Iterator[str]:
    assert child.stdout is not None
    for line in child.stdout:
        yield line.decode().strip()


def command(number: int) -> Command:
    name = f"55555555-0000-4000-8000-{number:012}"
    return Command(name, SESSION, (AT + number) * 1000, f"c{number}", "/u", exit_code=0)


# ---------------------------------------------------------------------- the socket


def test_what_was_answered_after_is_stored_though_the_server_is_killed(world: World) -> None:
    path = socket_path(world.home)
    for turn in range(3):  # its socket is there after each kill, and nobody's
        with program("collect_programs.py", "listen", str(world.folder)) as server:
            assert next(lines(server)).startswith("listening")
            with CollectorClient(path, ANSWER_SECONDS, connect_timeout=ANSWER_SECONDS) as client:
                for number in range(turn * EVENTS, (turn + 1) * EVENTS):
                    client.send(command(number))
                assert isinstance(client.ask(GetStatus()), CollectorStatus)
                server.kill()
                server.wait()
        assert server.returncode == -signal.SIGKILL
        assert path.is_socket()
    world.collect()
    assert sorted(world.commands()) == sorted(f"c{number}" for number in range(3 * EVENTS))


# ---------------------------------------------------------------------- kills and crowds


def test_half_a_report_is_never_taken_whoever_is_killed(world: World) -> None:
    rng = random.Random(8)
    safe = 0
    for turn in range(at_length(8, 4)):
        with program("collect_programs.py", "report", str(world.folder)) as child:
            for number in lines(child):
                safe = max(safe, int(number))
                if rng.random() < 0.1:
                    break
            child.kill()
        came = world.collect()
        assert came.refused == 0, turn
    stored = set(world.commands())
    assert len(world.commands()) == len(stored)
    assert {f"c{number}" for number in range((safe + 1) * 50)} <= stored
    assert len(stored) % 50 == 0
    assert not [path for path in world.spool.waiting() if path.suffix == ".jsonl"]


def test_three_collectors_and_many_shells_at_once_store_each_command_once(world: World) -> None:
    shells, each = 6, at_length(200, 80)

    def shell(pid: int) -> None:
        for seq in range(each):
            name = {"pid": pid, "at": AT + seq * 9}
            world.append(begin(seq, f"s{pid} c{seq}", **name), f"zsh-{pid}-1.tk")
            world.append(end(seq, f"s{pid} c{seq}", code=seq % 3, **name), f"zsh-{pid}-1.tk")

    with world.home.observations():
        pass  # the store is there before they begin
    with ExitStack() as stack:
        crowd = [
            stack.enter_context(program("collect_child.py", str(world.folder))) for _ in range(3)
        ]
        threads = [threading.Thread(target=shell, args=(pid,)) for pid in range(1, shells + 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [one.poll() for one in crowd] == [None] * 3, "a collector ended by itself"
    world.collect()
    wanted = sorted(f"s{pid} c{seq}" for pid in range(1, shells + 1) for seq in range(each))
    assert sorted(world.commands()) == wanted
    assert world.rows("SELECT count(*) FROM events WHERE exit_code IS NULL") == [(0,)]
    assert world.rows("SELECT count(*) FROM enrichment_queue") == [(shells * each,)]
    assert world.rows("SELECT count(*) FROM tk_drops") == [(0,)]


# ---------------------------------------------------------------------- full disks


def test_a_full_disk_loses_nothing_and_is_told_of(world: World) -> None:
    world.append(b"".join(end(n, f"c{n} " + "x" * 500) for n in range(2000)))
    with program("collect_programs.py", "fill", str(world.folder)) as child:
        assert list(lines(child)) == ["StorageFull", "new 2000"]
    assert len(world.commands()) == 2000
    told = "SELECT last_error_msg, consecutive_failures FROM source_health WHERE source = 'shell'"
    ((message, failures),) = world.rows(told)
    assert "knowledge.db" in message
    assert failures == 0  # it is well again
    assert world.rows("PRAGMA integrity_check") == [("ok",)]


def page(number: int, size: int = 10) -> bytes:
    url = f"https://docs.rs/{number}"
    visit = {"url": url, "domain": "docs.rs", "title": "x" * size, "dwell_ms": 5000}
    body = json.dumps(visit | {"extracted_text": "y" * size}).encode()
    return struct.pack("=I", len(body)) + body


def answers(data: bytes) -> list[dict[str, Any]]:
    found = []
    while data:
        (length,) = struct.unpack("=I", data[:4])
        found.append(json.loads(data[4 : 4 + length]))
        data = data[4 + length :]
    return found


def host(world: World, data: bytes, limit: int | None = None) -> list[dict[str, Any]]:
    """Run the real host as a browser does, with files that may not grow beyond a limit."""

    def bounded() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    environ = {"PATH": os.environ["PATH"], "THREADKEEP_HOME": str(world.folder)}
    # -B: Python would leave compiled modules cut off at the limit.
    run = [
        sys.executable,
        "-B",
        "-m",
        "threadkeep",
        "native-host",
        "manifest.json",
        "threadkeep@local",
    ]
    done = subprocess.run(
        run,
        input=data,
        capture_output=True,
        check=False,
        cwd="/",
        env=environ | {"PYTHONPATH": str(REPO / "src"), "HOME": str(world.folder)},
        preexec_fn=bounded,
    )
    assert done.returncode == 0, done.stderr.decode()
    return answers(done.stdout)


def test_a_host_that_finds_no_room_says_so_and_lives(world: World) -> None:
    said = host(world, page(1) + page(2, 90_000) + page(3), limit=20_000)
    assert [one["status"] for one in said] == ["ok", "error", "ok"]
    assert str(world.folder) not in said[1]["error"]
    assert len(list(world.spool.folder.iterdir())) == 2  # nothing half-written
    assert world.collect().new == 2


def test_a_host_whose_spool_cannot_be_made_says_so_and_lives(world: World) -> None:
    world.spool.folder.rmdir()
    world.spool.folder.write_text("somebody else's file")
    said = host(world, page(1) + page(2))
    assert [one["status"] for one in said] == ["error", "error"]
    assert world.spool.folder.read_text() == "somebody else's file"


def test_a_browser_that_is_killed_in_the_middle_ends_the_host_in_order(world: World) -> None:
    assert [one["status"] for one in host(world, page(1) + page(2)[:40])] == ["ok"]
    assert world.collect().new == 1
