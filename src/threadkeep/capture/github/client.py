"""The client: any server with GitHub's API, asked with patience and within limits.

The token goes to the server it is meant for and nowhere else: it follows no redirect to another
host, is not sent in the open, and stands in no error.
"""

import logging
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPResponse
from typing import Any, Final, NamedTuple, TypeVar

from threadkeep.base.json import decode
from threadkeep.capture.github import http
from threadkeep.errors import Invalid, NotFound, ThreadkeepError

log = logging.getLogger(__name__)

TIMEOUT: Final = 30.0
RETRIES: Final = 8
_RETRIES_WITHOUT_ANSWER: Final = 3  # a machine without a network is not waited for
MOST_PAGES: Final = 10
_MOST_JSON: Final = 32 * 1024 * 1024
_MOST_COMPLAINT: Final = 65_536
_LOG_SECONDS: Final = 600.0
_REDIRECTS: Final = 5
_REDIRECTED: Final = frozenset({301, 302, 303, 307, 308})
_GONE: Final = frozenset({404, 410, 451})
_OK, _UNCHANGED, _BAD_REQUEST, _SERVER_TROUBLE = 200, 304, 400, 500

T = TypeVar("T")


class GithubReply(NamedTuple):
    """What a request was answered with; `value` is None when it is as it was."""

    value: Any
    etag: str | None = None
    next_path: str | None = None
    is_same: bool = False


