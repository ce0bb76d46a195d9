"""kill -9 of `serve` at random while agents and shells work: nothing stuck, twice, lost or left."""

from pathlib import Path

import pytest

from tests.faults.serve_kills import serve_under_kills

pytestmark = [pytest.mark.faults, pytest.mark.slow]


def test_killed_at_random_under_load_it_catches_up(tmp_path: Path) -> None:
    done = serve_under_kills(tmp_path, kills=9, seed=801)
    assert done["lines"] > 0
    assert done["commands"] > 0
