"""Schemas: a fresh file equals a migrated one, and no crash leaves anything between versions."""

import sqlite3
from pathlib import Path

import pytest

from tests.support.children import Child
from tests.support.toy_schema import OLD, SCHEMA, build_old, contents, read_version
from threadkeep.base.sqlite.backup import list_backups, make_backup
from threadkeep.base.sqlite.database import SqliteDatabase
from threadkeep.base.sqlite.schema import (
    Schema,
    SchemaStep,
    add_missing_columns,
    is_empty,
    prepare,
    refuse_newer,
)
from threadkeep.base.tx import Sql, Tx
from threadkeep.errors import Damaged, Invalid, SchemaMismatch, StorageFull


def no_backup(reason: str) -> None:
    pytest.fail(f"a backup was made: {reason}")


def shape(database: SqliteDatabase) -> list[tuple[str, ...]]:
    """What the file is made of; SQLite keeps the words of each statement."""
    with database.read() as tx:
        rows = tx.all(Sql("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name"))
        return [tuple(" ".join(str(value).split()) for value in row) for row in rows]


def bring_up(database: SqliteDatabase, schema: Schema = SCHEMA) -> list[str]:
    return prepare(database, schema, lambda reason: make_backup(database, reason=reason))


def version_of(database: SqliteDatabase) -> int | None:
    with database.read() as tx:
        return read_version(tx)


def test_a_fresh_file_gets_the_head_and_no_backup(tmp_path: Path) -> None:
    with SqliteDatabase(tmp_path / "a.db", {}) as database:
        assert prepare(database, SCHEMA, no_backup) == []
        assert version_of(database) == 3
        assert prepare(database, SCHEMA, no_backup) == []


@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_older_file_becomes_what_a_fresh_one_is(tmp_path: Path, version: int) -> None:
    build_old(tmp_path / "old.db", version)
    with (
        SqliteDatabase(tmp_path / "new.db", {}) as fresh,
        SqliteDatabase(tmp_path / "old.db", {}) as old,
    ):
        prepare(fresh, SCHEMA, no_backup)
        before = contents(old)
        assert bring_up(old) == ["0001_titles", "0002_lengths", "0003_strict"][version:]
        assert shape(old) == shape(fresh)
        assert version_of(old) == 3
        assert contents(old) == before
        with old.read() as tx:
            assert tx.all(Sql("SELECT DISTINCT length(body) = size FROM notes")) == [(1,)]


def test_a_backup_of_the_old_file_is_made_first(tmp_path: Path) -> None:
    build_old(tmp_path / "a.db", 1)
    with SqliteDatabase(tmp_path / "a.db", {}) as database:
        bring_up(database)
    (backup,) = list_backups(tmp_path / "a.db")
    assert backup.name.endswith("-before-toy-3.db")
    with SqliteDatabase(backup, {}, read_only=True) as old:
        assert version_of(old) == 1
        assert len(contents(old)) == OLD


def test_no_step_runs_when_the_backup_fails(tmp_path: Path) -> None:
    def fail(_reason: str) -> None:
        raise StorageFull

    build_old(tmp_path / "a.db", 0)
    with SqliteDatabase(tmp_path / "a.db", {}) as database:
        with pytest.raises(StorageFull):
            prepare(database, SCHEMA, fail)
        assert version_of(database) == 0


class Crash(BaseException):
    """A power cut, as far as Python can play one."""


