"""A page: an address, a function that gives its data, and the template that shows them.

The same data are its JSON twin, at the same address with `.json` behind it. A template has a block
`content`; a request that wants a piece only (it says so in a header) is given that block alone.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from zoneinfo import ZoneInfo

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from threadkeep.base.clock import now_ms
from threadkeep.home.stores import Stores
from threadkeep.web.answers import json_answer, tagged
from threadkeep.web.gate import LOGIN
from threadkeep.web.lane import PIECE, Reads
from threadkeep.web.rendering import Renderer

_MOST_DIGITS: Final = 18
HTML: Final = "text/html; charset=utf-8"


class SiteRequest(msgspec.Struct, frozen=True):
    """What a page is made of: the stores, and what the address says."""

    stores: Stores
    path: Mapping[str, str]
    query: Mapping[str, str]
    now: int
    zone: ZoneInfo
    login: str = ""  # which browser asks; empty: a program with the token

    def number(self, name: str, default: int, most: int) -> int:
        """Give a number of the query; anything else is the default."""
        text = self.query.get(name, "")
        usable = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
        return min(int(text), most) if usable else default


class Elsewhere(Exception):
    """The page is at another address."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.address = address


class SitePage(msgspec.Struct, frozen=True):
    """One page of the site."""

    path: str
    template: str
    load: Callable[[SiteRequest], Any]  # a Struct or a dict; what is in it is in the template, too
    title: str = ""
    kept: bool = False  # it shows the captured history at a moment, and nothing else


def page_routes(pages: Iterable[SitePage]) -> list[Route]:
    """Give the routes of pages and of their twins."""
    routes = []
    for page in pages:
        twin = "/index.json" if page.path == "/" else f"{page.path}.json"
        routes.append(Route(twin, _twin(page)))  # before: a parameter may have a dot
        routes.append(Route(page.path, _shown(page)))
    return routes


def visit_of(request: Request) -> SiteRequest:
    """Give what a page is made of for a request."""
    stores: Stores = request.app.state.stores
    zone = ZoneInfo(stores.home.zone)
    login = request.scope.get(LOGIN) or ""
    return SiteRequest(stores, request.path_params, request.query_params, now_ms(), zone, login)


def _twin(page: SitePage) -> Callable[[Request], Any]:
    def made(request: Request) -> Response:
        return json_answer(request, page.load(visit_of(request)))

    return _answering(page, made)


def _shown(page: SitePage) -> Callable[[Request], Any]:
    def made(request: Request) -> Response:
        try:
            return _render(page, request)
        except Elsewhere as found:
            return RedirectResponse(found.address, 303)

    return _answering(page, made)


def _answering(page: SitePage, made: Callable[[Request], Response]) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        reads: Reads = request.app.state.reads
        return await reads.answer(request, made, kept=page.kept)

    return answer


def _render(page: SitePage, request: Request) -> Response:
    began = time.perf_counter()
    data = page.load(visit_of(request))
    renderer: Renderer = request.app.state.renderer
    values = data if isinstance(data, dict) else msgspec.structs.asdict(data)
    around = {"title": page.title, "path": request.url.path, "query": dict(request.query_params)}
    piece = request.headers.get(PIECE) == "true"
    text = renderer.render(page.template, {**around, **values}, piece=piece)
    answer = tagged(request, text.encode("utf-8", "replace"), HTML)
    answer.headers["server-timing"] = f"page;dur={(time.perf_counter() - began) * 1000:.1f}"
    answer.headers["vary"] = PIECE
    return answer
