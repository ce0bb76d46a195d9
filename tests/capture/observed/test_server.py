"""The server over a real socket: nothing that was taken is lost, and no client harms another."""

import json
import os
import select
import socket
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.capture.observed.recorders import ANSWER_SECONDS, Recorder
from threadkeep.base.frames import FrameDecoder, encode_frame
from threadkeep.base.local_socket import connect
from threadkeep.capture.observed.client import CollectorClient
from threadkeep.capture.observed.protocol import (
    Ack,
    CollectorStatus,
    Entities,
    Error,
    Events,
    GetEntities,
    GetEvents,
    GetSessions,
    GetStatus,
    IngestEvent,
    QueryResult,
    RawQuery,
    RegisterWatchSha,
    Request,
    Sessions,
    Shutdown,
    UpdateSourceHealthHeartbeat,
    decode_response,
    encode_request,
)
from threadkeep.capture.observed.server import Buffer, CollectorLimits, CollectorServer
from threadkeep.errors import Busy, Closed, Conflict, NotFound
from threadkeep.knowledge.records import Command, Heartbeat, Observed, Visit, Watch

SESSION = str(uuid.UUID(int=1))
NEVER = 3600.0  # seconds


@pytest.fixture
def path() -> Iterator[Path]:
    """A path that is short enough for a socket, wherever pytest keeps its folders."""
    with tempfile.TemporaryDirectory(prefix="tk-") as name:
        yield Path(name, "d.sock")


@contextmanager
def serving(
    path: Path, backend: Recorder, *, uid: int | None = None, **limits: float
) -> Iterator[CollectorServer]:
    values: dict[str, Any] = {"flush_seconds": NEVER} | limits
    server = CollectorServer(
        path, backend, limits=CollectorLimits(**values), clock=lambda: 77, uid=uid
    )
    server.start()
    try:
        yield server
    finally:
        backend.gate.set()
        server.stop()


def client(path: Path) -> CollectorClient:
    return CollectorClient(path, ANSWER_SECONDS, connect_timeout=ANSWER_SECONDS)


@contextmanager
def raw_link(path: Path) -> Iterator[socket.socket]:
    with connect(path, ANSWER_SECONDS) as link:
        link.settimeout(ANSWER_SECONDS)
        yield link


def read_to_end(link: socket.socket) -> list[bytes]:
    """Read frames until the other side hangs up."""
    decoder = FrameDecoder()
    try:
        while data := link.recv(65536):
            decoder.feed(data)
    except ConnectionResetError:
        pass  # it hung up before it had read everything
    return list(iter(decoder.take, None))


def read_frame(link: socket.socket) -> bytes:
    length = int.from_bytes(link.recv(4, socket.MSG_WAITALL), "big")
    return link.recv(length, socket.MSG_WAITALL)


def command(number: int, text: str = "") -> Command:
    return Command(str(uuid.UUID(int=number)), SESSION, number, text or f"echo {number}", "/")


def commands(things: list[Command | Visit] | list[Observed]) -> list[str]:
    return sorted(thing.command for thing in things if isinstance(thing, Command))


def numbered(count: int) -> list[str]:
    return sorted(f"echo {number}" for number in range(count))


def test_what_a_connection_sent_it_can_read(path: Path) -> None:
    backend = Recorder()
    with serving(path, backend), client(path) as ours:
        for round_ in range(3):
            ours.send(command(round_))
            answer = ours.ask(GetEvents())
            assert isinstance(answer, Events)
            assert [row.command for row in answer.rows] == numbered(round_ + 1)
        ours.send(Visit(str(uuid.uuid4()), 5, "https://docs.rs/", "docs.rs"))
        ours.ask(GetStatus())
    assert isinstance(backend.stored[-1], Visit)


