"""The log: bounded while busy, emptied when idle, never replaced under us unnoticed."""

import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.conftest import REPO, need_tool
from tests.support.children import Child, add, bodies, table
from threadkeep.base.sqlite import wal
from threadkeep.base.sqlite.database import SqliteDatabase
from threadkeep.base.tx import Sql
from threadkeep.errors import Damaged

MB = 1024 * 1024
BIG = b"x" * (MB // 2)

READER = """
with SqliteDatabase(sys.argv[1], {}) as database:
    with database.read() as tx:
        tx.one(Sql("SELECT count(*) FROM t"))
        say("reading")
        hear()
    say("done")
    hear()
"""


class StillTimer:
    """A timer that never fires by itself: tests call what it would call."""

    def __init__(self, pause: float, _action: object) -> None:
        self.pause = pause
        self.daemon = False
        self.started = self.cancelled = False

    def start(self) -> None:
        self.started = True

    def cancel(self) -> None:
        self.cancelled = True


@pytest.fixture(autouse=True)
def still_timers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wal, "threading", SimpleNamespace(Timer=StillTimer))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    with table(tmp_path / "a.db") as database:
        yield database


def timer_of(database: SqliteDatabase) -> StillTimer:
    timer = database.wal._timer
    assert isinstance(timer, StillTimer)
    return timer


def log_of(database: SqliteDatabase) -> Path:
    return Path(f"{database.file}-wal")


