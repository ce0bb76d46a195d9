"""What most tests of the session store begin with: a factory, a clock, an empty store, a talk."""

from collections.abc import Callable
from functools import partial

import pytest

from tests.support.states import Clock, Factory, talk
from threadkeep.state.session_db import SessionDB


@pytest.fixture
def factory(state_factory: Factory) -> Factory:
    return state_factory


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def db(factory: Factory, clock: Clock) -> SessionDB:
    return factory.open(clock=clock)


@pytest.fixture(params=["ours", 26, 999])
def form(request: pytest.FixtureRequest, store_engine: str) -> str | int:
    """Return the form a store is made in: ours, and those of newer programs, which are files."""
    if request.param != "ours" and store_engine != "sqlite":
        pytest.skip("other programs have files of SQLite alone")
    chosen: str | int = request.param
    return chosen


@pytest.fixture
def make(db: SessionDB) -> Callable[..., list[int]]:
    """Return `make(session_id, *texts, source="cli")`: a session in which these texts were said."""
    return partial(talk, db)
