"""A relay in this process, between pipes and servers that a test plays."""

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from tests.mcp.asking import PATIENCE
from tests.mcp.test_session_log import BEGIN, BEGUN, answer, request
from threadkeep.home.home import Home
from threadkeep.home.stores import Stores
from threadkeep.mcp.host import host
from threadkeep.mcp.relay_state import LONGEST_LINE, welcome
from threadkeep.mcp.server import make_room, make_server, offered
from threadkeep.mcp.stdio import Ended, Parent, Relay


class Server:
    """The other end of a link, spoken to line by line."""

    def __init__(self, link: socket.socket) -> None:
        link.settimeout(PATIENCE)
        self.link = link
        self._lines = link.makefile("rb")

    def hear(self) -> bytes:
        return self._lines.readline().rstrip(b"\n")

    def say(self, line: bytes) -> None:
        self.link.sendall(line + b"\n")

    def go(self) -> None:
        self._lines.close()
        self.link.close()


class Client:
    """A client with its two pipes, and a relay that carries its session in a thread."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._in, self._say = os.pipe()
        self._hear, self._out = os.pipe()
        self.servers: list[Server] = []
        self._came = threading.Semaphore(0)
        self.ended: list[BaseException | None] = []
        self._heard = os.fdopen(self._hear, "rb")
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _join(self) -> socket.socket:
        ours, its = socket.socketpair()
        self.servers.append(Server(its))
        self._came.release()
        return ours

    def _run(self) -> None:
        try:
            Relay(self._in, self._out, self._join, Parent(), self._monotonic).run()
            self.ended.append(None)
        except (Ended, OSError) as error:
            self.ended.append(error)

    def server(self) -> Server:
        """Wait for the next server that the relay asks for."""
        assert self._came.acquire(timeout=PATIENCE)
        return self.servers[-1]

    @property
    def saying(self) -> int:
        return self._say

    def say(self, line: bytes) -> None:
        os.write(self._say, line + b"\n")

    def hear(self) -> bytes:
        return self._heard.readline().rstrip(b"\n")

    def hear_byte(self) -> bytes:
        return os.read(self._hear, 1)

    def stop_reading(self) -> None:
        self._heard.close()

    def stop_asking(self) -> BaseException | None:
        os.close(self._say)
        return self.end()

    def close(self) -> None:
        self._heard.close()
        with suppress(OSError):
            os.close(self._say)
        self._thread.join(PATIENCE)
        for one in self.servers:
            one.go()
        os.close(self._in)
        os.close(self._out)

    def end(self) -> BaseException | None:
        self._thread.join(PATIENCE)
        return self.ended[0]


@pytest.fixture
def client() -> Iterator[Client]:
    made = Client()
    yield made
    made.close()


def begin(client: Client) -> Server:
    server = client.server()
    client.say(BEGIN)
    assert server.hear() == BEGIN
    server.say(answer(0))
    assert client.hear() == answer(0)
    client.say(BEGUN)
    assert server.hear() == BEGUN
    return server


def test_a_session_goes_on_at_the_next_server(client: Client) -> None:
    first = begin(client)
    client.say(request(1))
    assert first.hear() == request(1)
    first.link.sendall(answer(1)[:5])  # it ends in the middle of its answer
    first.go()
    second = client.server()
    assert [second.hear() for _ in range(3)] == [BEGIN, BEGUN, request(1)]
    second.say(answer(0))  # the client has it already
    second.say(answer(1))
    assert client.hear() == answer(1)
    assert client.stop_asking() is None


def handshake(version: str, **more: Any) -> bytes:
    params = {
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": {"name": "probe", "version": "1"},
    }
    told = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {**params, **more}}
    return json.dumps(told).encode()


def test_initialize_is_answered_before_the_server_is_there(client: Client) -> None:
    line = handshake("2025-11-25")
    client.say(line)
    assert json.loads(client.hear())["result"]["serverInfo"]["name"] == "threadkeep"
    first = client.server()
    assert first.hear() == line
    first.go()  # without having said a word
    second = client.server()
    assert second.hear() == line
    client.say(request(1))
    assert second.hear() == request(1)
    second.say(answer(0))  # the client has it already
    second.say(answer(1))
    assert client.hear() == answer(1)
    assert client.stop_asking() is None


@pytest.mark.parametrize("version", HANDSHAKE_PROTOCOL_VERSIONS)
def test_the_relay_greets_in_the_words_of_the_server(filled: Path, version: str) -> None:
    line = handshake(version)
    greeting = welcome(line)
    assert greeting is not None
    stores = Stores(Home(filled))
    link = host(lambda: make_server(make_room(stores), offered(write=False)), None)
    link.settimeout(PATIENCE)
    server = Server(link)
    server.say(line)
    assert json.loads(server.hear()) == json.loads(greeting)
    server.go()
    stores.close()


@pytest.mark.parametrize(
    "line",
    [
        handshake("1999-01-01"),
        handshake("2025-11-25", capabilities=7),
        handshake("2025-11-25", clientInfo={}),
        BEGIN,
        request(1),
    ],
)
def test_what_only_the_server_can_answer_is_left_to_it(line: bytes) -> None:
    assert welcome(line) is None


def test_a_request_that_ends_every_server_is_given_up(client: Client) -> None:
    begin(client)
    client.say(request(1))
    assert client.servers[0].hear() == request(1)
    client.servers[0].go()
    second = client.server()
    second.say(answer(0))  # it lives
    assert [second.hear() for _ in range(3)] == [BEGIN, BEGUN, request(1)]
    client.say(request(2))
    assert second.hear() == request(2)
    second.go()
    third = client.server()
    assert b"two servers crashed" in client.hear()
    assert [third.hear() for _ in range(3)] == [BEGIN, BEGUN, request(2)]
    third.say(answer(2))
    assert client.hear() == answer(2)


def test_servers_that_never_speak_are_not_joined_for_ever(client: Client) -> None:
    client.say(request(1))
    for _ in range(5):
        client.server().go()
    assert b"the server keeps stopping" in client.hear()
    assert isinstance(client.end(), ConnectionError)


def test_a_client_that_does_not_read_ends_it(client: Client) -> None:
    server = begin(client)
    client.stop_reading()
    server.say(answer(9))
    assert isinstance(client.end(), Ended)
    assert len(client.servers) == 1


# ---------------------------------------------------------------------- what nobody can answer

NO_REQUESTS = [
    *(f'{{"jsonrpc":"2.0","id":{one},"method":"ping"}}' for one in ("null", "1.5", "true", "{}")),
    *(f'{{"jsonrpc":"2.0","id":{one},"method":"ping"}}' for one in ("[]", "[1]", "9" * 30)),
    '[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
    "[]",
    "7",
    '"ping"',
    '{"jsonrpc":"2.0"}',
    '{"id":null,"method":"ping"}',
]


@pytest.mark.parametrize("line", NO_REQUESTS)
def test_what_is_no_request_is_answered_and_waited_for_by_nobody(client: Client, line: str) -> None:
    server = begin(client)
    client.say(line.encode())
    told = json.loads(client.hear())
    assert (told["id"], told["error"]["code"]) == (None, -32600)
    client.say(request(1))
    assert server.hear() == request(1)  # the other one never came
    server.say(answer(1))
    assert client.hear() == answer(1)
    client.say(line.encode())
    assert client.stop_asking() is None  # its last words are read, and nobody waits


@pytest.mark.parametrize("line", [b"{", b"hello", b'{"id":1,}', b'{"a":"\xff"}', b"\x00", b"{}{}"])
def test_what_is_no_json_is_told_so(client: Client, line: bytes) -> None:
    begin(client)
    client.say(line)
    told = json.loads(client.hear())
    assert (told["id"], told["error"]["code"]) == (None, -32700)
    assert client.stop_asking() is None


@pytest.mark.parametrize(
    "told",
    [{"jsonrpc": "1.0", "method": "ping"}, {"method": 7}, {"method": "ping", "params": [1]}],
)
def test_a_fault_with_a_good_id_is_answered_with_it(client: Client, told: dict[str, Any]) -> None:
    begin(client)
    client.say(json.dumps({"jsonrpc": "2.0", **told, "id": "a"}).encode())
    assert json.loads(client.hear())["id"] == "a"
    assert client.stop_asking() is None


def test_a_line_without_end_is_cut_off_and_answered(client: Client) -> None:
    server = begin(client)
    for _ in range(LONGEST_LINE // (1 << 20) + 2):
        os.write(client.saying, b"x" * (1 << 20))
    client.say(b"")
    told = json.loads(client.hear())
    assert (told["id"], told["error"]["code"]) == (None, -32600)
    assert "longer than" in told["error"]["message"]
    client.say(request(1))
    assert server.hear() == request(1)
    server.say(answer(1))
    assert client.hear() == answer(1)


# ---------------------------------------------------------------------- the end


@pytest.fixture
def hasty() -> Iterator[Client]:
    """A client whose relay sees a minute go by with every look at the clock."""
    ticks = count()
    made = Client(lambda: next(ticks) * 60)
    yield made
    made.close()


def test_no_answer_is_waited_for_long_when_the_client_is_gone(hasty: Client) -> None:
    server = begin(hasty)
    hasty.say(request(1))
    assert server.hear() == request(1)
    assert hasty.stop_asking() is None
    assert len(hasty.servers) == 1


def test_a_server_that_never_spoke_is_not_waited_for_long_either(hasty: Client) -> None:
    server = hasty.server()
    hasty.say(request(1))
    assert server.hear() == request(1)
    assert hasty.stop_asking() is None


def test_a_client_that_hung_up_and_reads_nothing_is_not_waited_for(hasty: Client) -> None:
    server = begin(hasty)
    hasty.say(request(1))
    assert server.hear() == request(1)
    server.link.sendall(b" " * (1 << 17))  # more than a pipe takes
    server.say(answer(1))
    assert hasty.hear_byte() == b" "  # it is at it
    assert isinstance(hasty.stop_asking(), Ended)