def crash(_tx: Tx) -> None:
    raise Crash


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_crash_inside_a_step_leaves_the_version_before(tmp_path: Path, number: int) -> None:
    steps = tuple(s._replace(code=crash) if s.number == number else s for s in SCHEMA.steps)
    build_old(tmp_path / "a.db", 0)
    with SqliteDatabase(tmp_path / "a.db", {}) as database:
        before = contents(database)
        with pytest.raises(Crash):
            bring_up(database, SCHEMA._replace(steps=steps))
        assert version_of(database) == number - 1
        assert contents(database) == before
        assert bring_up(database) == [s.name for s in SCHEMA.steps[number - 1 :]]
        assert version_of(database) == 3


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_killed_step_leaves_the_version_before(tmp_path: Path, number: int) -> None:
    script = """
import signal
from tests.support.toy_schema import SCHEMA
from threadkeep.base.sqlite.schema import prepare

def die(tx):
    os.kill(os.getpid(), signal.SIGKILL)

number = int(sys.argv[2])
steps = tuple(s._replace(code=die) if s.number == number else s for s in SCHEMA.steps)
prepare(SqliteDatabase(sys.argv[1], {}), SCHEMA._replace(steps=steps), lambda reason: None)
"""
    build_old(tmp_path / "a.db", 0)
    with Child(script, tmp_path / "a.db", number) as child:
        assert child.end() == -9
    with SqliteDatabase(tmp_path / "a.db", {}) as database:
        assert version_of(database) == number - 1
        assert len(contents(database)) == OLD
        bring_up(database)
        assert version_of(database) == 3
        with database.read() as tx:
            assert tx.all(Sql("PRAGMA integrity_check")) == [("ok",)]


def test_a_newer_file_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    build_old(path, 0)
    with SqliteDatabase(path, {}) as database, database.write() as tx:
        SCHEMA.write_version(tx, 4)
    before = path.read_bytes()
    with SqliteDatabase(path, {}) as database:
        with pytest.raises(SchemaMismatch, match="version 4; this program knows versions up to 3"):
            prepare(database, SCHEMA, no_backup)
        with pytest.raises(SchemaMismatch):
            refuse_newer(database, SCHEMA, 4)
        refuse_newer(database, SCHEMA, 3)
    assert path.read_bytes() == before


def test_a_file_that_grew_newer_while_we_waited_is_refused(tmp_path: Path) -> None:
    build_old(tmp_path / "a.db", 2)
    with SqliteDatabase(tmp_path / "a.db", {}) as database:

        def overtaken(_reason: str) -> None:
            with database.write() as tx:
                SCHEMA.write_version(tx, 4)

        with pytest.raises(SchemaMismatch):
            prepare(database, SCHEMA, overtaken)
        assert version_of(database) == 4


def test_a_step_that_another_process_did_meanwhile_is_not_done_again(tmp_path: Path) -> None:
    build_old(tmp_path / "a.db", 0)
    with (
        SqliteDatabase(tmp_path / "a.db", {}) as database,
        SqliteDatabase(tmp_path / "a.db", {}) as other,
    ):
        assert prepare(database, SCHEMA, lambda _: bring_up(other)) == []
        assert version_of(database) == 3


def test_a_foreign_file_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    foreign = sqlite3.connect(path)
    foreign.execute("CREATE TABLE theirs(a)")
    foreign.execute("INSERT INTO theirs VALUES(1)")
    foreign.commit()
    foreign.close()
    before = path.read_bytes()
    with SqliteDatabase(path, {}) as database, pytest.raises(Invalid, match="not a toy store"):
        prepare(database, SCHEMA, no_backup)
    assert path.read_bytes() == before


def test_a_file_that_somebody_filled_while_we_waited_is_not_overwritten(tmp_path: Path) -> None:
    with SqliteDatabase(tmp_path / "a.db", {}) as database:
        foreign = sqlite3.connect(tmp_path / "a.db")
        asked = 0

        def read_version_late(tx: Tx) -> int | None:
            nonlocal asked
            asked += 1
            if asked == 1:
                foreign.execute("CREATE TABLE theirs(a)")
                foreign.commit()
            return read_version(tx)

        with pytest.raises(Invalid, match="not a toy store"):
            prepare(database, SCHEMA._replace(read_version=read_version_late), no_backup)
        foreign.close()
        assert [name for _, name, *_ in shape(database)] == ["theirs"]


FIRST_OPENER = """
from tests.support.toy_schema import SCHEMA
from threadkeep.base.sqlite.backup import make_backup
from threadkeep.base.sqlite.schema import prepare
say("ready")
hear()
with SqliteDatabase(sys.argv[1], {}) as database:
    done = prepare(database, SCHEMA, lambda reason: make_backup(database, reason=reason))
say(",".join(done) or "nothing")
"""


