"""A relay in this process, between pipes and servers that a test plays."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.mcp.asking import PATIENCE
from tests.mcp.test_session_log import BEGIN, BEGUN, answer, request
from threadkeep.mcp.lifetime import Ended, Parent
from threadkeep.mcp.relay import Relay


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

    def __init__(self) -> None:
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
            Relay(self._in, self._out, self._join, Parent()).run()
            self.ended.append(None)
        except (Ended, OSError) as error:
            self.ended.append(error)

    def server(self) -> Server:
        """Wait for the next server that the relay asks for."""
        assert self._came.acquire(timeout=PATIENCE)
        return self.servers[-1]

    def say(self, line: bytes) -> None:
        os.write(self._say, line + b"\n")

    def hear(self) -> bytes:
        return self._heard.readline().rstrip(b"\n")

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
    assert b"two servers ended" in client.hear()
    assert [third.hear() for _ in range(3)] == [BEGIN, BEGUN, request(2)]
    third.say(answer(2))
    assert client.hear() == answer(2)


def test_servers_that_never_speak_are_not_joined_for_ever(client: Client) -> None:
    client.say(request(1))
    for _ in range(5):
        client.server().go()
    assert b"no server stays alive" in client.hear()
    assert isinstance(client.end(), ConnectionError)


def test_a_client_that_does_not_read_ends_it(client: Client) -> None:
    server = begin(client)
    client.stop_reading()
    server.say(answer(9))
    assert isinstance(client.end(), Ended)
    assert len(client.servers) == 1
