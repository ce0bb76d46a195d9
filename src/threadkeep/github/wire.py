"""One request over HTTP: answers and bodies in bounds, every trouble named."""

import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Final, NamedTuple

from threadkeep.errors import TooLarge
from threadkeep.github.trouble import GithubRefusal, Interrupted
from threadkeep.github.urls import Target, show

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
    """How long a body may take as a whole: a server may send a byte now and then for ever."""

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
