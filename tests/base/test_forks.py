"""Forks: the child has connections and locks of its own, and the parent loses nothing."""

import ctypes
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from multiprocessing.context import ForkContext, SpawnContext
from pathlib import Path

import pytest

from tests.conftest import REPO, cannot_run
from tests.lengths import at_length
from tests.support.children import (
    add,
    append_row,
    bodies,
    exit_code,
    fork,
    table,
    wait_until,
)
from threadkeep.base.processes import lock_holders
from threadkeep.base.sqlite import connect
from threadkeep.base.sqlite.database import SqliteDatabase
from threadkeep.base.tx import Sql
from threadkeep.errors import Closed, Conflict


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    with table(tmp_path / "a.db") as database:
        yield database


def wal_inode(database: SqliteDatabase) -> int:
    return os.stat(f"{database.file}-wal").st_ino


class Pipe:
    """One word at a time, between two sides of a fork."""

    def __init__(self) -> None:
        self._out, self._in = os.pipe()

    def tell(self) -> None:
        os.write(self._in, b"x")

    def hear(self) -> None:
        assert os.read(self._out, 1) == b"x"


def test_what_a_child_wrote_survives_its_parents_closing(database: SqliteDatabase) -> None:
    """SQLite gives a child that keeps inherited connections open no locks: its rows vanish."""
    add(database, "parent")
    written, closed = Pipe(), Pipe()

    def child() -> None:
        add(database, "before")
        written.tell()
        closed.hear()
        add(database, "after")

    pid = fork(child)
    written.hear()
    database.close()
    closed.tell()
    assert exit_code(pid) == 0
    with SqliteDatabase(database.path, {}) as again:
        assert bodies(again) == ["parent", "before", "after"]


def test_a_child_that_reads_holds_locks_of_its_own(database: SqliteDatabase) -> None:
    if not Path("/proc/locks").exists():
        cannot_run("needs Linux's /proc")
    database.changes()

    def child() -> None:
        with database.read() as tx:
            tx.all(Sql("SELECT * FROM t"))
            assert os.getpid() in lock_holders(Path(f"{database.file}-shm"), "READ", 123, 127)

    assert exit_code(fork(child)) == 0


@pytest.mark.parametrize("use", ["nothing", "read", "write", "close"])
def test_the_parent_goes_on_as_if_nothing_had_happened(database: SqliteDatabase, use: str) -> None:
    add(database, "first")
    bodies(database)
    inode = wal_inode(database)

    def child() -> None:
        if use == "read":
            assert bodies(database) == ["first"]
        elif use == "write":
            add(database, "child")
        elif use == "close":
            database.close()
            with pytest.raises(Closed):
                bodies(database)

    assert exit_code(fork(child)) == 0
    assert wal_inode(database) == inode
    add(database, "last")
    middle = ["child"] if use == "write" else []
    assert bodies(database) == ["first", *middle, "last"]
    assert wal_inode(database) == inode


def test_many_forks_lose_nothing(database: SqliteDatabase) -> None:
    forks = at_length(200, 50)
    for number in range(forks):
        pid = fork(lambda number=number: add(database, f"child {number}"))  # type: ignore[misc]
        add(database, f"parent {number}")
        assert exit_code(pid) == 0
    found = bodies(database)
    assert len(found) == 2 * forks
    for who in ("parent", "child"):
        mine = [body for body in found if str(body).startswith(who)]
        assert mine == [f"{who} {number}" for number in range(forks)]
    with database.read() as tx:
        assert tx.all(Sql("PRAGMA integrity_check")) == [("ok",)]


def test_children_of_children_write_too(database: SqliteDatabase) -> None:
    def child() -> None:
        add(database, "child")
        assert exit_code(fork(lambda: add(database, "grandchild"))) == 0
        add(database, "child again")

    assert exit_code(fork(child)) == 0
    assert bodies(database) == ["child", "grandchild", "child again"]


