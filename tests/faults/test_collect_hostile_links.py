"""Hostile clients of the socket and of the native-messaging host; good ones are served beside."""

import io
import json
import struct
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.capture.observed.recorders import ANSWER_SECONDS, Recorder
from tests.faults.collect_world import AT, SESSION, World
from threadkeep.base.local_socket import connect
from threadkeep.capture.observed.backend import StoreBackend
from threadkeep.capture.observed.client import CollectorClient
from threadkeep.capture.observed.protocol import CollectorStatus, Events, GetEvents, GetStatus
from threadkeep.capture.observed.server import Buffer, CollectorLimits, CollectorServer
from threadkeep.capture.observed.visits import serve
from threadkeep.knowledge.records import Command

MIB = 1 << 20
GOOD = Command("11111111-0000-4000-8000-0000000000aa", SESSION, AT * 1000, "good", "/u", 0)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "home")


# ---------------------------------------------------------------------- the socket


@pytest.fixture
def sockets() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tk-") as name:
        yield Path(name)


def bad_frames() -> list[bytes]:
    lengths = (0, 1 << 31, (1 << 32) - 1, 10 * MIB + 1)
    return [
        *(struct.pack(">I", length) + b"{}" for length in lengths),
        struct.pack(">i", -5),
        struct.pack("<I", 20) + b'{"type": "GetStatus"}',
        struct.pack(">I", 100) + b'{"type"',
        struct.pack(">I", 10 * MIB) + b"x" * 1000,
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">I", 200_000) + b"[" * 200_000,
        struct.pack(">I", 9) + b'{"type":1',
        struct.pack(">I", 6) + b"\xff\xfe\x00\x00{}",
        b"\x00",
        b"",
    ]


def test_a_good_client_is_served_beside_three_hundred_bad_ones(world: World, sockets: Path) -> None:
    path = sockets / "d.sock"
    with world.home.observations() as observations, ExitStack() as stack:
        server = CollectorServer(
            path, StoreBackend(observations, "1"), limits=CollectorLimits(patience=0.001)
        )
        server.start()
        stack.callback(server.stop)
        frames = bad_frames()
        for number in range(300):  # they neither read nor hang up
            link = stack.enter_context(connect(path, ANSWER_SECONDS))
            link.settimeout(ANSWER_SECONDS)
            with suppress(BrokenPipeError, ConnectionResetError):  # it may have to make room
                link.sendall(frames[number % len(frames)])
            if number % 100 == 50:
                with CollectorClient(
                    path, ANSWER_SECONDS, connect_timeout=ANSWER_SECONDS
                ) as client:
                    client.send(msgspec.structs.replace(GOOD, at=AT * 1000 + number * 10_000))
                    assert isinstance(client.ask(GetStatus()), CollectorStatus)
        with CollectorClient(path, ANSWER_SECONDS, connect_timeout=ANSWER_SECONDS) as client:
            answer = client.ask(GetEvents())
    assert isinstance(answer, Events)
    assert [row.command for row in answer.rows] == ["good"]


def test_what_makes_room_is_in_the_spool_before_a_request_is_answered() -> None:
    backend = Recorder()
    entered, gate, flushed = threading.Event(), threading.Event(), threading.Event()
    keep = backend.keep

    def slowly(lines: list[bytes]) -> None:
        entered.set()
        assert gate.wait(ANSWER_SECONDS)
        keep(lines)

    backend.keep = slowly  # type: ignore[method-assign]
    buffer = Buffer(backend, batch=5, most=5, most_bytes=MIB)
    assert buffer.add(GOOD, 10)
    first = threading.Thread(target=buffer.relieve)
    first.start()
    assert entered.wait(ANSWER_SECONDS)

    def flush() -> None:
        buffer.flush()
        flushed.set()

    second = threading.Thread(target=flush)
    second.start()
    assert not flushed.wait(0.2)  # a slow machine only makes this surer
    gate.set()
    first.join()
    second.join()
    assert backend.kept == [GOOD]


# ---------------------------------------------------------------------- browsers


def talk(world: World, *messages: bytes) -> list[dict[str, Any]]:
    reporter, out = world.home.reporter(), io.BytesIO()
    data = b"".join(struct.pack("=I", len(body)) + body for body in messages)
    serve(io.BytesIO(data), out, reporter.visits, reporter.report, lambda: AT * 1000)
    answers, rest = [], out.getvalue()
    while rest:
        (length,) = struct.unpack("=I", rest[:4])
        answers.append(json.loads(rest[4 : 4 + length]))
        rest = rest[4 + length :]
    return answers


def page(**changed: Any) -> bytes:
    visit = {"url": "https://docs.rs/x", "domain": "docs.rs", "title": "X", "dwell_ms": 5000}
    return json.dumps(visit | changed).encode()


def test_pages_that_no_browser_sends_are_bounded_or_refused(world: World) -> None:
    answers = talk(
        world,
        page(title="t" * 900_000),
        page(url="https://docs.rs/" + "u" * 900_000),
        page(url="https://docs.rs/\ud800", title="\ud800\0", extracted_text="\0"),
        b"{" * 300_000,
        b"not json",
        b"",
        page(dwell_ms=1e308, scroll_depth=-1e308, timestamp=10**300),
        page(title={"a": []}),
        page(url="https://docs.rs/last"),
    )
    said = [answer["status"] for answer in answers]
    assert said == ["ok", "error", "ok", "error", "error", "error", "ok", "error", "ok"]
    world.collect()
    assert world.rows("SELECT max(length(title)), max(dwell_ms) FROM browser_events") <= [
        (4096, 86_400_000)
    ]
    assert ("https://docs.rs/last",) in world.rows("SELECT url FROM browser_events")


@pytest.mark.parametrize("length", [MIB + 1, 1 << 31, (1 << 32) - 1])
def test_a_frame_that_is_too_long_ends_the_talk_with_one_answer(world: World, length: int) -> None:
    reporter, out = world.home.reporter(), io.BytesIO()
    data = struct.pack("=I", len(page())) + page() + struct.pack("=I", length) + b"x" * 5000
    serve(io.BytesIO(data), out, reporter.visits, reporter.report, lambda: AT * 1000)
    (first,) = struct.unpack("=I", out.getvalue()[:4])
    assert json.loads(out.getvalue()[4 : 4 + first]) == {"status": "ok"}
    assert json.loads(out.getvalue()[8 + first :])["status"] == "error"
    assert world.collect().new == 1


def test_a_browser_that_goes_away_in_the_middle_of_a_frame_leaves_what_it_had_said(
    world: World,
) -> None:
    reporter, out = world.home.reporter(), io.BytesIO()
    whole = struct.pack("=I", len(page())) + page()
    serve(io.BytesIO(whole + whole[:30]), out, reporter.visits, reporter.report, lambda: AT * 1000)
    assert world.collect().new == 1
