"""A session as one file: everything is in it, nothing is loaded when it is opened, nothing runs."""

import base64
import hashlib
from collections.abc import Iterator
from importlib.resources import files
from typing import Final
from zoneinfo import ZoneInfo

import msgspec
from markupsafe import Markup

from threadkeep.home.home import Home
from threadkeep.home.opening import open_browse
from threadkeep.knowledge.library import Browse
from threadkeep.knowledge.results import Block, SessionDetail, SessionSummary
from threadkeep.web.rendering import Renderer

_STYLES: Final = ("site.css", "session.css")
_WINDOW: Final = 1000
_DEPTH: Final = 4  # subagents of subagents that are put in; no program nests deeper


class Whole(msgspec.Struct, frozen=True):
    """A session with all its blocks, and the sessions that it started."""

    detail: SessionDetail
    blocks: tuple[Block, ...]
    inside: dict[str, "Whole"]  # by ref


def offline_html(home: Home, ref: str, db: str | None = None) -> str:
    """Write a session of a home as one HTML file."""
    with open_browse(home, db) as browse:
        return offline_page(browse, ref, Renderer(ZoneInfo(home.zone)))


def offline_page(browse: Browse, ref: str, renderer: Renderer) -> str:
    """Write a session as one HTML file: its own style is all that its policy allows."""
    whole = _whole(browse, ref, _DEPTH)
    folder = files("threadkeep.web").joinpath("static")
    style = "".join(folder.joinpath(name).read_text("utf-8") for name in _STYLES)
    values = {
        "title": whole.detail.listed.session.name[:120],
        "whole": whole,
        "style": Markup(style),  # noqa: S704  (our own file)
        "policy": _policy(style),
        "now": browse.clock(),
    }
    return renderer.render("offline.html", values)


def _policy(style: str) -> str:
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _whole(browse: Browse, ref: str, depth: int) -> Whole:
    detail = browse.session(ref)
    children: tuple[SessionSummary, ...] = detail.children if depth else ()
    inside = {one.ref: _whole(browse, one.ref, depth - 1) for one in children}
    return Whole(detail, tuple(all_blocks(browse, detail.listed.ref)), inside)


def all_blocks(browse: Browse, ref: str) -> Iterator[Block]:
    """Yield every block of a session."""
    last = -1
    while True:
        window = browse.window(ref, after=last, limit=_WINDOW)
        yield from window.blocks
        last += len(window.blocks)
        if not window.blocks or last + 1 >= window.total:
            return
