"""Opening: what is created, brought up, only read, or refused; and what a version means."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.faults.old_knowledge_files import make_old_knowledge
from tests.support.knowledge import ask, assert_sound, bring_up, clock, do, objects
from threadkeep.base.database import Database
from threadkeep.base.tx import Sql
from threadkeep.errors import Damaged, Invalid, NotFound, ReadOnly, SchemaMismatch
from threadkeep.knowledge.opening import KnowledgeFile, open_knowledge, refuse_write
from threadkeep.knowledge.schema import explain_version, write_version

WRITE = "INSERT INTO sha_watchlist VALUES ('abc', 'o/r', 1, 2, NULL, 0)"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "knowledge.db"


def of_version(path: Path, version: int) -> None:
    """Make a sound file that says it is of a later version."""
    bring_up(path)
    do(path, f"PRAGMA user_version = {version}")


def opened(path: Path, *, read_only: bool = False) -> KnowledgeFile:
    return open_knowledge(path, lambda _: {}, read_only=read_only, clock=clock)


def test_a_missing_file_is_created_and_can_be_written(path: Path) -> None:
    database, access = opened(path)
    with closing(database), database.write() as tx:
        tx.run(Sql(WRITE))
    assert access.writable
    assert access.finding.kind == "current"
    refuse_write(access)
    assert ask(path, "SELECT sha FROM sha_watchlist") == [("abc",)]


def test_an_empty_file_is_filled(path: Path) -> None:
    path.touch()
    bring_up(path)
    assert ask(path, "PRAGMA user_version") == [(18,)]


@pytest.mark.parametrize("version", [24, 1000])
def test_a_newer_file_is_opened_to_be_read(path: Path, version: int) -> None:
    of_version(path, version)
    before = path.read_bytes()
    database, access = opened(path)
    with closing(database):
        assert not access.writable
        assert f"version {version}" in access.finding.cause
        with database.read() as tx:
            assert tx.one(Sql("SELECT count(*) FROM source_health")) == (8,)
        with pytest.raises(SchemaMismatch, match="upgrade threadkeep"):
            refuse_write(access)
        with pytest.raises(ReadOnly), database.write():
            pass
    assert path.read_bytes() == before


@pytest.mark.parametrize("version", range(19, 23))
def test_a_file_between_two_versions_goes_on_to_the_next(path: Path, version: int) -> None:
    of_version(path, version)
    database, access = opened(path, read_only=True)
    with closing(database):
        assert f"version {version}" in access.finding.cause
    database, access = opened(path)
    with closing(database):
        assert access.writable
    assert ask(path, "PRAGMA user_version") == [(23,)]
    assert_sound(path)


def test_to_be_read_only_a_file_must_be_of_today(path: Path) -> None:
    make_old_knowledge(path, 9)
    with pytest.raises(SchemaMismatch, match=r"version 9.*knowledge migrate"):
        opened(path, read_only=True)
    assert ask(path, "PRAGMA user_version") == [(9,)]


def test_a_file_opened_to_be_read_refuses_to_be_written(path: Path) -> None:
    bring_up(path)
    database, access = opened(path, read_only=True)
    with closing(database), pytest.raises(ReadOnly, match="open it for writing"):
        refuse_write(access)


def test_to_be_read_a_file_must_be_there(path: Path) -> None:
    with pytest.raises(NotFound):
        opened(path, read_only=True)


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE notes (id INTEGER)"],
        ["CREATE TABLE sessions (id TEXT)", "CREATE TABLE events (id TEXT)"],
        ["CREATE TABLE sessions (id TEXT)", "PRAGMA user_version = 18"],
        [
            "CREATE TABLE sessions (id TEXT)",
            "CREATE TABLE events (id TEXT)",
            "PRAGMA user_version = 5",
        ],
    ],
)
def test_another_programs_file_is_left_alone(
    path: Path, statements: list[str], *, read_only: bool
) -> None:
    do(path, *statements)
    before = objects(path)
    with pytest.raises(Invalid, match="this file was not touched"):
        opened(path, read_only=read_only)
    assert objects(path) == before


def test_what_is_no_database_is_refused(path: Path) -> None:
    path.write_text("no database, but a text that is long enough to look at" * 40)
    with pytest.raises(Damaged, match="not a SQLite database"):
        opened(path)


def test_memory_is_refused() -> None:
    with pytest.raises(Invalid, match="is a file"):
        open_knowledge(":memory:", lambda _: {})


def test_a_file_that_grows_newer_under_us_is_written_no_more(path: Path) -> None:
    database, _ = opened(path)
    with closing(database):
        with closing(sqlite3.connect(path)) as newer:
            newer.execute("CREATE TABLE tables_of_tomorrow (id INTEGER)")
            newer.execute("PRAGMA user_version = 19")
        with pytest.raises(SchemaMismatch, match="schema version 19"), database.write() as tx:
            tx.run(Sql(WRITE))
    assert ask(path, "SELECT * FROM sha_watchlist") == []


def test_the_callers_backup_is_asked_once_and_before_anything_changes(path: Path) -> None:
    make_old_knowledge(path, 12)
    asked: list[tuple[str, int]] = []

    def backup(database: Database, reason: str) -> None:
        with database.read() as tx:
            asked.append((reason, tx.value(Sql("PRAGMA user_version"))))

    open_knowledge(path, lambda _: {}, backup=backup, clock=clock).database.close()
    assert asked == [("before-knowledge-18", 12)]


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
def test_the_journal_mode_of_a_file_is_kept(path: Path, journal: str) -> None:
    make_old_knowledge(path, 5, journal=journal)
    bring_up(path)
    assert ask(path, "PRAGMA journal_mode") == [(journal.lower(),)]
    assert_sound(path)


def test_a_file_with_vectors_comes_up_without_the_extension_that_made_them(path: Path) -> None:
    make_old_knowledge(path, 12)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE knowledge_vectors_chunks (id INTEGER PRIMARY KEY)")
        connection.execute("CREATE TABLE embed_model_meta (id INTEGER PRIMARY KEY, model TEXT)")
        connection.execute("PRAGMA writable_schema = ON")
        create = (
            "CREATE VIRTUAL TABLE knowledge_vectors USING vec0(id INTEGER PRIMARY KEY, v FLOAT[8])"
        )
        row = ("table", "knowledge_vectors", "knowledge_vectors", 0, create)
        connection.execute("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", row)
    bring_up(path)
    assert ask(path, "PRAGMA user_version") == [(18,)]
    counted = "SELECT count(*) FROM sqlite_master WHERE name LIKE 'knowledge_vectors%'"
    assert ask(path, counted) == [(2,)]


# ------------------------------------------------------------ what a version means


@given(st.integers(-(2**31), 2**31 - 1))
def test_every_version_has_a_cause_and_a_way_on(version: int) -> None:
    finding = explain_version(version)
    assert finding.version == version
    assert finding.cause
    assert bool(finding.fix) == (version not in {18, 23})
    assert finding.readable == (version >= 18)
    assert finding.writable == (0 <= version <= 23)


@pytest.mark.parametrize("version", [1, 17, 19, 22, 24])
def test_nobody_is_told_to_set_the_version_by_hand(version: int) -> None:
    assert "do not set user_version by hand" in explain_version(version).fix


def test_a_negative_version_is_damage(path: Path) -> None:
    bring_up(path)
    with closing(opened(path).database) as database, database.write() as tx:
        write_version(tx, -3)
    with pytest.raises(Damaged, match="version is -3"):
        opened(path)
