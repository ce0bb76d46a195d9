"""The async face: the same verbs, and nothing a cancelled task or a closed store can break."""

import asyncio
import random
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, assert_type

import pytest

from tests.contracts.chat.test_recorder import TEXT
from tests.support.chats import Factory
from tests.support.chunks import reduce_chunks
from threadkeep.aio import AsyncChatStore, AsyncRecorder
from threadkeep.base.page import Page
from threadkeep.chat.records import Event, Session
from threadkeep.chat.store import ChatStore
from threadkeep.errors import Closed

Json = dict[str, Any]
STEP, OPEN = TEXT[1], {"type": "text-start", "id": "t"}
_PATIENCE = 60.0  # only a broken store is ever waited for so long


def delta(text: str) -> Json:
    return {"type": "text-delta", "id": "t", "delta": text}


async def let_others_run() -> None:
    """Give every task that could go on the chance to do so, several times over."""
    for _ in range(10):
        await asyncio.sleep(0)


class Gate:
    """A redaction hook that holds whoever stores a text with `hold` in it."""

    def __init__(self) -> None:
        self.entered, self.opened = threading.Event(), threading.Event()
        self.inside = self.most_inside = 0
        self.error: Exception | None = None

    def __call__(self, text: str) -> str:
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        try:
            if "hold" in text:
                self.entered.set()
                assert self.opened.wait(_PATIENCE)
                if self.error is not None:
                    raise self.error
        finally:
            self.inside -= 1
        return text


@asynccontextmanager
async def recording(
    factory: Factory, gate: Gate
) -> AsyncIterator[tuple[AsyncChatStore, AsyncRecorder]]:
    """Return a store and a recorder of the message `m` with an open text."""
    async with await AsyncChatStore.open(factory.place(), redact=gate) as store:
        session = await store.create_session(agent="a", model="m", session_id="s")
        async with store.record(session, "m") as recorder:
            await recorder.feed(OPEN)
            yield store, recorder


async def held_in(recorder: AsyncRecorder, gate: Gate) -> asyncio.Task[None]:
    """Begin a feed that a thread is held in."""
    task = asyncio.create_task(recorder.feed(delta("hold\n")))
    assert await asyncio.to_thread(gate.entered.wait, _PATIENCE)
    return task


def test_async_face_has_every_verb() -> None:
    members = {n: one for n, one in vars(ChatStore).items() if not n.startswith("_")}
    verbs = {name for name, one in members.items() if not isinstance(one, property)}
    inside = {"context", "read_tail"}  # a tail that is awaited is made of it
    assert verbs - inside <= set(dir(AsyncChatStore))


def test_async_face_records_and_tails(factory: Factory) -> None:
    async def scenario() -> tuple[list[Json], list[Json], Json]:
        async with await AsyncChatStore.open(factory.place()) as store:
            session = await store.create_session(agent="a", model="m")
            await store.say(session, "hi")
            seen: list[Event] = []
            started = asyncio.Event()

            async def follow() -> None:
                async for event in store.tail(session, until_idle=True):
                    seen.append(event)
                    started.set()

            async def source() -> Any:
                for chunk in TEXT:
                    yield chunk
                    if chunk is TEXT[0]:
                        follower.append(asyncio.create_task(follow()))
                        await started.wait()

            follower: list[asyncio.Task[None]] = []
            async with store.record(session) as recorder:
                passed = [chunk async for chunk in recorder.through(source())]
            await follower[0]
            chunks = [event.data for event in seen if event.kind == "chunk"]
            return passed, chunks, await store.message(session, "reply")

    passed, seen, message = asyncio.run(scenario())
    assert passed == TEXT
    assert seen == TEXT
    assert message == reduce_chunks(TEXT)


# ---------------------------------------------------------------------- cancellation


def test_cancelled_task_leaves_what_arrived_and_says_abort(factory: Factory) -> None:
    async def scenario() -> tuple[str | None, list[Any]]:
        async with await AsyncChatStore.open(factory.place()) as store:
            session = await store.create_session(agent="a", model="m")
            fed = asyncio.Event()

            async def stream() -> None:
                async with store.record(session) as recorder:
                    for chunk in TEXT[:5]:
                        await recorder.feed(chunk)
                    fed.set()
                    await asyncio.Event().wait()

            task = asyncio.create_task(stream())
            await fed.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            (run,) = await store.runs(session)
            return run.end_reason, (await store.message(session, "reply"))["parts"]

    reason, parts = asyncio.run(scenario())
    assert reason == "abort"
    assert parts == reduce_chunks(TEXT[:5])["parts"]


@pytest.mark.parametrize("cancels", [1, 2, 5])
def test_cancelled_feed_ends_before_the_next_begins(factory: Factory, cancels: int) -> None:
    gate = Gate()

    async def scenario() -> str:
        async with recording(factory, gate) as (store, recorder):
            first = await held_in(recorder, gate)
            second = asyncio.create_task(recorder.feed(delta("two\n")))
            for _ in range(cancels):
                first.cancel()
                await let_others_run()
                assert not first.done()
            gate.opened.set()
            with pytest.raises(asyncio.CancelledError):
                await first
            await second
            text: str = (await store.message("s", "m"))["parts"][0]["text"]
            return text

    assert asyncio.run(scenario()) == "hold\ntwo\n"
    assert gate.most_inside == 1


