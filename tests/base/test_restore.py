"""A restore beside programs that write: every acknowledged write is in the store or in a copy."""

import os
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.support.children import Child, add, bodies, exit_code, fork
from threadkeep.base.files import sync_dir
from threadkeep.base.sqlite import backup as backup_module
from threadkeep.base.sqlite.backup import (
    BackupRetention,
    list_backups,
    make_backup,
    prune_backups,
    restore_backup,
)
from threadkeep.base.sqlite.database import SqliteDatabase
from threadkeep.errors import Busy, Conflict

MODES = ["wal", "delete"]

# Writes when it is told to, as a program that knows nothing of our lock; says what became of it.
OUTSIDER = """
outside = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=0)
outside.execute("SELECT count(*) FROM t").fetchone()
say("ready")
while word := hear():
    try:
        outside.execute("INSERT INTO t(body) VALUES(?)", (word,))
        say("stored")
    except sqlite3.Error as error:
        say(error)
"""
READER = """
with SqliteDatabase(sys.argv[1], {}, read_only=True) as database:
    for _ in range(2):
        with database.read() as tx:
            say(tx.value(Sql("SELECT group_concat(body) FROM t")))
        hear()
"""
# The same with our own means.
INSIDER = """
from threadkeep.errors import ThreadkeepError
database = SqliteDatabase(sys.argv[1], {}, budget=0)
with database.read() as tx:
    tx.one(Sql("SELECT count(*) FROM t"))
if sys.argv[2:] == ["live"]:
    live = database.live()
say("ready")
while word := hear():
    try:
        if sys.argv[2:] == ["live"]:
            live.execute("INSERT INTO t(body) VALUES(?)", (word,))
        else:
            with database.write(durable=False) as tx:
                tx.run(Sql("INSERT INTO t(body) VALUES(?)"), (word,))
        say("stored")
    except ThreadkeepError as error:
        say(f"{type(error).__name__}: {error.message}")
"""


def made(path: Path, mode: str, *words: str) -> Path:
    """Make a database with one table in a journal mode."""
    plain = sqlite3.connect(path, isolation_level=None)
    plain.execute(f"PRAGMA journal_mode = {mode}")
    plain.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, body)")
    plain.executemany("INSERT INTO t(body) VALUES(?)", [(word,) for word in words])
    plain.execute("CREATE TABLE other(x)")
    plain.execute("INSERT INTO other VALUES(1)")
    plain.close()
    return path


def content(path: Path) -> list[object]:
    with SqliteDatabase(path, {}, read_only=True) as found:
        return bodies(found)


def damage(path: Path) -> None:
    """Overwrite the last page, which no log has, behind the back of everybody."""
    with path.open("r+b") as file:
        file.seek(-4096, os.SEEK_END)
        file.write(b"\xff" * 4096)


def between(monkeypatch: pytest.MonkeyPatch, action: Callable[[], None]) -> None:
    """Do something when the copy has its name and nothing was replaced yet."""

    def sync(folder: Path) -> None:
        sync_dir(folder)
        action()

    monkeypatch.setattr(backup_module, "sync_dir", sync)


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    return made(tmp_path / "copy.db", "delete", "then")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("script, said", [(OUTSIDER, "locked"), (INSIDER, "LockTimeout: ")])
def test_nobody_writes_between_the_copy_and_the_replacement(
    tmp_path: Path,
    backup: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    script: str,
    said: str,
) -> None:
    path = made(tmp_path / "a.db", mode, "now")
    with Child(script, path) as writer:
        writer.expect("ready")
        writer.tell("before")
        writer.expect("stored")
        told: list[str] = []

        def write() -> None:
            writer.tell("between")
            told.append(writer.hear())

        between(monkeypatch, write)
        saved = restore_backup(backup, path)
        assert len(told) == 1
        assert said in told[0]
        writer.tell("after")
        writer.expect("stored")
    assert saved is not None
    assert content(saved) == ["now", "before"]
    assert content(path) == ["then", "after"]
    with SqliteDatabase(path, {}) as found:
        assert found.journal_mode == mode


