"""The async face of the session store has every verb."""

import asyncio
import inspect

from tests.support.states import Factory
from threadkeep.aio import AsyncSessionDB
from threadkeep.state.session_db import SessionDB

STREAMS = {"iter_messages", "iter_export"}


def test_every_verb_can_be_awaited() -> None:
    verbs = {name for name, one in vars(SessionDB).items() if inspect.isfunction(one)}
    public = {name for name in verbs if not name.startswith("_")}
    twins = {name for name, one in vars(AsyncSessionDB).items() if inspect.iscoroutinefunction(one)}
    assert public - twins == STREAMS
    assert all(inspect.isasyncgenfunction(getattr(AsyncSessionDB, name)) for name in STREAMS)


def test_usage_is_queued_and_seen(factory: Factory) -> None:
    async def use() -> int:
        async with await AsyncSessionDB.open(factory.place()) as db:
            await db.create_session("s", "cli")
            await db.queue_token_counts("s", input_tokens=3)
            await db.set_meta("k", "v")
            assert await db.get_meta("k") == "v"
            session = await db.get_session("s")
            return int((session or {})["input_tokens"])

    assert asyncio.run(use()) == 3