def test_failure_of_a_cancelled_feed_is_not_lost(factory: Factory) -> None:
    gate = Gate()
    gate.error = ValueError("the hook is broken")

    async def scenario() -> None:
        async with recording(factory, gate) as (_, recorder):
            task = await held_in(recorder, gate)
            task.cancel()
            await let_others_run()
            gate.opened.set()
            with pytest.raises(asyncio.CancelledError) as caught:
                await task
            assert caught.value.__cause__ is gate.error

    asyncio.run(scenario())


def test_storm_of_cancellations_loses_nothing_that_was_acknowledged(factory: Factory) -> None:
    chance = random.Random(7)
    acknowledged: dict[str, int] = {}
    tasks: list[asyncio.Task[None]] = []

    async def stream(store: AsyncChatStore, name: str) -> None:
        async with store.record("s", name) as recorder:
            await recorder.feed(OPEN)
            for number in range(20):
                await recorder.feed(delta(f"{number} "))
                acknowledged[name] = number + 1
                if chance.random() < 0.1:
                    for task in chance.choices(tasks, k=3):  # often itself, or one twice
                        task.cancel()

    async def scenario() -> None:
        async with await AsyncChatStore.open(factory.place()) as store:
            await store.create_session(agent="a", model="m", session_id="s")
            tasks.extend(asyncio.create_task(stream(store, f"m{k}")) for k in range(16))
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            assert {type(end) for end in ends} <= {asyncio.CancelledError, type(None)}
            assert asyncio.CancelledError in map(type, ends)
            for name, count in acknowledged.items():
                words = (await store.message("s", name))["parts"][0]["text"].split()
                assert len(words) >= count
                assert words == [str(number) for number in range(len(words))]
            assert factory.rows(store.store, "SELECT * FROM tk_recordings") == []
            assert all(run.ended_at is not None for run in await store.runs("s"))
            assert (await store.verify()).ok

    asyncio.run(scenario())


# ---------------------------------------------------------------------- closing


def test_closed_store_says_so_and_closes_once(factory: Factory) -> None:
    async def scenario() -> None:
        store = await AsyncChatStore.open(factory.place())
        session = await store.create_session(agent="a", model="m")
        recorder = store.record(session)
        await recorder.feed(STEP)
        await asyncio.gather(store.close(), store.close())
        await store.close()
        for refused in (
            store.session(session),
            store.say(session, "hi"),
            recorder.feed(STEP),
            anext(store.tail(session)),
            anext(store.export(session)),
        ):
            with pytest.raises(Closed, match="was closed"):
                await refused

    asyncio.run(scenario())


def test_waiting_tail_ends_when_the_store_is_closed(
    factory: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        asleep, awake = asyncio.Event(), asyncio.Event()

        async def sleep(_seconds: float) -> None:
            asleep.set()
            await awake.wait()

        store = await AsyncChatStore.open(factory.place())
        session = await store.create_session(agent="a", model="m")
        monkeypatch.setattr(asyncio, "sleep", sleep)
        waiting = asyncio.ensure_future(anext(store.tail(session)))
        await asleep.wait()
        await store.close()
        awake.set()
        with pytest.raises(Closed, match="was closed"):
            await waiting

    asyncio.run(scenario())


def test_cancelled_close_closes_first(factory: Factory) -> None:
    async def scenario() -> None:
        store = await AsyncChatStore.open(factory.place())
        with store.store.context.db.write():  # closing waits for it
            closing = asyncio.create_task(store.close())
            await let_others_run()
            closing.cancel()
            await let_others_run()
            assert not closing.done()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert store.store.context.db.closed

    asyncio.run(scenario())


# ---------------------------------------------------------------------- threads


def test_reading_waits_for_no_writer(factory: Factory) -> None:
    async def scenario() -> None:
        async with await AsyncChatStore.open(factory.place(), budget=10**6) as store:
            session = await store.create_session(agent="a", model="m")
            with store.store.context.db.write():
                writers = [asyncio.create_task(store.say(session, "hi")) for _ in range(40)]
                await let_others_run()
                reading = store.ui_messages(session)
                assert await asyncio.wait_for(reading, _PATIENCE) == []
                assert not any(writer.done() for writer in writers)
            await asyncio.gather(*writers)
            assert len(await store.ui_messages(session)) == 40

    asyncio.run(scenario())


# ---------------------------------------------------------------------- types


def test_awaited_verbs_have_the_types_of_the_store(factory: Factory) -> None:
    """What is asserted here is what mypy sees; it fails where a verb has no types, or others."""

    async def scenario() -> None:
        async with await AsyncChatStore.open(factory.place()) as store:
            session = assert_type(await store.create_session(agent="a", model="m"), Session)
            page = assert_type(await store.sessions(limit=1), Page[Session])
            assert page.items == [session]
            async for line in store.export(session):
                assert session.id in assert_type(line, str)
                return

    asyncio.run(scenario())
