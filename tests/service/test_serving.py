"""`serve` as a whole: one process for each store, a clean end, and who it is told by."""

import os
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.faults.collect_world import end, shell_line
from tests.support.children import wait_until
from tests.support.knowledge import ask, assert_sound, do
from tests.support.serving import ServeProcess, serving
from tests.support.user_homes import made_up_home
from threadkeep import Home
from threadkeep.base.local_socket import LocalSocket
from threadkeep.base.processes import is_stopped, my_mark
from threadkeep.base.tx import Sql
from threadkeep.capture.observed.client import CollectorClient
from threadkeep.capture.observed.protocol import Ack, CollectorStatus, GetStatus, Shutdown
from threadkeep.errors import Conflict, Damaged, SchemaMismatch
from threadkeep.home.home import socket_path
from threadkeep.knowledge.health import Service, note_start
from threadkeep.knowledge.records import Command
from threadkeep.knowledge.schema import SCHEMA_VERSION
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.service.doctor.doctor import diagnose
from threadkeep.service.parts import keeping
from threadkeep.service.serve import Pulse, hippo_folder, hippo_socket, serve, who_serves
from threadkeep.service.supervisor import Bell, Books

LS = Command(
    envelope_id="11111111-0000-4000-8000-000000000002",
    session="22222222-2222-4222-8222-222222222222",
    at=1_780_000_000_000,
    command="ls -la",
    cwd="/u/app",
)
READY = ("listening on", "serves")


@pytest.fixture
def user(tmp_path: Path) -> Path:
    folder = tmp_path / "user"
    folder.mkdir()
    return folder


@pytest.fixture
def home(tmp_path: Path, user: Path) -> Home:
    return Home(tmp_path / "home", environ={"HOME": str(user)})


@pytest.fixture
def served(home: Home, user: Path) -> Iterator[ServeProcess]:
    with serving(home.paths().data, user) as child:
        child.wait_for(*READY)
        yield child


def rows(home: Home, sql: str) -> list[Any]:
    return ask(home.knowledge_path(), sql)


# ---------------------------------------------------------------------- one for each store


def test_there_is_one_for_each_store(home: Home, user: Path, served: ServeProcess) -> None:
    with serving(home.paths().data, user) as second:
        assert second.hear() == ""
        said = second.errors()
    assert "Conflict" in said
    assert f"process {served.pid} " in said
    assert "version 1.2.3, since 20" in said
    found = who_serves(home)
    assert found.running
    assert found.service is not None
    assert (found.service.pid, found.service.is_running) == (served.pid, True)
    with (
        home.observations() as observations,
        pytest.raises(Conflict, match=f"process {served.pid}"),
        keeping(home, observations, threading.Event(), lambda _: None, version="1"),
    ):
        raise AssertionError("watching beside it must not begin")
    served.kill()
    assert not who_serves(home).running  # the place is free again, and nobody is taken for it


def test_looking_for_who_serves_creates_nothing(home: Home) -> None:
    assert not who_serves(home).running
    assert not home.paths().data.exists()


# ---------------------------------------------------------------------- the end


def test_a_clean_end_under_load_leaves_everything_in_order(home: Home, user: Path) -> None:
    made_up_home(user)
    spool = home.paths().data / "spool"
    spool.mkdir(parents=True, mode=0o700)
    (spool / "zsh-7-1.tk").write_bytes(b"".join(end(n, f"make {n}") for n in range(2000)))
    with serving(home.paths().data, user) as child:
        child.wait_for(*READY)
        assert child.ask_to_end() == 0
        child.wait_for("ended")
    assert not socket_path(home).exists()
    assert not who_serves(home).running
    assert rows(home, "SELECT count(*) FROM tk_service WHERE stopped_at IS NOT NULL") == [(1,)]
    held = "SELECT count(*) FROM {} WHERE status = 'processing' OR locked_by IS NOT NULL"
    for queue in ("enrichment_queue", "agentic_enrichment_queue"):
        assert rows(home, held.format(queue)) == [(0,)]
    assert_sound(home.knowledge_path())


# ---------------------------------------------------------------------- what it does


def test_what_shells_and_agents_do_is_stored_as_it_comes(home: Home, user: Path) -> None:
    with serving(home.paths().data, user) as child:
        child.wait_for(*READY)
        spool = home.paths().data / "spool"
        spool.mkdir(exist_ok=True, mode=0o700)
        (spool / "zsh-7-1.tk").write_bytes(end(1, "cargo build"))
        made_up_home(user)
        child.wait_for("claude-code +")
        assert child.ask_to_end() == 0
    found = rows(home, "SELECT command FROM events WHERE probe_tag IS NULL AND tool_name IS NULL")
    assert ("cargo build",) in found


