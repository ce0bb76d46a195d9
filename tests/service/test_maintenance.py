"""Backups that come due, what is too old and goes, and the process that does it."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.faults.collect_world import World, shell_line, visit_line
from tests.support.children import wait_until
from tests.support.knowledge import ask, assert_sound
from tests.support.user_homes import made_up_home
from threadkeep import Home
from threadkeep.base.clock import now_ms
from threadkeep.base.config import RetentionSettings
from threadkeep.base.files import write_note
from threadkeep.base.processes import is_running
from threadkeep.base.sqlite.backup import stamp, stamp_time
from threadkeep.knowledge.checks import tidy
from threadkeep.memory.learn.worker import EnrichReport
from threadkeep.service import learn
from threadkeep.service.doctor.doctor import diagnose
from threadkeep.service.doctor.facts import Finding
from threadkeep.service.maintenance import (
    CatchUpState,
    MaintenanceTask,
    carry_out,
    catching_up,
    due_backups,
    look_after,
    order_for,
    take_out_old,
)
from threadkeep.service.supervisor import Bell

HOUR, DAY = 3_600_000, 86_400_000
RETENTION = "[retention]\ncommands_days = 30\n"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "home")


# ---------------------------------------------------------------------- backups


def test_a_backup_is_due_once_a_day_of_a_store_that_changed(world: World) -> None:
    home, now = world.home, now_ms()
    assert due_backups(home, None, now) == ()  # there is no store yet
    world.append(shell_line(1), "r.jsonl")
    world.collect()
    with home.chat() as chat:
        chat.create_session(agent="a", model="m")
    assert due_backups(home, None, now) == ("chat", "knowledge")
    home.backup(store="knowledge")
    assert due_backups(home, None, now) == ("chat",)
    assert due_backups(home, None, now + 2 * DAY) == ("chat",)  # nothing has changed since
    file = home.knowledge_path()
    os.utime(file, (file.stat().st_atime, now / 1000 + 3600))
    assert due_backups(home, None, now + 23 * HOUR) == ("chat",)
    assert due_backups(home, None, now + 25 * HOUR) == ("chat", "knowledge")


def test_a_backup_of_a_clock_that_was_ahead_does_not_count(world: World) -> None:
    world.append(shell_line(1), "r.jsonl")
    world.collect()
    home, now = world.home, now_ms()
    made = home.backup(store="knowledge")
    made.rename(made.with_name(made.name.replace(made.name.split("-")[1], stamp(now + 9 * DAY))))
    assert due_backups(home, None, now) == ("knowledge",)
    home.backup(store="knowledge")
    assert due_backups(home, None, now) == ()


def test_none_is_due_where_the_user_wants_none(tmp_path: Path) -> None:
    world = World(tmp_path / "home", "[serve]\nbackup_hours = 0\n")
    world.append(shell_line(1), "r.jsonl")
    world.collect()
    assert due_backups(world.home, None, now_ms()) == ()


def test_a_store_of_another_program_gets_none_beside_it(tmp_path: Path) -> None:
    theirs = tmp_path / "hermes" / "state.db"
    world = World(tmp_path / "home")
    with world.home.state(theirs):
        pass
    default = Home(environ={"HOME": str(tmp_path), "HERMES_HOME": str(theirs.parent)})
    assert default.state_path() == theirs
    assert due_backups(default, None, now_ms()) == ()


def test_the_time_of_a_backup_is_in_its_name() -> None:
    now = now_ms()
    assert stamp_time(stamp(now)) == now


def test_a_file_whose_name_has_no_time_is_no_backup(world: World) -> None:
    world.append(shell_line(1), "r.jsonl")
    world.collect()
    made = world.home.backup(store="knowledge")
    (made.parent / "knowledge-20269999T999999.000Z-1-manual.db").write_bytes(b"")
    assert due_backups(world.home, None, now_ms()) == ()
    assert [one.path for one in world.home.backups(store="knowledge")] == [made]


# ---------------------------------------------------------------------- what is too old


def test_what_is_too_old_goes_and_the_rest_stays(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    user = made_up_home(tmp_path / "user")
    old, new = "2026-01-01T00:00:00Z", "2026-05-01T00:00:00Z"
    world.append(
        shell_line(1, old, command="oldcommand")
        + shell_line(2, new, command="newcommand")
        + visit_line(1),
        "r.jsonl",
    )
    world.collect()
    now = stamp_time("20260520T000000.000Z") or 0
    with world.home.history(user_home=user) as history:
        history.capture()
        before = len(history.sessions(limit=1000, everything=True))
        settings = RetentionSettings(commands_days=60, sessions_days=1)
        gone = take_out_old(history, settings, now)
        after = history.sessions(limit=1000, everything=True)
    assert gone["commands"] == 1
    assert gone["sessions"] > 0
    assert len(after) == before - gone["sessions"]
    assert all((one.ended_at or now) >= now - DAY for one in after)
    shell = "SELECT command FROM events WHERE source_kind = 'shell'"
    assert world.rows(shell) == [("newcommand",)]
    assert world.rows("SELECT count(*) FROM browser_events") == [(1,)]  # nobody limits pages
    assert b"oldcommand" not in world.bytes_of_store()
    assert_sound(world.home.knowledge_path())


def test_nothing_goes_where_nothing_is_set(world: World) -> None:
    world.append(shell_line(1), "r.jsonl")
    world.collect()
    with world.home.history(user_home=world.folder) as history:
        assert take_out_old(history, RetentionSettings(), now_ms()) == {"sessions": 0}
    assert order_for(world.home, None, None, retain=True).retain is False


def days_of_commands(world: World) -> list[str]:
    rows = world.rows("SELECT command FROM events WHERE source_kind = 'shell' ORDER BY timestamp")
    return [row[0] for row in rows]


def test_a_clock_that_is_a_year_ahead_does_not_take_out_a_year(tmp_path: Path) -> None:
    world = World(tmp_path / "home", RETENTION)
    days = [f"2026-03-{day:02}" for day in range(1, 11)]
    lines = [shell_line(n, f"{day}T12:00:00Z", command=day) for n, day in enumerate(days)]
    world.append(b"".join(lines), "r.jsonl")
    world.collect()
    order = order_for(world.home, None, tmp_path, retain=True)
    right = stamp_time("20260401T000000.000Z") or 0  # thirty days after the first of March
    for now, kept in (
        (right, days[1:]),
        (right + 365 * DAY, days[3:]),
        (right + 366 * DAY, days[5:]),
        (right + 5 * DAY, days[6:]),  # it is right again
        (right + 6 * DAY, days[7:]),
    ):
        assert look_after(world.home, order, now).failed == []
        assert days_of_commands(world) == kept


def test_doctor_tells_that_retention_is_behind_and_what_ends_it(tmp_path: Path) -> None:
    world = World(tmp_path / "home", RETENTION)
    world.append(shell_line(1), "r.jsonl")
    world.collect()
    order = order_for(world.home, None, tmp_path, retain=True)

    def found() -> list[Finding]:
        told = diagnose(world.home, version="1.0").findings
        return [one for one in told if one.check == "retention"]

    assert found() == []  # it never was done
    look_after(world.home, order, now_ms() - 40 * DAY)
    (finding,) = found()
    assert "40 days ago" in finding.what
    subprocess.run(["/bin/sh", "-c", finding.fix], check=True)
    assert found() == []


# ---------------------------------------------------------------------- the other process


def test_another_process_does_what_an_order_says(tmp_path: Path) -> None:
    world = World(tmp_path / "home", RETENTION)
    world.append(shell_line(1, "2026-01-01T00:00:00Z"), "r.jsonl")
    world.collect()
    order = order_for(world.home, None, tmp_path, ("knowledge",), retain=True)
    assert order.retain
    done = carry_out(order, Bell(threading.Event()))
    assert done is not None
    assert done.failed == []
    assert done.did[0] == "took out 1 old commands"
    (backup,) = world.home.backups(store="knowledge")
    assert str(backup.path) in done.did[1]
    assert ask(backup.path, "SELECT count(*) FROM events") == [(0,)]


def test_one_thing_that_fails_does_not_keep_the_others_from_being_done(world: World) -> None:
    world.append(shell_line(1), "r.jsonl")
    world.collect()
    order = MaintenanceTask(str(world.folder), None, None, ("chat", "knowledge"))
    done = look_after(world.home, order, now_ms())
    assert len(done.did) == 1
    assert "chat" in done.failed[0]


def test_catching_up_captures_and_learns(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    user = made_up_home(tmp_path / "user")
    order = order_for(world.home, None, user, catch_up=True)
    done = look_after(world.home, order, now_ms())
    assert done.failed == []
    assert any(words.startswith("claude-code +") for words in done.did)
    ((nodes,),) = world.rows("SELECT count(*) FROM knowledge_nodes")
    assert f"knowledge: {nodes} new" in done.did
    assert nodes > 0


def test_how_far_it_is_is_told_while_it_catches_up_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, user = World(tmp_path / "home"), made_up_home(tmp_path / "user")
    before, seen = learn.enrich, []

    def spying(*arguments: Any, **options: Any) -> EnrichReport:
        seen.append(catching_up(world.home, now_ms()))
        return before(*arguments, **options)

    monkeypatch.setattr(learn, "enrich", spying)
    assert catching_up(world.home, now_ms()) is None
    look_after(world.home, order_for(world.home, None, user, catch_up=True), now_ms())
    (state,) = seen
    assert state is not None
    assert state.learning
    assert state.percent == 100
    assert state.logs_done == state.logs_total > 1
    assert catching_up(world.home, now_ms()) is None


def test_catching_up_goes_on_where_nobody_can_be_told_of_it(tmp_path: Path) -> None:
    world, user = World(tmp_path / "home"), made_up_home(tmp_path / "user")
    (world.home.paths().state / "catch-up").mkdir(parents=True)  # in the place of the note
    done = look_after(world.home, order_for(world.home, None, user, catch_up=True), now_ms())
    assert done.failed == []
    assert [one.name for one in world.home.paths().state.glob(".catch-up*")] == []


def test_where_its_progress_cannot_be_noted_it_catches_up_all_the_same(tmp_path: Path) -> None:
    world, user = World(tmp_path / "home"), made_up_home(tmp_path / "user")
    world.home.paths().state.write_text("no folder")
    done = look_after(world.home, order_for(world.home, None, user, catch_up=True), now_ms())
    assert done.failed == []
    assert any("messages" in said for said in done.did)


def test_who_was_killed_while_it_caught_up_is_not_at_it_any_more(world: World) -> None:
    write_note(
        world.home.paths().state / "catch-up",
        '{"logs_done":1,"logs_total":2,"bytes_done":1,"bytes_total":4}',
    )
    now = now_ms()
    assert catching_up(world.home, now) == CatchUpState(1, 2, 1, 4)
    assert catching_up(world.home, now + 600_000) is None


def test_without_an_embedder_the_reason_is_told(tmp_path: Path) -> None:
    world = World(tmp_path / "home", '[embeddings]\nprovider = "off"\n')
    done = look_after(world.home, order_for(world.home, None, tmp_path, embed=True), now_ms())
    assert "switched off" in done.failed[0]


@pytest.fixture
def parent(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a process that starts the other one and says its number, then waits."""
    code = (
        "import subprocess, sys, time\n"
        "from threadkeep.service import maintenance\n"
        "held = 'import os, threading; from threadkeep.base.processes import when_parent_ends;'\n"
        "held += ' when_parent_ends(lambda: os._exit(1)); threading.Event().wait()'\n"
        "with maintenance._started([sys.executable, '-c', held]) as child:\n"
        "    print(child.pid, flush=True)\n"
        "    child.wait()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    yield process
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def test_the_other_process_ends_with_the_one_that_started_it(
    parent: "subprocess.Popen[bytes]",
) -> None:
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert is_running(child)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    wait_until(lambda: not is_running(child))


def test_an_order_can_be_written_down(world: World) -> None:
    order = order_for(world.home, "k.db", None, ("chat",), embed=True)
    assert order == msgspec.json.decode(msgspec.json.encode(order), type=MaintenanceTask)
    assert order.db == str(Path("k.db").absolute())
    assert order.home == str(world.folder)


# ---------------------------------------------------------------------- small steps


def test_tidying_changes_nothing_that_anybody_sees(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    user = made_up_home(tmp_path / "user")
    with world.home.history(user_home=user) as history:
        history.capture()
        before = [hit.shown.entry.text for hit in history.search("the", limit=50)]
        tidy(history.store.context.db)
        tidy(history.store.context.db)
        assert [hit.shown.entry.text for hit in history.search("the", limit=50)] == before
    assert before
    assert_sound(world.home.knowledge_path())
