"""Copies of databases that must not be touched."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.children import Child
from threadkeep.base.sqlite import foreign
from threadkeep.base.sqlite.foreign import copy_untouched
from threadkeep.errors import Busy, Conflict, Damaged, Invalid, NotFound


def build(path: Path, journal: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"PRAGMA journal_mode = {journal}").fetchone()
        connection.execute("CREATE TABLE t (x)")
        connection.execute("INSERT INTO t VALUES (1)")


def rows(path: Path) -> list[tuple[int]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT x FROM t ORDER BY x").fetchall()


def looks(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {e.name: (e.stat().st_mtime_ns, e.read_bytes()) for e in folder.iterdir()}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "there").mkdir()
    return tmp_path / "there" / "a.db"


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
def test_a_file_is_copied_and_nothing_is_left_beside_it(
    source: Path, tmp_path: Path, journal: str
) -> None:
    build(source, journal)
    before = looks(source.parent)
    copy_untouched(source, tmp_path / "copy.db")
    assert looks(source.parent) == before
    assert rows(tmp_path / "copy.db") == [(1,)]


def test_commits_that_are_only_in_the_log_are_copied(source: Path, tmp_path: Path) -> None:
    build(source, "WAL")
    with closing(sqlite3.connect(source)) as writer:
        writer.execute("INSERT INTO t VALUES (2)")
        writer.commit()
        copy_untouched(source, tmp_path / "copy.db")
    assert rows(tmp_path / "copy.db") == [(1,), (2,)]


def change(source: Path) -> None:
    with closing(sqlite3.connect(source)) as writer, writer:
        writer.execute("INSERT INTO t VALUES (2)")


def test_a_file_that_changes_meanwhile_is_copied_anew(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(source, "DELETE")
    times, copy = [0], foreign._copy

    def copy_and_change(file: Path, target: Path, *, still: bool) -> None:
        copy(file, target, still=still)
        times[0] += 1
        if times[0] == 1:
            change(source)

    monkeypatch.setattr(foreign, "_copy", copy_and_change)
    copy_untouched(source, tmp_path / "copy.db")
    assert times == [2]
    assert rows(tmp_path / "copy.db") == [(1,), (2,)]


def test_a_file_that_always_changes_is_given_up(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(source, "DELETE")
    monkeypatch.setattr(foreign, "_copy", lambda *_, **__: change(source))
    with pytest.raises(Busy, match="changed while it was copied"):
        copy_untouched(source, tmp_path / "copy.db")


def test_a_write_that_nobody_finished_is_not_undone_for_a_copy(
    source: Path, tmp_path: Path
) -> None:
    build(source, "DELETE")
    script = """
import sqlite3, signal
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN")
for _ in range(500):
    connection.execute("INSERT INTO t VALUES (randomblob(3000))")
os.kill(os.getpid(), signal.SIGKILL)
"""
    with Child(script, source) as child:
        assert child.end() == -9
    before = looks(source.parent)
    with pytest.raises(Conflict, match="in the middle of a write"):
        copy_untouched(source, tmp_path / "copy.db")
    assert looks(source.parent) == before


def test_what_is_no_database_is_refused(source: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        copy_untouched(source, tmp_path / "copy.db")
    with pytest.raises(Invalid, match="is a folder"):
        copy_untouched(source.parent, tmp_path / "copy.db")
    source.write_bytes(b"no database " * 400)
    with pytest.raises(Damaged):
        copy_untouched(source, tmp_path / "copy.db")
