"""Databases: transactions that hold, readers that never wait, and a wake-up for all."""

import gc
import os
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.support.children import Child, add, bodies, table, time_with_sleep, wait_until
from tests.support.disks import read_only
from threadkeep.base.processes import lock_holders
from threadkeep.base.sqlite import connect, pragmas
from threadkeep.base.sqlite.database import SqliteDatabase
from threadkeep.base.tx import Sql
from threadkeep.errors import Busy, Closed, Conflict, NotFound, ReadOnly


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    with table(tmp_path / "a.db") as database:
        yield database


def outside(path: Path) -> sqlite3.Connection:
    """A program that does not know our lock."""
    return sqlite3.connect(path, isolation_level=None, timeout=0)


def is_idle(database: SqliteDatabase) -> bool:
    """Nobody holds the lock, and no connection is inside a transaction."""
    lock, writer = database.writer_lock(), database.writer.connect()
    held = lock_holders(lock.path, "WRITE", 0, 2**62 - 1)
    return lock._threads.owner is None and held == [] and not writer.in_transaction


# ---------------------------------------------------------------------- opening


def test_a_missing_database_is_created_unless_it_must_exist(tmp_path: Path) -> None:
    for options in ({"must_exist": True}, {"read_only": True}):
        with pytest.raises(NotFound, match=r"no database at .*a\.db"):
            SqliteDatabase(tmp_path / "a.db", {}, **options)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
    with SqliteDatabase(tmp_path / "a.db", {}):
        assert (tmp_path / "a.db").exists()


@pytest.mark.parametrize(
    "name", ["plain", "with blank", "per%cent", "que?ry#hash", "ümläut", "a'b"]
)
def test_any_file_name_will_do(tmp_path: Path, name: str) -> None:
    with table(tmp_path / name / f"{name}.db") as database:
        add(database, name)
    with SqliteDatabase(tmp_path / name / f"{name}.db", {}, read_only=True) as database:
        assert bodies(database) == [name]


def test_a_file_name_that_is_not_text_will_do(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"not\xffutf8.db")
    with table(path) as database:
        add(database, "x")
        assert bodies(database) == ["x"]


def test_a_link_leads_to_the_file_and_its_log(tmp_path: Path) -> None:
    with table(tmp_path / "real" / "a.db") as database:
        (tmp_path / "link.db").symlink_to(database.path)
        with SqliteDatabase(tmp_path / "link.db", {}) as linked:
            add(linked, "x")
            assert linked.path == tmp_path / "link.db"
            assert linked.wal.size() == database.wal.size() > 0
            assert linked.writer_lock() is database.writer_lock()
    assert {p.name for p in tmp_path.iterdir()} == {"real", "link.db"}


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_the_journal_mode_of_an_existing_file_is_kept(tmp_path: Path, mode: str) -> None:
    plain = outside(tmp_path / "a.db")
    plain.execute(f"PRAGMA journal_mode = {mode}")
    plain.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, body)")
    plain.close()
    with SqliteDatabase(tmp_path / "a.db", {}) as database:
        assert database.journal_mode == mode
        add(database, "x")
        with pytest.raises(ZeroDivisionError), database.write() as tx:
            tx.run(Sql("INSERT INTO t(body) VALUES('y')"))
            raise ZeroDivisionError
        assert bodies(database) == ["x"]
        database.vacuum()
    again = outside(tmp_path / "a.db")
    assert again.execute("PRAGMA journal_mode").fetchone() == (mode,)
    again.close()


def test_a_log_without_its_database_is_kept(tmp_path: Path) -> None:
    with table(tmp_path / "a.db") as database:
        add(database, "x")
        log = (tmp_path / "a.db-wal").read_bytes()
    (tmp_path / "a.db").unlink()
    (tmp_path / "a.db-wal").write_bytes(log)
    with table(tmp_path / "a.db") as database:
        assert bodies(database) == []
    (kept,) = tmp_path.glob("a.db.orphan-*-wal")
    assert kept.read_bytes() == log