@pytest.mark.parametrize("mode", MODES)
def test_a_restore_that_must_wait_too_long_changes_nothing_and_lets_go(
    tmp_path: Path, backup: Path, mode: str
) -> None:
    path = made(tmp_path / "a.db", mode, "now")
    outside = sqlite3.connect(path, isolation_level=None, timeout=0)
    outside.execute("BEGIN IMMEDIATE")
    with pytest.raises(Busy, match="outside our lock"):
        restore_backup(backup, path, budget=0.01)
    outside.execute("INSERT INTO t(body) VALUES('kept')")
    outside.execute("COMMIT")
    outside.close()
    assert content(path) == ["now", "kept"]
    assert list_backups(path) == []


@pytest.mark.parametrize("mode", MODES)
def test_a_copy_that_cannot_be_made_leaves_everything_as_it_was(
    tmp_path: Path, backup: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    path = made(tmp_path / "a.db", mode, "now")

    def refuse() -> None:
        raise KeyboardInterrupt

    between(monkeypatch, refuse)
    with pytest.raises(KeyboardInterrupt):
        restore_backup(backup, path)
    with SqliteDatabase(path, {}, budget=0) as database:
        add(database, "since")
        assert bodies(database) == ["now", "since"]


def test_time_that_work_takes_is_no_time_that_was_waited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = made(tmp_path / "copy.db", "delete", *("x" * 3000 for _ in range(20)))
    path = made(tmp_path / "a.db", "wal", "now")
    monkeypatch.setattr("threadkeep.base.sqlite.connections._PAGES_PER_STEP", 1)
    monkeypatch.setattr(
        "threadkeep.base.sqlite.connections.time.monotonic", iter(range(1000)).__next__
    )
    restore_backup(backup, path, budget=2)
    assert len(content(path)) == 20


def test_a_backup_that_holds_nothing_is_not_restored(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    path = made(tmp_path / "a.db", "wal", "now")
    with pytest.raises(Conflict, match="holds nothing"):
        restore_backup(tmp_path / "empty.db", path)
    assert content(path) == ["now"]


# ---------------------------------------------------------------------- what was set aside stays


def test_what_restores_set_aside_goes_by_age_alone(tmp_path: Path, backup: Path) -> None:
    path = made(tmp_path / "a.db", "wal", "now")
    now = 1_800_000_000_000
    with SqliteDatabase(path, {}) as database:
        saved = []
        for number in range(12):
            add(database, number)
            saved.append(restore_backup(backup, path, clock=lambda n=number: now + n))  # type: ignore[misc]
        ordinary = [
            make_backup(
                database,
                keep=BackupRetention(newest=2, days=1),
                clock=lambda n=n: now + 20 + n,  # type: ignore[misc]
            )
            for n in range(3)
        ]
    assert set(list_backups(path)) == {*saved, *ordinary[1:]}
    assert (
        prune_backups(path, BackupRetention(newest=2, days=1), now + 86_400_000 + 12) == saved[::-1]
    )


# ---------------------------------------------------------------------- a damaged file


@pytest.mark.parametrize("how", ["stored", "live"])
def test_a_writer_of_a_file_that_was_moved_aside_is_refused_at_once(
    tmp_path: Path, backup: Path, how: str
) -> None:
    path = made(tmp_path / "a.db", "wal", "now")
    with Child(INSIDER, path, how) as writer:
        writer.expect("ready")
        writer.tell("before")
        writer.expect("stored")
        damage(path)
        aside = restore_backup(backup, path)
        writer.tell("after")
        writer.expect(f"FileDamaged: {path} was removed or replaced while the database was open")
        assert content(path) == ["then"]
        with SqliteDatabase(path, {}) as database:
            add(database, "since")
        writer.process.stdin.close()  # type: ignore[union-attr]
        assert writer.end() == 0  # closing the old file takes nothing from the new one
    assert content(path) == ["then", "since"]
    assert aside is not None
    assert content(aside) == ["now", "before"]


def test_a_reader_of_ours_is_not_in_the_way(tmp_path: Path, backup: Path) -> None:
    path = made(tmp_path / "a.db", "wal", "now")
    with Child(READER, path) as reader:
        reader.expect("now")
        damage(path)
        restore_backup(backup, path)
        reader.tell()
        reader.expect("now")
    assert content(path) == ["then"]


def test_a_program_that_would_write_on_unawares_must_be_closed_first(
    tmp_path: Path, backup: Path
) -> None:
    path = made(tmp_path / "a.db", "wal", "now")
    with Child(OUTSIDER, path) as writer:
        writer.expect("ready")
        damage(path)
        with pytest.raises(
            Busy, match=f"process {writer.pid} .* has it open: nothing was restored"
        ):
            restore_backup(backup, path)
        writer.tell("acknowledged")
        writer.expect("stored")
    assert content(path) == ["now", "acknowledged"]
    aside = restore_backup(backup, path)
    assert aside is not None
    assert content(aside) == ["now", "acknowledged"]
    assert content(path) == ["then"]


def test_without_a_log_sqlite_itself_refuses_such_a_program(tmp_path: Path, backup: Path) -> None:
    path = made(tmp_path / "a.db", "delete", "now")
    with Child(OUTSIDER, path) as writer:
        writer.expect("ready")
        damage(path)
        restore_backup(backup, path)
        writer.tell("after")
        assert "readonly" in writer.hear()
    assert content(path) == ["then"]


def test_a_store_that_was_begun_meanwhile_is_left_as_it_is(
    tmp_path: Path, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.db"
    original = backup_module._copy_file

    def copy_file(*args: Any, **options: Any) -> None:
        original(*args, **options)
        made(path, "wal", "acknowledged")

    monkeypatch.setattr(backup_module, "_copy_file", copy_file)
    with pytest.raises(Conflict, match="was created in the meantime"):
        restore_backup(backup, path)
    assert content(path) == ["acknowledged"]
    assert not list(tmp_path.glob("*.partial"))


def test_where_there_are_no_hard_links_the_old_file_is_renamed(
    tmp_path: Path, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    path = made(tmp_path / "a.db", "wal", "now")
    damage(path)
    monkeypatch.setattr("os.link", refuse)
    aside = restore_backup(backup, path)
    assert aside is not None
    assert (content(aside), content(path)) == (["now"], ["then"])
    path.unlink()
    assert restore_backup(backup, path) is None
    assert content(path) == ["then"]
    assert not list(tmp_path.glob("*.partial"))


def test_a_lock_file_made_anew_is_no_other_database(tmp_path: Path, backup: Path) -> None:
    path = made(tmp_path / "a.db", "wal", "now")
    damage(path)
    restore_backup(backup, path)
    with SqliteDatabase(path, {}) as database, SqliteDatabase(path, {}) as other:
        add(database, "a")
        Path(f"{path}.lock").unlink()
        for number in range(200):
            add(database if number % 2 else other, number, durable=False)


# ---------------------------------------------------------------------- killed on the way

# The calls into the system that change something; SQLite's own are its own promise.
CALLS = (os.fsync, os.ftruncate, os.link, os.rename, os.replace, os.unlink)


def restore_until(number: int, source: Path, target: Path) -> None:
    """Restore, but kill this process before its n-th call that changes something."""
    left = number

    def count(_frame: FrameType, event: str, called: Any) -> None:
        nonlocal left
        if event == "c_call" and (called in CALLS or called.__name__ == "backup"):
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)
    restore_backup(source, target)
    sys.setprofile(None)


@pytest.mark.parametrize("state", ["wal", "delete", "damaged", "missing"])
def test_a_restore_that_is_killed_leaves_the_old_or_the_new_whole(
    tmp_path: Path, backup: Path, state: str
) -> None:
    folder = tmp_path / "template"
    folder.mkdir()
    if state != "missing":
        made(folder / "a.db", "delete" if state == "delete" else "wal", "now")
    if state == "damaged":
        damage(folder / "a.db")
    place, ends = tmp_path / "place", set()
    for number in range(1000):
        shutil.copytree(folder, place)
        path = place / "a.db"
        killed = exit_code(fork(lambda n=number: restore_until(n, backup, place / "a.db")))  # type: ignore[misc]
        found = content(path) if path.exists() else []
        ends.add(str(found))
        if found == ["then"] and state != "missing":
            (copy,) = [*list_backups(path), *place.glob("a.db.damaged-*[0-9Z]")]
            assert content(copy) == ["now"]
        restore_backup(backup, path)  # and it can be done again
        assert content(path) == ["then"]
        shutil.rmtree(place)
        if killed == 0:
            break
    assert ends == {"['then']", "[]" if state == "missing" else "['now']"}
    assert number > 4
