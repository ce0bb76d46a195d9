"""Where the web server of a home listens: chosen, written down, found again."""

import base64
import errno
import hashlib
import hmac
import os
import re
import socket
from typing import TYPE_CHECKING, Final

import msgspec

from threadkeep.base import tokens
from threadkeep.base.clock import now_ms
from threadkeep.base.config import WebSettings
from threadkeep.base.files import make_private_dir, read_note, write_note
from threadkeep.errors import Conflict, Invalid, NotFound, ThreadkeepError

if TYPE_CHECKING:
    from pathlib import Path

    from threadkeep.home.home import Home


_FILE: Final = "web.address"
_NEXT: Final = 10  # ports that are tried where nobody asked for one
BACKLOG: Final = 128
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_ANYWHERE: Final = frozenset({"0.0.0.0", "::", ""})  # noqa: S104  (compared, not bound)


def check_settings(web: WebSettings) -> None:
    """Refuse to be reached from other machines, unless the user said so or brought TLS."""
    if (web.tls_cert is None) != (web.tls_key is None):
        raise Invalid("[web] has one of tls_cert and tls_key", hint="give both, or none")
    if web.host not in _LOOPBACK and web.tls_cert is None and not web.allow_remote:
        msg = f"[web] host {web.host} can be reached from other machines, without encryption"
        hint = "give tls_cert and tls_key, or set allow_remote = true if something else encrypts"
        raise Invalid(msg, hint=hint)


def scheme_of(web: WebSettings) -> str:
    """Return how the server is spoken to."""
    return "http" if web.tls_cert is None else "https"