def test_requests_are_answered_in_their_order(path: Path) -> None:
    with serving(path, Recorder()), raw_link(path) as link:
        requests: list[Request] = [
            GetStatus(),
            RawQuery("a"),
            GetSessions(),
            RawQuery("b"),
            GetEntities(),
        ]
        link.sendall(b"".join(encode_frame(encode_request(one)) for one in requests))
        kinds = [type(decode_response(read_frame(link))) for _ in requests]
    assert kinds == [CollectorStatus, QueryResult, Sessions, QueryResult, Entities]


def test_every_request_reaches_the_backend(path: Path) -> None:
    backend = Recorder()
    with serving(path, backend), client(path) as ours:
        assert ours.ask(GetStatus()) == CollectorStatus(version="9")
        assert isinstance(ours.ask(GetSessions(5, 2)), Sessions)
        assert isinstance(ours.ask(GetSessions()), Sessions)
        assert ours.ask(GetEvents(1, 2, "proj", 3)) == Events([])
        assert isinstance(ours.ask(GetEntities("tool")), Entities)
        assert isinstance(ours.ask(RawQuery("cargo")), QueryResult)
        assert ours.ask(RegisterWatchSha("abcdef", "o/r", 60)) == Ack()
        assert ours.ask(UpdateSourceHealthHeartbeat("browser", 5)) == Ack()
    assert backend.asked == [(), (5, 2), (None, 50), (1, 2, "proj", 3), ("tool",), ("cargo",)]
    assert backend.watches == [Watch("abcdef", "o/r", 77, 60)]
    assert backend.heartbeats == [Heartbeat("browser", 5)]


def test_a_full_batch_is_stored_without_waiting(path: Path) -> None:
    backend = Recorder()
    with serving(path, backend, batch=5), client(path) as ours:
        for number in range(5):
            ours.send(command(number))
        assert backend.wait_for_stored(5)


def test_a_single_event_is_stored_after_a_moment(path: Path) -> None:
    backend = Recorder()
    with serving(path, backend, flush_seconds=0.001), client(path) as ours:
        for number in range(3):
            ours.send(command(number))
            assert backend.wait_for_stored(number + 1)


def test_a_batch_is_never_larger_than_told(path: Path) -> None:
    backend = Recorder()
    backend.gate.clear()
    with serving(path, backend, batch=10), client(path) as ours:
        for number in range(95):
            ours.send(command(number))
        backend.gate.set()
        ours.ask(GetStatus())
    assert max(backend.batches) <= 10
    assert commands(backend.stored) == numbered(95)


