"""The gate: an ASGI layer around the whole application that lets in, counts and adds headers."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from threadkeep.home.web_token import SecretFile, is_cookie, is_token
from threadkeep.web import guard
from threadkeep.web.answers import refusal
from threadkeep.web.guard import Bucket, Headers, Place, Refused

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

HEADERS: Final = tuple((name.encode(), value.encode()) for name, value in guard.RESPONSE_HEADERS)


class Gate:
    """Wraps an application: nothing reaches it that was not let in."""

    def __init__(self, app: App, secret: SecretFile, place: Place) -> None:
        self._app = app
        self._secret = secret
        self._place = place
        # Two, so that nobody without a token can use up what its owner has.
        self._known = Bucket(600, 100)
        self._strangers = Bucket(60, 2)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Let a request in, or answer it here."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # no WebSocket is spoken here
        asked = dict(scope)
        refused = guard.refuse_shape(asked)
        headers: Headers = {} if refused is not None else guard.headers_of(asked)
        refused = refused or self._judge(asked, headers)
        # Who has not shown a token has one answer for each connection: none is kept open by not
        # reading, and no body is waited for.
        closing = refused is not None or scope["path"] in guard.OPEN_PATHS
        sending = _with_headers(send, closing=closing)
        if refused is not None:
            await refusal(refused, headers)(scope, receive, sending)
            return
        await self._app(scope, _limited(receive, self._place.body_limit), sending)

    def _judge(self, scope: dict[str, Any], headers: Headers) -> Refused | None:
        refused = guard.refuse_stranger(self._place, scope, headers)
        if refused is None and guard.token_in_address(scope):
            refused = Refused(400, "a token does not belong into an address")
        if refused is None and scope["path"] not in guard.OPEN_PATHS:
            refused = self._unknown(headers)
        return refused or guard.refuse_body(self._place, scope, headers)

    def _unknown(self, headers: Headers) -> Refused | None:
        if self._knows(headers):
            return None if self._known.take() else Refused(429, "too many requests at once")
        if not self._strangers.take():
            return Refused(429, "too many requests without a token")
        hint = "`threadkeep up --link` gives a link; programs send `Authorization: Bearer TOKEN`"
        return Refused(401, "a token or the cookie of a link is needed", hint)

    def _knows(self, headers: Headers) -> bool:
        token = self._secret.current()
        if token is None:
            return False
        given = guard.bearer_of(headers)
        if given is not None:
            return is_token(token, given)
        cookies = guard.cookies_of(headers, cookie_name(self._place))
        return any(is_cookie(token, cookie) for cookie in cookies)


def cookie_name(place: Place) -> str:
    """Give the name of the cookie: two servers on one machine must not share one."""
    # With this prefix a browser takes it only over TLS, and from this host alone.
    prefix = "__Host-" if place.scheme == "https" else ""
    return f"{prefix}threadkeep_{place.port}"


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


def _with_headers(send: Send, *, closing: bool) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = list(message.get("headers", ()))
            have = {name.lower() for name, _ in given}
            extra = [pair for pair in HEADERS if pair[0] not in have]
            if b"cache-control" not in have:
                extra.append((b"cache-control", b"no-store"))
            if closing and b"connection" not in have:
                extra.append((b"connection", b"close"))
            message["headers"] = given + extra
        await send(message)

    return sending