def grow(database: SqliteDatabase, size: int, *, durable: bool = False) -> None:
    """Write until the log is larger than `size`; something must keep it from starting over."""
    for _ in range(size // len(BIG) + 1):
        add(database, BIG, durable=durable)
    assert database.wal.size() > size


def test_the_log_stays_small_while_nobody_is_in_its_way(database: SqliteDatabase) -> None:
    largest = 0
    for _ in range(60):
        add(database, BIG, durable=False)
        largest = max(largest, database.wal.size())
    assert largest < wal._LARGE


def test_the_log_grows_under_a_reader_and_is_cut_by_the_next_write(
    database: SqliteDatabase,
) -> None:
    with database.read() as tx:
        tx.one(Sql("SELECT count(*) FROM t"))
        grow(database, 10 * MB)
        add(database, "a look at the log", durable=True)
        assert database.wal.size() > 10 * MB
    add(database, "another look", durable=True)
    assert database.wal.size() == 0


def test_the_log_is_emptied_when_idle(database: SqliteDatabase) -> None:
    with database.read() as tx:
        tx.one(Sql("SELECT count(*) FROM t"))
        grow(database, 10 * MB, durable=True)
        assert timer_of(database).pause == wal._IDLE_FIRST
        database.wal.when_idle()  # there were writes since the timer was set
        assert timer_of(database).pause == wal._IDLE_FIRST
        database.wal.when_idle()  # there were none, but the reader is still there
        assert database.wal.size() > 10 * MB
        assert timer_of(database).pause == 2 * wal._IDLE_FIRST
    database.wal.when_idle()
    assert database.wal.size() == 0
    assert database.wal._timer is None


def test_the_pause_between_attempts_has_an_end(database: SqliteDatabase) -> None:
    with database.read() as tx:
        tx.one(Sql("SELECT count(*) FROM t"))
        grow(database, 10 * MB, durable=True)
        for _ in range(10):
            database.wal.when_idle()
        assert timer_of(database).pause == wal._IDLE_LAST


def test_the_timer_itself_empties_the_log(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = threading.Event()
    original = database.truncate_log

    def truncate_log(budget: float | None = None) -> bool:
        emptied = original(budget)
        if emptied:
            done.set()
        return emptied

    monkeypatch.setattr(wal, "threading", threading)
    monkeypatch.setattr(database, "truncate_log", truncate_log)
    database.wal._pause = 0.0
    add(database, b"x" * (5 * MB), durable=True)
    assert done.wait(60)
    assert database.wal.size() == 0


def test_a_log_of_ordinary_size_sets_no_timer(database: SqliteDatabase) -> None:
    for _ in range(200):
        add(database, "x", durable=False)
    add(database, "x", durable=True)
    assert database.wal._timer is None


def test_a_timer_that_cannot_start_does_not_fail_the_commit(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_timer: StillTimer) -> None:
        raise RuntimeError("can't start new thread at interpreter shutdown")

    monkeypatch.setattr(StillTimer, "start", refuse)
    add(database, b"x" * (5 * MB), durable=True)
    assert len(bodies(database)) == 1
    assert database.wal._timer is None


def test_a_large_log_left_by_a_crash_is_emptied_when_idle(tmp_path: Path) -> None:
    script = """
database = SqliteDatabase(sys.argv[1], {})
with database.write() as tx:
    tx.run(Sql("CREATE TABLE t(id INTEGER PRIMARY KEY, body)"))
    tx.run(Sql("INSERT INTO t(body) VALUES(?)"), (b"x" * 6_000_000,))
database.wal.stop()
say("written")
hear()
"""
    with Child(script, tmp_path / "a.db") as child:
        child.expect("written")
        child.kill()
    with SqliteDatabase(tmp_path / "a.db", {}) as database:
        assert database.wal.size() > wal._IDLE_LIMIT
        assert timer_of(database).started
        database.wal.when_idle()
        assert database.wal.size() == 0
        assert len(bodies(database)) == 1


def test_closing_cuts_a_long_log_while_others_stay(database: SqliteDatabase) -> None:
    with SqliteDatabase(database.path, {}) as other:
        with database.read() as tx:
            tx.one(Sql("SELECT count(*) FROM t"))
            grow(other, 10 * MB)
        other.close()
        assert database.wal.size() == 0
    assert len(bodies(database)) > 10


def test_the_last_one_out_leaves_no_log(database: SqliteDatabase) -> None:
    grow(database, 1 * MB)
    database.close()
    assert sorted(p.name for p in database.path.parent.iterdir()) == ["a.db", "a.db.lock"]


def test_closing_stops_the_timer(database: SqliteDatabase) -> None:
    add(database, b"x" * (5 * MB), durable=True)
    timer = timer_of(database)
    assert timer.started
    assert timer.daemon
    database.close()
    assert timer.cancelled
    database.wal.when_idle()  # it was on its way already
    assert database.wal._timer is None


def test_a_reader_that_pins_a_huge_log_is_named(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(wal, "_LARGE", 1 * MB)
    monkeypatch.setattr(wal, "_ALARM", 2 * MB)
    with Child(READER, database.path) as reader, caplog.at_level(logging.WARNING):
        reader.expect("reading")
        grow(database, 3 * MB, durable=True)
        assert f"process {reader.pid} " in caplog.text
        assert str(log_of(database)) in caplog.text
        assert len(caplog.records) == 1  # said once
        reader.tell()
        reader.expect("done")
        add(database, "x", durable=True)
        assert database.wal.size() == 0


def test_a_checkpoint_in_the_way_of_a_reader_is_not_an_error(database: SqliteDatabase) -> None:
    add(database, "x")
    with database.read() as tx:
        tx.all(Sql("SELECT * FROM t"))
        add(database, "y")
        assert not database.truncate_log()
    assert database.truncate_log()
    assert database.wal.size() == 0


# ---------------------------------------------------------------------- replaced under us


@pytest.mark.parametrize("suffix", ["", "-wal"])
@pytest.mark.parametrize("way", ["removed", "replaced"])
def test_a_file_taken_away_under_us_is_noticed_and_nothing_more_is_written(
    database: SqliteDatabase, suffix: str, way: str
) -> None:
    add(database, "kept")
    path = Path(f"{database.file}{suffix}")
    path.rename(f"{path}.away")
    if way == "replaced":
        path.write_bytes(b"")
    with pytest.raises(Damaged, match=re.escape(f"{path} was removed or replaced")):
        add(database, "lost")
    for durable in (False, True):
        with pytest.raises(Damaged, match="was removed or replaced"):
            add(database, "lost", durable=durable)


def test_quick_writes_notice_a_missing_log_soon(database: SqliteDatabase) -> None:
    add(database, "kept", durable=False)
    log_of(database).unlink()
    with pytest.raises(Damaged, match="was removed or replaced"):
        for _ in range(wal._LOOK_EVERY + 1):
            add(database, "lost", durable=False)


def test_a_log_that_others_empty_is_not_taken_for_a_replaced_one(database: SqliteDatabase) -> None:
    add(database, "x")
    with SqliteDatabase(database.path, {}) as other:
        assert other.truncate_log()
        other.vacuum()
        add(other, "y")
    add(database, "z")
    assert bodies(database) == ["x", "y", "z"]


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("way", ["removed", "replaced", "link"])
def test_who_waits_for_commits_to_a_file_that_is_gone_is_told(
    tmp_path: Path,
    way: str,
    read_only: bool,  # noqa: FBT001
) -> None:
    for name in ("a.db", "b.db"):
        with table(tmp_path / name) as made:
            add(made, name)
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "a.db")
    with SqliteDatabase(link, {}, read_only=read_only) as database:
        seen = database.changes()
        assert database.changed(seen, 0) == seen
        assert database.is_current()
        if way == "link":
            link.unlink()
            link.symlink_to(tmp_path / "b.db")
        elif way == "replaced":
            (tmp_path / "b.db").rename(tmp_path / "a.db")
        else:
            (tmp_path / "a.db").unlink()
        assert not database.is_current()
        with pytest.raises(Damaged, match="was removed or replaced"):
            database.changed(seen, 0)


# ---------------------------------------------------------------------- programs beside us

OUTSIDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
print(connection.execute("SELECT count(*) FROM t").fetchone()[0])
connection.close()
"""

# Everything we do with a live database, while a user looks into it with another program.
WORKLOAD = """
import os, subprocess
from threadkeep.base.sqlite.backup import make_backup, restore_backup
from threadkeep.base.sqlite.checks import sqlite_problems

path, outsider = Path(sys.argv[1]), sys.argv[2]
database = SqliteDatabase(path, {})
with database.write() as tx:
    tx.run(Sql("CREATE TABLE t(id INTEGER PRIMARY KEY, body)"))

def inode():
    return os.stat(f"{path}-wal").st_ino

first = inode()
for number in range(5):
    with database.write() as tx:
        tx.run(Sql("INSERT INTO t(body) VALUES(?)"), (number,))
    seen = subprocess.run([sys.executable, "-c", outsider, path], capture_output=True, text=True)
    assert seen.stdout == f"{number + 1}\\n", (seen, number)
    assert inode() == first
    backup = make_backup(database)
    with database.read() as tx:
        assert sqlite_problems(tx) == []
    database.wal.size()
    database.followed()
with SqliteDatabase(path, {}, read_only=True) as reader, reader.read() as tx:
    assert tx.one(Sql("SELECT count(*) FROM t")) == (5,)
database.truncate_log()
database.vacuum()
restore_backup(backup, path)
assert inode() == first
with database.write() as tx:
    tx.run(Sql("INSERT INTO t(body) VALUES('last')"))
database.close()
assert not Path(f"{path}-wal").exists()
"""


def test_a_live_database_is_opened_by_sqlite_alone(tmp_path: Path) -> None:
    """SQLite refuses to follow links when it opens a file; nobody else asks for that."""
    strace = need_tool("strace")
    path, trace = tmp_path / "a.db", tmp_path / "trace"
    script = "import sys\nfrom pathlib import Path\n"
    script += "from threadkeep.base.sqlite.database import SqliteDatabase\n"
    script += "from threadkeep.base.tx import Sql\n"
    calls = "trace=open,openat,openat2,creat"
    command = [strace, "-f", "-qq", "-e", calls, "-s", "300", "-o", str(trace)]
    done = subprocess.run(
        [*command, sys.executable, "-c", script + WORKLOAD, str(path), OUTSIDER],
        env=os.environ | {"PYTHONPATH": str(REPO / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    opened = re.compile(rf'"{re.escape(str(path))}(?:-wal|-shm|-journal)?", ([A-Z_|]+)')
    flags = [found[1] for found in map(opened.search, trace.read_text().splitlines()) if found]
    assert len(flags) > 20
    assert [flag for flag in flags if "O_NOFOLLOW" not in flag] == []


def test_the_outsiders_test_would_see_a_plain_open(tmp_path: Path) -> None:
    """What happens to a program that opens its own live database once."""
    path = tmp_path / "a.db"
    with table(path) as database:
        add(database, "kept")
        path.open("rb").close()
        subprocess.run([sys.executable, "-c", OUTSIDER, path], capture_output=True, check=True)
        assert not log_of(database).exists()
        with pytest.raises(Damaged, match="was removed or replaced"):
            add(database, "lost")