def test_a_closed_database_stays_closed_in_the_child(database: SqliteDatabase) -> None:
    database.close()

    def child() -> None:
        with pytest.raises(Closed):
            bodies(database)

    assert exit_code(fork(child)) == 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # other threads: that is the point
@pytest.mark.parametrize(
    "context",
    [multiprocessing.get_context("fork"), multiprocessing.get_context("spawn")],
    ids=["fork", "spawn"],
)
def test_workers_of_multiprocessing_write(
    database: SqliteDatabase, context: ForkContext | SpawnContext
) -> None:
    workers = [
        context.Process(target=append_row, args=(str(database.path), str(number)))
        for number in range(3)
    ]
    for worker in workers:
        worker.start()
        add(database, "parent")
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert sorted(map(str, bodies(database))) == ["0", "1", "2", *["parent"] * 3]


# ---------------------------------------------------------------------- forks inside transactions


def test_a_fork_waits_for_the_write_of_another_thread(database: SqliteDatabase) -> None:
    lock = database.writer_lock()
    inside = threading.Event()

    def write() -> None:
        with database.write() as tx:
            inside.set()
            wait_until(lambda: len(lock._threads._waiting) == 1)  # the fork
            tx.run(Sql("INSERT INTO t(body) VALUES('thread')"))

    thread = threading.Thread(target=write)
    thread.start()
    inside.wait()
    assert exit_code(fork(lambda: add(database, "child"))) == 0
    thread.join()
    assert bodies(database) == ["thread", "child"]


def test_a_fork_waits_for_the_read_of_another_thread(database: SqliteDatabase) -> None:
    inside = threading.Event()

    def read() -> None:
        with database.read() as tx:
            tx.all(Sql("SELECT * FROM t"))
            inside.set()
            wait_until(lambda: database._readers._paused)  # the fork

    thread = threading.Thread(target=read)
    thread.start()
    inside.wait()
    assert exit_code(fork(lambda: add(database, "child"))) == 0
    thread.join()
    assert bodies(database) == ["child"]


def test_a_fork_does_not_wait_for_ever(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "_PATIENCE", 0.01)
    inside, go_on = threading.Event(), threading.Event()

    def write() -> None:
        with database.write() as tx:
            tx.run(Sql("INSERT INTO t(body) VALUES('thread')"))
            inside.set()
            go_on.wait()

    def child() -> None:
        for use in (lambda: add(database, "x"), lambda: bodies(database)):
            with pytest.raises(Conflict, match="forked inside a transaction"):
                use()
        with pytest.raises(Conflict, match="forked inside a transaction"):
            SqliteDatabase(database.path, {})
        with table(database.path.with_name("other.db")) as other:
            add(other, "x")

    thread = threading.Thread(target=write)
    thread.start()
    inside.wait()
    assert exit_code(fork(child)) == 0
    go_on.set()
    thread.join()
    assert bodies(database) == ["thread"]


def test_a_child_cannot_end_the_transaction_of_its_parent(database: SqliteDatabase) -> None:
    def child_of(tx: object) -> None:
        with pytest.raises(Closed, match="has ended"):
            tx.run(Sql("INSERT INTO t(body) VALUES('child')"))  # type: ignore[attr-defined]

    with database.write() as tx:
        tx.run(Sql("INSERT INTO t(body) VALUES('parent')"))
        assert exit_code(fork(lambda: child_of(tx))) == 0
        tx.run(Sql("INSERT INTO t(body) VALUES('parent')"))
    assert bodies(database) == ["parent", "parent"]


