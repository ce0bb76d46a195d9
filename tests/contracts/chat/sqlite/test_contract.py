"""The contract holds on files that were made by other programs, too."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contracts.chat.sqlite.test_layout import MAKERS, Maker
from threadkeep.chat.store import ChatStore
from threadkeep.testing import ChatFactory, raw
from threadkeep.testing.chat_suite import *  # noqa: F403


class ForeignChats(ChatFactory):
    """Chat stores in files whose tables another program made."""

    def __init__(self, make: Maker) -> None:
        super().__init__()
        self._make = make

    def place(self, store: ChatStore | None = None) -> str:
        place = super().place(store)
        if store is None:
            Path(place).parent.mkdir(parents=True)
            with raw(place) as connection:
                self._make(connection)
        return place


@pytest.fixture(params=["the contract's columns", "the author's version 3"])
def chat_factory(request: pytest.FixtureRequest) -> Iterator[ChatFactory]:
    with ForeignChats(MAKERS[request.param]) as factory:
        yield factory
