"""The contract suites run once for each engine; those below a folder `sqlite` are about its files.

A suite knows its stores by a factory of `threadkeep.testing`, never by a path.
"""

from typing import Any

import pytest

from tests.support.remote import ABOUT_THE_PROCESS, RemoteChatFactory, RemoteStateFactory
from threadkeep.testing import FACTORIES, StoreFactory

# The remote client over a server on loopback is one more engine of these two.
REMOTE: dict[str, type[StoreFactory[Any]]] = {
    "chat": RemoteChatFactory,
    "state": RemoteStateFactory,
}
FACTORIES["remote"] = REMOTE


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give every test that asks for a store each engine that there is."""
    if "store_engine" in metafunc.fixturenames:
        parts = metafunc.definition.path.parts
        remote = {"remote"} - ({"remote"} if REMOTE.keys() & set(parts) else set())
        engines = ["sqlite"] if "sqlite" in parts else sorted(FACTORIES.keys() - remote)
        metafunc.parametrize("store_engine", engines, scope="session")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what is about the process that has a store open, where that is another one."""
    for item in items:
        name, _, engine = item.name.partition("[")
        reason = ABOUT_THE_PROCESS.get(item.name, ABOUT_THE_PROCESS.get(name))
        if reason is not None and engine.startswith("remote"):
            item.add_marker(pytest.mark.skip(reason=reason))