def test_many_clients_at_once_lose_nothing(path: Path) -> None:
    backend = Recorder()

    def report(first: int) -> None:
        with client(path) as ours:
            for number in range(first, first + 100):
                ours.send(command(number))

    with serving(path, backend, batch=20, flush_seconds=0.01):
        threads = [threading.Thread(target=report, args=(n * 100,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert commands(backend.stored) == numbered(800)


def test_a_store_that_fails_leaves_events_in_the_spool(path: Path) -> None:
    backend = Recorder()
    backend.store_error = Busy("locked")
    with serving(path, backend) as server, client(path) as ours:
        for number in range(7):
            ours.send(command(number))
        ours.ask(GetStatus())
        assert server.counts()["kept"] == 7
        backend.store_error = None
        ours.send(command(7))
    assert commands(backend.kept) == numbered(7)
    assert commands(backend.stored) == ["echo 7"]
    assert backend.drops == {}


def test_only_what_nobody_could_take_is_counted_as_lost(path: Path) -> None:
    backend = Recorder()
    backend.store_error, backend.keep_error = ValueError("a bug"), OSError("full")
    with serving(path, backend) as server, client(path) as ours:
        ours.send(command(0))
        ours.send(command(1))
        assert isinstance(ours.ask(GetStatus()), CollectorStatus)
        assert server.counts()["lost"] == 2
    assert backend.drops == {"spool": 2}


def test_while_the_store_is_held_up_the_spool_takes_what_is_too_much(path: Path) -> None:
    backend = Recorder()
    backend.gate.clear()
    with serving(path, backend, batch=5, buffered=20), client(path) as ours:
        for number in range(5):
            ours.send(command(number))
        assert backend.entered.wait(ANSWER_SECONDS)  # the store has these, and hangs
        for number in range(5, 100):
            ours.send(command(number))
        assert backend.wait_for_kept(75)
        assert backend.stored == []
        backend.gate.set()
        ours.ask(GetStatus())
    everything = commands(backend.stored) + commands(backend.kept)
    assert sorted(everything) == numbered(100)


def test_large_events_fill_the_buffer_by_their_size(path: Path) -> None:
    backend = Recorder()
    with serving(path, backend, batch=1000, buffered_bytes=100_000), client(path) as ours:
        for number in range(10):
            ours.send(command(number, f"{number}" * 30_000))
        ours.ask(GetStatus())
    assert len(backend.kept) >= 6
    assert len(backend.kept) + len(backend.stored) == 10


def test_events_that_cannot_be_read_are_counted_and_not_answered(path: Path) -> None:
    backend = Recorder()
    with serving(path, backend) as server, raw_link(path) as link:
        for envelope in ({"broken": 1}, raw_envelope("Raw"), raw_envelope("FsChange")):
            link.sendall(encode_frame(encode_request(IngestEvent(envelope))))
        link.sendall(encode_frame(encode_request(GetStatus())))
        assert isinstance(decode_response(read_frame(link)), CollectorStatus)
        assert server.counts()["errors"] == 0
    assert backend.drops == {"invalid": 1, "unsupported": 2}


def raw_envelope(kind: str) -> dict[str, Any]:
    return {
        "envelope_id": str(uuid.uuid4()),
        "timestamp": "2026-01-01T00:00:00Z",
        "payload": {"type": kind, "data": {}},
    }


def test_a_request_that_fails_is_told_and_the_next_one_works(path: Path) -> None:
    backend = Recorder()
    with serving(path, backend), client(path) as ours:
        for trouble in (NotFound("no store", hint="make one"), ValueError("a bug")):
            backend.read_error = trouble
            with pytest.raises(Conflict, match=trouble.args[0]):
                ours.ask(GetStatus())
        backend.read_error = None
        with pytest.raises(Conflict, match="not a commit"):
            ours.ask(RegisterWatchSha("main", "o/r", 1))
        with pytest.raises(Conflict, match="known: agentic"):
            ours.ask(UpdateSourceHealthHeartbeat("nobody", 1))
        assert isinstance(ours.ask(GetStatus()), CollectorStatus)
    assert backend.watches == []


def test_an_answer_that_is_too_long_is_told(path: Path) -> None:
    backend = Recorder()
    backend.stored = [command(number) for number in range(100)]
    with serving(path, backend, frame=2000), client(path) as ours:
        with pytest.raises(Conflict, match="fewer rows"):
            ours.ask(GetEvents())
        assert isinstance(ours.ask(GetStatus()), CollectorStatus)


def test_shutdown_is_acknowledged_then_everything_is_stored(path: Path) -> None:
    backend = Recorder()
    with serving(path, backend) as server, client(path) as ours, client(path) as other:
        other.send(command(0))
        assert isinstance(other.ask(GetStatus()), CollectorStatus)
        for number in range(1, 30):
            other.send(command(number))
        assert ours.ask(Shutdown()) == Ack()
        assert server.wait(ANSWER_SECONDS)
        assert not path.exists()
        with pytest.raises(NotFound):
            connect(path)
        with pytest.raises(Closed):
            other.ask(GetStatus())
        assert commands(backend.stored) == numbered(30)


def test_stopping_stores_what_clients_wrote_before(path: Path) -> None:
    backend = Recorder()
    with ExitStack() as stack, serving(path, backend):
        for number in range(40):
            ours = client(path)
            ours.send(command(number))
            if number % 2:
                ours.close()  # a hook sends and is gone
            else:
                stack.enter_context(ours)
    assert commands(backend.stored) == numbered(40)


def test_a_place_is_taken_by_one_server_and_free_after_it(path: Path) -> None:
    with serving(path, Recorder()) as server:
        assert not server.wait(0)
        second = CollectorServer(path, Recorder())
        with pytest.raises(Conflict, match="already in use"):
            second.start()
        second.stop()
        with client(path) as ours:
            assert isinstance(ours.ask(GetStatus()), CollectorStatus)
    server.stop()  # once more does no harm
    with serving(path, Recorder()), client(path) as ours:
        assert isinstance(ours.ask(GetStatus()), CollectorStatus)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\x00garbage", b"[]", b'{"type":"No"}'])
def test_garbage_gets_an_error_and_the_connection_goes_on(path: Path, body: bytes) -> None:
    with serving(path, Recorder()) as server, raw_link(path) as link:
        link.sendall(encode_frame(body) + encode_frame(encode_request(GetStatus())))
        assert isinstance(decode_response(read_frame(link)), Error)
        assert isinstance(decode_response(read_frame(link)), CollectorStatus)
        assert server.counts()["errors"] == 1


@pytest.mark.parametrize("length", [2**32 - 1, (10 << 20) + 1])
def test_a_wrong_length_gets_an_error_and_the_end(path: Path, length: int) -> None:
    with serving(path, Recorder()) as server, raw_link(path) as link:
        link.sendall(encode_frame(encode_request(GetStatus())))
        link.sendall(length.to_bytes(4, "big"))
        answers = [decode_response(raw) for raw in read_to_end(link)]
        assert [type(answer) for answer in answers] == [CollectorStatus, Error]
        assert server.counts()["errors"] == 1


def test_a_client_that_goes_within_a_frame_is_counted_and_forgotten(path: Path) -> None:
    backend = Recorder()
    whole = encode_frame(encode_request(GetStatus()))
    with serving(path, backend) as server:
        for cut in (1, 3, 4, len(whole) - 1):
            with raw_link(path) as link:
                link.sendall(whole[:cut])
                link.shutdown(socket.SHUT_WR)
                assert read_to_end(link) == []
        with client(path) as ours:
            assert isinstance(ours.ask(GetStatus()), CollectorStatus)
        assert (server.counts()["errors"], server.counts()["timeouts"]) == (4, 0)


@pytest.mark.parametrize(
    "sent, idle, frame",
    [(b"", 0.02, NEVER), (b"\0", NEVER, 0.02), (b"\0\0\1\0half a frame", NEVER, 0.02)],
)
def test_a_client_that_hangs_is_cut_off(path: Path, sent: bytes, idle: float, frame: float) -> None:
    limits = serving(path, Recorder(), idle_seconds=idle, frame_seconds=frame)
    with limits as server, raw_link(path) as link:
        link.sendall(sent)
        assert read_to_end(link) == []
        assert server.counts()["timeouts"] == 1


def test_a_client_that_drips_bytes_does_not_win_time(path: Path) -> None:
    with serving(path, Recorder(), frame_seconds=0.1) as server, raw_link(path) as link:
        link.sendall((9 << 20).to_bytes(4, "big"))
        with pytest.raises(OSError, match=r"Broken pipe|reset"):
            for _ in range(9 << 20):
                link.sendall(b"x")
        assert server.counts()["timeouts"] == 1


def test_a_client_that_does_not_read_is_cut_off(path: Path) -> None:
    backend = Recorder()
    backend.stored = [command(1, "x" * 1_000_000) for _ in range(5)]
    with serving(path, backend, reply_seconds=0.02) as server, raw_link(path) as link:
        link.sendall(encode_frame(encode_request(GetEvents())))
        hung_up = select.poll()
        hung_up.register(link, 0)
        assert hung_up.poll(ANSWER_SECONDS * 1000)
        with client(path) as ours:
            assert isinstance(ours.ask(GetStatus()), CollectorStatus)
        assert server.counts()["timeouts"] == 1


def test_other_users_are_not_heard(path: Path) -> None:
    backend = Recorder()
    with serving(path, backend, uid=os.getuid() + 1) as server, raw_link(path) as link:
        assert read_to_end(link) == []
        assert server.counts()["refused"] == 1
    assert backend.asked == []


def test_of_hundreds_of_silent_connections_the_oldest_make_room(path: Path) -> None:
    with serving(path, Recorder(), connections=10, patience=0.0) as server, ExitStack() as stack:
        for _ in range(10):
            for _ in range(40):
                stack.enter_context(raw_link(path)).send(b"\0")  # half a frame, and silence
            with client(path) as ours:
                assert isinstance(ours.ask(GetStatus()), CollectorStatus)
        assert server.counts()["connections"] == 410
        assert server.counts()["evicted"] >= 390


def test_a_connection_that_has_just_come_does_not_have_to_go(path: Path) -> None:
    backend = Recorder()
    with serving(path, backend, connections=4, patience=NEVER):
        for number in range(60):
            with closing(client(path)) as ours:
                ours.send(command(number))
    assert commands(backend.stored) == numbered(60)


def test_unfinished_frames_together_stay_within_their_limit(path: Path) -> None:
    half = (200_000).to_bytes(4, "big") + b"x" * 150_000
    with serving(path, Recorder(), unfinished_bytes=400_000), ExitStack() as stack:
        links = [stack.enter_context(raw_link(path)) for _ in range(3)]
        for link in links:
            link.sendall(half)
        refused, _, _ = select.select(links, [], [], ANSWER_SECONDS)
        assert len(refused) == 1
        answers = [decode_response(raw) for raw in read_to_end(refused[0])]
        assert isinstance(answers[0], Error)
        assert "at once" in answers[0].message
        for link in links:  # the others may go on; that what they send is no JSON is another story
            if link is not refused[0]:
                link.sendall(b"x" * 50_000 + encode_frame(encode_request(GetStatus())))
                assert isinstance(decode_response(read_frame(link)), Error)
                assert isinstance(decode_response(read_frame(link)), CollectorStatus)


def test_any_bytes_leave_the_server_well(path: Path) -> None:
    with serving(path, Recorder(), frame=1000):

        @given(st.binary(max_size=300))
        def send(noise: bytes) -> None:
            with raw_link(path) as link:
                link.sendall(noise)
                link.shutdown(socket.SHUT_WR)
                assert all(isinstance(decode_response(raw), Error) for raw in read_to_end(link))

        send()
        with client(path) as ours:
            assert isinstance(ours.ask(GetStatus()), CollectorStatus)


def test_a_client_without_an_answer_gives_up(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(path))
        silent.listen()
        with CollectorClient(path, 0.02) as ours, pytest.raises(Busy, match="in time"):
            ours.ask(GetStatus())


def test_the_client_sends_what_hippo_understands(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as hippo:
        hippo.bind(str(path))
        hippo.listen()
        with client(path) as ours:
            ours.send(command(3))
            link, _ = hippo.accept()
            with link:
                sent = json.loads(read_frame(link))
    assert sent["type"] == "IngestEvent"
    assert sent["data"]["payload"]["type"] == "Shell"


def make_buffer(backend: Recorder) -> Buffer:
    return Buffer(backend, batch=2, most=3, most_bytes=1000)


def test_the_buffer_takes_one_event_of_any_size() -> None:
    buffer = make_buffer(Recorder())
    assert buffer.add(command(0), 10_000)
    assert not buffer.add(command(1), 1)
    buffer.relieve()
    assert buffer.add(command(1), 1)


def test_losses_that_could_not_be_written_down_are_told_again() -> None:
    backend = Recorder()
    buffer = make_buffer(backend)
    backend.drop_error = Busy("locked")
    buffer.lose("invalid", 2)
    buffer.flush()
    backend.drop_error = None
    buffer.lose("invalid")
    buffer.flush()
    buffer.flush()
    assert backend.drops == {"invalid": 3}


@pytest.mark.parametrize("work", [Buffer.flush, Buffer.relieve])
def test_an_empty_buffer_has_nothing_to_do(work: Callable[[Buffer], None]) -> None:
    backend = Recorder()
    work(make_buffer(backend))
    assert (backend.batches, backend.kept) == ([], [])
