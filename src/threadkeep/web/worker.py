"""The process that answers: uvicorn on a socket that another process listens at."""

import asyncio
import resource
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from threadkeep.base.processes import when_parent_ends
from threadkeep.errors import ThreadkeepError
from threadkeep.home.home import Home
from threadkeep.service.serve import share_one_arena
from threadkeep.service.web_access import BACKLOG, make_token, scheme_of
from threadkeep.web.answers import WebProblem
from threadkeep.web.app import make_app
from threadkeep.web.gate import HEADERS
from threadkeep.web.guard import ServerAddress, place_of
from threadkeep.web.part import WorkerTask

# ------------------------------------------------------------------------------
# Who is connected: when it gets full, or somebody says nothing for long, the silent ones go.
#
# Only a connection without a request in hand is ever cut. Who shows no token has one answer on a
# connection, so strangers are silent or gone, whatever they do, and cannot keep the owner out.

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


_HEADER_BYTES: Final = 64 * 1024
_LOOK_SECONDS: Final = 0.25
_FINISH_SECONDS: Final = 0.3  # for answers that are on their way when it is the end
_GRACE_SECONDS: Final = 1
_FAILED: Final = 1
_FILES: Final = 4096


class WebServer:
    """A server for one socket, and who is connected to it."""

    def __init__(self, home: Home, listener: socket.socket, db: str | None) -> None:
        make_token(home)
        web = home.config.web
        self.room = ConnectionCounter()
        self.listener = listener
        app: Any = make_app(home, _place(home, listener), db)
        enter: Any = self.room.enter
        config = uvicorn.Config(
            app,
            http=enter,
            ws="none",
            log_config=None,
            log_level="error",  # else anybody who sends nonsense writes into our log
            access_log=False,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=_HEADER_BYTES,
            backlog=BACKLOG,
            timeout_graceful_shutdown=_GRACE_SECONDS,
            ssl_certfile=web.tls_cert,
            ssl_keyfile=web.tls_key,
        )
        self.running = uvicorn.Server(config)

    @property
    def should_exit(self) -> bool:
        """Whether it is the end."""
        return self.running.should_exit

    def end(self) -> None:
        """Ask it to end; any thread may."""
        self.running.should_exit = True

    async def serve(self, idle_seconds: float) -> None:
        """Answer until it is the end, or nobody was connected for so long."""
        watching = asyncio.create_task(self._watch(idle_seconds))
        try:
            await self.running.serve(sockets=[self.listener])
        finally:
            watching.cancel()

    async def _watch(self, idle_seconds: float) -> None:
        busy_at = time.monotonic()
        while not self.should_exit:
            await asyncio.sleep(_LOOK_SECONDS)
            self.room.look()
            now = time.monotonic()
            busy_at = busy_at if self.room.is_empty() else now
            if now - busy_at >= idle_seconds:
                for one in self.running.servers:
                    one.close()  # whoever comes now waits for the next process
                self.end()
        await asyncio.sleep(_FINISH_SECONDS)
        self.room.clear()  # who follows something does so forever


def _place(home: Home, listener: socket.socket) -> ServerAddress:
    web = home.config.web
    host, port = listener.getsockname()[:2]
    named = web.host if web.host != "localhost" else str(host)
    scheme, limit, machine = scheme_of(web), web.body_limit, socket.gethostname()
    return place_of(named, port, scheme, limit, machine, own=web.own_name)


def main(words: list[str]) -> int:
    """Serve as an order says; end with the process that gave it."""
    order = msgspec.json.decode(words[0].encode(), type=WorkerTask)
    _allow_many_files()
    share_one_arena()
    try:
        server = WebServer(Home(order.home), socket.socket(fileno=order.descriptor), order.db)
        when_parent_ends(server.end)
        asyncio.run(server.serve(order.idle_seconds))
    except (ThreadkeepError, OSError) as error:
        sys.stdout.write(str(error))  # the other process tells it
        return _FAILED
    return 0


def _allow_many_files() -> None:
    """A connection is a file, and 256 of those are all that some systems give."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if now < _FILES:
        with suppress(OSError, ValueError):
            wanted = _FILES if most == resource.RLIM_INFINITY else min(_FILES, most)
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
