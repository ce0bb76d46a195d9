"""One file between two sides: what a transaction promises, and what the other side may try."""

import os
import signal
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.children import Child, exit_code, fork
from tests.support.mail import leave_unfinished
from threadkeep.base.sqlite import shared_file
from threadkeep.base.sqlite.shared_file import SharedFile
from threadkeep.base.tx import Sql
from threadkeep.errors import (
    Busy,
    Closed,
    Conflict,
    Damaged,
    NotFound,
    ReadOnly,
    ThreadkeepError,
    TooLarge,
)

SUPER_MAGIC = bytes.fromhex("d9d505f920a163d7")
QUERIES = {"bodies": "SELECT body FROM t ORDER BY id", "add": "INSERT INTO t(body) VALUES (:body)"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "inbound.db"
    plain(path, "CREATE TABLE t(id INTEGER PRIMARY KEY, body)")
    return path


@pytest.fixture
def file(path: Path) -> SharedFile:
    return SharedFile(path, QUERIES)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look into an unfinished journal at once."""
    monkeypatch.setattr(shared_file, "_PATIENCE", 0.0)


def plain(path: Path, *statements: str) -> list[Any]:
    """Run statements as any other program would; give the rows of the last one."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return [connection.execute(statement).fetchall() for statement in statements][-1]


def add(file: SharedFile, body: object) -> None:
    with file.write() as tx:
        tx.run("add", {"body": body})


def bodies(file: SharedFile, **options: Any) -> list[Any]:
    with file.read(**options) as tx:
        return [body for (body,) in tx.all("bodies")]


def beside(path: Path) -> set[str]:
    """Name everything in the folder but the databases."""
    return {other.name for other in path.parent.iterdir()} - {"inbound.db", "outbound.db"}


# ---------------------------------------------------------------------- transactions


def test_what_was_written_is_read(file: SharedFile) -> None:
    add(file, "one")
    add(file, "two")
    assert bodies(file) == ["one", "two"]
    assert beside(file.path) == set()


def test_a_failed_block_leaves_no_trace(file: SharedFile) -> None:
    with pytest.raises(ZeroDivisionError), file.write() as tx:
        tx.run("add", {"body": "gone"})
        raise ZeroDivisionError
    assert bodies(file) == []
    assert beside(file.path) == set()


def test_a_reader_cannot_write(file: SharedFile) -> None:
    with pytest.raises(ReadOnly), file.read() as tx:
        tx.run("add", {"body": "x"})


def test_a_transaction_is_over_after_its_block(file: SharedFile) -> None:
    with file.write() as tx:
        pass
    with pytest.raises(Closed):
        tx.run("add", {"body": "late"})


def test_a_reader_sees_one_snapshot_of_both_files(file: SharedFile, tmp_path: Path) -> None:
    other = tmp_path / "outbound.db"
    plain(other, "CREATE TABLE u(x)", "INSERT INTO u VALUES (7)")
    add(file, "here")
    with file.read({"outbound": other}) as tx:
        assert tx.all(Sql("SELECT body, x FROM t, outbound.u")) == [("here", 7)]


def test_each_transaction_sees_what_another_program_wrote_before(file: SharedFile) -> None:
    assert bodies(file) == []
    plain(file.path, "INSERT INTO t(body) VALUES ('theirs')")
    assert bodies(file) == ["theirs"]


def test_a_transaction_inside_another_is_refused_and_does_not_hang(file: SharedFile) -> None:
    with file.write() as tx:
        tx.run("add", {"body": "outer"})
        with pytest.raises(Conflict, match="in this thread already"), file.read():
            pass
    assert bodies(file) == ["outer"]


def test_threads_take_turns(file: SharedFile) -> None:
    threads = [threading.Thread(target=add, args=(file, number)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(bodies(file)) == list(range(12))


def test_a_thread_that_waits_too_long_for_another_is_told(path: Path) -> None:
    file = SharedFile(path, QUERIES, budget=0.01)
    found: list[BaseException] = []

    def wait() -> None:
        try:
            bodies(file)
        except ThreadkeepError as error:
            found.append(error)

    with file.read():
        thread = threading.Thread(target=wait)
        thread.start()
        thread.join()
    assert isinstance(found[0], Busy)
    assert "another thread" in str(found[0])


# ---------------------------------------------------------------------- settings


def test_the_settings_are_those_that_two_kernels_can_share(file: SharedFile) -> None:
    with file.write() as tx:
        asked = ("journal_mode", "synchronous", "busy_timeout", "mmap_size", "trusted_schema")
        found = {name: tx.value(Sql(f"PRAGMA {name}")) for name in asked}
    assert found == {
        "journal_mode": "delete",
        "synchronous": 3,
        "busy_timeout": 30_000,
        "mmap_size": 0,
        "trusted_schema": 0,
    }


@pytest.mark.parametrize("mode", ["ro", "rw"])
def test_the_patience_is_set_before_anything_else(
    path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    ran: list[str] = []

    class Connection(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            ran.append(sql)
            return super().execute(sql, *values)

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **k, factory=Connection))
    file = SharedFile(path, QUERIES)
    with file.read() if mode == "ro" else file.write():
        pass
    assert ran[0] == "PRAGMA busy_timeout = 30000"


LOCKER = """
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
say("locked")
hear()
connection.execute("INSERT INTO t(body) VALUES ('theirs')")
connection.execute("COMMIT")
connection.close()
say("done")
hear()
"""
WRITER = """
from threadkeep.base.sqlite.shared_file import SharedFile
file = SharedFile(Path(sys.argv[1]), {})
say("ready")
hear()
with file.write() as tx:
    timeout = tx.value(Sql("PRAGMA busy_timeout"))
    tx.run(Sql("INSERT INTO t(body) VALUES ('ours')"))
say(timeout)
"""


def test_a_lock_that_the_first_pragma_meets_is_waited_for(file: SharedFile) -> None:
    with Child(LOCKER, file.path) as locker, Child(WRITER, file.path) as writer:
        locker.expect("locked")
        writer.expect("ready")
        writer.tell()  # it meets the lock with its first look at the file, or comes after it
        locker.tell()
        locker.expect("done")
        writer.expect("30000")
    assert bodies(file) == ["theirs", "ours"]


def test_a_lock_that_stays_is_named_when_the_patience_ends(path: Path) -> None:
    file = SharedFile(path, QUERIES, budget=0.05)
    with Child(LOCKER, path) as locker:
        locker.expect("locked")
        with pytest.raises(Busy, match=r"inbound\.db is locked by another program; waited 0\.05 s"):
            add(file, "x")
        with pytest.raises(Busy, match=r"waited 0\.05 s"):
            bodies(file)


def test_a_reader_of_another_program_holds_a_commit_up_but_does_not_lose_it(path: Path) -> None:
    file = SharedFile(path, QUERIES, budget=0.05)
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM t").fetchone()
        with pytest.raises(Busy):
            add(file, "x")
        reader.execute("COMMIT")
    assert bodies(file) == []
    add(file, "y")
    assert bodies(file) == ["y"]


# ---------------------------------------------------------------------- forks


def test_a_child_forked_outside_of_transactions_works_on(file: SharedFile) -> None:
    add(file, "parent")
    assert exit_code(fork(lambda: add(file, "child"))) == 0
    add(file, "parent again")
    assert bodies(file) == ["parent", "child", "parent again"]


def test_a_child_forked_inside_a_transaction_is_refused_the_file(file: SharedFile) -> None:
    def use() -> None:
        with pytest.raises(Conflict, match="forked inside a transaction"):
            add(file, "child")

    with file.write() as tx:
        tx.run("add", {"body": "parent"})
        assert exit_code(fork(use)) == 0
    assert bodies(file) == ["parent"]


def test_a_child_cannot_end_the_transaction_of_its_parent(file: SharedFile) -> None:
    """The child leaves the block, which would commit, or roll back, what is the parent's."""
    pid = -1

    def block(*, fail: bool) -> None:
        nonlocal pid
        with file.write() as tx:
            tx.run("add", {"body": f"parent, fail={fail}"})
            pid = os.fork()
            if pid == 0:
                with pytest.raises(Closed):
                    tx.run("add", {"body": "child"})
                if fail:
                    raise ZeroDivisionError

    for fail in (False, True):
        try:
            block(fail=fail)
        except (Conflict, ZeroDivisionError) as error:
            if pid != 0:
                raise
            os._exit(0 if isinstance(error, ZeroDivisionError if fail else Conflict) else 3)
        if pid == 0:
            os._exit(4)
        assert exit_code(pid) == 0
    assert bodies(file) == ["parent, fail=False", "parent, fail=True"]
    assert plain(file.path, "PRAGMA integrity_check") == [("ok",)]


def test_a_fork_waits_for_the_transaction_of_another_thread(file: SharedFile) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with file.write() as tx:
            tx.run("add", {"body": "thread"})
            inside.set()
            go_on.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait()
    timer = threading.Timer(0.05, go_on.set)  # the fork waits for it, however long it takes
    timer.start()
    assert exit_code(fork(lambda: add(file, "child"))) == 0
    thread.join()
    timer.join()
    assert bodies(file) == ["thread", "child"]


# ---------------------------------------------------------------------- unfinished commits


def make_hot(path: Path) -> list[Any]:
    """Leave the file as a writer does that dies in the middle of a commit; give what it held."""
    plain(path, *(f"INSERT INTO t(body) VALUES (zeroblob({size}))" for size in range(4000, 4012)))
    before = plain(path, "SELECT body FROM t ORDER BY id")
    leave_unfinished(path, "UPDATE t SET body = randomblob(4000)")
    with (
        closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as reader,
        pytest.raises(sqlite3.OperationalError) as failed,  # a reader cannot undo it
    ):
        reader.execute("SELECT * FROM t")
    assert failed.value.sqlite_errorcode == sqlite3.SQLITE_READONLY_ROLLBACK
    return [body for (body,) in before]


@pytest.mark.usefixtures("hasty")
def test_a_reader_undoes_what_a_dead_writer_left(file: SharedFile) -> None:
    before = make_hot(file.path)
    assert bodies(file) == before
    assert beside(file.path) == set()


@pytest.mark.usefixtures("hasty")
def test_a_reader_undoes_it_in_the_file_beside_as_well(file: SharedFile, tmp_path: Path) -> None:
    other = tmp_path / "outbound.db"
    plain(other, "CREATE TABLE t(id INTEGER PRIMARY KEY, body)")
    before = make_hot(other)
    with file.read({"outbound": other}) as tx:
        found = tx.all(Sql("SELECT body FROM outbound.t ORDER BY id"))
    assert [body for (body,) in found] == before
    assert beside(file.path) == set()


@pytest.mark.usefixtures("hasty")
def test_a_writer_undoes_what_a_dead_one_left(file: SharedFile) -> None:
    before = make_hot(file.path)
    add(file, "new")
    assert bodies(file) == [*before, "new"]


@pytest.mark.usefixtures("hasty")
def test_nothing_is_undone_while_the_owner_runs(file: SharedFile) -> None:
    before = make_hot(file.path)
    journal = Path(f"{file.path}-journal").read_bytes()
    with pytest.raises(Busy, match="in the middle of a commit"):
        bodies(file, owner_runs=lambda: True)
    assert Path(f"{file.path}-journal").read_bytes() == journal
    assert bodies(file, owner_runs=lambda: False) == before


def test_a_writer_that_finishes_in_time_needs_no_help(
    file: SharedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On two kernels a reader may see the journal of a commit that is under way."""
    make_hot(file.path)

    def finish(_: float) -> None:
        plain(
            file.path, "UPDATE t SET body = 'finished' WHERE id = 1", "DELETE FROM t WHERE id > 1"
        )

    clock = type("Time", (), {"monotonic": staticmethod(lambda: 0.0), "sleep": finish})
    monkeypatch.setattr(shared_file, "time", clock)
    assert bodies(file, owner_runs=lambda: True) == ["finished"]


DYING = """
from threadkeep.base.sqlite.shared_file import SharedFile
with SharedFile(Path(sys.argv[1]), {}).write() as tx:
    tx.run(Sql("PRAGMA cache_size = 1"))
    tx.run(Sql("UPDATE t SET body = randomblob(4000)"))
    say("inside")
    hear()
"""


@pytest.mark.usefixtures("hasty")
def test_a_writer_killed_inside_a_transaction_is_undone(file: SharedFile) -> None:
    for _ in range(12):
        add(file, b"x" * 4000)
    with Child(DYING, file.path) as child:
        child.expect("inside")
        os.kill(child.pid, signal.SIGKILL)
        child.end()
    assert beside(file.path) == {"inbound.db-journal"}
    assert bodies(file) == [b"x" * 4000] * 12
    assert beside(file.path) == set()
    assert plain(file.path, "PRAGMA integrity_check") == [("ok",)]


# ---------------------------------------------------------------------- hostile files


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    file = SharedFile(tmp_path / "inbound.db", QUERIES)
    for use in (bodies, lambda f: add(f, "x")):
        with pytest.raises(NotFound, match="no database at"):
            use(file)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["link", "hard link", "pipe", "folder"])
def test_other_things_in_the_place_of_the_file_are_refused(
    file: SharedFile, tmp_path: Path, kind: str
) -> None:
    victim = tmp_path / "victim.db"
    file.path.rename(victim)
    if kind == "link":
        file.path.symlink_to(victim)
    elif kind == "hard link":
        os.link(victim, file.path)
    elif kind == "pipe":
        os.mkfifo(file.path)
    else:
        file.path.mkdir()
    before = victim.read_bytes()
    for use in (bodies, lambda f: add(f, "x")):
        with pytest.raises(Damaged, match="link or not a regular file"):
            use(file)
    assert victim.read_bytes() == before


@pytest.mark.parametrize("kind", ["link", "dangling link", "hard link", "pipe", "folder"])
def test_other_things_in_the_place_of_the_journal_are_refused(
    file: SharedFile, tmp_path: Path, kind: str
) -> None:
    add(file, "x")
    victim, journal = tmp_path / "victim", Path(f"{file.path}-journal")
    victim.write_text("\0mine")
    if kind == "link":
        journal.symlink_to(victim)
    elif kind == "dangling link":
        journal.symlink_to(tmp_path / "new")
    elif kind == "hard link":
        os.link(victim, journal)
    elif kind == "pipe":
        os.mkfifo(journal)
    else:
        journal.mkdir()
    for use in (bodies, lambda f: add(f, "y")):
        with pytest.raises(Damaged, match="journal"):
            use(file)
    assert victim.read_text() == "\0mine"
    assert not (tmp_path / "new").exists()


def name_in_journal(path: Path, victim: Path) -> None:
    """End a journal with the name of a file, as a commit over several files does."""
    name = os.fsencode(victim)
    tail = (0x40000000 // 4096 + 1).to_bytes(4, "big") + name
    tail += len(name).to_bytes(4, "big") + sum(name).to_bytes(4, "big") + SUPER_MAGIC
    with Path(f"{path}-journal").open("ab") as journal:
        journal.write(tail)


def plant(path: Path, victim: Path) -> None:
    make_hot(path)
    victim.write_text("mine")
    name_in_journal(path, victim)


def test_the_planted_journal_of_these_tests_would_delete_a_file(path: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    plant(path, victim)
    plain(path, "INSERT INTO t(body) VALUES ('x')")
    assert not victim.exists()


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("use", ["read", "write", "beside"])
def test_a_journal_that_names_a_victim_is_refused(
    file: SharedFile, tmp_path: Path, use: str
) -> None:
    victim, other = tmp_path / "victim", tmp_path / "outbound.db"
    if use == "beside":
        plain(other, "CREATE TABLE t(id INTEGER PRIMARY KEY, body)")
        plant(other, victim)
    else:
        plant(file.path, victim)
    with pytest.raises(Damaged, match="was not left by a commit of ours"):
        if use == "write":
            add(file, "x")
        else:
            bodies(file, beside={"outbound": other} if use == "beside" else None)
    assert victim.read_text() == "mine"


ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x, 'y' FROM n"


def test_a_view_is_refused_before_it_runs(file: SharedFile) -> None:
    plain(file.path, "DROP TABLE t", f"CREATE VIEW t(id, body) AS {ENDLESS}")
    for use in (bodies, lambda f: add(f, "x")):
        with pytest.raises(Damaged, match=r"'t' in .* is a view, not a table"):
            use(file)


def test_a_view_in_the_file_beside_is_refused(file: SharedFile, tmp_path: Path) -> None:
    other = tmp_path / "outbound.db"
    plain(other, f"CREATE VIEW messages_out AS {ENDLESS}")
    with pytest.raises(Damaged, match=r"'messages_out' in .*outbound\.db is a view, not a table"):
        bodies(file, beside={"outbound": other})


BOMB = "hex(zeroblob(400000000))"


@pytest.mark.parametrize("kind", ["VIRTUAL", "STORED"])
def test_a_generated_column_is_refused_before_it_is_computed(file: SharedFile, kind: str) -> None:
    table = f"CREATE TABLE t (id INTEGER PRIMARY KEY, body TEXT AS ({BOMB}) {kind})"
    small = table.replace(BOMB, "0")
    arm = f"UPDATE sqlite_master SET sql = '{table}' WHERE name = 't'"
    plain(file.path, "DROP TABLE t", small, "INSERT INTO t VALUES (1)")
    plain(file.path, "PRAGMA writable_schema = ON", arm)
    for use in (bodies, lambda f: add(f, "x")):
        with pytest.raises(Damaged, match=r"'t' in .* is a table with generated columns"):
            use(file)


def test_a_virtual_table_is_refused(file: SharedFile) -> None:
    plain(file.path, "DROP TABLE t", "CREATE VIRTUAL TABLE t USING fts5(id, body)")
    with pytest.raises(Damaged, match=r"'t' in .* is a virtual table"):
        bodies(file)


def test_a_value_that_is_too_large_is_not_read(file: SharedFile) -> None:
    plain(file.path, "INSERT INTO t (body) VALUES (zeroblob(70000000))")
    with pytest.raises(TooLarge, match="more than 64 MiB"):
        bodies(file)


def test_a_query_that_never_ends_is_ended(path: Path) -> None:
    plain(path, f"CREATE TRIGGER slow BEFORE INSERT ON t BEGIN {ENDLESS}; END")
    file = SharedFile(path, QUERIES, budget=0.05)
    with pytest.raises(Damaged, match=r"kept a query running for 0\.05 s"):
        add(file, "x")
    assert bodies(file) == []


def test_no_mapped_log_of_the_other_side_is_opened(file: SharedFile, tmp_path: Path) -> None:
    """Memory that is mapped from a file kills whoever reads it once the file is cut short."""
    other = tmp_path / "outbound.db"
    plain(other, "CREATE TABLE t(body)", "PRAGMA journal_mode = WAL")
    for use in (
        lambda: bodies(SharedFile(other, QUERIES)),
        lambda: add(SharedFile(other, QUERIES), "x"),
        lambda: bodies(file, beside={"outbound": other}),
    ):
        with pytest.raises(Damaged, match="write-ahead log"):
            use()
    assert "outbound.db-shm" not in beside(file.path)


@pytest.mark.parametrize("content", [b"", b"no database at all " * 300])
def test_a_file_that_is_no_database_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "inbound.db"
    path.write_bytes(content)
    for use in (bodies, lambda f: add(f, "x")):
        with pytest.raises(ThreadkeepError, match=r"inbound\.db"):
            use(SharedFile(path, QUERIES))


@pytest.fixture
def odd_text(file: SharedFile) -> SharedFile:
    plain(file.path, "INSERT INTO t(body) VALUES (CAST(x'ff41' AS TEXT)), (x'00ff'), (2.5), (NULL)")
    return file


def test_text_that_is_no_utf8_stops_neither_readers_nor_writers(odd_text: SharedFile) -> None:
    expected = ["\ufffdA", b"\x00\xff", 2.5, None]
    assert bodies(odd_text) == expected
    with odd_text.write() as tx:
        assert [body for (body,) in tx.all("bodies")] == expected
