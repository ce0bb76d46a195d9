"""A factory, a store for a whole file of tests, and a transaction in it that leaves no trace."""

from collections.abc import Iterator

import pytest

from tests.support.tickets import Factory, undone
from threadkeep.base.tx import Tx
from threadkeep.knowledge.store import KnowledgeStore


@pytest.fixture
def factory(knowledge_factory: Factory) -> Factory:
    return knowledge_factory


@pytest.fixture(scope="module")
def store(lasting_factory: Factory) -> KnowledgeStore:
    return lasting_factory.open()


@pytest.fixture
def tx(store: KnowledgeStore) -> Iterator[Tx]:
    with undone(store) as tx:
        yield tx