def test_looking_at_a_file_does_not_change_it(tmp_path: Path) -> None:
    with table(tmp_path / "a.db") as database:
        add(database, "x")
    before = (tmp_path / "a.db").read_bytes()
    with SqliteDatabase(tmp_path / "a.db", {}) as database:
        assert bodies(database) == ["x"]
    assert (tmp_path / "a.db").read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.db", "a.db.lock"]


# ---------------------------------------------------------------------- write transactions


def test_a_write_is_kept_whole_or_not_at_all(database: SqliteDatabase) -> None:
    with database.write() as tx:
        tx.run(Sql("INSERT INTO t(body) VALUES(1), (2)"))
    with pytest.raises(ZeroDivisionError), database.write() as tx:
        tx.run(Sql("INSERT INTO t(body) VALUES(3)"))
        raise ZeroDivisionError
    assert bodies(database) == [1, 2]
    assert is_idle(database)


def test_an_error_of_sqlite_is_ours_and_rolls_back(database: SqliteDatabase) -> None:
    with pytest.raises(Conflict, match="breaks a rule"), database.write() as tx:
        tx.run(Sql("INSERT INTO t(id, body) VALUES(1, 1)"))
        tx.run(Sql("INSERT INTO t(id, body) VALUES(1, 2)"))
    assert bodies(database) == []
    assert is_idle(database)


def test_an_error_that_was_handled_inside_does_not_end_the_transaction(
    database: SqliteDatabase,
) -> None:
    with database.write() as tx:
        tx.run(Sql("INSERT INTO t(id, body) VALUES(1, 1)"))
        with pytest.raises(sqlite3.IntegrityError):
            tx.run(Sql("INSERT INTO t(id, body) VALUES(1, 2)"))
    assert bodies(database) == [1]


def test_durable_commits_wait_for_the_disk_and_others_do_not(database: SqliteDatabase) -> None:
    for durable in (True, False, False, True, True, False):
        with database.write(durable=durable) as tx:
            level = tx.value(Sql("PRAGMA synchronous"))
            tx.run(Sql("INSERT INTO t(body) VALUES(?)"), (level,))
    assert bodies(database) == [2, 1, 1, 2, 2, 1]


def test_foreign_keys_can_be_off_for_one_transaction(database: SqliteDatabase) -> None:
    with database.write() as tx:
        tx.run(Sql("CREATE TABLE child(t_id INTEGER REFERENCES t(id))"))
    with database.write(foreign_keys=False) as tx:
        tx.run(Sql("INSERT INTO child VALUES(77)"))
    with pytest.raises(Conflict), database.write() as tx:
        tx.run(Sql("INSERT INTO child VALUES(78)"))
    with pytest.raises(ZeroDivisionError), database.write(foreign_keys=False):
        raise ZeroDivisionError
    with pytest.raises(Conflict), database.write() as tx:
        tx.run(Sql("INSERT INTO child VALUES(79)"))


@pytest.mark.parametrize(
    "inner",
    [
        lambda database: database.write().__enter__(),
        lambda database: SqliteDatabase(database.path, {}),
        lambda database: database.truncate_log(),
        lambda database: database.vacuum(),
    ],
    ids=["write", "open", "truncate", "vacuum"],
)
def test_what_would_wait_for_its_own_thread_is_refused(
    database: SqliteDatabase, inner: Callable[[SqliteDatabase], object]
) -> None:
    with database.write() as tx:
        tx.run(Sql("INSERT INTO t(body) VALUES('kept')"))
        with pytest.raises(RuntimeError, match="twice by one thread"):
            inner(database)
    assert bodies(database) == ["kept"]
    assert is_idle(database)


def test_closing_inside_a_write_rolls_it_back(database: SqliteDatabase) -> None:
    with pytest.raises(Closed, match="was closed"), database.write() as tx:
        tx.run(Sql("INSERT INTO t(body) VALUES('x')"))
        database.close()
    with SqliteDatabase(database.path, {}) as again:
        assert bodies(again) == []
        assert is_idle(again)


def test_closing_inside_a_write_of_another_object_leaves_that_alone(
    database: SqliteDatabase,
) -> None:
    other = SqliteDatabase(database.path, {})
    add(other, "x")
    with database.write() as tx:
        tx.run(Sql("INSERT INTO t(body) VALUES('y')"))
        other.close()
    assert bodies(database) == ["x", "y"]
    assert is_idle(database)


