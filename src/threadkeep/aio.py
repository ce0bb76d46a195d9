"""The async faces of the stores: the same verbs, run in threads so that the loop never waits."""

import asyncio
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from threadkeep.base.verb_table import Verb, VerbOwner
from threadkeep.chat.recorder import Recorder
from threadkeep.chat.records import Event, Json, SessionRef, ref_id
from threadkeep.chat.store import ChatStore
from threadkeep.chat.tail import LOOK_AFTER
from threadkeep.errors import Closed
from threadkeep.state.session_db import SessionDB
from threadkeep.verbs import CHAT, STATE, TABLES

if TYPE_CHECKING:  # what the table adds, with the types that the stores' own verbs have
    from threadkeep.aio_verbs import ChatVerbs, StateVerbs
else:
    ChatVerbs = StateVerbs = object

__all__ = ["AsyncChatStore", "AsyncRecorder", "AsyncSessionDB"]

R = TypeVar("R")
T = TypeVar("T")

# Writes wait for one lock and may wait long: with a pool for both, four of them kept a read
# waiting for 2.9 s.
_READERS, _WRITERS = 8, 8
_BATCH = 256


class Pools:
    """The threads of one store, those that read apart from those that may wait to write."""

    def __init__(self, name: str | Path) -> None:
        self._name = name
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
            raise Closed(f"{self._name} was closed", hint="open the store again")
        return asyncio.get_running_loop().run_in_executor(pool, call)

    async def pieces(self, begin: Callable[[], Iterator[T]]) -> AsyncIterator[T]:
        """Return what an iterator gives, a batch of it read in a thread at a time."""
        found = await self.read(begin)
        while batch := await self.read(lambda: list(islice(found, _BATCH))):
            for piece in batch:
                yield piece

    def let_go(self) -> None:
        """End the threads when they are done; the store stays open."""
        self._readers.shutdown(wait=False)
        self._writers.shutdown(wait=False)

    async def close(self, close_store: Callable[[], None]) -> None:
        """Close the store in a thread; once is enough."""
        if self._closing is None:
            self._closing = self._begin(self._readers, close_store)
            self.let_go()  # what was begun before continues in its thread, and finds it closed
        await to_the_end(self._closing)


