"""One request over HTTP: answers and bodies in bounds, every trouble named."""

import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from ipaddress import ip_address
from typing import Final, NamedTuple
from urllib.parse import quote, urljoin, urlsplit

from threadkeep.errors import Busy, Invalid, ThreadkeepError, TooLarge

# ------------------------------------------------------------------------------
# How long to wait before a request is made again, by what the server said.

LONGEST_WAIT: Final = 300.0
_UNTOLD: Final = 60.0  # GitHub asks for a minute where it does not say how long
_TOO_MANY: Final = 429
_FORBIDDEN: Final = 403
_SERVER_TROUBLE: Final = 500

Headers = Mapping[str, str]  # names in lower case


def is_limit(status: int, headers: Headers) -> bool:
    """Tell whether an answer means that there were too many requests."""
    if status == _TOO_MANY:
        return True
    spent = headers.get("x-ratelimit-remaining", "").strip() == "0"
    return status == _FORBIDDEN and (spent or "retry-after" in headers)


def wait_after(status: int, headers: Headers, tries: int, now: float) -> float | None:
    """Return the seconds until a request may be made again; None if that would be of no use.

    `now` is in epoch seconds, `tries` says how often it was made again already.
    """
    if is_limit(status, headers):
        return _capped(_told(headers, now))
    if status >= _SERVER_TROUBLE:
        asked = _seconds(headers.get("retry-after"), now)
        return back_off(tries) if asked is None else _capped(asked)
    return None


def back_off(tries: int) -> float:
    """Return the seconds to wait after trouble: 1, 2, 4 and so on."""
    return _capped(2.0 ** min(tries, 10))


def _told(headers: Headers, now: float) -> float:
    asked = _seconds(headers.get("retry-after"), now)
    if asked is not None:
        return asked
    try:
        return float(int(headers.get("x-ratelimit-reset", ""))) - now
    except (ValueError, OverflowError):
        return _UNTOLD


def _seconds(text: str | None, now: float) -> float | None:
    """Read a number of seconds, or a date."""
    if text is None:
        return None
    try:
        return float(int(text))
    except (ValueError, OverflowError):
        pass
    try:
        return parsedate_to_datetime(text).timestamp() - now
    except (ValueError, OverflowError, OSError):
        return _UNTOLD


def _capped(seconds: float) -> float:
    return min(max(seconds, 1.0), LONGEST_WAIT)


# ------------------------------------------------------------------------------
# What can go wrong between us and the CI server.


class GithubBadAnswer(ThreadkeepError):
    """The server answered with something that is no answer."""

    http_status = 502


class Interrupted(GithubBadAnswer):
    """The server could not be reached, or the connection broke: trying again may help."""


class GithubRateLimit(Busy):
    """The server takes no more requests for now."""

    http_status = 429


class GithubRefusal(Invalid):
    """The server will not do what it was asked for."""

    http_status = 403


# ------------------------------------------------------------------------------
# Addresses: where a request goes, where a redirect leads, what comes after a page.

_PORTS: Final = {"https": 443, "http": 80}
_NAME: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}")
_NEXT: Final = re.compile(r"<([^<>]*)>\s*;[^,<]*\brel=\"?next\b")
# What may stand in an address as it is; a percent sign is part of what is quoted already.
_PLAIN: Final = "%/:=&?~+!$,;'@()*[]-._"


class Origin(NamedTuple):
    """A server: only the same one may see what was meant for it."""

    scheme: str
    host: str
    port: int


class Target(NamedTuple):
    """One address of a server."""

    origin: Origin
    path: str  # with the query


