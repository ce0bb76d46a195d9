"""Threads for the verbs of a store, and how a verb becomes one that is awaited."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from itertools import islice
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from threadkeep.errors import Closed

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
AsyncVerb = Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]

# Writes wait for one lock and may wait long: with a pool for both, four of them kept a read
# waiting for 2.9 s.
_READERS, _WRITERS = 8, 8
_BATCH = 256


class Pools:
    """The threads of one store, those that read apart from those that may wait to write."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="threadkeep-read")
        self._writers = ThreadPoolExecutor(_WRITERS, thread_name_prefix="threadkeep-write")
        self._closing: asyncio.Future[None] | None = None

    def read(self, call: Callable[[], R]) -> asyncio.Future[R]:
        """Start something that only reads."""
        return self._begin(self._readers, call)

    def write(self, call: Callable[[], R]) -> asyncio.Future[R]:
        """Start something that writes."""
        return self._begin(self._writers, call)

    def _begin(self, pool: ThreadPoolExecutor, call: Callable[[], R]) -> asyncio.Future[R]:
        if self._closing is not None:
            raise Closed(f"{self._path} was closed", hint="open the store again")
        return asyncio.get_running_loop().run_in_executor(pool, call)

    async def pieces(self, begin: Callable[[], Iterator[T]]) -> AsyncIterator[T]:
        """Give what an iterator gives, a batch of it read in a thread at a time."""
        found = await self.read(begin)
        while batch := await self.read(lambda: list(islice(found, _BATCH))):
            for piece in batch:
                yield piece

    async def close(self, close_store: Callable[[], None]) -> None:
        """Close the store in a thread; once is enough."""
        if self._closing is None:
            self._closing = self._begin(self._readers, close_store)
            # What was begun before goes on in its thread, and finds the store closed.
            self._readers.shutdown(wait=False)
            self._writers.shutdown(wait=False)
        await to_the_end(self._closing)


def reads(verb: Callable[Concatenate[Any, P], R]) -> AsyncVerb[P, R]:
    """Make the async twin of a verb that waits for no writer, or for a short while only."""

    @wraps(verb)
    async def twin(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        found: R = await self.pools.read(partial(verb, self.store, *args, **kwargs))
        return found

    return twin


def writes(verb: Callable[Concatenate[Any, P], R]) -> AsyncVerb[P, R]:
    """Make the async twin of a verb that may wait for other writers."""

    @wraps(verb)
    async def twin(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        done: R = await self.pools.write(partial(verb, self.store, *args, **kwargs))
        return done

    return twin


async def to_the_end(step: asyncio.Future[R]) -> R:
    """Wait for what runs in a thread however often the waiting is cancelled; then say so."""
    cancelled: asyncio.CancelledError | None = None
    while not step.done():
        try:
            await asyncio.wait([step])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled from step.exception()
    return step.result()
