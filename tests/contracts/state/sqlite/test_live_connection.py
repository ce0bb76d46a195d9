"""The connection of a store that other programs use: it keeps our rules, and survives a fork."""

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.children import exit_code, fork
from tests.support.disks import read_only
from tests.support.states import open_state, talk
from threadkeep.base.sqlite.raw_connection import LiveConnection, only_reads
from threadkeep.base.sqlite.upkeep import sqlite_file
from threadkeep.errors import Closed, Conflict
from threadkeep.state.hermes_state import SessionDB

INSERT = "INSERT INTO messages(session_id, role, content, timestamp) VALUES ('s', 'user', ?, 1)"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def db(path: Path) -> Iterator[SessionDB]:
    with open_state(path, timeout=0.2) as opened:
        talk(opened, "s", "one")
        yield opened


def live(db: SessionDB) -> LiveConnection:
    connection = db._conn
    assert connection is not None
    return connection


def contents(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute("SELECT content FROM messages ORDER BY id")]


# ---------------------------------------------------------------------- reads do not wait


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM sessions",
        "\n  select 1",
        "-- all of them\nSELECT 1",
        "/* all\nof them */ SELECT 1",
        "WITH RECURSIVE up AS (SELECT * FROM sessions WHERE id = 's') SELECT id FROM up",
        "EXPLAIN DELETE FROM sessions",
        "PRAGMA journal_mode",
        "pragma foreign_keys",
        "PRAGMA table_info(sessions)",
        "PRAGMA quick_check",
    ],
)
def test_a_read_does_not_wait_for_a_writer(db: SessionDB, sql: str) -> None:
    connection = live(db)
    rows = []
    with db.context.db.write():
        reader = threading.Thread(target=lambda: rows.extend(connection.execute(sql).fetchall()))
        reader.start()
        reader.join()
    assert rows


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE sessions SET title = NULL",
        "WITH old AS (SELECT 1) DELETE FROM sessions WHERE id IN old",
        "BEGIN",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA journal_mode(DELETE)",
        "PRAGMA wal_checkpoint",
        "PRAGMA wal_checkpoint(TRUNCATE)",
        "VACUUM",
        "",
    ],
)
def test_what_may_write_is_seen_as_such(sql: str) -> None:
    assert not only_reads(sql)


def test_nothing_to_commit_does_not_wait_for_a_writer(db: SessionDB) -> None:
    connection = live(db)
    done = []

    def end() -> None:
        connection.commit()
        connection.rollback()
        done.append(True)

    with db.context.db.write():
        thread = threading.Thread(target=end)
        thread.start()
        thread.join()
    assert done == [True]


# ---------------------------------------------------------------------- like sqlite3's


def test_a_cursor_writes_under_the_writer_lock(db: SessionDB) -> None:
    cursor = live(db).cursor()
    cursor.execute("BEGIN IMMEDIATE")
    assert sqlite_file(db.context.db).writer_lock().held_here()
    cursor.execute(INSERT, ("two",))
    live(db).commit()
    assert not sqlite_file(db.context.db).writer_lock().held_here()
    assert db.append_message("s", "user", "three") == cursor.lastrowid + 1
    assert [row[0] for row in cursor.execute("SELECT content FROM messages")] == [
        *("one", "two", "three")
    ]


def test_a_cursor_gives_rows_as_sqlite3_does(db: SessionDB) -> None:
    connection = live(db)
    cursor = connection.cursor()
    assert cursor.connection is connection
    cursor.executemany(INSERT, [("two",), ("three",)])
    assert cursor.rowcount == 2
    cursor.execute("SELECT id, content FROM messages ORDER BY id")
    assert [column[0] for column in cursor.description] == ["id", "content"]
    assert cursor.fetchone()["content"] == "one"
    assert [tuple(row) for row in cursor.fetchmany(1)] == [(2, "two")]
    assert [tuple(row) for row in cursor] == [(3, "three")]
    assert cursor.fetchone() is None
    connection.executescript("DELETE FROM messages; DELETE FROM sessions;")
    assert db.session_count() == 0