def parse_url(url: str) -> Target:
    """Take an address apart; one that is not http or https is refused."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        port = 0
    if not port or not parts.hostname:
        msg = f"{_shown(url)!r} is not the address of a server"
        raise Invalid(msg, hint="write it like https://api.github.com")
    query = f"?{parts.query}" if parts.query else ""
    path = quote((parts.path or "/") + query, safe=_PLAIN)
    return Target(Origin(parts.scheme, parts.hostname.lower(), port), path)


def redirected(target: Target, location: str) -> Target:
    """Return where a redirect leads; a safe connection is never left for an open one."""
    name, here = target.origin, f"{target.origin.scheme}://"
    host = f"[{name.host}]" if ":" in name.host else name.host
    try:
        there = parse_url(urljoin(f"{here}{host}:{name.port}{target.path}", location))
    except ValueError:
        raise GithubRefusal(
            f"{show(target)} does not resolve", hint="check [github] api_url"
        ) from None
    if name.scheme == "https" and there.origin.scheme != "https":
        msg = f"{show(target)} leads to {there.origin.host} without encryption"
        raise GithubRefusal(msg, hint="check [github] api_url")
    return there


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def next_page(path: str, link: str | None) -> str | None:
    """Return the path of the next page, None if there is none.

    Only the query of the link is taken: GitHub names repositories by number in it, and a server
    behind a proxy may give a host that we cannot reach, or should not.
    """
    found = _NEXT.search(link or "")
    if found is None:
        return None
    try:
        query = urlsplit(found[1]).query
    except ValueError:
        return None
    return f"{path.partition('?')[0]}?{quote(query, safe=_PLAIN)}" if query else None


def repo_path(repo: str) -> str:
    """Return the path of a repository that is named `owner/name`."""
    owner, _, name = repo.partition("/")
    if not (_NAME.fullmatch(owner) and _NAME.fullmatch(name)):
        msg = f"{repo[:100]!r} is not a repository"
        raise Invalid(msg, hint="write it as owner/name")
    return f"/repos/{owner}/{name}"


def show(target: Target) -> str:
    """Name a request in an error: without its query, which may hold a signature."""
    return f"GET {target.origin.host}{target.path.partition('?')[0]}"


def _shown(url: str) -> str:
    return url.partition("?")[0].rpartition("@")[2][:100]


_PIECE: Final = 65_536

Ticks = Callable[[], float]


class BodyTail(NamedTuple):
    """The last bytes of a body, and how many there were."""

    data: bytes
    total: int


@contextmanager
def exchange(
    target: Target,
    headers: Mapping[str, str],
    timeout: float,
    tls: ssl.SSLContext | None,
) -> Iterator[HTTPResponse]:
    """Make a request and give its response, to be read inside the `with` block."""
    connection = _connection(target, timeout, tls)
    try:
        connection.request("GET", target.path, headers=dict(headers))
        yield connection.getresponse()
    except ssl.SSLCertVerificationError as error:
        msg = f"{show(target)}: the certificate of the server is not trusted"
        hint = f"{error.verify_message}; SSL_CERT_FILE can name your own authorities"
        raise GithubRefusal(msg, hint=hint) from None
    except TimeoutError:
        msg = f"{show(target)}: no answer within {timeout:g} seconds"
        raise Interrupted(msg, hint="check the connection") from None
    except (OSError, HTTPException) as error:
        said = str(error) or type(error).__name__
        msg = f"{show(target)}: {said[:200]}"
        raise Interrupted(msg, hint="check the connection and [github] api_url") from None
    finally:
        connection.close()


def _connection(target: Target, timeout: float, tls: ssl.SSLContext | None) -> HTTPConnection:
    place = target.origin
    if place.scheme == "http":
        return HTTPConnection(place.host, place.port, timeout=timeout)
    context = tls or ssl.create_default_context()
    return HTTPSConnection(place.host, place.port, timeout=timeout, context=context)


def read_body(response: HTTPResponse, most: int, target: Target, pace: "Pace") -> bytes:
    """Read a whole body that may not be longer than `most` bytes."""
    body = bytearray()
    for piece in _pieces(response, target, pace):
        body += piece
        if len(body) > most:
            msg = f"{show(target)}: the answer is longer than {most:,} bytes"
            raise TooLarge(msg, hint="check [github] api_url")
    return bytes(body)


def read_tail(response: HTTPResponse, keep: int, target: Target, pace: "Pace") -> BodyTail:
    """Read a body of any length and keep its end."""
    tail = bytearray()
    total = 0
    for piece in _pieces(response, target, pace):
        tail += piece
        total += len(piece)
        if len(tail) > keep + 16 * _PIECE:
            del tail[:-keep]
    return BodyTail(bytes(tail[-keep:]), total)


class Pace(NamedTuple):
    """How long a body may take as a whole: a server may send a byte now and then forever."""

    seconds: float
    ticks: Ticks


def _pieces(response: HTTPResponse, target: Target, pace: Pace) -> Iterator[bytes]:
    left = response.length  # None: until the end of the chunks, or of the connection
    end = pace.ticks() + pace.seconds
    while left is None or left > 0:
        piece = response.read1(_PIECE if left is None else min(left, _PIECE))
        if not piece:
            break
        left = None if left is None else left - len(piece)
        yield piece
        if pace.ticks() > end:
            msg = f"{show(target)}: the answer took longer than {pace.seconds:g} seconds"
            raise Interrupted(msg, hint="check the connection")
    if left:
        msg = f"{show(target)}: the answer broke off {left:,} bytes before its end"
        raise Interrupted(msg, hint="check the connection")
