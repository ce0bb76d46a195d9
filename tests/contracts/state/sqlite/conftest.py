"""A store whose file lies in the test's own folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.states import Clock, open_state
from threadkeep.state.session_db import SessionDB


@pytest.fixture
def db(tmp_path: Path, clock: Clock) -> Iterator[SessionDB]:
    with open_state(tmp_path / "state.db", clock) as opened:
        yield opened