def test_a_transaction_is_good_for_its_block_only(database: SqliteDatabase) -> None:
    with database.write() as writing:
        pass
    with database.read() as reading:
        pass
    for tx in (writing, reading):
        with pytest.raises(Closed, match="has ended"):
            tx.run(Sql("SELECT 1"))
        with pytest.raises(Closed, match="has ended"):
            tx.copy_to(sqlite3.connect(":memory:"), 1)


def test_tables_are_named_as_they_are_now(database: SqliteDatabase) -> None:
    def named() -> set[str]:
        with database.read() as tx:
            return tx.tables()

    before = named()
    with outside(database.path) as other:
        other.execute("CREATE TABLE theirs (x)")
    other.close()
    assert named() == before | {"theirs"}
    with pytest.raises(ValueError), database.write() as tx:  # noqa: PT011
        tx.script("CREATE TABLE gone (x)")
        assert "gone" in tx.tables()
        raise ValueError
    with database.write() as tx:
        # What was taken back and what follows it have the same number in the file's header.
        tx.script("CREATE TABLE first (x)")
        assert tx.tables() == before | {"theirs", "first"}
        with suppress(KeyError), tx.step():
            tx.script("CREATE TABLE second (x)")
            assert "second" in tx.tables()
            raise KeyError
        tx.script("CREATE TABLE third (x)")
        assert tx.tables() == before | {"theirs", "first", "third"}
    assert named() == before | {"theirs", "first", "third"}


def test_any_text_is_stored(database: SqliteDatabase) -> None:
    with database.write() as tx:
        tx.run(Sql("INSERT INTO t(body) VALUES(?)"), ["half \ud83d"])
        tx.run(Sql("INSERT INTO t(body) VALUES(:body)"), {"body": "half \udc00"})
        tx.run(Sql("INSERT INTO t(body) VALUES(?)"), ["nul \0 inside"])
    assert bodies(database) == [
        "half \ud83d".encode("utf-8", "surrogatepass"),
        "half \udc00".encode("utf-8", "surrogatepass"),
        "nul \0 inside",
    ]


def test_named_queries(tmp_path: Path) -> None:
    queries = {
        "make": "CREATE TABLE t(a, b)",
        "put": "INSERT INTO t VALUES(:a, :b)",
        "get": "SELECT a, b FROM t WHERE a >= ? ORDER BY a",
    }
    with SqliteDatabase(tmp_path / "a.db", queries) as database:
        with database.write() as tx:
            tx.run("make")
            assert tx.count("put", {"a": 1, "b": "x"}) == 1
            tx.run_bulk("put", [{"a": 2, "b": "y"}, {"a": 3, "b": "z"}])
        with database.read() as tx:
            assert tx.one("get", (2,)) == (2, "y")
            assert tx.one("get", (9,)) is None
            assert tx.value("get", (3,)) == 3
            assert tx.value("get", (9,)) is None
            assert tx.all("get", (1,)) == [(1, "x"), (2, "y"), (3, "z")]


# ---------------------------------------------------------------------- interrupts


def interrupt_at(step: int, action: Callable[[], object]) -> bool:
    """Run an action and interrupt it at the n-th moment inside base/; False if it ended before.

    Python looks for signals where a function begins and after each call of a built-in one.
    """
    seen = 0

    def count(frame: FrameType, event: str, _arg: Any) -> None:
        nonlocal seen
        inside = "threadkeep/base/" in frame.f_code.co_filename
        if inside and event in {"call", "c_return"} and frame.f_code.co_name != "__del__":
            seen += 1
            if seen == step:
                sys.setprofile(None)
                raise KeyboardInterrupt

    sys.setprofile(count)
    try:
        action()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    return False


