"""The same server over HTTP: on loopback, behind a token, with Host and Origin checked."""

import signal
import socket
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings

from threadkeep.errors import Conflict
from threadkeep.home.stores import Stores
from threadkeep.mcp.relay_state import LONGEST_LINE, refusal, too_long
from threadkeep.mcp.server import make_room, make_server, offered
from threadkeep.service.web_access import is_token, make_token

if TYPE_CHECKING:
    from threadkeep.home.home import Home

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
PATH: Final = "/mcp"


class HttpApp:
    """The MCP server as an ASGI application, for a server of its own or below another one.

    Below another one that must enter `run()` for as long as it lives, and the path does not
    matter. Without a token the other one has checked who asks.
    """

    def __init__(self, app: Any, token: str | None) -> None:
        self._app = app
        self._token = token

    def run(self) -> AbstractAsyncContextManager[Any]:
        """Return what keeps the sessions of clients."""
        context: AbstractAsyncContextManager[Any] = self._app.router.lifespan_context(self._app)
        return context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "http":
            if not self._may(scope):
                await _refuse(send)
                return
            scope = {**scope, "path": PATH, "raw_path": PATH.encode(), "root_path": ""}
            if scope["method"] == "POST":
                said = await _said(receive)
                refused = too_long() if len(said) > LONGEST_LINE else refusal(said)
                if refused is not None:
                    await _answer(send, 400, refused)
                    return
                receive = _again(said, receive)
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
    checked: bool = False,
    hosts: Iterable[str] = LOOPBACK,
) -> HttpApp:
    """Make the application of a home; only requests to one of `hosts`, at any port, are taken.

    The token of the home must be shown, unless whoever passes requests on has `checked` it.
    """
    allowed = home.config.mcp.write if write is None else write
    server = make_server(make_room(Stores(home, path)), offered(write=allowed))
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
    return HttpApp(app, None if checked else make_token(home))


def serve_http(
    home: "Home", path: str | None, *, port: int, write: bool, tell: Callable[[str], None]
) -> None:
    """Serve on loopback until a signal ends it; port 0 takes any that is free."""
    listener = _listen(port)
    app = http_app(home, path, write=write)
    config = uvicorn.Config(
        app, access_log=False, server_header=False, log_level="warning", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    # It sends itself the signal that ended it once more, for whoever listened before: that is us.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, server.handle_exit)
    tell(f"http://127.0.0.1:{listener.getsockname()[1]}{PATH}")
    server.run(sockets=[listener])


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Else the body of an answer waits 40 ms for the acknowledgement of its head.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen()  # before the address is told: who knows it may come at once
    except (OSError, OverflowError) as error:
        listener.close()
        msg = f"cannot listen at 127.0.0.1:{port}: {error}"
        raise Conflict(msg, hint="choose another with --port; 0 picks a free one") from None
    return listener


async def _said(receive: Receive) -> bytes:
    """Read what a client says; of too much a part, which is too much as well."""
    said, more = bytearray(), True
    while more and len(said) <= LONGEST_LINE:
        message = await receive()
        said += message.get("body", b"")
        more = message.get("more_body", False)
    return bytes(said)


def _again(said: bytes, receive: Receive) -> Receive:
    """Return what was read to the next reader, then what follows it."""
    waiting = [said]

    async def take() -> MutableMapping[str, Any]:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return take


async def _refuse(send: Send) -> None:
    body = b'{"error":"a token is needed: Authorization: Bearer ..."}'
    await _answer(send, 401, body, (b"www-authenticate", b"Bearer"))


async def _answer(send: Send, status: int, body: bytes, *more: tuple[bytes, bytes]) -> None:
    headers = [
        (b"content-type", b"application/json"),
        *more,
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
