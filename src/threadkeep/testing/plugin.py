"""The plugin for pytest: a fixture for each contract, which makes stores of one engine."""

from collections.abc import Iterator
from typing import Any

import pytest

from threadkeep.testing.factories import FACTORIES, StoreFactory


@pytest.fixture(scope="session")
def store_engine() -> str:
    """Name the engine of FACTORIES whose stores are made; override it for another."""
    return "sqlite"


@pytest.fixture
def chat_factory(store_engine: str) -> Iterator[StoreFactory[Any]]:
    """Make chat stores that are gone after the test."""
    with FACTORIES[store_engine]["chat"]() as factory:
        yield factory


@pytest.fixture
def state_factory(store_engine: str) -> Iterator[StoreFactory[Any]]:
    """Make session stores that are gone after the test."""
    with FACTORIES[store_engine]["state"]() as factory:
        yield factory


@pytest.fixture
def mailbox_factory(store_engine: str) -> Iterator[StoreFactory[Any]]:
    """Make mailboxes that are gone after the test."""
    with FACTORIES[store_engine]["mailbox"]() as factory:
        yield factory


@pytest.fixture
def mailroom_factory(store_engine: str) -> Iterator[StoreFactory[Any]]:
    """Make mailrooms that are gone after the test."""
    with FACTORIES[store_engine]["mailroom"]() as factory:
        yield factory


@pytest.fixture
def knowledge_factory(store_engine: str) -> Iterator[StoreFactory[Any]]:
    """Make knowledge stores that are gone after the test."""
    with FACTORIES[store_engine]["knowledge"]() as factory:
        yield factory
