"""What most tests of the chat store begin with: a fake clock, an empty store, a session."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.chats import FakeClock, new_session, open_store
from threadkeep.chat.records import Session
from threadkeep.chat.store import ChatStore


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(tmp_path: Path, clock: FakeClock) -> Iterator[ChatStore]:
    with open_store(tmp_path / "chat.db", clock) as opened:
        yield opened


@pytest.fixture
def session(store: ChatStore) -> Session:
    return new_session(store)
