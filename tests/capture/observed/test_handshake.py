"""The handshake: another version is refused, none is fine, and oddities are told."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from hypothesis import given, strategies as st

from threadkeep.capture.observed.backend import check_brain, expected_version
from threadkeep.errors import Invalid, SchemaMismatch

NEVER = 60.0  # seconds


def health(version: object, status: str = "200 OK") -> bytes:
    body = json.dumps({"status": "ok", "expected_schema_version": version}).encode()
    return f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n\r\n".encode() + body


@contextmanager
def brain(talk: Callable[[socket.socket], object]) -> Iterator[int]:
    """Listen at a port, and talk once."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            link, _ = listener.accept()
            with link, suppress(OSError):
                link.recv(4096)
                talk(link)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def ask(port: int, *, ours: int = 18, total: float = NEVER) -> str | None:
    return check_brain(port, ours, connect_seconds=NEVER, total_seconds=total)


def test_a_brain_of_our_version_is_fine() -> None:
    with brain(lambda link: link.sendall(health(18))) as port:
        assert ask(port) is None


@pytest.mark.parametrize("version", [17, 19, 0, -1])
def test_a_brain_of_another_version_is_refused_with_advice(version: int) -> None:
    talk = brain(lambda link: link.sendall(health(version)))
    with talk as port, pytest.raises(SchemaMismatch, match=f"version {version}") as caught:
        ask(port)
    assert "18" in caught.value.message
    assert "stop Hippo's brain" in caught.value.hint


def test_a_brain_of_23_is_fine_for_a_store_at_23_and_one_at_18_is_told_the_way() -> None:
    with brain(lambda link: link.sendall(health(23))) as port:
        assert ask(port, ours=23) is None
    talk = brain(lambda link: link.sendall(health(23)))
    with talk as port, pytest.raises(SchemaMismatch, match="version 23") as caught:
        ask(port)
    assert "`threadkeep knowledge migrate --to 23`" in caught.value.hint
    talk = brain(lambda link: link.sendall(health(18)))
    with talk as port, pytest.raises(SchemaMismatch) as caught:
        ask(port, ours=23)
    assert "migrate" not in caught.value.hint


def test_no_brain_is_fine() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # taken, but nobody listens
        assert ask(closed.getsockname()[1]) is None


@pytest.mark.parametrize(
    "answer, why",
    [
        (b"", "HTTP"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "HTTP"),
        (b"HTTP/1.1\r\n\r\n", "answered"),
        (health(18, "503 Service Unavailable"), "503 Service Unavailable"),
        (health(17, "404 Not Found"), "404"),
        (health(None), "no schema version"),
        (health("18"), "no schema version"),
        (health(version=True), "no schema version"),
        (b"HTTP/1.0 200 OK\r\n\r\n[18]", "no schema version"),
        (b"HTTP/1.0 200 OK\r\n\r\n<html>", "not JSON"),
        (b"HTTP/1.0 200 OK\r\n\r\n" + b" " * (1 << 20), "not JSON"),
    ],
)
def test_an_odd_answer_is_a_warning(answer: bytes, why: str) -> None:
    with brain(lambda link: link.sendall(answer)) as port:
        warning = ask(port)
    assert warning is not None
    assert why in warning
    assert str(port) in warning


def test_a_brain_that_hangs_or_drips_is_a_warning() -> None:
    def drip(link: socket.socket) -> None:
        while True:
            link.sendall(b"H")

    for talk in (lambda link: link.recv(1), drip):
        with brain(talk) as port:
            warning = ask(port, total=0.05)
        assert warning is not None


def test_a_real_http_server_is_understood() -> None:
    seen = []

    class Brain(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            seen.append(self.path)
            body = health(18).partition(b"\r\n\r\n")[2]
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Brain) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        assert ask(server.server_port) is None
        thread.join()
    assert seen == ["/health"]


@given(st.binary(max_size=80))
def test_any_bytes_are_refused_as_an_answer(answer: bytes) -> None:
    with pytest.raises(Invalid):
        expected_version(answer)
    with pytest.raises(Invalid):
        expected_version(b"HTTP/1.1 200 OK\r\n\r\n" + answer)
