"""The contract suites run once for each engine; those below a folder `sqlite` are about its files.

A suite knows its stores by a factory of `threadkeep.testing`, never by a path.
"""

import pytest

from threadkeep.testing import FACTORIES


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give every test that asks for a store each engine that there is."""
    if "store_engine" in metafunc.fixturenames:
        of_sqlite = "sqlite" in metafunc.definition.path.parts
        engines = ["sqlite"] if of_sqlite else sorted(FACTORIES)
        metafunc.parametrize("store_engine", engines, scope="session")
