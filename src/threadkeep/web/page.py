"""A page: an address, a function that gives its data, and the template that shows them.

The same data are its JSON twin, at the same address with `.json` behind it. A template has a block
`content`; a request that wants a piece only (it says so in a header) is given that block alone.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from zoneinfo import ZoneInfo

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from threadkeep.base.clock import now_ms
from threadkeep.errors import ThreadkeepError
from threadkeep.home.stores import Stores
from threadkeep.knowledge.library import AnswerCache
from threadkeep.web.answers import json_answer, tagged
from threadkeep.web.gate import LOGIN
from threadkeep.web.renderer import Renderer

# ------------------------------------------------------------------------------
# The lane of reads: one at a time, one answer for all who ask the same, nobody held up for long.
#
# Python runs one thread at a time. Forty that make pages at once take more than twice the time of
# one, and each keeps memory of its own: fifty clients cost 311 MB that way, and 130 MB in a lane.

PIECE: Final = "hx-request"  # the header of a request that wants a piece of a page
_THREADS: Final = 8
_PATIENCE: Final = 0.1  # seconds after which the next one begins beside a long one
_KEPT_BYTES: Final = 8_000_000
_MOMENT_MS: Final = 10_000  # pages say times in minutes

Work = Callable[[], Response]


class Lane:
    """Works on answers in the order in which they were asked for.

    What takes longer than `patience` pulls over: the next one begins, up to so many `threads`.
    """

    def __init__(self, threads: int = _THREADS, patience: float = _PATIENCE) -> None:
        self._threads = asyncio.Semaphore(threads)
        self._road = asyncio.Semaphore(1)
        self._patience = patience
        self._waiting: dict[Hashable, asyncio.Task[Response]] = {}

    async def run(self, key: Hashable, work: Work) -> Response:
        """Do what gives the answer to a key, or share it with those who wait for the same.

        Only what has not begun is shared: an answer knows all that was written before any of
        those who get it asked.
        """
        task = self._waiting.get(key)
        if task is None:
            task = asyncio.create_task(self._turn(key, work))
            self._waiting[key] = task
        # Whoever leaves does not take the answer from the others.
        return await asyncio.shield(task)

    async def _turn(self, key: Hashable, work: Work) -> Response:
        async with self._threads, self._on_the_road():
            del self._waiting[key]
            return await run_in_threadpool(work)

    @asynccontextmanager
    async def _on_the_road(self) -> AsyncIterator[None]:
        await self._road.acquire()
        here = True

        def leave() -> None:
            nonlocal here
            if here:
                here = False
                self._road.release()

        pulling_over = asyncio.get_running_loop().call_later(self._patience, leave)
        try:
            yield
        finally:
            pulling_over.cancel()
            leave()


class Reads:
    """The lane, and the latest answers of it."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._kept = AnswerCache(_KEPT_BYTES, worth=0, weigh=lambda answer: len(answer.body))

    async def answer(
        self, request: Request, made: Callable[[Request], Response], *, kept: bool
    ) -> Response:
        """Answer a read in its turn.

        What is `kept` shows the captured history at a moment and nothing else: it is rebuilt
        after every commit, and every ten seconds.
        """
        key, stores = _asked(request), request.app.state.stores

        def work() -> Response:
            with stores.using():  # whoever asked first may have left; others wait for it
                moment = _moment(stores) if kept else None
                if moment is None:
                    return made(request)
                return self._kept.latest(key, moment, lambda: made(request))

        return await self._lane.run(key, work)


def _asked(request: Request) -> Hashable:
    """Return all of a read that its answer depends on, beside the stores."""
    scope, headers = request.scope, request.headers
    named = (headers.get(PIECE), headers.get("if-none-match"), scope.get(LOGIN))
    return (scope["method"], scope["raw_path"], scope["query_string"], *named)


def _moment(stores: Stores) -> object:
    """Name the captured history as it is now; None while there is none."""
    try:
        browse = stores.browse()
        return (browse, browse.database.changes(), now_ms() // _MOMENT_MS)
    except ThreadkeepError:
        return None


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
        """Return a number of the query; anything else is the default."""
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
    """Return the routes of pages and of their twins."""
    routes = []
    for page in pages:
        twin = "/index.json" if page.path == "/" else f"{page.path}.json"
        routes.append(Route(twin, _twin(page)))  # before: a parameter may have a dot
        routes.append(Route(page.path, _shown(page)))
    return routes


def visit_of(request: Request) -> SiteRequest:
    """Return what a page is made of for a request."""
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
    around: dict[str, Any] = {
        "title": page.title,
        "path": request.url.path,
        "query": dict(request.query_params),
    }
    around["demo"] = request.app.state.stores.shows_demo
    piece = request.headers.get(PIECE) == "true"
    text = renderer.render(page.template, {**around, **values}, piece=piece)
    answer = tagged(request, text.encode("utf-8", "replace"), HTML)
    answer.headers["server-timing"] = f"page;dur={(time.perf_counter() - began) * 1000:.1f}"
    answer.headers["vary"] = PIECE
    return answer