class Api:
    """A server with GitHub's API, and the right to ask it.

    `clock` gives epoch seconds, `ticks` seconds that only go forward. With `allow_open` a token may
    go to another machine without encryption.
    """

    def __init__(
        self,
        base_url: str,
        token: str | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
        timeout: float = TIMEOUT,
        allow_open: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._base = http.parse_url(base_url.rstrip("/"))
        self._token = None if not token else _checked(token)
        self._sleep = sleep
        self._clock = clock
        self._ticks = ticks
        self._timeout = timeout
        self._tls = tls
        self.requests = 0  # made so far
        self._patience = RETRIES
        origin = self._base.origin
        if token and origin.scheme == "http" and not (allow_open or http.is_loopback(origin.host)):
            msg = f"the token would go to {origin.host} without encryption"
            raise Invalid(msg, hint="use https in [github] api_url")

    @property
    def url(self) -> str:
        """The address of the server."""
        scheme, host, port = self._base.origin
        return f"{scheme}://{host}:{port}{self._base.path}"

    def get(self, path: str, etag: str | None = None) -> GithubReply:
        """Ask for JSON; with the tag of an earlier answer only if that has changed."""

        def read(response: HTTPResponse, target: http.Target) -> GithubReply:
            if response.status == _UNCHANGED:
                return GithubReply(None, etag, is_same=True)
            body = http.read_body(
                response, _MOST_JSON, target, http.Pace(self._timeout, self._ticks)
            )
            after = http.next_page(path, response.headers.get("link"))
            return GithubReply(_json(body, target), response.headers.get("etag"), after)

        return self._ask(path, read, etag)

    def pages(self, path: str, most: int = MOST_PAGES) -> Iterator[Any]:
        """Ask for page after page of JSON, at most so many."""
        following: str | None = path
        for _ in range(most):
            if following is None:
                return
            reply = self.get(following)
            following = reply.next_path
            yield reply.value

    def tail(self, path: str, keep: int) -> http.BodyTail:
        """Ask for a text of any length and keep its last bytes."""

        def read(response: HTTPResponse, target: http.Target) -> http.BodyTail:
            return http.read_tail(response, keep, target, http.Pace(_LOG_SECONDS, self._ticks))

        return self._ask(path, read)

    def _ask(
        self, path: str, read: Callable[[HTTPResponse, http.Target], T], etag: str | None = None
    ) -> T:
        """Ask, and again where that may help.

        A server that was given up is asked only once each time, until it answers again: a day
        without it would otherwise be spent waiting.
        """
        for tries in range(self._patience + 1):
            try:
                answer = self._ask_once(path, read, etag, tries)
                self._patience = RETRIES
                return answer
            except _Again as again:
                trouble, seconds = again.trouble, again.seconds
            except http.Interrupted as error:
                trouble, seconds = error, http.back_off(tries)
                if tries >= _RETRIES_WITHOUT_ANSWER:
                    break
            if tries < self._patience:
                self._sleep(seconds)
        self._patience = 0
        raise trouble

    def _ask_once(
        self,
        path: str,
        read: Callable[[HTTPResponse, http.Target], T],
        etag: str | None,
        tries: int,
    ) -> T:
        with self._opened(path, etag) as (response, target):
            headers = {name.lower(): value for name, value in response.headers.items()}
            if response.status in {_OK, _UNCHANGED if etag else _OK}:
                return read(response, target)
            seconds = http.wait_after(response.status, headers, tries, self._clock())
            if seconds is not None:
                raise _Again(self._trouble(target, response.status, headers), seconds)
            raise self._complaint(response, target)

    @contextmanager
    def _opened(self, path: str, etag: str | None) -> Iterator[tuple[HTTPResponse, http.Target]]:
        """Make a request and follow where it leads."""
        base = self._base
        target = http.Target(base.origin, base.path.rstrip("/") + path)
        for _ in range(_REDIRECTS + 1):
            self.requests += 1
            headers = self._headers(target, etag)
            with http.exchange(target, headers, self._timeout, self._tls) as response:
                where = response.headers.get("location")
                if response.status not in _REDIRECTED or where is None:
                    yield response, target
                    return
            target = http.redirected(target, where)
        raise http.GithubBadAnswer(
            f"{http.show(target)}: too many redirects", hint="check [github] api_url"
        )

    def _headers(self, target: http.Target, etag: str | None) -> Mapping[str, str]:
        headers = {"User-Agent": "threadkeep", "Connection": "close"}
        if target.origin != self._base.origin:
            return headers
        headers["Accept"] = "application/vnd.github+json"
        headers["X-GitHub-Api-Version"] = "2022-11-28"
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if etag:
            headers["If-None-Match"] = etag
        return headers

    def _trouble(
        self, target: http.Target, status: int, headers: Mapping[str, str]
    ) -> http.GithubRateLimit | http.GithubBadAnswer:
        if http.is_limit(status, headers):
            msg = f"{http.show(target)}: too many requests (HTTP {status})"
            return http.GithubRateLimit(msg, hint="wait until the rate limit of your token resets")
        return http.GithubBadAnswer(f"{http.show(target)}: HTTP {status}", hint="try again later")

    def _complaint(self, response: HTTPResponse, target: http.Target) -> ThreadkeepError:
        """Return what a refusal means, with the server's own words and without the token."""
        pace = http.Pace(self._timeout, self._ticks)
        said = _words(http.read_tail(response, _MOST_COMPLAINT, target, pace).data)
        if self._token:
            said = said.replace(self._token, "[token]")
        msg = f"{http.show(target)}: HTTP {response.status}" + (f", {said}" if said else "")
        if response.status in _GONE:
            return NotFound(msg, hint="check the name, and whether the token may see it")
        if _BAD_REQUEST <= response.status < _SERVER_TROUBLE:
            return http.GithubRefusal(msg, hint="check the token and its rights")
        return http.GithubBadAnswer(msg, hint="check [github] api_url")


class _Again(Exception):
    """The server asks to come back after some seconds."""

    def __init__(self, trouble: ThreadkeepError, seconds: float) -> None:
        super().__init__()
        self.trouble = trouble
        self.seconds = seconds


def _checked(token: str) -> str:
    """Refuse what cannot stand in a header: the standard library would show it in its error."""
    if not (token.isascii() and token.isprintable() and " " not in token):
        msg = "the token contains invalid characters"
        raise Invalid(msg, hint="check the variable that holds it")
    return token


def _json(body: bytes, target: http.Target) -> Any:
    try:
        return decode(body)
    except Invalid:
        what = "a web page" if body.lstrip()[:1] == b"<" else "something that is not JSON"
        msg = f"{http.show(target)}: answered with {what}"
        raise http.GithubBadAnswer(msg, hint="check [github] api_url") from None


def _words(body: bytes) -> str:
    try:
        value = decode(body)
    except Invalid:
        return ""
    message = value.get("message") if isinstance(value, dict) else None
    return message[:200] if isinstance(message, str) else ""


# ------------------------------------------------------------------------------
# Where the token comes from: the environment, else the program `gh`.

# After the variable that the configuration names.
VARIABLES: Final = ("HIPPO_GITHUB_TOKEN", "GITHUB_TOKEN", "GH_TOKEN")
_GH_SECONDS: Final = 2.0
_GITHUB: Final = "api.github.com"


def find_token(
    token_env: str,
    api_url: str,
    environ: Mapping[str, str],
    ask: Callable[[str], str | None] | None = None,
) -> str | None:
    """Find the token for a server, None if there is none; `ask` is asked last, with its host."""
    for name in (token_env, *VARIABLES):
        if token := environ.get(name, "").strip():
            return token
    host = http.parse_url(api_url).origin.host
    return (ask or ask_gh)("github.com" if host == _GITHUB else host)


def ask_gh(host: str) -> str | None:
    """Ask the program `gh` for the token that it uses for a host."""
    command = ["gh", "auth", "token", "--hostname", host]
    try:
        said = subprocess.run(  # noqa: S603  (the host is from the user's own configuration)
            command,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=_GH_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        log.debug("gh was not asked for a token: %s", type(error).__name__)
        return None
    return (said.stdout.strip() or None) if said.returncode == 0 else None
