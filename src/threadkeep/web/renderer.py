"""Templates: everything that comes from a store is escaped, without exception."""

import base64
import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import msgspec
from jinja2 import (
    Environment,
    FileSystemBytecodeCache,
    PackageLoader,
    StrictUndefined,
    Template,
)
from markupsafe import Markup

from threadkeep.home.home import Home
from threadkeep.home.opening import open_browse
from threadkeep.knowledge.library import Browse
from threadkeep.knowledge.results import SessionDetail, SessionSummary, TranscriptMessage
from threadkeep.web import charts, code, markup, messages, words


class Renderer:
    """Fills templates; times are those of one zone.

    `cache` gives the folder of what templates were compiled to: all of them take 300 ms to
    compile, and 10 ms to read again. A template that was changed is compiled again.
    """

    def __init__(self, zone: ZoneInfo, cache: Callable[[], Path | None] = lambda: None) -> None:
        self._environment = Environment(
            loader=PackageLoader("threadkeep.web", "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._cache = cache
        self._environment.globals["asset"] = asset
        self._environment.globals |= charts.helpers(zone)
        self._environment.filters |= words.filters(zone) | markup.filters()
        self._environment.filters |= code.filters() | messages.filters()

    def render(self, template: str, values: Mapping[str, Any], *, piece: bool = False) -> str:
        """Fill a template; of a piece only its block `content`."""
        found = self._template(template)
        if not piece:
            return found.render(values)
        context = found.new_context(dict(values))
        return "".join(found.blocks["content"](context))

    def _template(self, name: str) -> Template:
        if not self._environment.cache and (folder := self._cache()) is not None:
            self._environment.bytecode_cache = FileSystemBytecodeCache(str(folder))
        try:
            return self._environment.get_template(name)
        except Exception:  # noqa: BLE001  (nothing is hidden: see below)
            # A full disk, a torn file: it works without. What is wrong with the template itself
            # is said at the second try.
            self._forget_cache()
            return self._environment.get_template(name)

    def _forget_cache(self) -> None:
        kept, self._environment.bytecode_cache = self._environment.bytecode_cache, None
        if kept is not None:
            with suppress(OSError):
                kept.clear()


@cache
def asset(name: str) -> str:
    """Return the address of a file of the page; it changes with the file, so it may be kept."""
    digest = hashlib.blake2b(files("threadkeep.web").joinpath("static", name).read_bytes())
    return f"/static/{name}?v={digest.hexdigest()[:12]}"


# ------------------------------------------------------------------------------
# A session as one file: everything is in it, nothing is loaded when it is opened, nothing runs.

_STYLES: Final = ("site.css", "session.css", "code.css")
_WINDOW: Final = 1000
_DEPTH: Final = 4  # subagents of subagents that are put in; no program nests deeper


class Whole(msgspec.Struct, frozen=True):
    """A session with all its messages, and the sessions that it started."""

    detail: SessionDetail
    messages: tuple[TranscriptMessage, ...]
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
    return Whole(detail, tuple(all_messages(browse, detail.listed.ref)), inside)


def all_messages(browse: Browse, ref: str) -> Iterator[TranscriptMessage]:
    """Yield every message of a session."""
    last = -1
    while True:
        window = browse.window(ref, after=last, limit=_WINDOW)
        yield from window.messages
        last += len(window.messages)
        if not window.messages or last + 1 >= window.total:
            return
