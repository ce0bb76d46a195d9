"""A store that is another program's file: a view in it is never run, nor a column computed."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from threadkeep.base.sqlite.database import SqliteDatabase
from threadkeep.base.tx import Sql
from threadkeep.errors import Damaged, ThreadkeepError, TooLarge
from threadkeep.home.home import Home

QUERIES = {"all": "SELECT id FROM items"}
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id FROM n"


def make(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)
    return path


def test_a_view_in_the_place_of_a_table_is_not_run(tmp_path: Path) -> None:
    path = make(tmp_path / "a.db", f"CREATE VIEW items AS {ENDLESS}", "CREATE TABLE other (a)")
    with SqliteDatabase(path, QUERIES, read_only=True) as database:
        with pytest.raises(Damaged, match="a view where a table belongs"), database.read() as tx:
            tx.all("all")
        with database.read() as tx:
            assert tx.all(Sql("SELECT * FROM other")) == []
    with SqliteDatabase(path, QUERIES) as database:
        with pytest.raises(Damaged, match="view"), database.read() as tx:
            tx.all("all")
        with pytest.raises(Damaged, match="view"), database.write() as tx:
            tx.all("all")


@pytest.mark.parametrize("by", ["trigger", "a view in a trigger"])
def test_a_trigger_with_a_recursive_query_is_not_run(tmp_path: Path, by: str) -> None:
    """A copy of another program's file may become a store: a row of ours would start it."""
    some = ENDLESS.replace("FROM n)", "FROM n WHERE i < 3)")  # with an end, so that a test has one
    path = make(
        tmp_path / "a.db",
        "CREATE TABLE items (id)",
        "CREATE TABLE other (a)",
        f"CREATE VIEW tk_some AS {some}" if by != "trigger" else "CREATE TABLE some (a)",
        "CREATE TRIGGER t AFTER INSERT ON items BEGIN INSERT INTO other SELECT id FROM "
        + (f"({some});" if by == "trigger" else "tk_some;")
        + " END",
        "CREATE TRIGGER u AFTER DELETE ON items BEGIN DELETE FROM other; END",
    )
    with SqliteDatabase(path, QUERIES) as database:
        with pytest.raises(Damaged, match="trigger that never ends"), database.write() as tx:
            tx.run(Sql("INSERT INTO items VALUES (1)"))
        with database.write() as tx:
            tx.run(Sql("DELETE FROM items"))
    plain = make(tmp_path / "b.db", "CREATE TABLE items (id)", "CREATE VIEW v AS SELECT 1")
    with SqliteDatabase(plain, QUERIES) as database, database.read() as tx:
        assert len(tx.all(Sql(some))) == 3  # of our own queries each has an end


def test_the_content_of_an_index_may_be_a_view(tmp_path: Path) -> None:
    path = make(
        tmp_path / "a.db",
        "CREATE TABLE items (id INTEGER PRIMARY KEY, body)",
        "CREATE VIEW shown AS SELECT id, body FROM items WHERE length(body) < 9",
        "CREATE VIRTUAL TABLE words USING fts5(body, content=shown, content_rowid=id)",
        "INSERT INTO items VALUES (1, 'apple')",
        "INSERT INTO words (words) VALUES ('rebuild')",
    )
    with SqliteDatabase(path, QUERIES, read_only=True) as database, database.read() as tx:
        found = tx.all(Sql("SELECT body FROM words WHERE words MATCH 'apple'"))
        assert found == [("apple",)]


def test_a_generated_column_is_not_computed_beyond_a_limit(tmp_path: Path) -> None:
    bomb = "CREATE TABLE items (a, id AS (hex(zeroblob(400000000))))"
    path = make(tmp_path / "a.db", bomb.replace("400000000", "4"), "INSERT INTO items VALUES (1)")
    make(path, "PRAGMA writable_schema = ON", f"UPDATE sqlite_master SET sql = '{bomb}'")
    with (
        SqliteDatabase(path, QUERIES, read_only=True) as database,
        pytest.raises(TooLarge),
        database.read() as tx,
    ):
        tx.all("all")


@pytest.mark.parametrize(
    "store,table", [("chat", "chat_sessions"), ("state", "sessions"), ("knowledge", "events")]
)
def test_no_look_at_a_store_runs_a_view(tmp_path: Path, store: str, table: str) -> None:
    home = Home(tmp_path / "home", environ={"HOME": str(tmp_path)})
    getattr(home, store)().close()
    path = home.store_path(store)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        connection.execute("PRAGMA legacy_alter_table = ON")
        connection.execute(f"DROP TABLE {table}")
        named = ", ".join(f"id AS {name}" for name in names)
        connection.execute(f"CREATE VIEW {table} AS SELECT {named} FROM ({ENDLESS})")
    assert getattr(home.status(), store).exists  # it came to an end
    bad = path.rename(tmp_path / f"{store}.db")
    with pytest.raises(ThreadkeepError):
        home.restore(str(bad), store=store)
    assert not path.exists()
