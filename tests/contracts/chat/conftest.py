"""What most tests of the chat store begin with: a factory, its clock, an empty store, a session."""

from collections.abc import Iterator

import pytest

from tests.support.chats import Factory, new_session
from threadkeep.chat.records import Session
from threadkeep.chat.store import ChatStore
from threadkeep.testing import FACTORIES, ManualClock


@pytest.fixture
def factory(chat_factory: Factory) -> Factory:
    return chat_factory


@pytest.fixture
def clock(factory: Factory) -> ManualClock:
    return factory.clock


@pytest.fixture
def store(factory: Factory) -> ChatStore:
    return factory.open()


@pytest.fixture
def session(store: ChatStore) -> Session:
    return new_session(store)


@pytest.fixture(scope="module")
def lasting_store(store_engine: str) -> Iterator[ChatStore]:
    """Return one store for all examples of a property, and all tests of a file."""
    with FACTORIES[store_engine]["chat"]() as factory:
        yield factory.open()
