"""The application: pages, API, live events and files, behind the gate."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from importlib.resources import files
from typing import Final
from urllib.parse import quote
from zoneinfo import ZoneInfo

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from threadkeep.errors import ThreadkeepError
from threadkeep.home.home import Home
from threadkeep.home.stores import Stores
from threadkeep.knowledge.library import Browse
from threadkeep.knowledge.query import Query
from threadkeep.service.web_access import (
    LOGIN_SECONDS,
    Logins,
    is_link,
    own_name,
    page_cache,
    redeem,
    watch_token,
)
from threadkeep.web.answers import problem, problem_of, refusal, wants_page
from threadkeep.web.api import api_routes
from threadkeep.web.api.calls import Recordings
from threadkeep.web.gate import (
    BodyTooLarge,
    Gate,
    cookie_name,
    finds_own_name,
    is_our_own,
    is_secure,
    own_address,
)
from threadkeep.web.guard import (
    Headers,
    RequestRefusal,
    ServerAddress,
    headers_of,
    host_of,
    own_hosts,
)
from threadkeep.web.page import HTML, PIECE, Lane, Reads, page_routes
from threadkeep.web.pages import PAGE_ROUTES, PAGES
from threadkeep.web.renderer import Renderer, asset

# ------------------------------------------------------------------------------
# Live changes: one stream of server-sent events for every page that is open.
#
# One thread waits for the store's commits, whoever makes them, and tells every follower which
# sessions have something new. A follower that is slow is told later, and of everything at once.

KEEP_ALIVE_SECONDS: Final = 15.0
_MOST_FOLLOWERS: Final = 100
_LOOK_SECONDS: Final = 1.0  # how soon the thread sees that nobody is there any more
_MISSING_SECONDS: Final = 2.0  # how often a store that is not there is looked for


class Follower:
    """One open page: what it was not told yet. Only its own loop touches it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._news = asyncio.Event()
        self._sessions: dict[str, None] = {}

    def tell(self, sessions: Iterable[str]) -> None:
        """Add what changed."""
        self._sessions |= dict.fromkeys(sessions)
        self._news.set()

    async def wait(self, seconds: float) -> list[str] | None:
        """Wait for news; None if there are none in so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return None
        self._news.clear()
        sessions, self._sessions = list(self._sessions), {}
        return sessions


class StoreWatcher:
    """Watches a store while somebody follows it."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._guard = threading.Lock()
        self._followers: set[Follower] = set()
        self._thread: threading.Thread | None = None
        self._end = threading.Event()

    def join(self, follower: Follower) -> bool:
        """Take a follower in; False if there are too many."""
        with self._guard:
            if len(self._followers) >= _MOST_FOLLOWERS or self._end.is_set():
                return False
            self._followers.add(follower)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._watch, name="threadkeep-live", daemon=True
                )
                self._thread.start()
        return True

    def leave(self, follower: Follower) -> None:
        """Let a follower go."""
        with self._guard:
            self._followers.discard(follower)

    def close(self) -> None:
        """End watching."""
        self._end.set()
        thread = self._thread
        if thread is not None:
            thread.join()

    def _is_wanted(self) -> bool:
        """Tell the thread whether to continue; if not, it ends, and the next request starts one."""
        with self._guard:
            mine = self._thread is threading.current_thread()
            if mine and self._followers and not self._end.is_set():
                return True
            if mine:
                self._thread = None
            return False

    def _watch(self) -> None:
        was_there: bool | None = None
        try:
            while self._is_wanted():
                try:
                    browse = self._stores.browse()
                    if was_there is False:
                        self._tell(())
                    was_there = True
                    self._follow(browse)
                except ThreadkeepError:  # not there, not there any more, or in somebody's hands
                    if was_there:
                        self._tell(())
                    was_there = False
                    self._end.wait(_MISSING_SECONDS)
        finally:  # the next who joins starts over, whatever happened here
            with self._guard:
                if self._thread is threading.current_thread():
                    self._thread = None

    def _follow(self, browse: Browse) -> None:
        """Tell of changes until nobody wants to know any more, or the file is another one."""
        database = browse.database
        seen = database.changes()
        mark = browse.mark()
        while self._is_wanted():
            now = database.changed(seen, _LOOK_SECONDS)
            if now != seen:
                seen = now
                mark, sessions = browse.changed_since(mark)
                self._tell(sessions)

    def _tell(self, sessions: Iterable[str]) -> None:
        with self._guard:
            followers = tuple(self._followers)
        for one in followers:
            try:
                one.loop.call_soon_threadsafe(one.tell, sessions)
            except RuntimeError:  # its loop has ended
                self.leave(one)


