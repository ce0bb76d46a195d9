"""Who may use the web server of a home: its token, and one-time links to the page."""

import hmac
from typing import TYPE_CHECKING, Final

from threadkeep.base.clock import now_ms
from threadkeep.base.tokens import (
    SecretFile,
    holds,
    make_secret,
    new_sign,
    read_secret,
    use_once,
    was_used,
)

if TYPE_CHECKING:
    from pathlib import Path

    from threadkeep.home.facade import Home


_FILE: Final = "web.token"
_LINK: Final = "link"
_LINK_MS: Final = 10 * 60_000


def token_path(home: "Home") -> "Path":
    """Give the file of the token."""
    return home.paths().data / _FILE


def make_token(home: "Home") -> str:
    """Give the token of a home, and make it the first time."""
    return make_secret(token_path(home))


def read_token(home: "Home") -> str:
    """Give the token of a home; NotFound where there is none yet."""
    return read_secret(token_path(home))


def watch_token(home: "Home") -> SecretFile:
    """Give the token of a home as it is at each moment.

    Deleting its file ends every access at once: the token, all cookies and all links are void.
    """
    return SecretFile(token_path(home))


def is_token(token: str, given: str) -> bool:
    """Compare in a time that tells nothing."""
    return hmac.compare_digest(token.encode(), given.encode("utf-8", "replace"))


def one_time_link(home: "Home", address: str) -> str:
    """Give a link to the page that works once, within ten minutes; the token is not in it."""
    return f"{address}/open?link={new_sign(make_token(home), _LINK, now_ms() + _LINK_MS)}"


def is_link(home: "Home", token: str, link: str) -> bool:
    """Tell whether a link is good; looking does not use it up."""
    return holds(token, _LINK, link, now_ms(), _LINK_MS) and not was_used(_used(home), link)


def redeem(home: "Home", token: str, link: str) -> bool:
    """Tell whether a link is good; it is used up by that."""
    now = now_ms()
    return holds(token, _LINK, link, now, _LINK_MS) and use_once(_used(home), link, now)


def _used(home: "Home") -> "Path":
    return home.paths().state / "links"
