"""Backups: true copies of a busy database, and a way back that loses nothing either."""

import os
import re
import signal
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.support.children import Child, add, bodies, table
from tests.support.disks import fill, read_only, small_disk
from threadkeep.base.sqlite.backup import (
    BackupRetention,
    backup_folder,
    check_file,
    list_backups,
    make_backup,
    prune_backups,
    restore_backup,
    stamp,
)
from threadkeep.base.sqlite.checks import sqlite_problems
from threadkeep.base.sqlite.database import SqliteDatabase
from threadkeep.base.sqlite.lock import all_locks
from threadkeep.base.tx import Sql
from threadkeep.errors import Busy, Conflict, Damaged, NotFound, ReadOnly, StorageFull

DAY = 86_400_000
NOON = 1_800_000_000_000


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    with table(tmp_path / "a.db") as database:
        yield database


def read_back(path: Path) -> list[object]:
    with SqliteDatabase(path, {}, read_only=True) as copy:
        return bodies(copy)


def flip(path: Path, page: int) -> None:
    """Overwrite a page of a file that nobody has open."""
    with path.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xff" * 4096)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# ---------------------------------------------------------------------- making


def test_a_backup_is_a_whole_database_in_one_file(database: SqliteDatabase) -> None:
    add(database, "in the log")
    backup = make_backup(database)
    assert backup.parent == backup_folder(database.path)
    assert names(backup.parent) == {backup.name}
    plain = sqlite3.connect(backup)
    assert plain.execute("SELECT body FROM t").fetchall() == [("in the log",)]
    assert plain.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    plain.close()


def test_a_backup_goes_where_it_is_told(database: SqliteDatabase, tmp_path: Path) -> None:
    add(database, "x")
    target = tmp_path / "deep" / "down" / "copy.db"
    assert make_backup(database, target) == target
    assert read_back(target) == ["x"]
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert not backup_folder(database.path).exists()


def test_a_backup_never_takes_the_place_of_a_file(database: SqliteDatabase, tmp_path: Path) -> None:
    add(database, "x")
    (tmp_path / "notes.txt").write_text("kept")
    for target in (database.path, tmp_path / "notes.txt"):
        with pytest.raises(Conflict, match="already exists"):
            make_backup(database, target)
    assert (tmp_path / "notes.txt").read_text() == "kept"
    assert bodies(database) == ["x"]


def test_a_read_only_database_can_be_copied(database: SqliteDatabase) -> None:
    add(database, "x")
    with SqliteDatabase(database.path, {}, read_only=True) as reader:
        assert read_back(make_backup(reader)) == ["x"]


