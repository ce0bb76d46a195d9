"""The watchdog over real homes: it tells what is missing, once, and nothing else."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.histories import claude_log, said
from tests.support.knowledge import ask, do
from threadkeep.base.processes import my_mark
from threadkeep.base.tx import Tx
from threadkeep.home.home import Home
from threadkeep.knowledge.health import (
    Service,
    count_drop,
    heard,
    heartbeat,
    note_probe,
    note_start,
)
from threadkeep.knowledge.query import Query
from threadkeep.service.doctor.invariants import Snapshot, check
from threadkeep.service.watchdog import (
    WatchdogReport,
    look_once,
    run_watchdog,
    watchdog_once,
)

SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE


class World:
    """A home, a user with logs, and a clock that only a test moves."""

    def __init__(self, folder: Path) -> None:
        self.user = folder / "user"
        self.user.mkdir()
        self.now = time.time_ns() // 1_000_000
        self.counted = 1000.0
        self.folder = folder / "home"
        self.open()

    def open(self) -> None:
        self.home = Home(self.folder, environ={"HOME": str(self.user)})
        self.history = self.home.history(user_home=self.user)

    def configure(self, text: str) -> None:
        self.home.paths().config.write_text(text)
        self.history.close()
        self.open()

    @property
    def file(self) -> Path:
        return self.folder / "knowledge.db"

    @contextmanager
    def writing(self) -> Iterator[Tx]:
        with self.history.store.context.db.write() as tx:
            yield tx

    def capture(self) -> None:
        self.history.capture()

    def later(self, ms: int, *, asleep: bool = False) -> None:
        self.now += ms
        self.counted += 0 if asleep else ms / 1000

    def look(self, up_since: int | None = None) -> WatchdogReport:
        return run_watchdog(
            self.home, self.history, now=self.now, monotonic=self.counted, up_since=up_since
        )

    def see(self) -> Snapshot:
        seen = look_once(self.home, self.history, now=self.now, monotonic=self.counted)
        return seen.snapshot

    def ticks(self, count: int) -> list[tuple[str, str]]:
        """Look so often, each half minute; give what was raised."""
        raised = []
        for _ in range(count):
            self.later(30 * SECOND)
            report = self.look()
            raised += [(one.invariant, one.source or "") for one in report.raised]
        return raised


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    claude_log(world.user, said("user", "hello"))
    world.capture()
    world.look()
    yield world
    world.history.close()


def test_a_home_in_order_has_nothing_to_tell(world: World) -> None:
    assert world.look().violations == ()
    assert world.ticks(5) == []


def test_one_missed_transcript_is_one_alarm_within_a_minute(world: World) -> None:
    claude_log(world.user, said("user", "missed"), name="made-up-2")
    assert world.ticks(2) == [("I-2", "agentic-session-claude")]
    assert world.ticks(30) == []
    (alarm,) = world.history.store.alarms()
    assert "made-up-2.jsonl" in alarm.details


def test_a_standing_alarm_names_what_is_wrong_now(world: World) -> None:
    claude_log(world.user, said("user", "missed"), name="made-up-2")
    world.ticks(2)
    (first,) = world.history.store.alarms()
    for name in ("made-up-3", "made-up-4"):
        world.capture()  # what it named is in the store, and another one is not
        claude_log(world.user, said("user", f"missed as well: {name}"), name=name)
        assert world.ticks(2) == []
        (alarm,) = world.history.store.alarms()
        assert f"{name}.jsonl" in alarm.details
        assert "made-up-2.jsonl" not in alarm.details
        same = (alarm.id, alarm.raised_at, alarm.since_ms)
        assert same == (first.id, first.raised_at, first.since_ms)


def test_it_is_resolved_when_the_transcript_came_in(world: World) -> None:
    claude_log(world.user, said("user", "missed"), name="made-up-2")
    world.ticks(3)
    world.capture()
    world.ticks(2)
    assert world.history.store.alarms() == []
    (alarm,) = world.history.store.alarms(active=False)
    assert alarm.clean_ticks == 2
    assert alarm.resolved_at is not None


def test_a_transcript_that_was_forgotten_is_not_missed(world: World) -> None:
    """Until capture has looked at its log again, the store has no row of it."""
    (session,) = world.history.sessions()
    world.history.forget(Query(session=(session.session_id,)))
    assert world.history.sessions() == []
    assert world.ticks(5) == []
    world.capture()
    assert world.history.sessions() == []
    assert world.ticks(5) == []


def test_a_transcript_that_grew_and_was_not_read_is_missed_too(world: World) -> None:
    log = claude_log(world.user, said("user", "hello"), said("assistant", "more", 2))
    with log.open("a") as file:  # it grows all the time
        for _ in range(2):
            world.later(20 * SECOND)
            file.write("{}\n")
            file.flush()
            os.utime(log, (world.now / 1000, world.now / 1000))
            world.look()
    assert world.ticks(2) == [("I-2", "agentic-session-claude")]


def test_a_sleep_of_eight_hours_raises_nothing(world: World) -> None:
    with world.writing() as tx:
        for source in ("shell", "claude-tool", "browser"):
            note_probe(tx, source, lag_ms=5, now=world.now)
        heartbeat(tx, "claude-session-watcher", world.now)
        heard(tx, "browser", world.now, world.now)
    claude_log(world.user, said("user", "just before the lid was closed"), name="made-up-2")
    world.later(8 * HOUR, asleep=True)
    assert world.look(up_since=world.now - 9 * HOUR).raised == ()
    world.capture()
    assert world.ticks(20) == []


def test_a_week_of_nothing_raises_nothing(world: World) -> None:
    for _ in range(7 * 8):
        world.later(3 * HOUR)
        assert world.look().violations == ()


def test_what_changed_before_the_service_began_is_not_late(world: World) -> None:
    claude_log(world.user, said("user", "while nobody ran"), name="made-up-2")
    world.later(HOUR)
    assert world.look(up_since=world.now - SECOND).raised == ()
    world.later(40 * SECOND)
    assert len(world.look(up_since=world.now - 41 * SECOND).raised) == 1


def test_three_probes_that_fail_are_three_alarms(world: World) -> None:
    with world.writing() as tx:
        for source in ("shell", "claude-tool", "browser"):
            note_probe(tx, source, lag_ms=None, now=world.now)
    assert sorted(world.ticks(1)) == [
        *(("I-8", "browser"), ("I-8", "claude-tool"), ("I-8", "shell"))
    ]
    assert world.ticks(10) == []


def test_a_source_that_is_switched_off_is_not_looked_at(world: World) -> None:
    world.configure('[capture]\ndisable = ["claude-code"]\n[browser]\nenabled = false\n')
    claude_log(world.user, said("user", "nobody wants it"), name="made-up-2")
    with world.writing() as tx:
        note_probe(tx, "browser", lag_ms=None, now=world.now)
    assert world.ticks(4) == []


def test_an_alarm_that_was_seen_is_not_raised_again(world: World) -> None:
    claude_log(world.user, said("user", "missed"), name="made-up-2")
    world.ticks(3)
    world.history.store.acknowledge(1, "I know")
    assert world.ticks(10) == []


def test_drops_are_told_while_they_are_new(world: World) -> None:
    with world.writing() as tx:
        count_drop(tx, "socket", "spool", 2, world.now)
        count_drop(tx, "shell", "excluded", 50, world.now)
    assert world.ticks(1) == [("I-5", "socket")]


def test_reports_that_nobody_collects_are_told_after_a_day_or_while_a_service_runs(
    world: World,
) -> None:
    spool = world.home.paths().data / "spool"
    spool.mkdir()
    (spool / "1.jsonl").write_text("{}\n")
    world.later(HOUR)
    assert world.look().raised == ()
    world.later(30 * SECOND)
    (alarm,) = world.look(up_since=world.now - 2 * HOUR).raised
    assert (alarm.invariant, alarm.source) == ("I-9", "spool")


# ---------------------------------------------------------------------- shells


def hooked(world: World, at: int) -> Path:
    hooks = world.home.paths().data / "hooks"
    hooks.mkdir()
    (hooks / "hook.zsh").write_text("")
    os.utime(hooks / "hook.zsh", (at / 1000, at / 1000))
    return world.user / ".zsh_history"


def typed(world: World, history: Path, *commands: str, at: int) -> None:
    lines = "".join(f": {at // 1000 + n}:0;{command}\n" for n, command in enumerate(commands))
    with history.open("a") as file:
        file.write(lines)
    os.utime(history, (world.now / 1000, world.now / 1000))


def test_commands_that_a_shell_remembers_and_the_store_does_not_have_are_told(
    world: World,
) -> None:
    history = hooked(world, world.now - HOUR)
    typed(world, history, "make", "make test", at=world.now - 5 * MINUTE)
    assert world.ticks(1) == []  # two may have been kept out
    typed(world, history, "git push", at=world.now - 4 * MINUTE)
    assert world.ticks(2) == [("I-1", "shell")]


def test_a_shell_without_the_hook_is_nobodys_business(world: World) -> None:
    typed(world, world.user / ".zsh_history", "a", "b", "c", "d", at=world.now - 5 * MINUTE)
    assert world.ticks(3) == []


def test_what_was_typed_before_the_hook_and_what_is_kept_out_do_not_count(world: World) -> None:
    world.configure('[shell]\nexclude = ["pass *"]\n')
    history = hooked(world, world.now - 10 * MINUTE)
    typed(world, history, "old", "older", "oldest", at=world.now - HOUR)
    secret = (" secret", "pass show x", "pass ls", "make")
    typed(world, history, *secret, at=world.now - 5 * MINUTE)
    assert world.ticks(3) == []


def test_a_history_that_looks_the_same_is_not_read_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = hooked(world, world.now - HOUR)
    typed(world, history, "a", "b", at=world.now - 5 * MINUTE)
    world.look()
    monkeypatch.setattr(
        "threadkeep.service.doctor.observations.read_past", lambda *_: pytest.fail("read")
    )
    world.ticks(2)


# ---------------------------------------------------------------------- the rest


def test_tool_calls_without_events_are_told(world: World) -> None:
    use = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
    record = said("assistant", [use])
    moment = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(world.now / 1000 - 300))
    claude_log(world.user, record | {"timestamp": moment}, name="made-up-2")
    world.capture()
    assert world.see().calls is not None
    assert world.ticks(1) == []
    do(world.file, "DELETE FROM enrichment_queue", "DELETE FROM tk_events", "DELETE FROM events")
    assert world.ticks(1) == [("I-3", "claude-tool")]


def test_a_browser_that_runs_and_is_not_heard_is_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadkeep.service.doctor.observations.browser_runs", lambda: True)
    assert world.ticks(2) == []  # the extension never spoke: it is not used
    with world.writing() as tx:
        heard(tx, "browser", world.now, world.now)
    assert world.ticks(58) == []
    assert world.ticks(3) == [("I-4", "browser")]


def test_nodes_that_are_there_twice_are_told(world: World) -> None:
    node = "INSERT INTO knowledge_nodes (uuid, content, embed_text, created_at, updated_at)"
    do(
        world.file,
        *(f"{node} VALUES ('{uuid}', '{{}}', 'x', 1, 1)" for uuid in ("a", "b")),
        "INSERT INTO knowledge_node_agentic_sessions SELECT n.id, s.id"
        " FROM knowledge_nodes AS n, (SELECT min(id) AS id FROM agentic_sessions) AS s",
    )
    assert world.ticks(2) == [("I-16", "nodes")]


def test_the_watchdog_says_that_it_looked_and_is_missed_when_it_does_not(world: World) -> None:
    ((beat, success),) = ask(
        world.file,
        "SELECT last_heartbeat_ts, last_success_ts FROM source_health WHERE source = 'watchdog'",
    )
    assert beat == success == world.now
    world.later(5 * MINUTE)
    assert world.see().watchdog_at == beat


def test_a_watchdog_that_died_is_missed_while_the_service_runs(world: World) -> None:
    assert check(world.see()) == []
    with world.writing() as tx:
        note_start(tx, Service(1, my_mark(), "1.0", 18, world.now, world.now))
    world.look()
    world.later(MINUTE)
    assert check(world.see()) == []
    world.later(5 * MINUTE)
    assert [one.key for one in check(world.see())] == [("I-7", "watchdog")]
    assert world.look().violations == ()  # it looks again
    world.configure("[serve]\nwatchdog = false\n")
    world.later(5 * MINUTE)
    assert check(world.see()) == []


def test_a_service_knows_by_itself_since_when_it_runs(world: World) -> None:
    claude_log(world.user, said("user", "while nobody ran"), name="made-up-2")
    world.later(HOUR)
    with world.writing() as tx:
        note_start(tx, Service(1, my_mark(), "1.0", 18, world.now, world.now))
    assert world.look().violations == ()


def test_it_can_be_run_by_itself(world: World) -> None:
    assert watchdog_once(world.home).violations == ()


def test_a_folder_that_closes_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The superuser may look into any folder, so the answer of the system is played."""
    root = str(world.user / ".claude" / "projects")
    real = os.scandir

    def closed(place: str) -> Iterator[os.DirEntry[str]]:
        if place == root:
            raise PermissionError(13, "Permission denied", place)
        return real(place)

    monkeypatch.setattr(os, "scandir", closed)
    assert world.ticks(3) == [("I-2", "agentic-session-claude")]


def test_nobody_misses_a_line_that_is_still_being_written(world: World) -> None:
    """Capture takes it as it is a minute after the last word; until then nothing is wrong."""
    log = claude_log(world.user, said("user", "hello"))
    with log.open("a") as file:
        file.write('{"type": "user", "mess')
    os.utime(log, (world.now / 1000, world.now / 1000))
    world.capture()
    for _ in range(4):  # two minutes: it settles after one, the next look may take half a one more
        world.later(30 * SECOND)
        assert world.look(up_since=1).violations == ()
    world.later(20 * SECOND)
    (missed,) = world.look(up_since=1).violations
    assert str(log) in missed.details
