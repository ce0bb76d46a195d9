"""The gate: an ASGI layer around the whole application that lets in, counts and adds headers."""

import os
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from typing import Any, Final

import msgspec
from starlette.responses import RedirectResponse, Response

from threadkeep.base.local_socket import peer_user
from threadkeep.base.tokens import SecretFile
from threadkeep.service.web_access import Logins, is_token, own_name
from threadkeep.web import guard
from threadkeep.web.answers import refusal, wants_page
from threadkeep.web.guard import Bucket, Headers, RequestRefusal, ServerAddress

# ------------------------------------------------------------------------------
# Who is at the other end of a connection, as far as that can be known.

_ROOT: Final = 0  # reads our files in any case; what passes connections on often runs as it


def is_our_own(scope: Mapping[str, Any]) -> bool | None:
    """Tell whether a request comes from a program of the same user; None: nobody can tell."""
    client, server = scope.get("client"), scope.get("server")
    if not client or not server or server[1] is None:
        return None
    user = peer_user((client[0], client[1]), (server[0], server[1]))
    return None if user is None else user in {os.getuid(), _ROOT}


def finds_own_name(user_agent: str) -> bool:
    """Tell whether a browser looks for `*.localhost` on its own machine; all but Safari do."""
    return "Safari/" not in user_agent or any(
        word in user_agent for word in ("Chrome/", "Chromium/", "CriOS/", "FxiOS/", "EdgiOS/")
    )


Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

HEADERS: Final = tuple((name.encode(), value.encode()) for name, value in guard.RESPONSE_HEADERS)
_UNKNOWN: Final = 401
LOGIN: Final = "threadkeep.login"  # in the scope of a request: which login let it in


class GateRequest(msgspec.Struct, frozen=True):
    """A request as the gate sees it."""

    scope: dict[str, Any]
    headers: Headers
    token: str | None
    own: frozenset[str]  # the hosts of the page's own name

    @property
    def by_own_name(self) -> bool:
        """Whether cookies count: where there is an own name, they do there alone."""
        return not self.own or guard.host_of(self.headers) in self.own


class Gate:
    """Wraps an application: nothing reaches it that was not let in."""

    def __init__(self, app: App, secret: SecretFile, logins: Logins, place: ServerAddress) -> None:
        self._app = app
        self._secret = secret
        self._logins = logins
        self._place = place
        # Two, so that nobody without a token can use up what its owner has.
        self._known = Bucket(2000, 1000)  # more than fifty clients get done
        self._strangers = Bucket(60, 2)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Let a request in, or answer it here."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # no WebSocket is spoken here
        one, answer = self._looked_at(dict(scope))
        # Who has not shown a token has one answer for each connection: none is kept open by not
        # reading, and no body is waited for.
        closing = answer is not None or scope["path"] in guard.OPEN_PATHS
        sending = _with_headers(send, self._stale_cookies(one), closing=closing)
        if answer is not None:
            await answer(scope, receive, sending)
            return
        if scope["path"] not in guard.OPEN_PATHS:
            scope[LOGIN] = self._who(one)
            sending = _while(lambda: self._who(self._again(one)) is not None, sending)
        with suppress(LoginEnded):
            await self._app(scope, _limited(receive, self._place.body_limit), sending)

    def _looked_at(self, scope: dict[str, Any]) -> tuple[GateRequest, Response | None]:
        """Read a request, and answer it if it is not let in."""
        shape = guard.refuse_shape(scope)
        headers: Headers = {} if shape is not None else guard.headers_of(scope)
        one = self._asked(scope, headers)
        refused = shape or self._judge(one)
        if refused is None:
            return one, None
        if refused.status == _UNKNOWN and self._belongs_elsewhere(one):
            return one, RedirectResponse(_moved(self._place, one), 307)
        return one, refusal(refused, headers)

    def _asked(self, scope: dict[str, Any], headers: Headers) -> GateRequest:
        token = self._secret.current()
        own = frozenset() if token is None else guard.own_hosts(self._place, own_name(token))
        return GateRequest(scope, headers, token, own)

    def _again(self, one: GateRequest) -> GateRequest:
        return self._asked(one.scope, one.headers)

    def _judge(self, one: GateRequest) -> RequestRefusal | None:
        refused = guard.refuse_stranger(self._place, one.scope, one.headers, one.own)
        if refused is None and guard.token_in_address(one.scope):
            refused = RequestRefusal(400, "a token does not belong in a URL")
        if refused is None and one.scope["path"] not in guard.OPEN_PATHS:
            refused = self._unknown(one)
        return refused or guard.refuse_body(self._place, one.scope, one.headers)

    def _unknown(self, one: GateRequest) -> RequestRefusal | None:
        if self._who(one) is not None:
            return None if self._known.take() else RequestRefusal(429, "too many requests at once")
        if not self._strangers.take():
            return RequestRefusal(429, "too many requests without a token")
        hint = "`threadkeep up --link` gives a link; programs send `Authorization: Bearer TOKEN`"
        return RequestRefusal(_UNKNOWN, "a token or the cookie of a link is needed", hint)

    def _who(self, one: GateRequest) -> str | None:
        """Return the login of a request, "" for the token itself, None for nobody."""
        if one.token is None:
            return None
        given = guard.bearer_of(one.headers)
        if given is not None:
            return "" if is_token(one.token, given) else None
        if not one.by_own_name:
            return None
        cookies = guard.cookies_of(one.headers, cookie_name(self._place))
        found = (self._logins.find(one.token, cookie) for cookie in cookies)
        return next((login for login in found if login is not None), None)

    def _belongs_elsewhere(self, one: GateRequest) -> bool:
        """Tell whether somebody wants to see the page who may know its own name.

        The name is no key, but whoever knows it could lure a browser to it at another port: it is
        told to nobody whom the system does not call the same user.
        """
        return (
            not one.by_own_name
            and one.scope["method"] in {"GET", "HEAD"}
            and wants_page(one.headers)
            and is_our_own(one.scope) is True
        )

    def _stale_cookies(self, one: GateRequest) -> list[tuple[bytes, bytes]]:
        """Take back what an older version left with a host that other programs share."""
        if one.by_own_name:
            return []
        name = f"threadkeep_{self._place.port}"
        return [_no_cookie(name)] if guard.cookies_of(one.headers, name) else []


