"""The async face of the chat store: the same verbs, run in threads so the loop never waits."""

import asyncio
import time
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from itertools import islice
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from threadkeep.chat.recorder import Recorder
from threadkeep.chat.records import Event, Json, SessionRef, ref_id
from threadkeep.chat.store import ChatStore
from threadkeep.chat.tail import LOOK_AFTER, read_events

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=Json | str | bytes)

_THREADS = 4
_BATCH = 256
_POLL_FIRST, _POLL_LAST = 0.002, 0.05


def _in_thread(
    verb: Callable[Concatenate[Any, P], R],
) -> Callable[Concatenate[Any, P], Awaitable[R]]:
    """Make the async twin of a store's verb."""

    @wraps(verb)
    async def twin(self: "AsyncChatStore", /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self.run(partial(verb, self.store, *args, **kwargs))

    return twin


class AsyncChatStore:
    """A ChatStore whose verbs are awaited; see ChatStore for what each does."""

    def __init__(self, store: ChatStore) -> None:
        """Give an open store an async face; it is closed with it."""
        self.store = store
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="threadkeep")

    @classmethod
    async def open(cls, path: str | Path, **options: Any) -> Self:
        """Open a chat file, with the options of `ChatStore.open`."""
        return cls(await asyncio.to_thread(partial(ChatStore.open, path, **options)))

    async def run(self, call: Callable[[], R]) -> R:
        """Run something in a thread of this store."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    async def close(self) -> None:
        """Close the store."""
        await self.run(self.store.close)
        self._threads.shutdown(wait=False)

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
        """Give a session's chunks as they commit; see `ChatStore.tail`."""
        session_id = ref_id(session, "session")
        await self.session(session_id)
        context = self.store.context
        context.db.follow()
        try:
            quiet_since = time.monotonic()
            while True:
                seen = await self.run(context.db.changes)
                events, running = await self.run(partial(read_events, context, session_id, after))
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
            context.db.unfollow()

    async def _changed(self, seen: int, deadline: float) -> None:
        """Wait for a commit on the loop's time: a waiting tail holds no thread."""
        pause = _POLL_FIRST
        while await self.run(self.store.context.db.changes) == seen:
            if time.monotonic() >= deadline:
                return
            await asyncio.sleep(pause)
            pause = min(pause * 2, _POLL_LAST)

    async def export(self, session: SessionRef, format: str = "jsonl") -> AsyncIterator[str]:  # noqa: A002
        """Give a session as text, piece by piece; see `ChatStore.export`."""
        async for piece in self._pieces(partial(self.store.export, session, format)):
            yield piece

    async def export_all(self, format: str = "jsonl", **filters: Any) -> AsyncIterator[str]:  # noqa: A002
        """Give many sessions as text, piece by piece; see `ChatStore.export_all`."""
        async for piece in self._pieces(partial(self.store.export_all, format, **filters)):
            yield piece

    async def _pieces(self, begin: Callable[[], Iterator[str]]) -> AsyncIterator[str]:
        pieces = await self.run(begin)
        while batch := await self.run(lambda: list(islice(pieces, _BATCH))):
            for piece in batch:
                yield piece

    create_session = _in_thread(ChatStore.create_session)
    session = _in_thread(ChatStore.session)
    sessions = _in_thread(ChatStore.sessions)
    set_title = _in_thread(ChatStore.set_title)
    set_metadata = _in_thread(ChatStore.set_metadata)
    set_permissions = _in_thread(ChatStore.set_permissions)
    archive = _in_thread(ChatStore.archive)
    unarchive = _in_thread(ChatStore.unarchive)
    delete = _in_thread(ChatStore.delete)
    say = _in_thread(ChatStore.say)
    put_message = _in_thread(ChatStore.put_message)
    ui_messages = _in_thread(ChatStore.ui_messages)
    message = _in_thread(ChatStore.message)
    search = _in_thread(ChatStore.search)
    timeline = _in_thread(ChatStore.timeline)
    find_session = _in_thread(ChatStore.find_session)
    find_message = _in_thread(ChatStore.find_message)
    import_sessions = _in_thread(ChatStore.import_sessions)
    diff = _in_thread(ChatStore.diff)
    record_usage = _in_thread(ChatStore.record_usage)
    spend = _in_thread(ChatStore.spend)
    repair_orphans = _in_thread(ChatStore.repair_orphans)
    rewind = _in_thread(ChatStore.rewind)
    unrewind = _in_thread(ChatStore.unrewind)
    fork = _in_thread(ChatStore.fork)
    compact = _in_thread(ChatStore.compact)
    enqueue = _in_thread(ChatStore.enqueue)
    queued = _in_thread(ChatStore.queued)
    fire = _in_thread(ChatStore.fire)
    unfire = _in_thread(ChatStore.unfire)
    cancel = _in_thread(ChatStore.cancel)
    judge = _in_thread(ChatStore.judge)
    runs = _in_thread(ChatStore.runs)
    put_system_prompt = _in_thread(ChatStore.put_system_prompt)
    system_prompt = _in_thread(ChatStore.system_prompt)
    backup = _in_thread(ChatStore.backup)
    verify = _in_thread(ChatStore.verify)
    size = _in_thread(ChatStore.size)
    prune = _in_thread(ChatStore.prune)
    vacuum = _in_thread(ChatStore.vacuum)
    reindex = _in_thread(ChatStore.reindex)
    rebuild = _in_thread(ChatStore.rebuild)
    compact_log = _in_thread(ChatStore.compact_log)


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
            step = asyncio.ensure_future(self._store.run(lambda: act(self._opened())))
            try:
                return await asyncio.shield(step)
            except asyncio.CancelledError:
                await asyncio.wait([step])
                raise

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
