"""Who is let in, and with what: the first thing that every request meets.

Loopback is no boundary: any page in any browser on the machine can send requests to it, and a name
that somebody else owns may lead to it. So the host must be ours, a request of another page is
refused, everybody shows the token or the cookie that a one-time link gave, and what changes
something must come as a type that no plain form can send. Ports are no boundary either, to cookies:
on loopback they count under the page's own name alone.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec

Scope = dict[str, Any]
Headers = dict[str, str]

CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
RESPONSE_HEADERS: Final = (
    ("content-security-policy", CSP),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("x-frame-options", "DENY"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=(), usb=()"),
)

SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
KNOWN: Final = SAFE | {"POST", "PUT", "PATCH", "DELETE"}
# What a form of another page cannot send without asking first.
BODY_TYPES: Final = frozenset({"application/json", "application/x-ndjson", "text/event-stream"})
# A heartbeat, and where a one-time link leads.
OPEN_PATHS: Final = frozenset({"/alive", "/open"})
_LONGEST_TARGET: Final = 8192
_MOST_HEADERS: Final = 100  # a browser sends about twenty
# What must not be said twice: whoever reads the other one would be told something else.
_ONCE: Final = frozenset(
    (
        *(b"authorization", b"content-length", b"content-type", b"host", b"origin"),
        *(b"sec-fetch-site", b"transfer-encoding"),
    )
)
_ANYWHERE: Final = frozenset({"0.0.0.0", "::", "[::]"})  # noqa: S104  (compared, not bound)
_MOST_COOKIES: Final = 8
_SITES: Final = frozenset({"same-origin", "none"})


class RequestRefusal(msgspec.Struct, frozen=True):
    """Why a request is not answered; the words say little on purpose."""

    status: int
    message: str
    hint: str = ""


class ServerAddress(msgspec.Struct, frozen=True):
    """Under which names the server is reached."""

    hosts: frozenset[str]  # with the port
    scheme: str
    body_limit: int
    port: int
    anywhere: bool = False  # it listens at every address of the machine
    own: bool = False  # browsers see the page under a name of its own, and cookies count there

    @property
    def origins(self) -> frozenset[str]:
        """The origins of its own pages."""
        return frozenset(f"{self.scheme}://{host}" for host in self.hosts)


def place_of(
    host: str, port: int, scheme: str, body_limit: int, machine: str = "", *, own: bool = False
) -> ServerAddress:
    """Name the hosts of an address; loopback has three names.

    Who listens everywhere answers for the name of the machine as well, and for the address that
    a connection reached. With `own` there is one more name on loopback; a certificate is made for
    other names, and from another machine it does not resolve.
    """
    anywhere = host in _ANYWHERE
    there = {machine.lower()} - {""} if anywhere else {host}
    loopback = {"127.0.0.1", "localhost", "[::1]"} if anywhere or is_loopback(host) else set()
    named = loopback | there if anywhere or not loopback else loopback
    hosts = frozenset(_with_port(named, port, scheme))
    own = own and scheme == "http" and is_loopback(host)
    return ServerAddress(hosts, scheme, body_limit, port, anywhere, own)


def own_hosts(place: ServerAddress, name: str) -> frozenset[str]:
    """Return the hosts of the page's own name; none where it has no such name."""
    return frozenset(_with_port({name}, place.port, place.scheme)) if place.own else frozenset()


def _with_port(names: Iterable[str], port: int, scheme: str) -> set[str]:
    """Write hosts as a request does: the usual port may be left out."""
    plain = {_bracketed(name) for name in names}
    usual = port == {"http": 80, "https": 443}[scheme]
    return {f"{name}:{port}" for name in plain} | (plain if usual else set())


def is_loopback(host: str) -> bool:
    """Tell whether an address cannot be reached from another machine."""
    return host in {"127.0.0.1", "::1", "[::1]", "localhost"}


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def host_of(headers: Headers) -> str:
    """Return the host that a request names."""
    return headers.get("host", "").lower()


