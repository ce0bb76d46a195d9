"""The PostgreSQL server of the run."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.support.postgres import connect


@pytest.fixture(scope="session")
def server(server_place: str) -> Iterator[psycopg.Connection[Any]]:
    """Return a connection to the server, which is started when the first test asks for it."""
    with connect(server_place) as connection:
        yield connection
