"""One captured demo history for all tests here: nothing of it is changed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REPO
from tests.support.user_homes import open_history
from threadkeep.capture.capture import History

DEMO = REPO / "src" / "threadkeep" / "demo" / "history"


@pytest.fixture(scope="session")
def demo_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home into which the demo was captured."""
    home = tmp_path_factory.mktemp("demo") / "home"
    with open_history(home, DEMO) as history:
        history.capture()
    return home


@pytest.fixture(scope="session")
def demo(demo_home: Path) -> Iterator[History]:
    with open_history(demo_home, DEMO) as history:
        yield history
