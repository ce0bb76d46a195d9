"""Where the web server of a home listens: chosen, written down, found again."""

import errno
import os
import socket
from typing import TYPE_CHECKING, Final

from threadkeep.base.config import WebSettings
from threadkeep.base.files import make_private_dir
from threadkeep.base.tokens import read_note, write_note
from threadkeep.errors import Conflict, Invalid, ThreadkeepError

if TYPE_CHECKING:
    from pathlib import Path

    from threadkeep.home.facade import Home

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
    """Give how the server is spoken to."""
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
    raise Conflict(msg, hint="end what listens there, or choose another [web] port")


def address_of(web: WebSettings, listener: socket.socket) -> str:
    """Give the address of the page."""
    named = socket.gethostname() if web.host in _ANYWHERE else web.host
    host = f"[{named}]" if ":" in named else named
    return f"{scheme_of(web)}://{host}:{listener.getsockname()[1]}"


def page_cache(home: "Home") -> "Path | None":
    """Give a private folder for what pages are made of; None where none can be had."""
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
    """Give where the server of a home listened last."""
    return read_note(_place(home))
