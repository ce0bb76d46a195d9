"""Trouble: each fault of the disk or of other programs is one of our errors, and passes."""

import errno
import os
import resource
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.children import Child, add, bodies, table
from tests.support.disks import fill, read_only, small_disk
from threadkeep.base.files import translate_os
from threadkeep.base.sqlite.database import SqliteDatabase
from threadkeep.base.sqlite.errors import BrokenRule, is_busy, translate
from threadkeep.base.tx import Sql
from threadkeep.errors import (
    Busy,
    Closed,
    Damaged,
    Invalid,
    ReadOnly,
    StorageFull,
    ThreadkeepError,
    TooLarge,
)

PATH = Path("/data/a.db")


def sqlite_error(name: str) -> sqlite3.Error:
    error = sqlite3.OperationalError("what SQLite said")
    error.sqlite_errorcode = getattr(sqlite3, name)
    return error


@pytest.mark.parametrize(
    "name, kind",
    [
        ("SQLITE_BUSY", Busy),
        ("SQLITE_BUSY_RECOVERY", Busy),
        ("SQLITE_LOCKED", Busy),
        ("SQLITE_PROTOCOL", Busy),
        ("SQLITE_FULL", StorageFull),
        ("SQLITE_IOERR_WRITE", StorageFull),
        ("SQLITE_IOERR_FSYNC", StorageFull),
        ("SQLITE_IOERR_SHMSIZE", StorageFull),
        ("SQLITE_IOERR_READ", Damaged),
        ("SQLITE_IOERR_SHORT_READ", Damaged),
        ("SQLITE_IOERR_LOCK", ReadOnly),
        ("SQLITE_CANTOPEN", ReadOnly),
        ("SQLITE_CANTOPEN_ISDIR", ReadOnly),
        ("SQLITE_PERM", ReadOnly),
        ("SQLITE_READONLY", ReadOnly),
        ("SQLITE_READONLY_DIRECTORY", ReadOnly),
        ("SQLITE_READONLY_DBMOVED", Damaged),
        ("SQLITE_CORRUPT", Damaged),
        ("SQLITE_CORRUPT_VTAB", Damaged),
        ("SQLITE_NOTADB", Damaged),
        ("SQLITE_TOOBIG", TooLarge),
        ("SQLITE_CONSTRAINT_FOREIGNKEY", BrokenRule),
        ("SQLITE_CONSTRAINT_UNIQUE", BrokenRule),
        ("SQLITE_ERROR", ThreadkeepError),
    ],
)
def test_every_code_of_sqlite_has_its_error(name: str, kind: type[ThreadkeepError]) -> None:
    error = translate(sqlite_error(name), PATH)
    assert isinstance(error, kind)
    assert str(PATH) in error.message
    assert "what SQLite said" in error.message
    assert error.hint
    assert is_busy(sqlite_error(name)) is (kind is Busy)


def test_misuse_of_the_driver_is_told_apart() -> None:
    connection = sqlite3.connect(":memory:")
    with pytest.raises(sqlite3.Error) as caught:
        connection.execute("SELECT ?", (object(),))
    assert type(translate(caught.value, PATH)) is Invalid
    connection.close()
    with pytest.raises(sqlite3.Error) as caught:
        connection.execute("SELECT 1")
    assert isinstance(translate(caught.value, PATH), Closed)
    assert type(translate(sqlite3.InterfaceError("?"), PATH)) is ThreadkeepError


@pytest.mark.parametrize(
    "number, kind",
    [
        (errno.ENOSPC, StorageFull),
        (errno.EDQUOT, StorageFull),
        (errno.EFBIG, StorageFull),
        (errno.EACCES, ReadOnly),
        (errno.EROFS, ReadOnly),
        (errno.ENOENT, ReadOnly),
    ],
)
def test_errors_of_the_system_have_theirs(number: int, kind: type[ThreadkeepError]) -> None:
    error = translate_os(OSError(number, os.strerror(number)), PATH, "cannot create")
    assert type(error) is kind
    assert error.message == f"cannot create {PATH}: {os.strerror(number)}"
    assert error.hint


# ---------------------------------------------------------------------- a full disk


@contextmanager
def file_size_limit(limit: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "dont_write_bytecode", True)  # it would be cut off at the limit
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_file_size_limit_refuses_the_write_and_no_more(tmp_path: Path) -> None:
    with table(tmp_path / "a.db") as database:
        add(database, "kept")
        with file_size_limit(200_000), pytest.raises(StorageFull, match=r"a\.db"):
            add(database, "x" * 1_000_000)
        assert bodies(database) == ["kept"]
        add(database, "after")
        assert bodies(database) == ["kept", "after"]


