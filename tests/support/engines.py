"""The engines that the tests of stores run on, and what an engine cannot have.

A test that asks for a factory of stores (`chat_factory`, `knowledge_factory`, …), or for something
that is made with one, runs once for each engine. It knows its stores by the factory, never by a
path; those below a folder `sqlite`, or without a factory, are about files.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.postgres_stores import ABOUT_FILES, FACTORIES_OF_POSTGRES
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
# Rooms whose tests ask for the stores of another.
_USE: Final = {"capture": "knowledge", "memory": "knowledge"}


def engines_of(test: Path) -> list[str]:
    """Name the engines that have the stores of a test, by its folder."""
    parts = {_USE.get(part, part) for part in test.parts}
    if "sqlite" in parts:
        return ["sqlite"]
    return [engine for engine in sorted(FACTORIES) if FACTORIES[engine].keys() & parts]


def leave_out(items: Iterable[pytest.Item]) -> None:
    """Leave out what an engine cannot have, such as the process that has a store open."""
    for item in items:
        name, _, given = item.name.partition("[")
        engines = LEFT_OUT.keys() & given.rstrip("]").split("-")
        left_out = LEFT_OUT[engines.pop()] if engines else {}
        reason = left_out.get(item.name, left_out.get(name))
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))