def twin_of(one: Verb) -> Callable[..., Any]:
    """Make the async twin of a verb: one that streams is iterated over, any other is awaited."""

    @wraps(one.function)
    async def pieces(self: Any, /, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        async for piece in self.pools.pieces(partial(one.function, self.store, *args, **kwargs)):
            yield piece

    @wraps(one.function)
    async def whole(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        begin = self.pools.read if one.reads else self.pools.write
        return await begin(partial(one.function, self.store, *args, **kwargs))

    return pieces if one.streams else whole


def with_twins(owner: VerbOwner) -> Callable[[type[T]], type[T]]:
    """Give a class the async twins of a store's verbs, but for those that it has of its own."""

    def add(face: type[T]) -> type[T]:
        for one in TABLES[owner.store].values():
            if one.owner is owner and one.name not in vars(face):
                setattr(face, one.name, twin_of(one))
        return face

    return add


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


# ------------------------------------------------------------------------------
# The async face of the chat store: the same verbs, run in threads so the loop never waits.

C = TypeVar("C", bound=Json | str | bytes)

_POLL_FIRST, _POLL_LAST = 0.002, 0.05


@with_twins(CHAT)
class AsyncChatStore(ChatVerbs):
    """A ChatStore whose verbs are awaited; see ChatStore for what each does."""

    def __init__(self, store: ChatStore) -> None:
        """Give an open store an async face; it is closed with it."""
        self.store = store
        self.pools = Pools(store.database.name)

    @classmethod
    async def open(cls, path: str | Path, **options: Any) -> Self:
        """Open a chat file, with the options of `ChatStore.open`."""
        return cls(await asyncio.to_thread(partial(ChatStore.open, path, **options)))

    async def close(self) -> None:
        """Close the store; once is enough."""
        await self.pools.close(self.store.close)

    async def __aenter__(self) -> Self:
        """Use the store in an `async with` block, which closes it."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the store."""
        await self.close()

    def record(
        self, session: SessionRef, message_id: str | None = None, **options: Any
    ) -> "AsyncRecorder":
        """Begin to record a reply, with the options of `ChatStore.record`."""
        return AsyncRecorder(self, partial(self.store.record, session, message_id, **options))

    async def tail(
        self,
        session: SessionRef,
        after: int = 0,
        *,
        follow: bool = True,
        until_idle: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109  (silence allowed, not a deadline)
    ) -> AsyncIterator[Event]:
        """Return a session's chunks as they commit; see `ChatStore.tail`."""
        session_id = ref_id(session, "session")
        await self.session(session_id)
        database = self.store.database
        database.follow()
        try:
            quiet_since = time.monotonic()
            while True:
                seen = await self.pools.read(database.changes)
                events, running = await self.pools.read(
                    partial(self.store.read_tail, session_id, after)
                )
                for event in events:
                    yield event
                if events:
                    after, quiet_since = events[-1].seq, time.monotonic()
                    continue
                if not follow or (until_idle and not running):
                    return
                now = time.monotonic()
                left = None if timeout is None else quiet_since + timeout - now
                if left is not None and left <= 0:
                    return
                await self._changed(seen, now + min(LOOK_AFTER, left or LOOK_AFTER))
        finally:
            database.unfollow()

    async def _changed(self, seen: int, deadline: float) -> None:
        """Wait for a commit on the loop's time: a waiting tail holds no thread."""
        pause = _POLL_FIRST
        while await self.pools.read(self.store.database.changes) == seen:
            if time.monotonic() >= deadline:
                return
            await asyncio.sleep(pause)
            pause = min(pause * 2, _POLL_LAST)


class AsyncRecorder:
    """A Recorder that is awaited; one chunk after the other, whoever feeds it."""

    def __init__(self, store: AsyncChatStore, begin: Callable[[], Recorder]) -> None:
        """Use `AsyncChatStore.record`."""
        self._store = store
        self._begin = begin
        self._turn = asyncio.Lock()
        self._recorder: Recorder | None = None

    async def _call(self, act: Callable[[Recorder], R]) -> R:
        """Run one step of the recorder; a cancelled step is let finish before the next begins."""
        async with self._turn:
            return await to_the_end(self._store.pools.write(lambda: act(self._opened())))

    def _opened(self) -> Recorder:
        if self._recorder is None:
            self._recorder = self._begin()
        return self._recorder

    async def feed(self, chunk: Json | str | bytes) -> None:
        """Take one chunk; stored when awaited, under `save_on="chunk"`."""
        await self._call(lambda recorder: recorder.feed(chunk))

    async def feed_sse(self, data: bytes) -> None:
        """Take bytes of an AI SDK server-sent-event body."""
        await self._call(lambda recorder: recorder.feed_sse(data))

    async def flush(self) -> None:
        """Store everything taken so far, so that it survives even a power cut."""
        await self._call(lambda recorder: recorder.flush())

    async def abort(self, reason: str | None = None) -> None:
        """Write down that the run was stopped."""
        await self._call(lambda recorder: recorder.abort(reason))

    async def close(self, error: BaseException | None = None) -> None:
        """Complete the message and write down why the run ended."""
        await self._call(lambda recorder: recorder.close(error))

    async def through(self, stream: AsyncIterable[C]) -> AsyncIterator[C]:
        """Record a stream on its way: each chunk is passed on once it is stored."""
        async for chunk in stream:
            await self.feed(chunk)
            yield chunk

    @property
    def recorder(self) -> Recorder:
        """The recorder underneath: its message, ids and violations."""
        return self._opened()

    async def __aenter__(self) -> Self:
        """Record inside an `async with` block."""
        await self._call(lambda _: None)
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Close the recorder; an exception is written down as the end of the run."""
        await self.close(error)


# ------------------------------------------------------------------------------
# The async face of the session store.


@with_twins(STATE)
class AsyncSessionDB(StateVerbs):
    """A SessionDB whose verbs are awaited; see SessionDB for what each does."""

    def __init__(self, store: SessionDB) -> None:
        """Give an open store an async face; it is closed with it."""
        self.store = store
        self.pools = Pools(store.database.name)

    @classmethod
    async def open(cls, path: str | Path | None = None, **options: Any) -> Self:
        """Open a state file, with the options of `SessionDB`."""
        return cls(await asyncio.to_thread(partial(SessionDB, path, **options)))

    async def close(self) -> None:
        """Close the store; once is enough."""
        await self.pools.close(self.store.close)

    async def __aenter__(self) -> Self:
        """Use the store in an `async with` block, which closes it."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the store."""
        await self.close()
