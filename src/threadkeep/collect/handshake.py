"""The handshake: a brain of Hippo that runs beside us must expect the schema that we write.

Hippo's programs share one database file. A brain built for another version fails with every
query once the file has moved on, so we ask before we write: its port tells at `/health`.
"""

import socket
import time
from typing import Any, Final

from threadkeep.base.json import decode
from threadkeep.errors import Invalid, SchemaMismatch
from threadkeep.knowledge.versions import WRITTEN

CONNECT_SECONDS: Final = 0.5
TOTAL_SECONDS: Final = 1.5
_HOST: Final = "127.0.0.1"
_LARGEST: Final = 256 << 10  # bytes of an answer
_CHUNK: Final = 16 << 10
_FIELD: Final = "expected_schema_version"


def check_brain(
    port: int,
    ours: int,
    *,
    connect_seconds: float = CONNECT_SECONDS,
    total_seconds: float = TOTAL_SECONDS,
) -> str | None:
    """Ask the brain at a port which schema it expects; give a warning if it did not really say.

    No brain is as good as one that agrees: None. One that expects another version raises
    SchemaMismatch.
    """
    try:
        answer = _ask(port, connect_seconds, total_seconds)
    except ConnectionRefusedError:
        return None
    except TimeoutError:
        return _unsure(port, "it did not answer in time")
    except OSError as error:
        return _unsure(port, error.strerror or type(error).__name__)
    try:
        expected = expected_version(answer)
    except Invalid as error:
        return _unsure(port, error.message)
    if expected != ours:
        up = ours < expected and expected in WRITTEN
        way = (
            f"bring the store up with `threadkeep knowledge migrate --to {expected}`"
            if up
            else "update it to a release with this version"
        )
        raise SchemaMismatch(
            f"the brain at port {port} expects schema version {expected}, the store has {ours}",
            hint=f"stop Hippo's brain, or {way}, then try again",
        )
    return None


def brain_answers(port: int | None, *, seconds: float = CONNECT_SECONDS) -> bool:
    """Tell whether anybody listens where a brain would."""
    if port is None:
        return False
    try:
        with socket.create_connection((_HOST, port), seconds):
            return True
    except OSError:
        return False


def expected_version(answer: bytes) -> int:
    """Read the version out of a whole HTTP answer; Invalid says what is odd about it."""
    head, found, body = answer.partition(b"\r\n\r\n")
    words = head.split(b"\r\n", 1)[0].split()
    if not found or not words[:1] or not words[0].startswith(b"HTTP/"):
        raise Invalid("it does not speak HTTP", hint="check the port")
    if not words[1:2] or not words[1].startswith(b"2"):
        said = b" ".join(words[1:]).decode("ascii", "replace")[:40]
        raise Invalid(f"it answered {said!r}", hint="look at the brain's log")
    health: Any = decode(body)
    expected = health.get(_FIELD) if isinstance(health, dict) else None
    if not isinstance(expected, int) or isinstance(expected, bool):
        raise Invalid("it names no schema version", hint="it may be too old to")
    return expected


def _ask(port: int, connect_seconds: float, total_seconds: float) -> bytes:
    """Send one request and read to the end of the answer, within the time there is."""
    deadline = time.monotonic() + total_seconds
    with socket.create_connection((_HOST, port), connect_seconds) as link:
        link.settimeout(_left(deadline))
        link.sendall(f"GET /health HTTP/1.0\r\nHost: {_HOST}:{port}\r\n\r\n".encode())
        answer = bytearray()
        while len(answer) < _LARGEST:
            link.settimeout(_left(deadline))
            data = link.recv(_CHUNK)
            if not data:
                break
            answer += data
    return bytes(answer)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _unsure(port: int, why: str) -> str:
    return f"cannot tell which schema version the brain at port {port} expects: {why}"
