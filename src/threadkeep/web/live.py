"""Live changes: one stream of server-sent events for every page that is open.

One thread waits for the store's commits, whoever makes them, and tells every follower which
sessions have something new. A follower that is slow is told later, and of everything at once.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from threadkeep.errors import ThreadkeepError
from threadkeep.home.stores import Stores
from threadkeep.knowledge.library import Browse
from threadkeep.web.answers import problem

KEEP_ALIVE_SECONDS: Final = 15.0
_MOST_FOLLOWERS: Final = 100
_LOOK_SECONDS: Final = 1.0  # how soon the thread sees that nobody is there any more
_MISSING_SECONDS: Final = 2.0  # how often a store that is not there is looked for


class Follower:
    """One open page: what it was not told yet. Only its own loop touches it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._news = asyncio.Event()
        self._refs: dict[str, None] = {}

    def tell(self, refs: Iterable[str]) -> None:
        """Add what changed."""
        self._refs |= dict.fromkeys(refs)
        self._news.set()

    async def wait(self, seconds: float) -> list[str] | None:
        """Wait for news; None if there are none in so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return None
        self._news.clear()
        refs, self._refs = list(self._refs), {}
        return refs


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
        """Tell the thread whether to go on; told no, it ends, and who joins next starts another."""
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
        finally:  # the next who joins begins anew, whatever happened here
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
                mark, refs = browse.changed_since(mark)
                self._tell(refs)

    def _tell(self, refs: Iterable[str]) -> None:
        with self._guard:
            followers = tuple(self._followers)
        for one in followers:
            try:
                one.loop.call_soon_threadsafe(one.tell, refs)
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
            refs = await follower.wait(KEEP_ALIVE_SECONDS)
            if refs is None:
                yield b": still here\n\n"
            else:
                yield b"event: change\ndata: " + msgspec.json.encode({"refs": refs}) + b"\n\n"
    finally:
        live.leave(follower)


def live_routes() -> list[BaseRoute]:
    """Give the routes of live events."""
    return [Route("/events", events)]