async def events(request: Request) -> Response:
    """Send what changes as long as somebody listens."""
    live: StoreWatcher = request.app.state.live
    follower = Follower(asyncio.get_running_loop())
    if not live.join(follower):
        return problem(503, "too many pages follow already", "close some of them")
    return StreamingResponse(
        _told(live, follower),
        media_type="text/event-stream",
        headers={"cache-control": "no-cache", "x-accel-buffering": "no"},
    )


async def _told(live: StoreWatcher, follower: Follower) -> AsyncIterator[bytes]:
    try:
        yield b"retry: 2000\n\n"
        while True:
            sessions = await follower.wait(KEEP_ALIVE_SECONDS)
            if sessions is None:
                yield b": still here\n\n"
            else:
                yield (
                    b"event: change\ndata: " + msgspec.json.encode({"sessions": sessions}) + b"\n\n"
                )
    finally:
        live.leave(follower)


def live_routes() -> list[BaseRoute]:
    """Return the routes of live events."""
    return [Route("/events", events)]


_TYPES: Final = {
    "css": "text/css",
    "js": "text/javascript",
    "png": "image/png",
    "svg": "image/svg+xml",
    "webmanifest": "application/manifest+json",
}
_LEFT: Final = 499
_USED: Final = RequestRefusal(
    403, "this link was used already or has expired", "`threadkeep up --link` gives a new one"
)
_KEPT: Final = "private, max-age=31536000, immutable"


def make_app(home: Home, place: ServerAddress, db: str | None = None) -> Gate:
    """Put the application of a home together."""
    stores = Stores(home, db)
    if stores.shows_demo and home.has("knowledge"):  # somebody asked for their own
        stores.show_own()
    secret, logins = watch_token(home), Logins(home)
    live = StoreWatcher(stores)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        threading.Thread(target=_warm_up, args=(stores,), daemon=True).start()
        try:
            yield
        finally:
            live.close()
            app.state.recordings.close()
            stores.close()

    app = Starlette(
        routes=list(_routes()),
        exception_handlers={
            ThreadkeepError: _store_said_no,
            HTTPException: _no_such_page,
            BodyTooLarge: _too_large,
            ClientDisconnect: _gone,
            Exception: _failed,
        },
        middleware=[Middleware(_InUse, stores=stores)],
        lifespan=lifespan,
    )
    app.state.stores = stores
    app.state.live = live
    app.state.recordings = Recordings()
    app.state.renderer = Renderer(ZoneInfo(home.zone), lambda: page_cache(home))
    app.state.place = place
    app.state.reads = Reads(Lane())
    app.state.secret = secret
    app.state.logins = logins
    return Gate(app, secret, logins, place)


class _InUse:
    """Keeps the stores of a request open until it is answered, also when a file is replaced."""

    def __init__(self, app: ASGIApp, stores: Stores) -> None:
        self._app = app
        self._stores = stores

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._stores.using():
            await self._app(scope, receive, send)


def _warm_up(stores: Stores) -> None:
    """Read one page of the list before somebody asks: prices alone take a third of a second."""
    with suppress(ThreadkeepError):  # no store yet, or the end came first
        stores.browse().sessions(Query(), limit=1)


def _routes() -> Iterable[BaseRoute]:
    yield Route("/alive", _alive)
    yield Route("/open", _open)
    yield Route("/static/{name}", _static)
    yield from live_routes()
    yield Mount("/api", routes=api_routes())
    yield from PAGE_ROUTES
    yield from page_routes(PAGES)


async def _alive(_: Request) -> Response:
    """Say that somebody is there, and nothing else."""
    return Response(None, 204)