def headers_of(scope: Scope) -> Headers:
    """Return the headers of a request by name, in one pass."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def refuse_shape(scope: Scope) -> RequestRefusal | None:
    """Refuse what neither a browser nor a library sends, before anything is made of it."""
    if len(scope["raw_path"]) + len(scope["query_string"]) > _LONGEST_TARGET:
        return RequestRefusal(414, "the address is too long")
    if len(scope["headers"]) > _MOST_HEADERS:
        return RequestRefusal(431, "there are too many headers")
    if not scope["raw_path"].startswith(b"/"):
        return RequestRefusal(400, "the address must begin with a slash")
    once = [name for name, _ in scope["headers"] if name in _ONCE]
    if len(once) != len(set(once)) or {b"content-length", b"transfer-encoding"} <= set(once):
        return RequestRefusal(400, "the headers contradict each other")
    return None


def refuse_stranger(
    place: ServerAddress, scope: Scope, headers: Headers, own: frozenset[str] = frozenset()
) -> RequestRefusal | None:
    """Refuse what does not come from this machine's own pages or programs."""
    host = host_of(headers)
    if host not in place.hosts | own | _reached(place, scope):
        return RequestRefusal(421, "this server does not answer for that host")
    origin = headers.get("origin")
    origins = {f"{place.scheme}://{host}"} | (frozenset() if host in own else place.origins)
    if origin is not None and origin not in origins:
        return RequestRefusal(403, "requests from other origins are refused")
    if headers.get("sec-fetch-site", "none") not in _SITES:
        return RequestRefusal(
            403, "requests from other sites are refused", "open the address directly"
        )
    if scope["method"] not in KNOWN:
        return RequestRefusal(405, "method not supported")
    return None


def _reached(place: ServerAddress, scope: Scope) -> set[str]:
    """Give the hosts of the address that was reached: no name that somebody owns is among them."""
    server = scope.get("server")
    if not place.anywhere or not server:
        return set()
    return _with_port({str(server[0]).removeprefix("::ffff:")}, place.port, place.scheme)


def refuse_body(place: ServerAddress, scope: Scope, headers: Headers) -> RequestRefusal | None:
    """Refuse a body that is too large, or of a type that any form can send."""
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        return RequestRefusal(400, "the length of the body is not a number")
    if int(length) > place.body_limit:
        return RequestRefusal(413, f"the body has more than {place.body_limit} bytes")
    given = headers.get("content-type", "").partition(";")[0].strip().lower()
    empty = length == "0" and "transfer-encoding" not in headers
    if scope["method"] in SAFE or (scope["method"] == "DELETE" and empty):
        return None
    if given not in BODY_TYPES:
        return RequestRefusal(415, "a body must be JSON", "send content-type: application/json")
    return None


def token_in_address(scope: Scope) -> bool:
    """Tell whether somebody put the token where logs and histories would keep it."""
    names = {name for name, _ in parse_qsl(scope["query_string"].decode("latin-1"))}
    return bool(names & {"token", "access_token", "api_key"})


def bearer_of(headers: Headers) -> str | None:
    """Return the token of a request's header."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else None


def cookies_of(headers: Headers, name: str) -> list[str]:
    """Return the cookies of a name.

    Ports share their cookies: another server of this machine may have left one of ours, and it
    must not stand before the one that is good.
    """
    pairs = (pair.strip().partition("=") for pair in headers.get("cookie", "").split(";"))
    return [value for key, _, value in pairs if key == name][:_MOST_COOKIES]


class Bucket:
    """Lets so many through at once, and so many a second after that."""

    def __init__(
        self, burst: float, rate: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._burst, self._rate, self._clock = burst, rate, clock
        self._left, self._at = burst, clock()

    def take(self) -> bool:
        """Take one; False if there is none left."""
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
