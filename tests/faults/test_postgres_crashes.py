"""A PostgreSQL server that crashes, or a network that cuts: what was acknowledged is there once.

Several processes write with ids of their own and record streams, while the server is stopped at
once and started again, or while every connection is cut. Nobody learns from an error that something
was not stored: who gets one writes the same again, and is told that it is there already. A recorder
sends again by itself what the server had not written to its disk.
"""

import multiprocessing
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Final

import psycopg
import pytest

from tests.lengths import at_length
from tests.support.disks import fill, small_disk
from tests.support.postgres import OwnServer, fresh_database
from threadkeep.base import json
from threadkeep.base.tx import Sql
from threadkeep.chat.records import Event
from threadkeep.chat.store import ChatStore
from threadkeep.errors import (
    Conflict,
    NoStore,
    StorageFull,
    ThreadkeepError,
    Unreachable,
)
from threadkeep.home.home import Home
from threadkeep.home.migration import migrate

# The long form takes minutes where the disk is slow.
pytestmark = [pytest.mark.faults, pytest.mark.slow, pytest.mark.timeout(at_length(3600, 300))]

WRITERS: Final = at_length(8, 4)
WRITES: Final = at_length(1250, 60)  # of each
STREAM_EVERY: Final = at_length(10, 15)  # so many writes, one is a stream
DELTAS: Final = at_length(40, 60)  # of each stream
STOPS: Final = at_length(12, 3)
_PATIENCE: Final = 120.0
_SOCKET: Final = ".s.PGSQL.5432"


@pytest.fixture(scope="module")
def server() -> Iterator[OwnServer]:
    # The longest delay that there is: what is committed without waiting is lost with the server.
    with OwnServer(wal_writer_delay="10s") as server:
        yield server


def write(
    url: str,
    session: str,
    writer: int,
    done: "multiprocessing.Value[int]",  # type: ignore[valid-type]
    opened: Barrier,
) -> None:
    """Write messages with ids that only this process has; each is acknowledged before the next."""
    with closing(ChatStore.open(url)) as store:
        opened.wait(_PATIENCE)  # whoever opens a store is told at once that there is no server
        for number in range(WRITES):
            name = f"m-{writer}-{number}"
            if number % STREAM_EVERY:
                acknowledge(store, session, name)
            else:
                record(store, session, name)
            done.value += 1  # type: ignore[attr-defined]


