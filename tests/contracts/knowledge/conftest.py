"""A store for a whole file of tests, and a transaction in it that leaves no trace."""

from collections.abc import Iterator

import pytest

from tests.support.tickets import undone
from threadkeep.base.tx import Tx
from threadkeep.knowledge.store import KnowledgeStore


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeStore]:
    with KnowledgeStore.open(tmp_path_factory.mktemp("knowledge") / "knowledge.db") as store:
        yield store


@pytest.fixture
def tx(store: KnowledgeStore) -> Iterator[Tx]:
    with undone(store) as tx:
        yield tx