FORKS_INSIDE = """
import os, sys
from threadkeep.base.sqlite.database import SqliteDatabase
from threadkeep.base.tx import Sql
from threadkeep.errors import Conflict

database = SqliteDatabase(sys.argv[1], {})
with database.write() as tx:
    tx.run(Sql("CREATE TABLE t(id INTEGER PRIMARY KEY, body)"))
parent = os.getpid()
try:
    with database.write() as tx:
        # More than the page cache holds: part of the transaction is in the log already.
        for number in range(2000):
            tx.run(Sql("INSERT INTO t(body) VALUES(?)"), (b"x" * 3000,))
        pid = os.fork()
        if not pid and sys.argv[2] == "raise":
            raise SystemExit(7)
        if pid:
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            tx.run(Sql("INSERT INTO t(body) VALUES(?)"), (code,))
            total = tx.one(Sql("SELECT count(*), sum(length(body)) FROM t"))
            assert total == (2001, 6_000_001), total
except Conflict:
    assert os.getpid() != parent
    sys.exit(7)
if os.getpid() == parent:
    database.close()
"""


@pytest.mark.parametrize("way", ["raise", "fall through"])
def test_a_child_that_leaves_the_block_of_its_parent_does_no_harm(tmp_path: Path, way: str) -> None:
    """Rolling back in the child once made the parent's own pages unreadable to it."""
    path = tmp_path / "a.db"
    environment = os.environ | {"PYTHONPATH": str(REPO / "src")}
    command = [sys.executable, "-W", "error", "-c", FORKS_INSIDE, str(path), way]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    with SqliteDatabase(path, {}) as database, database.read() as tx:
        assert tx.one(Sql("SELECT count(*), max(id) FROM t")) == (2001, 2001)
        assert tx.one(Sql("SELECT body FROM t WHERE id = 2001")) == (7,)
        assert tx.all(Sql("PRAGMA integrity_check")) == [("ok",)]


def test_a_fork_inside_its_own_read_refuses_the_file_to_the_child(database: SqliteDatabase) -> None:
    add(database, "x")

    def child() -> None:
        with pytest.raises(Conflict, match="forked inside a transaction"):
            bodies(database)

    with database.read() as tx:
        assert tx.all(Sql("SELECT body FROM t")) == [("x",)]
        assert exit_code(fork(child)) == 0
        assert tx.all(Sql("SELECT body FROM t")) == [("x",)]
    assert bodies(database) == ["x"]


def test_followers_of_the_parent_are_not_the_childs(database: SqliteDatabase) -> None:
    database.follow()

    def child() -> None:
        database.unfollow()  # as the clean-up of an inherited generator does
        assert database.followed()  # by the parent
        database.follow()
        database.unfollow()

    assert exit_code(fork(child)) == 0
    assert database.followed()
    database.unfollow()
    assert not database.followed()


# ---------------------------------------------------------------------- forks unknown to Python


@pytest.fixture
def unknown_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork as a C extension does that does not tell Python about it."""
    monkeypatch.setattr(os, "fork", ctypes.CDLL(None).fork)


def test_a_fork_unknown_to_python_is_noticed(database: SqliteDatabase, unknown_fork: None) -> None:
    add(database, "parent")
    bodies(database)
    written, closed = Pipe(), Pipe()

    def child() -> None:
        add(database, "before")
        written.tell()
        closed.hear()
        add(database, "after")

    pid = fork(child)
    written.hear()
    database.close()
    closed.tell()
    assert exit_code(pid) == 0
    with SqliteDatabase(database.path, {}) as again:
        assert bodies(again) == ["parent", "before", "after"]


def test_a_transaction_is_not_ended_by_a_child_unknown_to_python(
    database: SqliteDatabase, unknown_fork: None
) -> None:
    pid = 0

    def leave_the_block() -> None:
        with database.write() as tx:
            tx.run(Sql("INSERT INTO t(body) VALUES('parent')"))
            nonlocal pid
            pid = os.fork()

    parent = os.getpid()
    try:
        leave_the_block()
    except Conflict:
        os._exit(7 if os.getpid() != parent else 1)
    if os.getpid() != parent:
        os._exit(2)
    assert exit_code(pid) == 7
    assert bodies(database) == ["parent"]