def acknowledge(store: ChatStore, session: str, message_id: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            store.say(session, f"text of {message_id}", message_id=message_id)
        except Conflict:  # it is there: the answer to the first attempt was lost
            return
        except ThreadkeepError:
            assert time.monotonic() < deadline
        else:
            return


def record(store: ChatStore, session: str, message_id: str) -> None:
    """Record a stream; no chunk is fed twice, whatever happens to the server."""
    with store.record(session, message_id) as recorder:
        for chunk in (
            {"type": "start"},
            {"type": "start-step"},
            {"type": "text-start", "id": "t"},
            *({"type": "text-delta", "id": "t", "delta": f"{n} "} for n in range(DELTAS)),
            {"type": "text-end", "id": "t"},
            {"type": "finish-step"},
            {"type": "finish"},
        ):
            recorder.feed(chunk)


def run_writers(url: str, breaks: Callable[[], None], stops: int) -> None:
    """Let processes write into one session each, and break something while they do."""
    context = multiprocessing.get_context("spawn")
    with closing(ChatStore.open(url, event_log=True)) as store:
        sessions = [store.create_session(agent="a", model="m").id for _ in range(WRITERS)]
    counts = [context.Value("i", 0) for _ in sessions]
    opened = context.Barrier(WRITERS)
    writers = [
        context.Process(target=write, args=(url, session, number, counts[number], opened))
        for number, session in enumerate(sessions)
    ]
    for one in writers:
        one.start()
    everything = WRITERS * WRITES
    for stop in range(1, stops + 1):
        # By what was done, not by time: a slow machine breaks at the same places.
        while sum(count.value for count in counts) < everything * stop // (stops + 1):
            assert any(one.is_alive() for one in writers)
            time.sleep(0.005)
        breaks()
    for one in writers:
        one.join()
    assert [one.exitcode for one in writers] == [0] * WRITERS
    with closing(ChatStore.open(url)) as store:
        for number, session in enumerate(sessions):
            said = [message["id"] for message in store.ui_messages(session)]
            assert said == [f"m-{number}-{n}" for n in range(WRITES)], "lost, twice or out of order"
            check_streams(store, session, number)
        assert store.verify().ok


def deltas_of(store: ChatStore, session: str) -> list[Event]:
    events = store.tail(session, follow=False)
    return [one for one in events if one.kind == "chunk" and "delta" in one.data]


def check_streams(store: ChatStore, session: str, writer: int) -> None:
    """Every chunk is in its message and in the journal: once, and in order."""
    text = [f"{n} " for n in range(DELTAS)]
    fed: dict[str, list[str]] = {}
    for event in deltas_of(store, session):
        fed.setdefault(str(event.message_id), []).append(event.data["delta"])
    names = [f"m-{writer}-{n}" for n in range(0, WRITES, STREAM_EVERY)]
    assert fed == dict.fromkeys(names, text)
    for name in names:
        assert store.message(session, name)["parts"][-1]["text"] == "".join(text)


def test_a_crash_takes_back_no_chunk_of_a_stream(server: OwnServer) -> None:
    """The beginning of a message, a part in its middle, a chunk before it is acknowledged."""
    url = f"{fresh_database(server.place, 'one')}&home=one"
    deltas = [f"{n} " for n in range(40)]
    with closing(ChatStore.open(url, event_log=True)) as store:
        session = store.create_session(agent="a", model="m")
        numbers: list[int] = []
        with store.record(session, "m") as recorder:
            for n, chunk in enumerate(
                (
                    {"type": "start", "messageMetadata": {"kept": True}},
                    {"type": "text-start", "id": "t"},
                    *({"type": "text-delta", "id": "t", "delta": delta} for delta in deltas),
                    {"type": "text-end", "id": "t"},
                    {"type": "finish"},
                )
            ):
                recorder.feed(json.encode(chunk))
                if n in {1, 25}:
                    numbers += [one.seq for one in deltas_of(store, session.id)]
                    server.crash()
                    server.start()
                    with store.context.db.read() as tx:  # somebody of another machine, with no lock
                        assert tx.is_alive("1:1:elsewhere"), "nobody is taken for dead at once"
        message = store.message(session, "m")
        assert message["parts"][-1]["text"] == "".join(deltas)
        assert message["metadata"]["kept"]
        fed = deltas_of(store, session.id)
        assert [one.data["delta"] for one in fed] == deltas
        assert len(numbers) == 24
        assert [one.seq for one in fed][:24] == numbers, "who follows sees none of them again"
        assert store.runs(session)[0].end_reason == "finish"
        assert store.verify().ok


def test_a_lost_transaction_is_not_taken_for_another_of_its_number(server: OwnServer) -> None:
    """After a crash the server gives the number of one that it lost to somebody else."""
    url = f"{fresh_database(server.place, 'numbers')}&home=numbers"
    number = Sql("SELECT CAST(CAST(pg_current_xact_id() AS text) AS bigint)")
    with closing(ChatStore.open(url)) as store:
        session = store.create_session(agent="a", model="m")
        database = store.context.db
        with pytest.raises(Unreachable, match="while"), database.write() as tx:
            assert tx.count("touch_session", {"id": session.id, "now": 1}) == 1
            lost = tx.value(number)
            server.crash()
            server.start()
            with psycopg.connect(server.place, autocommit=True) as other:
                while other.execute(number.encode()).fetchall()[0][0] < lost:
                    pass
        assert store.session(session).updated_at != 1


def test_crashes_of_the_server_lose_nothing_and_store_nothing_twice(server: OwnServer) -> None:
    url = f"{fresh_database(server.place, 'crashes')}&home=crashes"

    def crash() -> None:
        server.crash()
        server.start()

    run_writers(url, crash, STOPS)


def test_cut_connections_lose_nothing_and_store_nothing_twice(server: OwnServer) -> None:
    url = f"{fresh_database(server.place, 'cuts')}&home=cuts"
    with proxy(server.folder) as (folder, cut):
        through = url.replace(f"host={server.folder}", f"host={folder}")
        run_writers(through, cut, STOPS * 3)


# ---------------------------------------------------------------------- a full disk


@pytest.fixture
def disk(server: OwnServer) -> Iterator[tuple[str, Path]]:
    """Return the URL of a home in a database on a small disk, and the folder of the disk."""
    with small_disk(server.folder / f"disk-{os.urandom(4).hex()}", "24m") as folder:
        (place := folder / "tables").mkdir()
        owner = (server.folder / "data").stat()
        os.chown(place, owner.st_uid, owner.st_gid)
        with psycopg.connect(server.place, autocommit=True) as connection:
            connection.execute(f"CREATE TABLESPACE small LOCATION '{place}'".encode())
            connection.execute(b"CREATE DATABASE on_it TABLESPACE small")
            yield f"postgresql://postgres@/on_it?host={server.folder}&home=full", folder
            connection.execute(b"DROP DATABASE on_it WITH (FORCE)")
            connection.execute(b"DROP TABLESPACE small")


def test_a_full_disk_refuses_and_the_same_recorder_goes_on_with_room(
    disk: tuple[str, Path],
) -> None:
    url, folder = disk
    large = os.urandom(30_000).hex()
    with closing(ChatStore.open(url)) as store:
        session = store.create_session(agent="a", model="m")
        with store.record(session, "m") as recorder:
            recorder.feed({"type": "start"})
            recorder.feed({"type": "text-start", "id": "t"})
            filler = fill(folder)
            kept = 0
            with pytest.raises(StorageFull, match="home=full") as caught:
                while kept < 1000:
                    recorder.feed({"type": "text-delta", "id": "t", "delta": large})
                    kept += 1
            assert "free some space" in caught.value.hint
            filler.unlink()
            recorder.feed({"type": "text-delta", "id": "t", "delta": "the end"})
        assert store.message(session, "m")["parts"][-1]["text"] == large * kept + "the end"
        assert store.verify().ok


def test_a_move_to_a_full_disk_leaves_nothing_half_done(
    disk: tuple[str, Path], tmp_path: Path
) -> None:
    url, folder = disk
    home = Home(tmp_path / "home")
    with home.chat() as store:
        session = store.create_session(agent="a", model="m")
        for number in range(20):
            store.say(session, os.urandom(30_000).hex(), message_id=f"m{number}")
        before = list(store.export_all())
    with pytest.raises(NoStore):
        ChatStore.open(url, read_only=True)  # so that the server can connect to it later
    filler = fill(folder)
    with pytest.raises(StorageFull):
        migrate(home, url, tell=lambda *_: None)
    with pytest.raises(NoStore):
        ChatStore.open(url, read_only=True)
    with home.chat() as store:
        assert list(store.export_all()) == before
    filler.unlink()
    migrate(home, url, tell=lambda *_: None)
    with closing(ChatStore.open(url)) as store:
        assert list(store.export_all()) == before


# ---------------------------------------------------------------------- a network that is cut


@contextmanager
def proxy(target: Path) -> Iterator[tuple[Path, Callable[[], None]]]:
    """Return the folder of a proxy to a server, and what cuts all its connections."""
    found = Proxy(target)
    try:
        yield found.folder, found.cut
    finally:
        found.close()


class Proxy:
    """Passes connections on to a server until they are cut, some in the middle of an answer."""

    def __init__(self, target: Path) -> None:
        self.folder = target / f"proxy-{os.getpid()}"
        self.folder.mkdir()
        self._target = str(target / _SOCKET)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.folder / _SOCKET))
        self._listener.listen(64)
        self._open: list[socket.socket] = []
        self._all: list[socket.socket] = [self._listener]
        self._pumps: list[threading.Thread] = []
        self._accepts = threading.Thread(target=self._accept, daemon=True)
        self._accepts.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                self._all += [client, server]
                server.connect(self._target)
                self._open += [client, server]
                for ends in ((client, server), (server, client)):
                    self._pumps.append(threading.Thread(target=_pump, args=ends, daemon=True))
                    self._pumps[-1].start()

    def cut(self) -> None:
        while self._open:
            _shut(self._open.pop())

    def close(self) -> None:
        _shut(self._listener)
        self._accepts.join()
        self.cut()
        for one in self._pumps:
            one.join()
        for end in self._all:
            end.close()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    _shut(source)
    _shut(sink)


def _shut(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
