"""Reading beside a program that writes without a write-ahead log."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from threadkeep.base.sqlite import database
from threadkeep.base.sqlite.connect import wait_to_read
from threadkeep.base.sqlite.database import Courtesy


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "plain.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (a)")
    return path


@pytest.fixture
def writer(path: Path) -> Iterator[sqlite3.Connection]:
    """Another program in the middle of a commit."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        yield connection


def test_a_reader_gets_in_as_soon_as_the_writer_has_committed(
    path: Path, writer: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            writer.execute("COMMIT")

    monkeypatch.setattr(time, "sleep", sleep)
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("PRAGMA busy_timeout = 1234")
        assert wait_to_read(reader, 60)
        assert not wait_to_read(reader, 60)  # nobody writes now
        assert reader.execute("PRAGMA busy_timeout").fetchone() == (1234,)
    assert pauses == [0.001] * 3


def test_patience_ends(path: Path, writer: sqlite3.Connection) -> None:
    assert writer.in_transaction
    with closing(sqlite3.connect(path)) as reader, pytest.raises(sqlite3.OperationalError):
        wait_to_read(reader, 0)


@pytest.mark.parametrize("took, rest", [(0.001, 0.04), (0.02, 0.18), (3.0, 0.5)])
def test_a_busy_writer_is_left_alone_after_a_look(
    monkeypatch: pytest.MonkeyPatch, took: float, rest: float
) -> None:
    clock, pauses = [100.0], list[float]()
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(time, "sleep", pauses.append)
    monkeypatch.setattr(database, "wait_to_read", lambda *_: True)
    with closing(sqlite3.connect(":memory:")) as connection:
        looks = Courtesy()
        began = looks.begin(connection, 30)
        clock[0] += took
        looks.end(began)
        assert pauses == []
        looks.begin(connection, 30)
        assert pauses == [pytest.approx(rest)]
        clock[0] += 1
        looks.begin(connection, 30)
        assert len(pauses) == 1


def test_where_nobody_writes_nothing_is_rested(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        assert Courtesy().begin(connection, 30) == 0
