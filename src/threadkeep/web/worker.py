"""The process that answers: uvicorn on a socket that another process listens at."""

import asyncio
import resource
import socket
import sys
import time
from contextlib import suppress
from typing import Any, Final

import msgspec
import uvicorn

from threadkeep.base.processes import when_parent_ends
from threadkeep.errors import ThreadkeepError
from threadkeep.home.home import Home
from threadkeep.service.serve import share_one_arena
from threadkeep.service.web_access import BACKLOG, make_token, scheme_of
from threadkeep.web.app import make_app
from threadkeep.web.connections import ConnectionCounter
from threadkeep.web.guard import ServerAddress, place_of
from threadkeep.web.part import WorkerTask

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
        self.room.clear()  # who follows something does so for ever


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