def test_progress_is_reported_and_writers_go_on(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadkeep.base.sqlite.backup._PAGES_PER_STEP", 10)
    for _ in range(20):
        add(database, b"x" * 20_000, durable=False)
    reports: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        reports.append((done, total))
        add(database, f"written meanwhile {len(reports)}", budget=0)

    backup = make_backup(database, progress=progress)
    assert len(reports) > 5
    assert [done for done, _ in reports] == sorted({done for done, _ in reports})
    assert reports[-1][0] == reports[-1][1]
    assert len({total for _, total in reports}) == 1  # one snapshot, however long it takes
    assert read_back(backup) == [b"x" * 20_000] * 20
    assert len(bodies(database)) == 20 + len(reports)


WRITER = """
database = SqliteDatabase(sys.argv[1], {})
acknowledged = os.open(sys.argv[2], os.O_CREAT | os.O_WRONLY, 0o600)
say("ready")
number = 0
while not os.path.exists(sys.argv[3]):
    number += 1
    with database.write(durable=False) as tx:
        tx.run(Sql("INSERT INTO t(body) VALUES(?)"), (f"{sys.argv[2]} {number}",))
    os.pwrite(acknowledged, b"%10d" % number, 0)
say(number)
"""


def acknowledged(path: Path) -> int:
    return int(path.read_text() or 0)


def test_backups_under_load_hold_every_write_acknowledged_before(
    database: SqliteDatabase, tmp_path: Path
) -> None:
    ledgers = [tmp_path / f"ledger{number}" for number in range(4)]
    writers = [Child(WRITER, database.path, ledger, tmp_path / "stop") for ledger in ledgers]
    try:
        for writer in writers:
            writer.expect("ready")
        for _ in range(6):
            before = {ledger: acknowledged(ledger) for ledger in ledgers}
            copied = read_back(make_backup(database, check=lambda _: []))
            for ledger, count in before.items():
                mine = [body for body in copied if str(body).startswith(f"{ledger} ")]
                assert len(mine) >= count
                assert mine == [f"{ledger} {number + 1}" for number in range(len(mine))]
        (tmp_path / "stop").touch()
        total = sum(int(writer.hear()) for writer in writers)
        assert len(bodies(database)) == total
    finally:
        for writer in writers:
            writer.__exit__()


def test_a_copy_that_fails_its_check_does_not_count(database: SqliteDatabase) -> None:
    add(database, "x")
    with pytest.raises(Damaged, match="fails its check: it smells"):
        make_backup(database, check=lambda copy: ["it smells"] if bodies(copy) else [])
    assert names(backup_folder(database.path)) == set()


def test_a_damaged_database_gives_no_backup(tmp_path: Path) -> None:
    with table(tmp_path / "a.db") as database:
        add(database, "x")
    flip(tmp_path / "a.db", 2)
    with SqliteDatabase(tmp_path / "a.db", {}) as database, pytest.raises(Damaged):
        make_backup(database)
    assert names(backup_folder(tmp_path / "a.db")) == set()


def test_rows_without_a_parent_are_copied_as_they_are(database: SqliteDatabase) -> None:
    with database.write(foreign_keys=False) as tx:
        tx.run(Sql("CREATE TABLE child(t_id INTEGER REFERENCES t(id))"))
        tx.run(Sql("INSERT INTO child VALUES(99)"))
    backup = make_backup(database)
    assert check_file(backup) == []
    with database.read() as tx:
        (problem,) = sqlite_problems(tx)
        assert problem == "a row of child refers to a missing row of t"
        assert sqlite_problems(tx, quick=True, references=False) == []


def test_a_locked_file_is_not_called_damaged(tmp_path: Path) -> None:
    class Locked:
        def all(self, _sql: str) -> None:
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error

    with pytest.raises(sqlite3.OperationalError):
        sqlite_problems(Locked())  # type: ignore[arg-type]


def test_a_killed_backup_leaves_nothing_that_counts_and_is_swept_up(
    database: SqliteDatabase,
) -> None:
    script = """
import signal
from threadkeep.base.sqlite.backup import make_backup
with SqliteDatabase(sys.argv[1], {}, read_only=True) as database:
    make_backup(database, progress=lambda *_: os.kill(os.getpid(), signal.SIGKILL))
"""
    add(database, "x")
    folder = backup_folder(database.path)
    with Child(script, database.path) as child:
        assert child.end() == -signal.SIGKILL
    assert list_backups(database.path) == []
    assert any(name.endswith(".partial") for name in names(folder))
    mine = folder / f"a-{stamp(NOON)}-1-manual.db.{os.getpid()}-0123abcd.partial"
    others = [folder / "film.mkv.partial", folder / f"b-{stamp(NOON)}-1-x.db.9-0123abcd.partial"]
    for path in (mine, *others):
        path.touch()
    backup = make_backup(database)
    assert names(folder) == {backup.name, mine.name, *(path.name for path in others)}


def test_a_full_disk_refuses_the_backup_and_no_more(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk, table(disk / "a.db") as database:
        add(database, b"x" * 300_000)
        filler = fill(disk)
        with pytest.raises(StorageFull):
            make_backup(database)
        assert not backup_folder(database.path).exists() or not names(backup_folder(database.path))
        filler.unlink()
        assert len(read_back(make_backup(database))) == 1
        add(database, "x")


def test_a_folder_that_cannot_be_written_is_named(database: SqliteDatabase, tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    with read_only(tmp_path / "place"), pytest.raises(ReadOnly, match="place"):
        make_backup(database, tmp_path / "place" / "copy.db")


# ---------------------------------------------------------------------- keeping


@given(st.integers(0, 4_000_000_000_000), st.integers(0, 4_000_000_000_000))
def test_stamps_sort_like_their_times(one: int, other: int) -> None:
    assert re.fullmatch(r"\d{8}T\d{6}\.\d{3}Z", stamp(one))
    assert (stamp(one) < stamp(other)) == (one < other)


def backups_at(database: SqliteDatabase, *times: int, keep: BackupRetention) -> list[Path]:
    return [make_backup(database, keep=keep, clock=lambda time=time: time) for time in times]  # type: ignore[misc]


def test_the_newest_are_kept_by_count(database: SqliteDatabase) -> None:
    made = backups_at(
        database, *(NOON + n for n in range(5)), keep=BackupRetention(newest=3, days=9)
    )
    assert list_backups(database.path) == made[:1:-1]


def test_old_ones_are_removed_by_age_but_never_the_newest(database: SqliteDatabase) -> None:
    keep = BackupRetention(newest=9, days=2)
    old, recent, last = backups_at(database, NOON, NOON + DAY, NOON + 2 * DAY, keep=keep)
    assert prune_backups(database.path, keep, NOON + 2 * DAY) == []
    assert prune_backups(database.path, keep, NOON + 2 * DAY + 1) == [old]
    assert prune_backups(database.path, BackupRetention(newest=0), NOON + 99 * DAY) == [recent]
    assert list_backups(database.path) == [last]
    assert prune_backups(database.path, BackupRetention(newest=0, days=0), NOON + 99 * DAY) == []


@pytest.mark.parametrize("ahead", [40, 400, 4000])
def test_a_clock_that_is_far_ahead_takes_no_backup_of_the_last_weeks(
    database: SqliteDatabase, ahead: int
) -> None:
    keep = BackupRetention(newest=99, days=30)
    made = backups_at(database, *(NOON + n * DAY for n in range(20)), keep=keep)
    (wrong,) = backups_at(database, NOON + ahead * DAY, keep=keep)
    assert list_backups(database.path, NOON + ahead * DAY) == [wrong, *made[::-1]]
    (again,) = backups_at(database, NOON + (ahead + 1) * DAY, keep=keep)
    assert list_backups(database.path, NOON + 9999 * DAY) == [again, wrong, *made[::-1]]
    now = NOON + 20 * DAY
    (right,) = backups_at(database, now, keep=keep)
    assert list_backups(database.path, now) == [right, *made[::-1], again, wrong]


@pytest.mark.parametrize("count", [1, 3])
def test_backups_from_the_future_make_room_for_those_of_now(
    database: SqliteDatabase, count: int
) -> None:
    keep = BackupRetention(newest=count, days=30)
    backups_at(database, *(NOON + n * DAY for n in range(400, 405)), keep=keep)
    for time in range(NOON, NOON + 5 * DAY, DAY):
        (made,) = backups_at(database, time, keep=keep)
        kept = list_backups(database.path, time)
        assert (kept[0], len(kept)) == (made, count)


def test_a_clock_that_is_behind_takes_nothing(database: SqliteDatabase) -> None:
    keep = BackupRetention(newest=4, days=30)
    made = backups_at(database, *(NOON + n * DAY for n in range(3)), keep=keep)
    (behind,) = backups_at(database, NOON - 400 * DAY, keep=keep)
    assert list_backups(database.path, NOON - 400 * DAY) == [behind, *made[::-1]]


def test_backups_far_apart_go_by_age_as_well(database: SqliteDatabase) -> None:
    keep = BackupRetention(newest=99, days=30)
    made = backups_at(database, *(NOON + n * 60 * DAY for n in range(9)), keep=keep)
    assert list_backups(database.path) == made[:-6:-1]


def test_two_backups_in_one_millisecond_are_two(database: SqliteDatabase) -> None:
    first, second = backups_at(database, NOON, NOON, keep=BackupRetention())
    assert list_backups(database.path) == [second, first]


@pytest.mark.parametrize("reason", ["../../etc", "a/b\0c", "", "x" * 500, "ünïcode 🙂"])
def test_any_reason_makes_a_name(database: SqliteDatabase, reason: str) -> None:
    assert list_backups(database.path) == [] != [make_backup(database, reason=reason)]
    assert len(list_backups(database.path)) == 1


def test_a_backup_with_a_place_of_its_own_removes_none(
    database: SqliteDatabase, tmp_path: Path
) -> None:
    made = backups_at(database, NOON, NOON + 1, keep=BackupRetention())
    make_backup(
        database, tmp_path / "copy.db", keep=BackupRetention(newest=1), clock=lambda: NOON + 2
    )
    assert list_backups(database.path) == made[::-1]


def test_databases_in_one_folder_keep_their_backups_apart(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("chat.db", "chat-old.db", "chat.sqlite", "cha[t].db")]
    for number, path in enumerate(paths):
        with table(path) as database:
            add(database, path.name)
            backups_at(
                database, *(NOON + 10 * number + n for n in range(3)), keep=BackupRetention()
            )
    for path in paths:
        mine = list_backups(path)
        assert len(mine) == 3
        assert {str(body) for backup in mine for body in read_back(backup)} == {path.name}
        assert len(prune_backups(path, BackupRetention(newest=1), NOON)) == 2
    assert len(names(tmp_path / "backups")) == len(paths)
    assert list_backups(tmp_path / "nowhere" / "chat.db") == []


# ---------------------------------------------------------------------- restoring


def test_a_restored_database_has_the_content_of_the_backup(database: SqliteDatabase) -> None:
    add(database, "then")
    backup = make_backup(database)
    add(database, "since")
    saved = restore_backup(backup, database.path)
    assert bodies(database) == ["then"]
    assert saved is not None
    assert saved.name.endswith("-before-restore.db")
    assert read_back(saved) == ["then", "since"]
    add(database, "later")
    assert bodies(database) == ["then", "later"]
    assert database.journal_mode == "wal"


LIVE = """
with SqliteDatabase(sys.argv[1], {}) as database:
    with database.read() as tx:
        say(tx.value(Sql("SELECT group_concat(body) FROM t")))
    seen = database.changes()
    hear()
    assert database.changed(seen) != seen
    with database.read() as tx:
        say(tx.value(Sql("SELECT group_concat(body) FROM t")))
    with database.write() as tx:
        tx.run(Sql("INSERT INTO t(body) VALUES('live')"))
say("done")
"""


def test_a_program_that_has_the_database_open_goes_on_with_the_restored_data(
    database: SqliteDatabase,
) -> None:
    add(database, "then")
    backup = make_backup(database)
    add(database, "since")
    with Child(LIVE, database.path) as child:
        child.expect("then,since")
        restore_backup(backup, database.path)
        child.tell()
        child.expect("then")
        child.expect("done")
    assert bodies(database) == ["then", "live"]
    with database.read() as tx:
        assert sqlite_problems(tx) == []


def test_a_reader_inside_a_snapshot_does_not_see_the_restore(database: SqliteDatabase) -> None:
    add(database, "then")
    backup = make_backup(database)
    add(database, "since")
    with database.read() as tx:
        tx.all(Sql("SELECT * FROM t"))
        restore_backup(backup, database.path)
        assert tx.one(Sql("SELECT count(*) FROM t")) == (2,)
    assert bodies(database) == ["then"]


def test_a_restored_database_is_as_durable_as_any_commit(database: SqliteDatabase) -> None:
    backup = make_backup(database)
    add(database, "x", durable=False)
    database.replace_with(backup, lambda _: None)
    assert database.writer.connect().execute("PRAGMA synchronous").fetchone() == (2,)
    assert bodies(database) == []


def test_a_missing_database_is_restored_with_a_log(tmp_path: Path) -> None:
    with table(tmp_path / "a.db") as database:
        add(database, "x")
        backup = make_backup(database, tmp_path / "copy.db")
    target = tmp_path / "new" / "b.db"
    assert restore_backup(backup, target) is None
    with SqliteDatabase(target, {}) as restored:
        assert (restored.journal_mode, bodies(restored)) == ("wal", ["x"])
    assert names(target.parent) == {"b.db", "b.db.lock"}
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert stat.S_IMODE(target.parent.stat().st_mode) == 0o700


def test_a_stale_log_does_not_get_into_the_restored_database(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with table(path) as database:
        add(database, "x")
        backup = make_backup(database, tmp_path / "copy.db")
        add(database, "in the log")
        log = Path(f"{path}-wal").read_bytes()
    path.unlink()
    Path(f"{path}-wal").write_bytes(log)
    assert restore_backup(backup, path, clock=lambda: NOON) is None
    with SqliteDatabase(path, {}) as restored:
        assert bodies(restored) == ["x"]
        with restored.read() as tx:
            assert sqlite_problems(tx) == []
    assert (tmp_path / f"a.db.damaged-{stamp(NOON)}-wal").read_bytes() == log


@pytest.mark.parametrize("damage", ["page", "header", "no database"])
def test_a_damaged_database_is_moved_aside_whole(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "a.db"
    with table(path) as database:
        for _ in range(5):
            add(database, b"x" * 3000)
        backup = make_backup(database, tmp_path / "copy.db")
    if damage == "no database":
        path.write_text("something else altogether")
    else:
        flip(path, 1 if damage == "header" else 2)
    broken = path.read_bytes()
    aside = restore_backup(backup, path, clock=lambda: NOON)
    assert aside == tmp_path / f"a.db.damaged-{stamp(NOON)}"
    assert aside.read_bytes() == broken
    assert read_back(path) == [b"x" * 3000] * 5
    with table(path) as database:
        add(database, "writable")


def test_a_log_beside_a_damaged_database_is_moved_with_it(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with table(path) as database:
        add(database, "x")
        backup = make_backup(database, tmp_path / "copy.db")
        database.truncate_log()
        add(database, "y")
        log = Path(f"{path}-wal").read_bytes()
    flip(path, 1)
    broken = path.read_bytes()
    Path(f"{path}-wal").write_bytes(log)
    aside = restore_backup(backup, path, clock=lambda: NOON)
    assert aside == tmp_path / f"a.db.damaged-{stamp(NOON)}"
    assert aside.read_bytes() == broken
    assert Path(f"{aside}-wal").read_bytes() == log
    assert read_back(path) == ["x"]


def test_a_database_that_its_log_makes_whole_is_sound(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with table(path) as database:
        add(database, "x")
        backup = make_backup(database, tmp_path / "copy.db")
        add(database, "y")
        log = Path(f"{path}-wal").read_bytes()  # it has every page
    flip(path, 1)
    Path(f"{path}-wal").write_bytes(log)
    saved = restore_backup(backup, path)
    assert saved is not None
    assert read_back(saved) == ["x", "y"]
    assert read_back(path) == ["x"]


@pytest.mark.parametrize("damage", ["missing", "page", "own check", "itself"])
def test_a_backup_that_is_not_good_changes_nothing(database: SqliteDatabase, damage: str) -> None:
    add(database, "then")
    backup = make_backup(database)
    add(database, "kept")
    if damage == "missing":
        backup.unlink()
    elif damage == "page":
        flip(backup, 2)
    elif damage == "itself":
        backup = database.path
    errors = {"missing": NotFound, "itself": Conflict}
    with pytest.raises(errors.get(damage, Damaged)):
        restore_backup(
            backup, database.path, check=lambda _: ["bad"] if damage == "own check" else []
        )
    assert bodies(database) == ["then", "kept"]
    assert len(names(backup_folder(database.path))) == (0 if damage == "missing" else 1)


def test_pages_of_another_size_are_restored_too(tmp_path: Path) -> None:
    plain = sqlite3.connect(tmp_path / "small.db", isolation_level=None)
    plain.execute("PRAGMA page_size = 1024")
    plain.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, body)")
    plain.execute("INSERT INTO t(body) VALUES('small')")
    plain.close()
    with SqliteDatabase(tmp_path / "small.db", {}) as small:
        backup = make_backup(small, tmp_path / "copy.db")
    with table(tmp_path / "a.db") as database:
        add(database, "kept")
        saved = restore_backup(backup, database.path)
        assert bodies(database) == ["small"]
        assert not list(tmp_path.glob("*.partial*"))
    assert saved is not None
    with SqliteDatabase(saved, {}, read_only=True) as before:
        assert bodies(before) == ["kept"]
    restore_backup(backup, tmp_path / "b.db")
    with SqliteDatabase(tmp_path / "b.db", {}) as restored:
        assert (restored.journal_mode, bodies(restored)) == ("wal", ["small"])


def test_a_restore_waits_for_other_programs_within_its_budget(database: SqliteDatabase) -> None:
    add(database, "then")
    backup = make_backup(database)
    add(database, "since")
    outside = sqlite3.connect(database.path, isolation_level=None)
    outside.execute("BEGIN IMMEDIATE")
    with pytest.raises(Busy, match="outside our lock"):
        restore_backup(backup, database.path, budget=0.01)
    outside.execute("ROLLBACK")
    outside.close()
    assert bodies(database) == ["then", "since"]
    restore_backup(backup, database.path, budget=0.01)
    assert bodies(database) == ["then"]


def test_a_link_is_restored_where_it_leads(tmp_path: Path) -> None:
    with table(tmp_path / "real" / "a.db") as database:
        add(database, "x")
        backup = make_backup(database, tmp_path / "copy.db")
    flip(tmp_path / "real" / "a.db", 1)
    (tmp_path / "a.db").symlink_to(tmp_path / "real" / "a.db")
    restore_backup(backup, tmp_path / "a.db")
    assert (tmp_path / "a.db").is_symlink()
    assert read_back(tmp_path / "real" / "a.db") == ["x"]


def test_restoring_leaves_no_lock_in_use(tmp_path: Path) -> None:
    with table(tmp_path / "a.db") as database:
        backup = make_backup(database)
    restore_backup(backup, tmp_path / "a.db")
    restore_backup(backup, tmp_path / "b.db")
    assert [lock for lock in all_locks() if lock.path.parent == tmp_path] == []
