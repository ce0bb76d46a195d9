"""The contract holds on a file that today's Hermes made, too."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.hermes_today import make_hermes_state
from threadkeep.state.session_db import SessionDB
from threadkeep.testing import StateFactory
from threadkeep.testing.state_suite import *  # noqa: F403


class HermesFiles(StateFactory):
    """Session stores in files of schema 26, with Hermes's two indexes."""

    def place(self, store: SessionDB | None = None) -> str:
        place = super().place(store)
        if store is None:
            Path(place).parent.mkdir(parents=True)
            make_hermes_state(Path(place))
        return place


@pytest.fixture
def state_factory() -> Iterator[StateFactory]:
    with HermesFiles() as factory:
        yield factory
