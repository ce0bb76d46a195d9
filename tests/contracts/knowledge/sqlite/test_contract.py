"""The contract holds in files of schema 23, Hippo's newest, too."""

from collections.abc import Iterator
from typing import Any

import pytest

from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.testing import KnowledgeFactory
from threadkeep.testing.knowledge_suite import *  # noqa: F403


class NewerFiles(KnowledgeFactory):
    """Knowledge stores of schema 23."""

    def connect(self, place: str, **options: Any) -> KnowledgeStore:
        return super().connect(place, **{"schema": 23, **options})


@pytest.fixture
def knowledge_factory() -> Iterator[KnowledgeFactory]:
    with NewerFiles() as factory:
        yield factory