def _open(request: Request) -> Response:
    """Let a browser in that comes with a one-time link."""
    if request.method != "GET":  # whoever only looks at a link does not use it up
        raise HTTPException(405, headers={"allow": "GET"})
    token = request.app.state.secret.current()
    refused = _refuse_link(request, token)
    if refused is not None:
        return refusal(refused, _named(request))
    place: ServerAddress = request.app.state.place
    if place.own and host_of(_named(request)) not in own_hosts(place, own_name(token)):
        link = quote(request.query_params["link"], safe="")
        return RedirectResponse(f"{own_address(place, token)}/open?link={link}", 307)
    return _let_in(request, place, token)


def _refuse_link(request: Request, token: str | None) -> RequestRefusal | None:
    place: ServerAddress = request.app.state.place
    stores: Stores = request.app.state.stores
    if is_our_own(request.scope) is False:
        return RequestRefusal(
            403, "a link is for the user who made it, and you are a different user"
        )
    if place.own and not finds_own_name(_named(request).get("user-agent", "")):
        hint = "open the link with another browser, or set `own_name = false` in [web]"
        return RequestRefusal(403, "Safari does not find the page under its own name", hint)
    if token is None or not is_link(stores.home, token, request.query_params.get("link", "")):
        return _USED
    return None


def _let_in(request: Request, place: ServerAddress, token: str) -> Response:
    stores: Stores = request.app.state.stores
    if not redeem(stores.home, token, request.query_params["link"]):  # somebody was quicker
        return refusal(_USED, _named(request))
    answer = RedirectResponse("/", 303)
    answer.set_cookie(
        cookie_name(place),
        request.app.state.logins.add(token, _named(request).get("user-agent", "")),
        max_age=LOGIN_SECONDS,
        httponly=True,
        samesite="strict",
        secure=is_secure(place),
    )
    return answer


def _static(request: Request) -> Response:
    """Return a file of the page; only names that are there, nothing below or above."""
    name = request.path_params["name"]
    folder = files("threadkeep.web").joinpath("static")
    if name not in {entry.name for entry in folder.iterdir()}:
        raise HTTPException(404)
    kind = _TYPES.get(name.rpartition(".")[2], "application/octet-stream")
    content = folder.joinpath(name).read_bytes()
    # Only the address that changes with the file may be kept for good.
    keep = _KEPT if f"{request.url.path}?{request.url.query}" == asset(name) else "no-cache"
    return Response(content, media_type=kind, headers={"cache-control": keep})


# ---------------------------------------------------------------------- what goes wrong


def _store_said_no(request: Request, error: Exception) -> Response:
    if isinstance(error, ThreadkeepError):
        # Who calls by name has the words of Python: the client raises the same error again.
        called = request.url.path.startswith(("/api/call/", "/api/recordings"))
        plain = problem_of(error, called=called)
        return _said(request, error.http_status, error.message, error.hint, plain)
    raise error


def _no_such_page(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    told = {404: "there is nothing at this address", 405: "that cannot be done here"}
    status = error.status_code
    message = told.get(status, "that did not work")
    answer = _said(request, status, message, "", problem(status, message))
    answer.headers.update(error.headers or {})
    return answer


def _too_large(_: Request, __: Exception) -> Response:
    answer = problem(413, "the body is too large")
    answer.headers["connection"] = "close"  # the rest of it is not read
    return answer


def _gone(_: Request, __: Exception) -> Response:
    """Who asked has left: that is no failure of ours, and nobody reads this."""
    return Response(None, _LEFT)


def _failed(request: Request, _: Exception) -> Response:
    """Say little: what went wrong stands in the log of the server."""
    message = "something went wrong; see the server's log"
    return _said(request, 500, message, "", problem(500, message))


def _named(request: Request) -> Headers:
    return headers_of(dict(request.scope))


def _said(request: Request, status: int, message: str, hint: str, plain: Response) -> Response:
    headers = _named(request)
    if not wants_page(headers) or request.url.path.startswith("/api/"):
        return plain
    renderer: Renderer = request.app.state.renderer
    stores: Stores = request.app.state.stores
    values = {"title": message, "path": request.url.path, "query": {}, "hint": hint}
    piece = headers.get(PIECE) == "true"
    text = renderer.render(
        "problem.html", {**values, "status": status, "demo": stores.shows_demo}, piece=piece
    )
    return Response(text.encode("utf-8", "replace"), status, media_type=HTML)