def test_a_full_disk_refuses_the_write_and_no_more(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk, table(disk / "a.db") as database:
        add(database, "kept")
        filler = fill(disk)
        with pytest.raises(StorageFull, match="full"):
            add(database, "x" * 100_000)
        assert bodies(database) == ["kept"]
        filler.unlink()
        add(database, "after")
        assert bodies(database) == ["kept", "after"]


CRASHED = """
database = SqliteDatabase(sys.argv[1], {})
with database.write() as tx:
    tx.run(Sql("CREATE TABLE t(id INTEGER PRIMARY KEY, body)"))
with database.write() as tx:
    tx.run(Sql("INSERT INTO t(body) VALUES('in the log')"))
say("ready")
hear()
"""


def leave_a_log(path: Path) -> None:
    """Make a database whose commits are all in the log, as a killed process leaves it."""
    with Child(CRASHED, path) as child:
        child.expect("ready")
        child.kill()


def test_a_log_is_read_even_when_its_index_does_not_fit_on_the_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        leave_a_log(disk / "a.db")
        (disk / "a.db-shm").unlink()
        filler = fill(disk)
        with SqliteDatabase(disk / "a.db", {}) as database:
            assert bodies(database) == ["in the log"]
            assert bodies(database) == ["in the log"]
            with pytest.raises(StorageFull):
                add(database, "x")
            filler.unlink()
            add(database, "after")
            with SqliteDatabase(disk / "a.db", {}) as other:
                assert bodies(other) == ["in the log", "after"]


def test_a_new_file_on_a_full_disk_is_refused(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        filler = fill(disk)
        with pytest.raises(StorageFull):
            SqliteDatabase(disk / "a.db", {})
        filler.unlink()
        with table(disk / "a.db") as database:
            add(database, "x")
            assert bodies(database) == ["x"]


# ---------------------------------------------------------------------- read-only places


def test_a_folder_that_became_read_only_refuses_writing_and_lets_read(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with table(home / "a.db") as database:
        add(database, "x")
    with read_only(home):
        with pytest.raises(ReadOnly, match=r"a\.db"):
            SqliteDatabase(home / "a.db", {})
        with SqliteDatabase(home / "a.db", {}, read_only=True) as database:
            assert bodies(database) == ["x"]
            with pytest.raises(ReadOnly, match="open read-only"):
                add(database, "y")
    with SqliteDatabase(home / "a.db", {}) as database:
        add(database, "y")
        assert bodies(database) == ["x", "y"]


def test_a_log_in_a_read_only_is_never_passed_over(tmp_path: Path) -> None:
    home = tmp_path / "home"
    leave_a_log(home / "a.db")
    with read_only(home), SqliteDatabase(home / "a.db", {}, read_only=True) as database:
        assert bodies(database) == ["in the log"]  # the index is still there
    (home / "a.db-shm").unlink()
    with (
        read_only(home),
        SqliteDatabase(home / "a.db", {}, read_only=True) as database,
        pytest.raises(ReadOnly, match="log beside it"),
    ):
        bodies(database)
    with SqliteDatabase(home / "a.db", {}) as database:
        assert bodies(database) == ["in the log"]


def test_a_read_only_file_says_so_when_it_is_written(tmp_path: Path) -> None:
    with table(tmp_path / "a.db") as database:
        add(database, "x")
    with read_only(tmp_path / "a.db"), SqliteDatabase(tmp_path / "a.db", {}) as database:
        assert bodies(database) == ["x"]
        with pytest.raises(ReadOnly, match="cannot be written"):
            add(database, "y")


# ---------------------------------------------------------------------- damage


def test_a_file_that_is_no_database_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are my notes, not a database\n" * 100)
    before = path.read_bytes()
    with pytest.raises(Damaged, match="not a SQLite database"):
        SqliteDatabase(path, {})
    with pytest.raises(Damaged, match="not a SQLite database"):
        bodies(SqliteDatabase(path, {}, read_only=True))
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["notes.txt", "notes.txt.lock"]


@pytest.mark.parametrize("word", [b"CREATE TABLE", b"CREATE INDEX"])
def test_a_flipped_bit_in_the_schema_is_damage(tmp_path: Path, word: bytes) -> None:
    # SQLite quotes the word it cannot parse, and Python cannot decode that.
    path = tmp_path / "a.db"
    connection = sqlite3.connect(path)
    connection.executescript("CREATE TABLE t (a); CREATE INDEX i ON t (a);")
    connection.close()
    data = bytearray(path.read_bytes())
    data[data.index(word) + len(b"CREATE ")] ^= 0x80
    path.write_bytes(data)
    with pytest.raises(Damaged, match="is damaged") as caught:
        SqliteDatabase(path, {})
    assert "restore" in caught.value.hint


def test_a_damaged_page_is_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with table(path) as database, database.write() as tx:
        tx.run(Sql("CREATE TABLE other(a)"))
        tx.run(Sql("INSERT INTO other VALUES('fine')"))
        tx.run(Sql("INSERT INTO t(body) VALUES('x')"))
        root = tx.value(Sql("SELECT rootpage FROM sqlite_master WHERE name = 't'"))
    with path.open("r+b") as file:
        file.seek((root - 1) * 4096)
        file.write(b"\xff" * 4096)
    with SqliteDatabase(path, {}) as database:
        with pytest.raises(Damaged, match="is damaged"):
            bodies(database)
        with pytest.raises(Damaged, match="is damaged"):
            add(database, "y")
        with database.read() as tx:
            assert tx.one(Sql("SELECT a FROM other")) == ("fine",)
        with database.write() as tx:
            tx.run(Sql("INSERT INTO other VALUES('written')"))


@pytest.mark.parametrize("path", ["", "."])
def test_a_folder_is_no_database(tmp_path: Path, path: str) -> None:
    with pytest.raises(Invalid, match="folder"):
        SqliteDatabase(tmp_path / path, {})


def test_values_that_sqlite_cannot_hold_are_refused(tmp_path: Path) -> None:
    with table(tmp_path / "a.db") as database:
        with pytest.raises(Invalid, match="64 bits"):
            add(database, 2**63)
        with pytest.raises(Invalid, match="not supported"):
            add(database, object())
        with database.write() as tx, pytest.raises(TooLarge):
            tx._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1000)  # type: ignore[union-attr]
            tx.run(Sql("INSERT INTO t(body) VALUES(?)"), ("x" * 2000,))
        with pytest.raises(TooLarge):
            add(database, "x" * 2000)
        add(database, 2**63 - 1)
        assert bodies(database) == [2**63 - 1]