def test_a_socket_that_somebody_has_keeps_only_that_part_waiting(home: Home, user: Path) -> None:
    with LocalSocket(socket_path(home)), serving(home.paths().data, user) as child:
        child.wait_for("is already in use", "serves")
        assert child.ask_to_end() == 0
    (state,) = rows(home, "SELECT crashes, waits_for FROM tk_service_parts WHERE part LIKE 'sock%'")
    assert state[0] == 0
    assert "already in use" in state[1]


# ---------------------------------------------------------------------- Hippo's place


def test_hippos_programs_find_it_where_they_expect_it_and_may_end_it(
    home: Home, user: Path, tmp_path: Path
) -> None:
    hippo = tmp_path / "hippo"
    fallback = hippo / "fallback"
    fallback.mkdir(parents=True)
    (fallback / "2026-01-01.jsonl").write_bytes(shell_line(1, command="from the fallback"))
    with serving(home.paths().data, user, hippo) as child:
        child.wait_for(f"listening on {hippo / 'daemon.sock'}")
        with CollectorClient(hippo / "daemon.sock", 10.0) as client:
            client.send(LS)
            status = client.ask(GetStatus())
            assert isinstance(status, CollectorStatus)
            assert status.version == "1.2.3"
            assert isinstance(client.ask(Shutdown()), Ack)
        child.wait_for("ended")
        assert child.process.wait(60) == 0
    commands = rows(home, "SELECT command FROM events WHERE probe_tag IS NULL ORDER BY id")
    assert sorted(commands) == [("from the fallback",), ("ls -la",)]
    assert [path.name for path in fallback.iterdir()] == ["2026-01-01.jsonl.done"]
    assert not (hippo / "daemon.sock").exists()


def test_where_hippo_keeps_its_data() -> None:
    assert hippo_folder({"HOME": "/h"}) == Path("/h/.local/share/hippo")
    assert hippo_folder({"HOME": "/h", "XDG_DATA_HOME": "/d"}) == Path("/d/hippo")
    assert hippo_folder({"HOME": "/h", "XDG_DATA_HOME": "d"}) == Path("/h/.local/share/hippo")
    short, long = Path("/d/hippo"), Path("/d") / ("x" * 95)
    assert hippo_socket(short, Path("/t")) == Path("/d/hippo/daemon.sock")
    assert hippo_socket(long, Path("/t")) == Path("/t/hippo-daemon.sock")


# ---------------------------------------------------------------------- the pulse


class Clocks:
    """Two clocks: the wall's also moves while the machine sleeps."""

    def __init__(self) -> None:
        self.wall, self.steady = 1_000_000, 50.0

    def pass_by(self, seconds: float, *, asleep: float = 0.0) -> None:
        self.steady += seconds
        self.wall += int((seconds + asleep) * 1000)


def stop_between_writes(served: ServeProcess, file: Path) -> None:
    """Stop a service, but not inside a transaction: nobody else could write until it goes on."""
    for _ in range(1000):
        os.kill(served.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, served.pid, os.WSTOPPED | os.WNOWAIT)
        with closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                os.kill(served.pid, signal.SIGCONT)
            else:
                return
    pytest.fail("it is always writing")


def test_a_service_that_is_stopped_or_silent_is_not_called_running(
    home: Home, served: ServeProcess
) -> None:
    def told() -> tuple[str, str]:
        found = diagnose(home, version="1.2.3").findings
        (one,) = (each for each in found if (each.group, each.check) == ("work", "service"))
        return who_serves(home).hindrance, one.level

    assert told() == ("", "ok")
    stop_between_writes(served, home.knowledge_path())
    assert told() == ("stopped", "warn")
    do(home.knowledge_path(), "UPDATE tk_service SET heartbeat = heartbeat - 660000")
    assert told() == ("stopped", "warn")
    os.kill(served.pid, signal.SIGCONT)
    wait_until(lambda: not is_stopped(served.pid))
    assert who_serves(home).hindrance in {"silent", ""}  # it speaks again within seconds
    assert served.ask_to_end() == 0
    assert who_serves(home).hindrance == ""


