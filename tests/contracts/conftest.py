"""The contract suites run once for each engine; those below a folder `sqlite` are about its files.

A suite knows its stores by a factory of `threadkeep.testing`, never by a path.
"""

from typing import Any

import pytest

from tests.support.postgres_stores import (
    ABOUT_FILES,
    FACTORIES_OF_POSTGRES,
    use_server,
)
from tests.support.remote import ABOUT_THE_PROCESS, RemoteChatFactory, RemoteStateFactory
from threadkeep.testing import FACTORIES, StoreFactory

# The remote client over a server on loopback is one more engine of these two.
REMOTE: dict[str, type[StoreFactory[Any]]] = {
    "chat": RemoteChatFactory,
    "state": RemoteStateFactory,
}
LEFT_OUT = {"remote": ABOUT_THE_PROCESS, "postgres": ABOUT_FILES}
FACTORIES["remote"] = REMOTE
FACTORIES["postgres"] = FACTORIES_OF_POSTGRES


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give every test that asks for a store each engine that there is."""
    if "store_engine" in metafunc.fixturenames:
        parts = set(metafunc.definition.path.parts)
        known = [engine for engine in sorted(FACTORIES) if FACTORIES[engine].keys() & parts]
        engines = ["sqlite"] if "sqlite" in parts else known
        metafunc.parametrize("store_engine", engines, scope="session", indirect=True)


@pytest.fixture(scope="session")
def store_engine(request: pytest.FixtureRequest) -> str:
    """Name the engine whose stores are made; a server is started for the first that needs it."""
    engine = str(request.param)
    if engine == "postgres":
        use_server(request.getfixturevalue("server_url"))
    return engine


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what an engine cannot have, such as the process that has a store open."""
    for item in items:
        name, _, given = item.name.partition("[")
        engines = LEFT_OUT.keys() & given.rstrip("]").split("-")
        left_out = LEFT_OUT[engines.pop()] if engines else {}
        reason = left_out.get(item.name, left_out.get(name))
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))