def listen(web: WebSettings, *, exactly: bool) -> socket.socket:
    """Bind the configured port, or, where nobody asked for a certain one, the next free one."""
    check_settings(web)
    family = socket.AF_INET6 if ":" in web.host else socket.AF_INET
    for port in range(web.port, web.port + (1 if exactly else _NEXT)):
        found = socket.socket(family, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((web.host, port))
            found.listen(BACKLOG)
        except OSError as error:
            found.close()
            if error.errno not in {errno.EADDRINUSE, errno.EACCES}:
                msg = f"cannot listen on {web.host}: {os.strerror(error.errno or 0)}"
                raise Invalid(msg, hint="[web] host is an address of this machine") from error
            continue
        return found
    msg = f"port {web.port} of {web.host} is taken"
    raise Conflict(msg, hint="stop the program that listens there, or choose another [web] port")


def address_of(web: WebSettings, listener: socket.socket) -> str:
    """Return the address of the page."""
    named = socket.gethostname() if web.host in _ANYWHERE else web.host
    host = f"[{named}]" if ":" in named else named
    return f"{scheme_of(web)}://{host}:{listener.getsockname()[1]}"


def page_cache(home: "Home") -> "Path | None":
    """Return a private folder for what pages are made of; None where none can be had."""
    folder = home.paths().cache / "pages"
    try:
        make_private_dir(folder)
    except ThreadkeepError:
        return None
    return folder


def _place(home: "Home") -> "Path":
    return home.paths().state / _FILE


def note_address(home: "Home", address: str) -> None:
    """Write down where the server of a home listens."""
    write_note(_place(home), address)


def noted_address(home: "Home") -> str | None:
    """Return where the server of a home listened last."""
    return read_note(_place(home))


# ------------------------------------------------------------------------------
# Who may use the web server of a home: its token, and one-time links to the page.

_WEB_TOKEN_FILE: Final = "web.token"  # noqa: S105  (the name of the file, no token)
_LINK: Final = "link"
_LINK_MS: Final = 10 * 60_000


def token_path(home: "Home") -> "Path":
    """Return the file of the token."""
    return home.paths().data / _WEB_TOKEN_FILE


def make_token(home: "Home") -> str:
    """Return the token of a home, and make it the first time."""
    return tokens.make_secret(token_path(home))


def read_token(home: "Home") -> str:
    """Return the token of a home; NotFound where there is none yet."""
    return tokens.read_secret(token_path(home))


def watch_token(home: "Home") -> tokens.SecretFile:
    """Return the token of a home as it is at each moment.

    Deleting its file ends every access at once: the token, all cookies and all links are void.
    """
    return tokens.SecretFile(token_path(home))


def is_token(token: str, given: str) -> bool:
    """Compare in a time that tells nothing."""
    return hmac.compare_digest(token.encode(), given.encode("utf-8", "replace"))


def one_time_link(home: "Home", address: str) -> str:
    """Return a link to the page that works once, within ten minutes; the token is not in it."""
    return f"{address}/open?link={tokens.new_sign(make_token(home), _LINK, now_ms() + _LINK_MS)}"


def is_link(home: "Home", token: str, link: str) -> bool:
    """Tell whether a link is good; looking does not use it up."""
    return tokens.holds(token, _LINK, link, now_ms(), _LINK_MS) and not tokens.was_used(
        _used(home), link
    )


def redeem(home: "Home", token: str, link: str) -> bool:
    """Tell whether a link is good; it is used up by that."""
    now = now_ms()
    return tokens.holds(token, _LINK, link, now, _LINK_MS) and tokens.use_once(
        _used(home), link, now
    )


def _used(home: "Home") -> "Path":
    return home.paths().state / "links"


# ------------------------------------------------------------------------------
# Logins: the browsers that a one-time link let in, and the name under which they see the page.
#
# A browser sends a cookie to every port of the host that set it, so on 127.0.0.1 any other program
# that listens would be shown it. The page is therefore served under a name of its own, which is
# made
# from the token and known to nobody else; the cookie belongs to that name alone. What a browser
# shows
# is a sign; a file for each says that it was not taken back.

LOGIN_SECONDS: Final = 30 * 86_400
IDLE_SECONDS: Final = 7 * 86_400
_COOKIE: Final = "cookie"
_NAME: Final = "name"
_NAME_BYTES: Final = 20  # 160 bits, 32 letters and digits
_MOST: Final = 50  # browsers at once
_LONGEST: Final = 60
_BROWSERS: Final = (
    ("Edg", "Edge"),
    ("OPR", "Opera"),
    ("Firefox", "Firefox"),
    ("HeadlessChrome", "Chromium"),
    ("Chrome", "Chromium"),  # the others that are made of it say their own name as well
    ("Version", "Safari"),
)
_SYSTEMS: Final = ("Android", "Windows", "iPhone", "iPad", "Mac OS X", "CrOS", "Linux")


class Login(msgspec.Struct, frozen=True):
    """A browser that was let in."""

    id: str
    browser: str  # what it says that it is
    created_at: int
    used_at: int  # at most a minute old
    ends_at: int  # if it is not used before; later if it is
    here: bool = False  # it is the one that asks


def own_name(token: str) -> str:
    """Return the name of a home's page: browsers look for it on this machine, nobody guesses it."""
    digest = hashlib.sha256(tokens.mark_of(token, _NAME).encode()).digest()[:_NAME_BYTES]
    return f"{base64.b32encode(digest).decode().lower()}.localhost"


class Logins:
    """The logins of a home."""

    def __init__(self, home: "Home") -> None:
        self._given = tokens.GivenSigns(home.paths().state / "logins")

    def add(self, token: str, user_agent: str) -> str:
        """Let a browser in; give what its cookie says."""
        now = now_ms()
        sign = tokens.new_sign(token, _COOKIE, now + LOGIN_SECONDS * 1000)
        self._given.add(token, sign, browser_of(user_agent), now, _MOST)
        return sign

    def find(self, token: str, cookie: str) -> str | None:
        """Return the id of the login whose cookie is shown; None if there is none any more."""
        now = now_ms()
        if not tokens.holds(token, _COOKIE, cookie, now, LOGIN_SECONDS * 1000):
            return None
        return self._given.use(cookie, now, IDLE_SECONDS * 1000)

    def listed(self, token: str, here: str = "") -> list[Login]:
        """List the logins that hold, those used last first."""
        now = now_ms()
        found = [
            Login(
                one.id,
                one.note,
                one.until - LOGIN_SECONDS * 1000,
                one.used_at,
                min(one.until, one.used_at + IDLE_SECONDS * 1000),
                one.id == here,
            )
            for one in self._given.listed(token)
        ]
        return [one for one in found if one.ends_at > now]

    def revoke(self, token: str, id_: str) -> Login:
        """End a login at once; a unique prefix of its id is enough."""
        matching = [one for one in self.listed(token) if id_ and one.id.startswith(id_)]
        if len(matching) != 1:
            what = "no login" if not matching else "more than one login"
            raise NotFound(f"there is {what} {id_!r}", hint="`threadkeep web logins` lists them")
        self._given.remove(matching[0].id)
        return matching[0]

    def revoke_all(self, token: str) -> list[Login]:
        """End every login at once; the token remains valid."""
        return [one for one in self.listed(token) if self._given.remove(one.id)]


def browser_of(user_agent: str) -> str:
    """Name a browser and its system in a few plain characters, whatever it says."""
    plain = re.sub(r"[^ -~]+", " ", user_agent[:1000])
    named = next(
        (
            f"{name} {found[1]}"
            for word, name in _BROWSERS
            if (found := re.search(rf"\b{word}/(\d{{1,4}})", plain))
        ),
        "",
    )
    system = next((one for one in _SYSTEMS if one in plain), "")
    if not named:
        return " ".join(plain.split())[:_LONGEST] or "a program without a name"
    return f"{named} on {system.replace('Mac OS X', 'macOS')}" if system else named
