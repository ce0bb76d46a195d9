"""Settings: every connection has them all, and a build that refuses one is refused itself."""

import sqlite3
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.children import add, table
from threadkeep.base.sqlite import pragmas
from threadkeep.base.sqlite.database import SqliteDatabase
from threadkeep.base.tx import Sql
from threadkeep.errors import ReadOnly, UnsupportedEngine


def expected(*groups: tuple[pragmas.Pragma, ...]) -> dict[str, int | str]:
    """A later group overrides an earlier one."""
    return {pragma.name: pragma.reads_back for group in groups for pragma in group}


def settings(connection: sqlite3.Connection, names: dict[str, int | str]) -> dict[str, int | str]:
    rows = {name: connection.execute(f"PRAGMA {name}").fetchone() for name in names}
    return {name: names[name] if row is None else row[0] for name, row in rows.items()}


@pytest.mark.parametrize("read_only", [False, True])
def test_every_read_connection_has_every_setting(tmp_path: Path, *, read_only: bool) -> None:
    with (
        table(tmp_path / "a.db"),
        SqliteDatabase(tmp_path / "a.db", {}, read_only=read_only) as database,
    ):
        database.changes()
        wanted = expected(pragmas.CONNECTION, pragmas.READER)
        with database.read(), database.read():
            lent = list(database._readers._lent)
            watcher = database._readers._watcher
            assert watcher is not None
            assert len(lent) == 2
            assert [settings(c, wanted) for c in (*lent, watcher)] == [wanted] * 3


def test_the_writer_has_every_setting_before_and_after_a_write(tmp_path: Path) -> None:
    with table(tmp_path / "a.db") as database:
        wanted = expected(pragmas.CONNECTION, pragmas.WRITER)
        assert settings(database.writer.connect(), wanted) == wanted
        add(database, "x")
        assert settings(database.writer.connect(), wanted) == wanted


def test_a_read_connection_cannot_write(tmp_path: Path) -> None:
    with (
        table(tmp_path / "a.db") as database,
        pytest.raises(ReadOnly, match="readonly"),
        database.read() as tx,
    ):
        tx.run(Sql("INSERT INTO t(body) VALUES('x')"))


def test_deleted_text_is_overwritten_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with table(path) as database:
        add(database, "a very particular secret")
        with database.write() as tx:
            tx.run(Sql("DELETE FROM t"))
    assert b"particular" not in path.read_bytes()


class StubbornConnection:
    """A SQLite build that answers a setting with what it likes."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self._answers = answers

    def execute(self, sql: str) -> "StubbornConnection":
        self._name = sql.removeprefix("PRAGMA ").split(" ")[0]
        return self

    def fetchone(self) -> Any:
        return self._answers[self._name]


def test_a_setting_that_is_not_taken_is_refused() -> None:
    answers: dict[str, Any] = {p.name: (p.reads_back,) for p in pragmas.CONNECTION}
    stubborn = cast("sqlite3.Connection", StubbornConnection({**answers, "foreign_keys": (0,)}))
    with pytest.raises(UnsupportedEngine, match="foreign_keys"):
        pragmas.apply(stubborn, pragmas.CONNECTION)


def test_a_build_without_memory_mapping_is_fine() -> None:
    answers: dict[str, Any] = {p.name: (p.reads_back,) for p in pragmas.CONNECTION}
    without = cast("sqlite3.Connection", StubbornConnection({**answers, "mmap_size": None}))
    pragmas.apply(without, pragmas.CONNECTION)


@pytest.mark.parametrize(
    "version, affected",
    [
        ((3, 7, 0), True),
        ((3, 40, 1), True),
        ((3, 44, 5), True),
        ((3, 44, 6), False),
        ((3, 45, 0), True),
        ((3, 50, 6), True),
        ((3, 50, 7), False),
        ((3, 51, 0), True),
        ((3, 51, 2), True),
        ((3, 51, 3), False),
        ((3, 54, 1), False),
        ((4, 0, 0), False),
    ],
)
def test_versions_with_the_wal_reset_race_are_known(
    version: tuple[int, int, int], *, affected: bool
) -> None:
    assert pragmas.wal_reset_race(version) is affected
