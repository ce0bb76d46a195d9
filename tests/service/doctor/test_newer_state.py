"""A session file that Hermes has brought further is no trouble; one that we must not write is."""

from pathlib import Path

import pytest

from tests.support.knowledge import do
from tests.support.newer_states import make_newer_state
from threadkeep.errors import SchemaMismatch
from threadkeep.home.home import Home
from threadkeep.service.doctor.doctor import diagnose


def told(home: Home) -> list[str]:
    found = diagnose(home, version="1.0").findings
    return [str(one) for one in found if "state.db" in str(one) and one.level != "ok"]


@pytest.mark.parametrize("number", [7, 26, 999])
def test_a_higher_number_is_no_trouble(tmp_path: Path, number: int) -> None:
    home = Home(tmp_path / "home", environ={"HOME": str(tmp_path / "user")})
    home.paths().data.mkdir(parents=True)
    path = home.paths().data / "state.db"
    make_newer_state(path, number)
    path.chmod(0o600)
    assert told(home) == []
    with home.state() as state:
        state.create_session("s", "cli")


def test_a_column_that_must_be_filled_is_named(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", environ={"HOME": str(tmp_path / "user")})
    home.paths().data.mkdir(parents=True)
    path = home.paths().data / "state.db"
    make_newer_state(path, 31)
    do(path, "DROP TABLE messages", "CREATE TABLE messages (id INTEGER PRIMARY KEY, odd NOT NULL)")
    assert any("must be filled" in one for one in told(home))
    with pytest.raises(SchemaMismatch, match="must be filled"):
        home.state()
