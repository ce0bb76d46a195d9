"""Who is connected: when it gets full, or somebody says nothing for long, the silent ones go.

Only a connection without a request in hand is ever cut. Who shows no token has one answer on a
connection, so strangers are silent or gone, whatever they do, and cannot keep the owner out.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec
from uvicorn.protocols.http.h11_impl import H11Protocol

from threadkeep.web.answers import WebProblem
from threadkeep.web.gate import HEADERS

MOST: Final = 256
SILENT_SECONDS: Final = 20.0  # for somebody who does not get a whole request out
_NEVER_SECONDS: Final = 120.0  # longer than the handshake of TLS may take


class ConnectionCounter:
    """Counts connections from the moment they are accepted."""

    def __init__(self, most: int = MOST, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._since: dict[H11Protocol, float] = {}  # when each was busy last

    def enter(self, **given: Any) -> H11Protocol:
        """Let a connection in; if it is full, whoever has been silent longest goes for it."""
        self.look()
        if len(self._since) >= self._most:
            silent = [one for one in self._since if _is_silent(one)]
            if silent:
                self._cut(min(silent, key=self._since.__getitem__))
        found = H11Protocol(**given)
        found.send_400_response = partial(_say_bad, found)  # type: ignore[method-assign]
        self._since[found] = self._clock()
        return found

    def look(self) -> None:
        """Forget who is gone, and cut off who has said nothing for long."""
        now = self._clock()
        for one, since in list(self._since.items()):
            if _is_gone(one, now - since):
                del self._since[one]
            elif not _is_silent(one):
                self._since[one] = now
            elif now - since > SILENT_SECONDS:
                self._cut(one)

    def is_empty(self) -> bool:
        """Tell whether nobody is connected, or about to be."""
        return not self._since

    def clear(self) -> None:
        """Cut everybody off."""
        for one in list(self._since):
            self._cut(one)

    def _cut(self, one: H11Protocol) -> None:
        if one.transport is not None:  # else it shakes hands; that ends by itself
            one.transport.abort()
            del self._since[one]


def _is_gone(one: H11Protocol, seconds: float) -> bool:
    transport: Any = one.transport  # None before it is connected, whatever its type says
    return seconds > _NEVER_SECONDS if transport is None else transport.is_closing()


def _is_silent(one: H11Protocol) -> bool:
    cycle: Any = one.cycle
    return cycle is None or cycle.response_complete


def _say_bad(one: H11Protocol, message: str) -> None:
    """Answer what is no HTTP as everything else is answered: as a problem, with our headers."""
    cycle: Any = one.cycle
    if _is_silent(one) or not cycle.response_started:
        one.transport.write(_bad_answer(message))
    one.transport.close()


def _bad_answer(message: str) -> bytes:
    body = msgspec.json.encode(WebProblem("invalid", message))
    fixed = (
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"connection", b"close"),
    )
    lines = (name + b": " + value for name, value in (*fixed, *HEADERS))
    return b"\r\n".join((b"HTTP/1.1 400 Bad Request", *lines, b"", body))
