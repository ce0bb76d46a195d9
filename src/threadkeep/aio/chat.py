"""The async face of the chat store: the same verbs, run in threads so the loop never waits."""

import asyncio
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

from threadkeep.aio.pools import Pools, reads, to_the_end, writes
from threadkeep.chat.recorder import Recorder
from threadkeep.chat.records import Event, Json, SessionRef, ref_id
from threadkeep.chat.store import ChatStore
from threadkeep.chat.tail import LOOK_AFTER, read_events

R = TypeVar("R")
C = TypeVar("C", bound=Json | str | bytes)

_POLL_FIRST, _POLL_LAST = 0.002, 0.05


class AsyncChatStore:
    """A ChatStore whose verbs are awaited; see ChatStore for what each does."""

    def __init__(self, store: ChatStore) -> None:
        """Give an open store an async face; it is closed with it."""
        self.store = store
        self.pools = Pools(store.path)

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
        """Give a session's chunks as they commit; see `ChatStore.tail`."""
        session_id = ref_id(session, "session")
        await self.session(session_id)
        context = self.store.context
        context.db.follow()
        try:
            quiet_since = time.monotonic()
            while True:
                seen = await self.pools.read(context.db.changes)
                events, running = await self.pools.read(
                    partial(read_events, context, session_id, after)
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
            context.db.unfollow()

    async def _changed(self, seen: int, deadline: float) -> None:
        """Wait for a commit on the loop's time: a waiting tail holds no thread."""
        pause = _POLL_FIRST
        while await self.pools.read(self.store.context.db.changes) == seen:
            if time.monotonic() >= deadline:
                return
            await asyncio.sleep(pause)
            pause = min(pause * 2, _POLL_LAST)

    async def export(self, session: SessionRef, format: str = "jsonl") -> AsyncIterator[str]:  # noqa: A002
        """Give a session as text, piece by piece; see `ChatStore.export`."""
        async for piece in self.pools.pieces(partial(self.store.export, session, format)):
            yield piece

    async def export_all(self, format: str = "jsonl", **filters: Any) -> AsyncIterator[str]:  # noqa: A002
        """Give many sessions as text, piece by piece; see `ChatStore.export_all`."""
        async for piece in self.pools.pieces(partial(self.store.export_all, format, **filters)):
            yield piece

    create_session = writes(ChatStore.create_session)
    session = reads(ChatStore.session)
    sessions = reads(ChatStore.sessions)
    set_title = writes(ChatStore.set_title)
    set_metadata = writes(ChatStore.set_metadata)
    set_permissions = writes(ChatStore.set_permissions)
    archive = writes(ChatStore.archive)
    unarchive = writes(ChatStore.unarchive)
    delete = writes(ChatStore.delete)
    say = writes(ChatStore.say)
    put_message = writes(ChatStore.put_message)
    ui_messages = reads(ChatStore.ui_messages)
    message = reads(ChatStore.message)
    search = reads(ChatStore.search)
    timeline = reads(ChatStore.timeline)
    find_session = reads(ChatStore.find_session)
    find_message = reads(ChatStore.find_message)
    import_sessions = writes(ChatStore.import_sessions)
    diff = reads(ChatStore.diff)
    record_usage = writes(ChatStore.record_usage)
    spend = reads(ChatStore.spend)
    repair_orphans = writes(ChatStore.repair_orphans)
    rewind = writes(ChatStore.rewind)
    unrewind = writes(ChatStore.unrewind)
    fork = writes(ChatStore.fork)
    compact = writes(ChatStore.compact)
    enqueue = writes(ChatStore.enqueue)
    queued = reads(ChatStore.queued)
    fire = writes(ChatStore.fire)
    unfire = writes(ChatStore.unfire)
    cancel = writes(ChatStore.cancel)
    judge = writes(ChatStore.judge)
    runs = reads(ChatStore.runs)
    put_system_prompt = writes(ChatStore.put_system_prompt)
    system_prompt = reads(ChatStore.system_prompt)
    backup = writes(ChatStore.backup)
    verify = reads(ChatStore.verify)
    size = reads(ChatStore.size)
    prune = writes(ChatStore.prune)
    vacuum = writes(ChatStore.vacuum)
    reindex = writes(ChatStore.reindex)
    rebuild = writes(ChatStore.rebuild)
    compact_log = writes(ChatStore.compact_log)


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