@pytest.fixture
def pulse(tmp_path: Path) -> Iterator[tuple[Pulse, Clocks, list[str], Callable[[], int]]]:
    clocks, said, rings = Clocks(), list[str](), list[int]()
    with KnowledgeStore.open(tmp_path / "k.db") as store:
        database = store.context.db
        bell = Bell(threading.Event())
        vars(bell)["ring"] = lambda: rings.append(1)
        books = Books(database, lambda: clocks.wall, said.append)
        made = Pulse(database, bell, books, said.append, lambda: clocks.wall, lambda: clocks.steady)
        with database.write() as tx:
            note_start(tx, Service(1, my_mark(), "v", 18, 1, 1))

        def beat() -> int:
            with database.read() as tx:
                return int(tx.value(Sql("SELECT heartbeat FROM tk_service")))

        yield made, clocks, said, beat
        said.extend("ring" for _ in rings)


def test_after_a_sleep_everything_is_looked_at_at_once(
    pulse: tuple[Pulse, Clocks, list[str], Callable[[], int]],
) -> None:
    looks, clocks, said, beat = pulse
    clocks.pass_by(5, asleep=8 * 3600)
    looks.look()
    assert said == ["the machine slept for 480 min; checking everything now"]
    assert beat() == clocks.wall
    clocks.pass_by(5)
    looks.look()
    assert len(said) == 1


def test_signs_of_life_come_every_minute_and_not_more_often(
    pulse: tuple[Pulse, Clocks, list[str], Callable[[], int]],
) -> None:
    looks, clocks, said, beat = pulse
    beats = set()
    for _ in range(60):
        clocks.pass_by(5)
        looks.look()
        beats.add(beat())
    assert len(beats - {1}) == 5
    clocks.pass_by(5, asleep=-3600)  # somebody set the clock back
    looks.look()
    assert said == []


def test_a_store_that_is_gone_ends_it_although_nothing_is_written(tmp_path: Path) -> None:
    stop = threading.Event()
    with KnowledgeStore.open(tmp_path / "k.db") as store:
        database = store.context.db
        books = Books(database, lambda: 1, lambda _: None)
        looks = Pulse(database, Bell(stop), books, lambda _: None, lambda: 1, lambda: 1.0)
        looks.look()
        assert looks.trouble is None
        (tmp_path / "k.db").unlink()
        looks.look()
        assert "was removed or replaced" in str(looks.trouble)
        assert stop.is_set()


def test_a_store_that_is_replaced_ends_it_with_the_reason(tmp_path: Path) -> None:
    stop = threading.Event()
    with KnowledgeStore.open(tmp_path / "k.db") as store:
        database = store.context.db
        books = Books(database, lambda: 1, lambda _: None)
        looks = Pulse(database, Bell(stop), books, lambda _: None, lambda: 1, lambda: 1.0)
        (tmp_path / "k.db").rename(tmp_path / "moved.db")
        (tmp_path / "k.db").touch()
        with pytest.raises(Damaged), database.write() as tx:
            note_start(tx, Service(1, "m", "v", 18, 1, 1))
        looks.look()
        assert isinstance(looks.trouble, Damaged)
        assert stop.is_set()
        (tmp_path / "k.db").unlink()
        (tmp_path / "moved.db").rename(tmp_path / "k.db")


def test_a_file_that_a_newer_program_brought_up_is_not_written_any_more(
    pulse: tuple[Pulse, Clocks, list[str], Callable[[], int]], tmp_path: Path
) -> None:
    looks, clocks, _, beat = pulse
    looks.look()
    assert looks.trouble is None
    do(tmp_path / "k.db", f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    before = beat()
    clocks.pass_by(600)
    looks.look()
    assert isinstance(looks.trouble, SchemaMismatch)
    assert f"version {SCHEMA_VERSION + 1}" in str(looks.trouble)
    assert beat() == before


def test_serving_in_this_process_ends_when_it_is_told_to(home: Home, user: Path) -> None:
    stop = threading.Event()
    said: list[str] = []

    def tell(text: str) -> None:
        said.append(text)
        if "serves" in text:
            stop.set()

    serve(home, stop, tell, version="9", user_home=user, socket=False)
    assert not who_serves(home).running
    assert [line for line in said if "crash" in line] == []


def test_a_damaged_store_is_refused_before_anything_runs(home: Home, user: Path) -> None:
    file = home.knowledge_path()
    file.parent.mkdir(parents=True)
    file.write_bytes(b"SQLite format 3\0" + b"\xff" * 8000)
    with pytest.raises(Damaged):
        serve(home, threading.Event(), lambda _: None, version="9", user_home=user)
    assert not who_serves(home).running