@pytest.mark.parametrize("old", [False, True])
def test_processes_that_open_at_once_agree(tmp_path: Path, *, old: bool) -> None:
    path = tmp_path / "a.db"
    if old:
        build_old(path, 0)
    children = [Child(FIRST_OPENER, path) for _ in range(4)]
    try:
        for child in children:
            child.expect("ready")
        for child in children:
            child.tell()
        done = [name for child in children for name in child.hear().split(",")]
        assert [child.end() for child in children] == [0] * 4
    finally:
        for child in children:
            child.__exit__()
    steps = [step.name for step in SCHEMA.steps] if old else []
    assert sorted(name for name in done if name != "nothing") == steps
    with SqliteDatabase(path, {}) as database, SqliteDatabase(tmp_path / "new.db", {}) as fresh:
        prepare(fresh, SCHEMA, no_backup)
        assert shape(database) == shape(fresh)
        assert len(contents(database)) == (OLD if old else 0)


# ---------------------------------------------------------------------- rebuilding tables


def rebuild(script: str, *tables: str) -> Schema:
    step = SchemaStep(4, "0004_rebuild", script, rebuilds=tables)
    return SCHEMA._replace(version=4, steps=(*SCHEMA.steps, step))


def test_a_rebuild_that_loses_parents_is_rolled_back(tmp_path: Path) -> None:
    """The rows without a parent are in a table that the step never named."""
    build_old(tmp_path / "a.db", 0)
    lossy = rebuild(
        "CREATE TABLE folders_new(id INTEGER PRIMARY KEY, name TEXT) STRICT;"
        "INSERT INTO folders_new SELECT id, name FROM folders WHERE id > 1;"
        "DROP TABLE folders; ALTER TABLE folders_new RENAME TO folders;",
        "folders",
    )
    with SqliteDatabase(tmp_path / "a.db", {}) as database:
        before = contents(database)
        with pytest.raises(Damaged, match="0004_rebuild left 5 rows without their parent"):
            bring_up(database, lossy)
        assert (version_of(database), contents(database)) == (3, before)
        with database.write() as tx:
            assert tx.one(Sql("PRAGMA foreign_keys")) == (1,)


def test_a_rebuild_does_not_cascade_into_children(tmp_path: Path) -> None:
    build_old(tmp_path / "a.db", 0)
    good = rebuild(
        "CREATE TABLE folders_new(id INTEGER PRIMARY KEY, name TEXT) STRICT;"
        "INSERT INTO folders_new SELECT id, name FROM folders;"
        "DROP TABLE folders; ALTER TABLE folders_new RENAME TO folders;",
        "folders",
    )
    with SqliteDatabase(tmp_path / "a.db", {}) as database:
        before = contents(database)
        bring_up(database, good)
        assert (version_of(database), contents(database)) == (4, before)


def test_rows_that_had_no_parent_before_do_not_block_a_rebuild(tmp_path: Path) -> None:
    build_old(tmp_path / "a.db", 3)
    with SqliteDatabase(tmp_path / "a.db", {}) as database:
        with database.write(foreign_keys=False) as tx:
            tx.run(Sql("INSERT INTO notes(folder_id, body, size) VALUES(99, 'orphan', 6)"))
        same = rebuild("UPDATE folders SET name = upper(name);", "folders")
        assert bring_up(database, same) == ["0004_rebuild"]
        assert version_of(database) == 4


# ---------------------------------------------------------------------- small things


def test_missing_columns_are_added_once(tmp_path: Path) -> None:
    with SqliteDatabase(tmp_path / "a.db", {}) as database, database.write() as tx:
        assert is_empty(tx)
        tx.run(Sql('CREATE TABLE "odd name"(a)'))
        assert not is_empty(tx)
        wanted = {"a": "TEXT", "b": "TEXT", "c": "INTEGER NOT NULL DEFAULT 7"}
        assert add_missing_columns(tx, "odd name", wanted) == ["b", "c"]
        assert add_missing_columns(tx, "odd name", wanted) == []
        assert tx.columns("odd name") == ["a", "b", "c"]
