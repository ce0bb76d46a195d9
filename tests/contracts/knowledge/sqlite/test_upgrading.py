"""Bringing a file up on purpose: the plan tells what the deed will do, and touches nothing."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from tests.faults.old_knowledge_files import VERSIONS, make_old_knowledge
from tests.support.children import Child
from tests.support.knowledge import ask, assert_sound, bring_up, clock, do
from threadkeep.errors import Invalid, NotFound, SchemaMismatch
from threadkeep.knowledge.upgrade import Migration, migrate_file, plan_migration

ORPHAN = "INSERT INTO knowledge_node_events VALUES (999, 1)"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home" / "knowledge.db"


def looks(path: Path) -> dict[str, tuple[int, int, bytes]]:
    """What can be seen of a file and all that is beside it."""
    return {
        entry.name: (entry.stat().st_mtime_ns, entry.stat().st_size, entry.read_bytes())
        for entry in path.parent.iterdir()
    }


def report(version: int, path: Path) -> Migration:
    make_old_knowledge(path, version)
    do(path, "PRAGMA foreign_keys = OFF", ORPHAN)
    return plan_migration(path, clock=clock)


@pytest.mark.parametrize("version", [VERSIONS[0], 8, 12, VERSIONS[-1]])
def test_the_plan_is_what_then_happens(path: Path, version: int) -> None:
    plan = report(version, path)
    assert ask(path, "PRAGMA user_version") == [(version,)]
    done = migrate_file(path, clock=clock)
    assert ask(path, "PRAGMA user_version") == [(18,)]
    assert plan.dry_run
    assert not done.dry_run
    assert msgspec.structs.replace(plan, dry_run=False, backup=done.backup) == done
    assert (done.version_before, done.version_after) == (version, 18)
    assert len(done.steps) == 18 - version
    assert done.problems == ()
    assert len(done.set_aside) + len(done.orphans_left) == 1
    assert done.rows["events"].before == done.rows["events"].after == 5
    assert done.rows["capture_alarms"].before == (None if version < 9 else 1)
    assert done.backup is not None
    assert ask(Path(done.backup), "PRAGMA user_version") == [(version,)]


def test_reports_are_json(path: Path) -> None:
    plan = report(12, path)
    text = msgspec.json.encode(plan)
    assert msgspec.json.decode(text, type=Migration) == plan
    assert msgspec.json.decode(text)["set_aside"][0]["table_name"] == "knowledge_node_events"


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
def test_the_plan_does_not_touch_a_file_that_nobody_has_open(path: Path, journal: str) -> None:
    make_old_knowledge(path, 12, journal=journal)
    (path.parent / "knowledge.db.lock").unlink(missing_ok=True)
    before = looks(path)
    plan_migration(path, clock=clock)
    assert looks(path) == before


def test_the_plan_sees_what_is_only_in_the_log_and_leaves_it_there(path: Path) -> None:
    make_old_knowledge(path, 12)
    script = """
import sqlite3, signal
connection = sqlite3.connect(sys.argv[1])
connection.execute("DELETE FROM knowledge_node_events")
connection.commit()
os.kill(os.getpid(), signal.SIGKILL)
"""
    with Child(script, path) as child:
        assert child.end() == -9
    before = {name: look for name, look in looks(path).items() if not name.endswith("-shm")}
    assert "knowledge.db-wal" in before
    plan = plan_migration(path, clock=clock)
    assert plan.rows["knowledge_node_events"].before == 0
    after = {name: look for name, look in looks(path).items() if not name.endswith("-shm")}
    assert after == before


def test_the_plan_reads_beside_a_program_that_writes(path: Path) -> None:
    make_old_knowledge(path, 12)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM knowledge_node_events")  # not committed
        plan = plan_migration(path, clock=clock)
        connection.rollback()
    assert plan.rows["knowledge_node_events"].before == 1


def test_a_file_of_today_needs_nothing(path: Path) -> None:
    bring_up(path)
    done = migrate_file(path, clock=clock)
    assert (done.steps, done.backup, done.version_before) == ((), None, 18)
    assert not (path.parent / "backups").exists()


def test_a_second_time_does_nothing(path: Path) -> None:
    report(12, path)
    migrate_file(path, clock=clock)
    assert_sound(path)
    again = migrate_file(path, clock=clock)
    assert (again.steps, again.set_aside, again.backup) == ((), (), None)


@pytest.mark.parametrize("do_it", [plan_migration, migrate_file])
def test_what_cannot_be_brought_up_is_refused(
    path: Path, do_it: Callable[[Path], Migration]
) -> None:
    with pytest.raises(NotFound):
        do_it(path)
    do(path, "CREATE TABLE notes (id INTEGER)")
    with pytest.raises(Invalid, match=f"{path} is not a knowledge store"):
        do_it(path)
    path.unlink()
    bring_up(path)
    do(path, "PRAGMA user_version = 24")
    with pytest.raises(SchemaMismatch, match="upgrade threadkeep"):
        do_it(path)
    assert ask(path, "PRAGMA user_version") == [(24,)]
