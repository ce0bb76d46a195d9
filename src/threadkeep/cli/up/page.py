"""The web page as commands start it: bound, announced, and opened in a browser."""

import os
import socket
import sys
import webbrowser
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click
import msgspec

from threadkeep.cli.command import Call
from threadkeep.errors import Invalid
from threadkeep.home.home import Home

if TYPE_CHECKING:
    from threadkeep.service.supervisor import ServicePart

Tell = Callable[[str], None]

_NEEDED = ("starlette", "uvicorn", "jinja2", "nh3", "markdown_it")

port_option = click.option(
    "--port",
    type=click.IntRange(1, 65_535),
    help="Answer at this port; without it 7717, or the next one that is free.",
)


def missing_packages() -> list[str]:
    """Name what the page needs and is not installed."""
    return [name for name in _NEEDED if find_spec(name) is None]


def need_packages() -> None:
    """Refuse to go on without what the page needs."""
    missing = missing_packages()
    if missing:
        msg = f"the page needs {', '.join(missing)}, which is not installed"
        raise Invalid(msg, hint="pip install 'threadkeep[web]'")


def with_port(home: Home, port: int | None) -> Home:
    """Give a home whose server answers at a port."""
    if port is not None:
        web = msgspec.structs.replace(home.config.web, port=port)
        home.__dict__["config"] = msgspec.structs.replace(home.config, web=web)
    return home


def bind_page(call: Call, port: int | None) -> tuple[socket.socket, str]:
    """Bind the socket of the page, and give its address."""
    from threadkeep.web.part import bound

    home = with_port(call.home, port)
    default = port is None and home.config.web.port == type(home.config.web)().port
    return bound(home, exactly=not default)


def page_part(call: Call, listener: socket.socket, *, at_once: bool = False) -> "ServicePart":
    """Give the part of `serve` that answers there."""
    from threadkeep.web.part import web_part

    return web_part(call.home, listener, call.db, at_once=at_once)


def new_link(call: Call, address: str) -> str:
    """Give a link that lets a browser in, once."""
    from threadkeep.web.part import link

    return link(call.home, address)


def open_browser(url: str) -> bool:
    """Open a page where there is somebody to see it."""
    graphical = sys.platform == "darwin" or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )
    if not graphical:
        return False
    try:
        return webbrowser.open(url)
    except (OSError, webbrowser.Error):
        return False
