"""Addresses: where a request goes, where a redirect leads, what comes after a page."""

import re
from ipaddress import ip_address
from typing import Final, NamedTuple
from urllib.parse import quote, urljoin, urlsplit

from threadkeep.errors import Invalid
from threadkeep.github.trouble import GithubRefusal

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
    """Give where a redirect leads; a safe connection is never left for an open one."""
    name, here = target.origin, f"{target.origin.scheme}://"
    host = f"[{name.host}]" if ":" in name.host else name.host
    try:
        there = parse_url(urljoin(f"{here}{host}:{name.port}{target.path}", location))
    except ValueError:
        raise GithubRefusal(
            f"{show(target)} leads nowhere", hint="check [github] api_url"
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
    """Give the path of the next page, None if there is none.

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
    """Give the path of a repository that is named `owner/name`."""
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