@pytest.mark.parametrize("durable", [True, False])
def test_a_write_interrupted_at_any_step_leaves_nothing_behind(
    database: SqliteDatabase, *, durable: bool
) -> None:
    def write_two() -> None:
        with database.write(durable=durable) as tx:
            tx.run(Sql("INSERT INTO t(body) VALUES(?)"), (step,))
            tx.run(Sql("INSERT INTO t(body) VALUES(?)"), (step,))

    step = 1
    while interrupt_at(step, write_two):
        assert is_idle(database), f"step {step}"
        with database.read() as tx:
            sql = "SELECT count(*) FROM t WHERE body = ?"
            assert tx.value(Sql(sql), (step,)) in (0, 2), f"step {step}"
        step += 1
    assert step > 30
    assert bodies(database)[-2:] == [step, step]


def test_a_read_interrupted_at_any_step_pins_no_snapshot(database: SqliteDatabase) -> None:
    step = 1
    while interrupt_at(step, lambda: bodies(database)):
        add(database, "x" * 5000)
        assert database.truncate_log(), f"step {step}"
        step += 1
    assert step > 20


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_opening_interrupted_at_any_step_leaves_the_lock_free(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    lock_path = tmp_path / "a.db.lock"
    step = 1
    while interrupt_at(step, lambda: SqliteDatabase(path, {}).close()):
        assert lock_holders(lock_path, "WRITE", 0, 2**62 - 1) == [], f"step {step}"
        step += 1
    assert step > 100
    gc.collect()  # what was half open is closed while its warnings are ignored
    with table(path) as database:
        add(database, "x")


# ---------------------------------------------------------------------- programs outside our lock

OUTSIDER = """
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute(sys.argv[2])
connection.execute("SELECT count(*) FROM t").fetchone()
say("begun")
hear()
connection.execute("ROLLBACK")
say("ended")
hear()
"""


@pytest.fixture(params=["wal", "delete"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqliteDatabase]:
    """A database in each of the two journal modes."""
    plain = outside(tmp_path / "b.db")
    plain.execute(f"PRAGMA journal_mode = {request.param}")
    plain.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, body)")
    plain.close()
    with SqliteDatabase(tmp_path / "b.db", {}) as database:
        yield database


def test_a_program_that_holds_the_file_is_named_when_the_budget_is_used_up(
    either: SqliteDatabase,
) -> None:
    with Child(OUTSIDER, either.path, "BEGIN IMMEDIATE") as child:
        child.expect("begun")
        with pytest.raises(Busy, match=f"process {child.pid} .*waited 0.01 s"):
            add(either, "x", budget=0.01)
        assert bodies(either) == []
        child.tell()
        child.expect("ended")
        assert is_idle(either)
        add(either, "x", budget=0)
        assert bodies(either) == ["x"]


def test_a_program_that_holds_the_file_is_waited_for(
    either: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Child(OUTSIDER, either.path, "BEGIN IMMEDIATE") as child:
        child.expect("begun")
        pauses: list[float] = []

        def pause(seconds: float) -> None:
            if not pauses:
                child.tell()
                child.expect("ended")
            pauses.append(seconds)

        monkeypatch.setattr(connect, "time", time_with_sleep(pause))
        add(either, "x", budget=60)
        assert pauses
        assert bodies(either) == ["x"]


def test_a_reader_in_the_way_of_a_rollback_commit_is_waited_for(
    either: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pragmas, "BUSY_MS", 1)
    with Child(OUTSIDER, either.path, "BEGIN") as child:
        child.expect("begun")

        def pause(_seconds: float) -> None:
            child.tell()
            child.expect("ended")

        monkeypatch.setattr(connect, "time", time_with_sleep(pause))
        add(either, "x", budget=60)
        assert bodies(either) == ["x"]


@pytest.mark.parametrize("either", ["delete"], indirect=True)
def test_a_reader_that_stays_refuses_a_rollback_commit(
    either: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pragmas, "BUSY_MS", 1)
    with Child(OUTSIDER, either.path, "BEGIN") as child:
        child.expect("begun")
        with pytest.raises(Busy):
            add(either, "x", budget=0.01)
        child.tell()
        child.expect("ended")
    assert is_idle(either)
    add(either, "y")
    assert bodies(either) == ["y"]


@pytest.mark.parametrize("either", ["delete"], indirect=True)
def test_a_reader_names_the_program_that_locked_everything(
    either: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pragmas, "CONNECTION", (pragmas.Pragma("busy_timeout", "1", 1, "a test"),))
    with Child(OUTSIDER, either.path, "BEGIN EXCLUSIVE") as child:
        child.expect("begun")
        with pytest.raises(Busy, match=f"process {child.pid} "):
            bodies(either)


# ---------------------------------------------------------------------- readers


def test_a_reader_sees_the_old_state_while_another_thread_writes(database: SqliteDatabase) -> None:
    add(database, "old")
    inside, go_on = threading.Event(), threading.Event()

    def write() -> None:
        with database.write() as tx:
            tx.run(Sql("INSERT INTO t(body) VALUES('new')"))
            inside.set()
            go_on.wait()

    thread = threading.Thread(target=write)
    thread.start()
    inside.wait()
    assert bodies(database) == ["old"]
    with database.read() as tx:
        assert tx.one(Sql("SELECT count(*) FROM t")) == (1,)
        go_on.set()
        thread.join()
        assert tx.one(Sql("SELECT count(*) FROM t")) == (1,)
    assert bodies(database) == ["old", "new"]


def test_read_connections_are_used_again(database: SqliteDatabase) -> None:
    with database.read(), database.read():
        first = set(database._readers._lent)
    assert len(first) == 2
    with database.read(), database.read():
        assert set(database._readers._lent) == first


def test_a_read_after_closing_is_refused(database: SqliteDatabase) -> None:
    with database.read() as tx:
        database.close()
        assert tx.one(Sql("SELECT count(*) FROM t")) == (0,)
    for use in (
        lambda: bodies(database),
        lambda: add(database, "x"),
        database.changes,
        lambda: database.changed(0),
        database.truncate_log,
        database.follow,
        database.followed,
    ):
        with pytest.raises(Closed, match="was closed"):
            use()
    database.close()
    database.unfollow()
    assert database.closed
    assert not Path(f"{database.path}-wal").exists()


def test_threads_share_a_database(database: SqliteDatabase) -> None:
    def work(number: int) -> None:
        for count in range(25):
            add(database, number * 1000 + count, durable=False)
            assert number * 1000 + count in bodies(database)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = bodies(database)
    for number in range(6):
        mine = [body for body in found if isinstance(body, int) and body // 1000 == number]
        assert mine == [number * 1000 + count for count in range(25)]


def test_closing_waits_for_the_transaction_of_another_thread(database: SqliteDatabase) -> None:
    inside = threading.Event()
    lock = database.writer_lock()

    def write() -> None:
        with database.write() as tx:
            inside.set()
            wait_until(lambda: len(lock._threads._waiting) == 1)
            tx.run(Sql("INSERT INTO t(body) VALUES('x')"))

    thread = threading.Thread(target=write)
    thread.start()
    inside.wait()
    database.close()
    thread.join()
    with SqliteDatabase(database.path, {}, read_only=True) as again:
        assert bodies(again) == ["x"]


def test_a_write_that_waited_while_the_database_was_closed_is_refused(
    database: SqliteDatabase,
) -> None:
    refused: list[BaseException] = []

    def write() -> None:
        try:
            add(database, "too late")
        except Closed as error:
            refused.append(error)

    lock = database.writer_lock()
    with SqliteDatabase(database.path, {}) as other, other.write():
        thread = threading.Thread(target=write)
        thread.start()
        wait_until(lambda: len(lock._threads._waiting) == 1)
        closing = threading.Thread(target=database.close)
        closing.start()
        wait_until(lambda: len(lock._threads._waiting) == 2)
    thread.join()
    closing.join()
    assert len(refused) == 1
    assert database.writer.connection is None


def test_closing_does_not_wait_longer_than_its_budget_for_another_process(tmp_path: Path) -> None:
    holder = """
from threadkeep.base.sqlite.lock import LockHeld, lock_for
with LockHeld(lock_for(Path(sys.argv[1])), 60):
    say("held")
    hear()
"""
    with table(tmp_path / "a.db"):
        pass
    database = SqliteDatabase(tmp_path / "a.db", {}, budget=0.01)
    add(database, "x", budget=60)
    with Child(holder, database.path) as child:
        child.expect("held")
        database.close()
        assert database.writer.connection is None
    with SqliteDatabase(tmp_path / "a.db", {}) as again:
        assert bodies(again) == ["x"]


# ---------------------------------------------------------------------- read-only


def test_a_live_database_can_be_opened_read_only(database: SqliteDatabase) -> None:
    add(database, "in the log")
    with SqliteDatabase(database.path, {}, read_only=True) as reader:
        assert bodies(reader) == ["in the log"]
        add(database, "later")
        assert bodies(reader) == ["in the log", "later"]
        for refused in (lambda: add(reader, "x"), reader.vacuum, reader.truncate_log):
            with pytest.raises(ReadOnly, match="open read-only"):
                refused()
        reader.follow()
        assert not reader.followed()
        reader.unfollow()


def test_a_file_that_cannot_have_a_log_is_read_anew_each_time(tmp_path: Path) -> None:
    """Nothing tells such a connection of a change by somebody who may write there."""
    home, writable = tmp_path / "home", tmp_path / "same"
    with table(home / "a.db") as database:
        add(database, "x")
    writable.symlink_to(home)
    reader = None
    with read_only(home):
        reader = SqliteDatabase(home / "a.db", {}, read_only=True)
        assert bodies(reader) == ["x"]
    with SqliteDatabase(home / "a.db", {}) as database:
        add(database, "y")
    with read_only(home):
        assert bodies(reader) == ["x", "y"]
        reader.close()


# ---------------------------------------------------------------------- wake-up

COMMITTER = """
with SqliteDatabase(sys.argv[1], {}) as database:
    say("ready")
    while (word := hear()):
        with database.write() as tx:
            tx.run(Sql("INSERT INTO t(body) VALUES(?)"), (word,))
"""


def test_a_commit_of_this_process_wakes_who_waits(database: SqliteDatabase) -> None:
    seen = database.changes()
    woken: list[int] = []
    thread = threading.Thread(target=lambda: woken.append(database.changed(seen)))
    thread.start()
    wait_until(lambda: database._wakeup._waiting == 1)
    add(database, "x")
    thread.join()
    assert woken != [seen]
    assert woken == [database.changes()]
    assert database._wakeup._waiting == 0


def test_a_commit_of_another_process_wakes_who_waits(database: SqliteDatabase) -> None:
    with Child(COMMITTER, database.path) as child:
        child.expect("ready")
        seen = database.changes()
        child.tell("x")
        assert database.changed(seen) != seen
        assert bodies(database) == ["x"]


def test_a_change_that_came_before_the_wait_is_not_missed(database: SqliteDatabase) -> None:
    seen = database.changes()
    add(database, "x")
    assert database.changed(seen) != seen


def test_waiting_ends_with_its_time(database: SqliteDatabase) -> None:
    seen = database.changes()
    for timeout in (0, -1, 0.003):
        assert database.changed(seen, timeout) == seen
    with pytest.raises(ZeroDivisionError), database.write() as tx:
        tx.run(Sql("INSERT INTO t(body) VALUES('x')"))
        raise ZeroDivisionError
    assert database.changed(seen, 0) == seen


def test_waiting_ends_when_the_database_is_closed(database: SqliteDatabase) -> None:
    seen = database.changes()
    ended: list[BaseException] = []

    def wait() -> None:
        try:
            database.changed(seen)
        except Closed as error:
            ended.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    wait_until(lambda: database._wakeup._waiting == 1)
    database.close()
    thread.join()
    assert len(ended) == 1


def test_waiting_keeps_no_snapshot(database: SqliteDatabase) -> None:
    seen = database.changes()
    thread = threading.Thread(target=lambda: database.changed(seen))
    thread.start()
    wait_until(lambda: database._wakeup._waiting == 1)
    assert database.truncate_log()
    add(database, "x")
    thread.join()


def test_a_new_file_has_its_journal_mode_before_anybody_can_see_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that began to read an empty file would keep it from ever getting one."""
    path, seen = tmp_path / "a.db", list[int]()
    link = os.link

    def look_after(source: Path, target: Path) -> None:
        link(source, target)
        seen.append(target.stat().st_size)

    monkeypatch.setattr(os, "link", look_after)
    with SqliteDatabase(path, {}) as database:
        assert database.journal_mode == "wal"
    assert seen == [4096]
