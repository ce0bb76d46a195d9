"""What most tests of the session store begin with: a fake clock, an empty store, a way to talk."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support.states import Clock, open_state, talk
from threadkeep.state.session_db import SessionDB


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def db(tmp_path: Path, clock: Clock) -> Iterator[SessionDB]:
    with open_state(tmp_path / "state.db", clock) as opened:
        yield opened


@pytest.fixture
def make(db: SessionDB) -> Callable[..., list[int]]:
    """Give `make(session_id, *texts, source="cli")`: a session in which these texts were said."""
    return partial(talk, db)