def test_what_makes_a_row_can_be_chosen(db: SessionDB) -> None:
    connection = live(db)
    assert connection.row_factory is sqlite3.Row
    connection.row_factory = None
    assert connection.execute("SELECT 1, 2").fetchone() == (1, 2)
    connection.text_factory = bytes
    assert connection.execute("SELECT 'a'").fetchone() == (b"a",)


def test_it_reads_in_a_folder_that_cannot_be_written(path: Path) -> None:
    with open_state(path) as db:
        talk(db, "s", "one")
    with read_only(path.parent), open_state(path, read_only=True) as db:
        assert live(db).execute("SELECT content FROM messages").fetchone()[0] == "one"


# ---------------------------------------------------------------------- forks


def test_a_child_that_never_asks_for_it_loses_nothing(path: Path) -> None:
    """An inherited connection made the child believe in locks that it did not have."""
    db = open_state(path)
    talk(db, "s", "parent")
    live(db).execute("SELECT count(*) FROM messages").fetchone()
    (heard, written), (closed, close) = os.pipe(), os.pipe()

    def child() -> None:
        db.append_message("s", "user", "before")
        os.write(written, b"x")
        os.read(closed, 1)
        db.append_message("s", "user", "after")
        assert live(db).execute("SELECT count(*) FROM messages").fetchone()[0] == 3

    pid = fork(child)
    os.read(heard, 1)
    db.close()
    os.write(close, b"x")
    assert exit_code(pid) == 0
    assert contents(path) == ["parent", "before", "after"]


def test_a_child_has_a_connection_of_its_own(db: SessionDB, path: Path) -> None:
    parents = live(db)

    def child() -> None:
        with pytest.raises(Closed, match="fork"):
            parents.execute("SELECT 1")
        parents.close()
        live(db).execute(INSERT, ("child",))

    assert exit_code(fork(child)) == 0
    parents.execute(INSERT, ("parent",))
    assert contents(path) == ["one", "child", "parent"]


def test_a_transaction_begun_before_a_fork_stays_the_parents(db: SessionDB, path: Path) -> None:
    connection = live(db)
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(INSERT, ("parent",))

    def child() -> None:
        with pytest.raises(Closed, match="fork"):
            connection.commit()
        with pytest.raises(Conflict, match="forked inside a transaction"):
            live(db)
        db.close()

    assert exit_code(fork(child)) == 0
    connection.commit()
    assert contents(path) == ["one", "parent"]
    assert db.check() == []


def test_a_fork_waits_for_a_read_of_another_thread(db: SessionDB) -> None:
    """In the child nobody would ever let go of SQLite's own mutex."""
    connection = live(db)
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            connection.execute(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 999)"
                " SELECT count(*) FROM n"
            ).fetchall()

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for number in range(5):
            said = f"child {number}"
            assert exit_code(fork(lambda said=said: talk(db, "s", said))) == 0  # type: ignore[misc]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert db.message_count() == 6


def test_sql_that_names_newer_columns_widens_a_file_of_version_6(tmp_path: Path) -> None:
    with SessionDB(tmp_path / "state.db") as db:
        db.create_session("s", "cli")
        connection = db._conn
        assert connection is not None
        with pytest.raises(sqlite3.OperationalError, match="no such column: made_up"):
            connection.execute("SELECT made_up FROM sessions")
        assert "active" not in db.context.form.tables["messages"]
        assert connection.execute("SELECT * FROM session_model_usage").fetchall() == []
        connection.execute("UPDATE sessions SET pinned = 1 WHERE id = 's'")
        session = db.get_session("s")
        assert session is not None
        assert session["pinned"] == 1


def test_a_transaction_that_names_newer_columns_is_done_whole(tmp_path: Path) -> None:
    def begin_and_pin(connection: LiveConnection) -> None:
        connection.execute("INSERT INTO sessions(id, source, started_at) VALUES ('s', 'cli', 1)")
        connection.execute("UPDATE sessions SET pinned = 1")

    with SessionDB(tmp_path / "state.db") as db:
        db._execute_write(begin_and_pin)
        assert [(row["id"], row["pinned"]) for row in db.list_sessions_rich()] == [("s", 1)]
