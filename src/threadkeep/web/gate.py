"""The gate: an ASGI layer around the whole application that lets in, counts and adds headers."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from starlette.datastructures import Headers as StarletteHeaders

from threadkeep.home import Home
from threadkeep.home.web_token import is_cookie, is_token
from threadkeep.web import guard
from threadkeep.web.answers import refusal
from threadkeep.web.guard import Bucket, Headers, Place, Refused

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

_HEADERS: Final = tuple((name.encode(), value.encode()) for name, value in guard.RESPONSE_HEADERS)


class Gate:
    """Wraps an application: nothing reaches it that was not let in."""

    def __init__(self, app: App, home: Home, token: str, place: Place) -> None:
        self._app = app
        self._home = home
        self._token = token
        self._place = place
        self._known = Bucket(600, 100)
        self._strangers = Bucket(60, 2)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Let a request in, or answer it here."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # no WebSocket is spoken here
        headers = dict(StarletteHeaders(scope=scope))
        refused = self._judge(dict(scope), headers)
        sending = _with_headers(send, closing=refused is not None)
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
        given = guard.bearer_of(headers)
        if given is not None:
            known = is_token(self._token, given)
        else:
            cookie = guard.cookie_of(headers, cookie_name(self._place))
            known = cookie is not None and is_cookie(self._token, cookie)
        if known:
            return None if self._known.take() else Refused(429, "too many requests at once")
        if not self._strangers.take():
            return Refused(429, "too many requests without a token")
        hint = "`threadkeep up` gives a link; programs send `Authorization: Bearer TOKEN`"
        return Refused(401, "who is there?", hint)


def cookie_name(place: Place) -> str:
    """Give the name of the cookie: two servers on one machine must not share one."""
    return "threadkeep_" + min(place.hosts).rpartition(":")[2].strip("]")


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
            extra = [pair for pair in _HEADERS if pair[0] not in have]
            if b"cache-control" not in have:
                extra.append((b"cache-control", b"no-store"))
            if closing:  # whatever body there is, it is not waited for
                extra.append((b"connection", b"close"))
            message["headers"] = given + extra
        await send(message)

    return sending
