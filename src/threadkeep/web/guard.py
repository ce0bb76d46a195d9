"""Who is let in, and with what: the first thing that every request meets.

Loopback is no boundary: any page in any browser on the machine can send requests to it, and a name
that somebody else owns may lead to it. So the host must be ours, a request of another page is
refused, everybody shows the token or the cookie that a one-time link gave, and what changes
something must come as a type that no plain form can send.
"""

import time
from collections.abc import Callable
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
OPEN_PATHS: Final = frozenset(
    {"/alive", "/open"}
)  # a sign of life, and where a one-time link leads
_LONGEST_TARGET: Final = 8192
_SITES: Final = frozenset({"same-origin", "none"})


class Refused(msgspec.Struct, frozen=True):
    """Why a request is not answered; the words say little on purpose."""

    status: int
    message: str
    hint: str = ""


class Place(msgspec.Struct, frozen=True):
    """Under which names the server is reached."""

    hosts: frozenset[str]  # with the port
    scheme: str
    body_limit: int

    @property
    def origins(self) -> frozenset[str]:
        """The origins of its own pages."""
        return frozenset(f"{self.scheme}://{host}" for host in self.hosts)


def place_of(host: str, port: int, scheme: str, body_limit: int) -> Place:
    """Name the hosts of an address; loopback has three names."""
    named = {host} if not is_loopback(host) else {"127.0.0.1", "localhost", "[::1]"}
    hosts = {f"{_bracketed(name)}:{port}" for name in named}
    if port == {"http": 80, "https": 443}[scheme]:
        hosts |= {_bracketed(name) for name in named}
    return Place(frozenset(hosts), scheme, body_limit)


def is_loopback(host: str) -> bool:
    """Tell whether an address cannot be reached from another machine."""
    return host in {"127.0.0.1", "::1", "[::1]", "localhost"}


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def refuse_stranger(place: Place, scope: Scope, headers: Headers) -> Refused | None:
    """Refuse what does not come from this machine's own pages or programs."""
    if len(scope["raw_path"]) + len(scope["query_string"]) > _LONGEST_TARGET:
        return Refused(414, "the address is too long")
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    if len(hosts) != 1 or headers["host"].lower() not in place.hosts:
        return Refused(421, "this server does not answer for that host")
    origin = headers.get("origin")
    if origin is not None and origin not in place.origins:
        return Refused(403, "a page of another origin may not ask")
    if headers.get("sec-fetch-site", "none") not in _SITES:
        return Refused(403, "another site may not ask", "open the address directly")
    if scope["method"] not in KNOWN:
        return Refused(405, "there is no such method here")
    return None


def refuse_body(place: Place, scope: Scope, headers: Headers) -> Refused | None:
    """Refuse a body that is too large, or of a type that any form can send."""
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        return Refused(400, "the length of the body is no number")
    if int(length) > place.body_limit:
        return Refused(413, f"the body has more than {place.body_limit} bytes")
    given = headers.get("content-type", "").partition(";")[0].strip().lower()
    empty = length == "0" and "transfer-encoding" not in headers
    if scope["method"] in SAFE or (scope["method"] == "DELETE" and empty):
        return None
    if given not in BODY_TYPES:
        return Refused(415, "a body must be JSON", "send content-type: application/json")
    return None


def token_in_address(scope: Scope) -> bool:
    """Tell whether somebody put the token where logs and histories would keep it."""
    names = {name for name, _ in parse_qsl(scope["query_string"].decode("latin-1"))}
    return bool(names & {"token", "access_token", "api_key"})


def bearer_of(headers: Headers) -> str | None:
    """Give the token of a request's header."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else None


def cookie_of(headers: Headers, name: str) -> str | None:
    """Give a cookie of a request."""
    for pair in headers.get("cookie", "").split(";"):
        key, _, value = pair.strip().partition("=")
        if key == name:
            return value
    return None


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
