"""The process that answers: uvicorn on a socket that another process listens at."""

import asyncio
import socket
import sys
import threading
import time
from typing import Any, Final

import msgspec
import uvicorn

from threadkeep.home import Home
from threadkeep.home.web_place import scheme_of
from threadkeep.home.web_token import make_token
from threadkeep.web.app import make_app
from threadkeep.web.guard import place_of
from threadkeep.web.part import Order

_HEADER_BYTES: Final = 64 * 1024
_CONNECTIONS: Final = 256
_LOOK_SECONDS: Final = 2.0
_SLOW_SECONDS: Final = 20.0  # for somebody who does not get a whole request out
_GRACE_SECONDS: Final = 1


def make_server(home: Home, listener: socket.socket, db: str | None) -> uvicorn.Server:
    """Make a server for a bound socket."""
    web = home.config.web
    host, port = listener.getsockname()[:2]
    named = web.host if web.host != "localhost" else str(host)
    place = place_of(named, port, scheme_of(web), web.body_limit)
    app: Any = make_app(home, make_token(home), place, db)
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=_HEADER_BYTES,
        limit_concurrency=_CONNECTIONS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        ssl_certfile=web.tls_cert,
        ssl_keyfile=web.tls_key,
    )
    return uvicorn.Server(config)


async def serve(server: uvicorn.Server, listener: socket.socket, idle_seconds: float) -> None:
    """Answer until it is the end, or nobody was connected for so long."""
    watching = asyncio.create_task(_watch(server, idle_seconds))
    try:
        await server.serve(sockets=[listener])
    finally:
        watching.cancel()


async def _watch(server: uvicorn.Server, idle_seconds: float) -> None:
    """End an idle server, and cut off who has been connected for long without a request."""
    busy_at = time.monotonic()
    waiting: dict[Any, float] = {}
    while not server.should_exit:
        await asyncio.sleep(_LOOK_SECONDS)
        now = time.monotonic()
        connections = set(server.server_state.connections)
        busy_at = now if connections else busy_at
        silent = {one for one in connections if getattr(one, "cycle", None) is None}
        waiting = {one: waiting.get(one, now) for one in silent}
        for one, since in waiting.items():
            if now - since > _SLOW_SECONDS:
                one.transport.abort()
        if now - busy_at >= idle_seconds:
            server.should_exit = True


def main(words: list[str]) -> int:
    """Serve as an order says; end with the process that gave it."""
    order = msgspec.json.decode(words[0].encode(), type=Order)
    listener = socket.socket(fileno=order.descriptor)
    server = make_server(Home(order.home), listener, order.db)
    threading.Thread(target=_end_with_parent, args=(server,), daemon=True).start()
    asyncio.run(serve(server, listener, order.idle_seconds))
    return 0


def _end_with_parent(server: uvicorn.Server) -> None:
    sys.stdin.buffer.read()  # nobody ever writes there: it ends with the other process
    server.should_exit = True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
