"""Logins: the browsers that a one-time link let in, and the name under which they see the page.

A browser sends a cookie to every port of the host that set it, so on 127.0.0.1 any other program
that listens would be shown it. The page is therefore served under a name of its own, which is made
from the token and known to nobody else; the cookie belongs to that name alone. What a browser shows
is a sign; a file for each says that it was not taken back.
"""

import base64
import hashlib
import re
from typing import TYPE_CHECKING, Final

import msgspec

from threadkeep.base.clock import now_ms
from threadkeep.base.given_signs import GivenSigns
from threadkeep.base.tokens import holds, mark_of, new_sign
from threadkeep.errors import NotFound

if TYPE_CHECKING:
    from threadkeep.home.facade import Home

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
    """Give the name of a home's page: browsers look for it on this machine, nobody guesses it."""
    digest = hashlib.sha256(mark_of(token, _NAME).encode()).digest()[:_NAME_BYTES]
    return f"{base64.b32encode(digest).decode().lower()}.localhost"


class Logins:
    """The logins of a home."""

    def __init__(self, home: "Home") -> None:
        self._given = GivenSigns(home.paths().state / "logins")

    def add(self, token: str, user_agent: str) -> str:
        """Let a browser in; give what its cookie says."""
        now = now_ms()
        sign = new_sign(token, _COOKIE, now + LOGIN_SECONDS * 1000)
        self._given.add(token, sign, browser_of(user_agent), now, _MOST)
        return sign

    def find(self, token: str, cookie: str) -> str | None:
        """Give the id of the login whose cookie is shown; None if there is none any more."""
        now = now_ms()
        if not holds(token, _COOKIE, cookie, now, LOGIN_SECONDS * 1000):
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
        """End a login, at once; a beginning of its id that only one has will do."""
        matching = [one for one in self.listed(token) if id_ and one.id.startswith(id_)]
        if len(matching) != 1:
            what = "no login" if not matching else "more than one login"
            raise NotFound(f"there is {what} {id_!r}", hint="`threadkeep web logins` lists them")
        self._given.remove(matching[0].id)
        return matching[0]

    def revoke_all(self, token: str) -> list[Login]:
        """End every login, at once; the token still holds."""
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