def own_address(place: ServerAddress, token: str) -> str:
    """Return the address of the page under its own name."""
    return f"{place.scheme}://{own_name(token)}:{place.port}"


def _moved(place: ServerAddress, one: GateRequest) -> str:
    """Return the same address under the page's own name."""
    path: str = one.scope["raw_path"].decode("latin-1")
    query: str = one.scope["query_string"].decode("latin-1")
    return own_address(place, one.token or "") + path + (f"?{query}" if query else "")


def cookie_name(place: ServerAddress) -> str:
    """Return the name of the cookie: two servers on one machine must not share one."""
    # With this prefix a browser takes it over TLS or from its own machine, for one host alone.
    prefix = "__Host-" if is_secure(place) else ""
    return f"{prefix}threadkeep_{place.port}"


def is_secure(place: ServerAddress) -> bool:
    """Tell whether browsers call the page's address trustworthy."""
    return place.own or place.scheme == "https"


def _no_cookie(name: str) -> tuple[bytes, bytes]:
    text = f'{name}=""; Max-Age=0; Path=/; HttpOnly; SameSite=Strict'
    return b"set-cookie", text.encode()


def _while(still: Callable[[], bool], send: Send) -> Send:
    """Send what continues for long only while whoever asked for it is let in."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.body" and message.get("more_body") and not still():
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            raise LoginEnded
        await send(message)

    return sending


class LoginEnded(Exception):
    """Whoever followed something is let in no longer: it has heard the last of it."""


def _limited(receive: Receive, limit: int) -> Receive:
    """Count a body that did not say how long it is."""
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            raise BodyTooLarge
        return message

    return counted


class BodyTooLarge(Exception):
    """A body went on after the limit."""


def _with_headers(send: Send, more: list[tuple[bytes, bytes]], *, closing: bool) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = list(message.get("headers", ()))
            have = {name.lower() for name, _ in given}
            extra = [pair for pair in HEADERS if pair[0] not in have]
            if b"cache-control" not in have:
                extra.append((b"cache-control", b"no-store"))
            if closing and b"connection" not in have:
                extra.append((b"connection", b"close"))
            message["headers"] = given + extra + more
        await send(message)

    return sending
