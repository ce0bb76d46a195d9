"""The same server over HTTP: on loopback, behind a token, with Host and Origin checked."""

import os
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings

from threadkeep.home.desk import Desk
from threadkeep.home.web_token import is_token, make_token
from threadkeep.mcp.server import make_room, make_server, offered

if TYPE_CHECKING:
    from threadkeep.home import Home

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
PORT: Final = 7718
PATH: Final = "/mcp"


class HttpApp:
    """The MCP server as an ASGI application, for a server of its own or below another one.

    Below another one that must enter `run()` for as long as it lives; the path does not matter
    then, and with `token=None` the other one has checked who asks.
    """

    def __init__(self, app: Any, token: str | None) -> None:
        self._app = app
        self._token = token

    def run(self) -> AbstractAsyncContextManager[Any]:
        """Give what keeps the sessions of clients."""
        context: AbstractAsyncContextManager[Any] = self._app.router.lifespan_context(self._app)
        return context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "http":
            if not self._may(scope):
                await _refuse(send)
                return
            scope = {**scope, "path": PATH, "raw_path": PATH.encode(), "root_path": ""}
        await self._app(scope, receive, send)

    def _may(self, scope: Scope) -> bool:
        if self._token is None:
            return True
        headers = {name.lower(): value for name, value in scope["headers"]}
        kind, _, given = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        return kind.lower() == "bearer" and is_token(self._token, given.strip())


def http_app(
    home: "Home",
    path: str | None = None,
    *,
    write: bool | None = None,
    token: str | None = None,
    hosts: Iterable[str] = LOOPBACK,
) -> HttpApp:
    """Make the application of a home; only requests to one of `hosts`, at any port, are taken."""
    allowed = home.config.mcp.write if write is None else write
    server = make_server(make_room(home, Desk(home, path)), offered(write=allowed))
    names = tuple(hosts)
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[*names, *(f"{name}:*" for name in names)],
        allowed_origins=[
            f"{scheme}://{name}{port}"
            for scheme in ("http", "https")
            for name in names
            for port in ("", ":*")
        ],
    )
    app = server.streamable_http_app(streamable_http_path=PATH, transport_security=security)
    return HttpApp(app, token)


def serve_http(home: "Home", path: str | None, *, port: int, write: bool) -> None:
    """Serve on loopback until a signal ends it."""
    app = http_app(home, path, write=write, token=make_token(home))
    config = uvicorn.Config(
        app,
        host="127.0.0.1",
        port=port,
        log_level=os.environ.get("THREADKEEP_LOG", "warning").lower(),
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=3,
    )
    uvicorn.Server(config).run()


async def _refuse(send: Send) -> None:
    body = b'{"error":"a token is needed: Authorization: Bearer ..."}'
    headers = [
        (b"content-type", b"application/json"),
        (b"www-authenticate", b"Bearer"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": body})
