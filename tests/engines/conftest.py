"""The PostgreSQL server of the run."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.support.postgres import connect, running_server


@pytest.fixture(scope="session")
def server(
    tmp_path_factory: pytest.TempPathFactory, worker_id: str
) -> Iterator[psycopg.Connection[Any]]:
    """Give a connection to the server, which is started when the first test asks for it."""
    folder = tmp_path_factory.getbasetemp()
    run = folder if worker_id == "master" else folder.parent
    with running_server(run) as place, connect(place) as connection:
        yield connection
