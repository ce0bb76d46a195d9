"""The host's regular look at a session, step by step."""

import time
from collections.abc import Iterator

import pytest

from tests.contracts.mailbox.pair import START, Pair, as_nanoclaw_left_it
from tests.support.mail import MailFactory
from threadkeep.errors import Damaged
from threadkeep.mailbox.host.sweep import ResetReport, SettleReport, tool_state
from threadkeep.mailbox.records import ToolState
from threadkeep.mailbox.rows import sqlite_form


class Runner:
    """Pretends to run a container, and remembers what was asked of it."""

    def __init__(self, pair: Pair, *, running: bool = False, starts: bool = True) -> None:
        self.pair = pair
        self.running = running
        self.starts = starts
        self.log: list[str] = []
        self.last_words: list[str] = []

    def is_running(self) -> bool:
        return self.running

    def start(self) -> bool:
        beat = self.pair.heartbeat()
        self.log.append("start" if beat is None else "start beside an old heartbeat")
        self.running = self.starts
        return self.starts

    def stop(self, reason: str) -> None:
        self.log.append(f"stop: {reason}")
        self.pair.agent.complete(self.last_words)
        self.running = False


@pytest.fixture
def pair(factory: MailFactory) -> Pair:
    return Pair(factory)


def test_nothing_to_do_writes_nothing(pair: Pair) -> None:
    runner = Runner(pair)
    before = pair.changes()
    swept = pair.host.sweep(runner)
    assert (swept.settled, swept.reset, swept.due, swept.started) == (
        SettleReport(),
        ResetReport(),
        0,
        None,
    )
    assert runner.log == []
    assert pair.changes() == before


def test_mail_that_waits_wakes_the_agent_without_its_old_heartbeat(pair: Pair) -> None:
    pair.host.send("hello")
    pair.beat()
    runner = Runner(pair)
    swept = pair.host.sweep(runner)
    assert (swept.due, swept.started) == (1, True)
    assert runner.log == ["start"]
    assert pair.host.sweep(runner).started is None
    assert runner.log == ["start"]


def test_a_start_that_fails_leaves_the_mail_waiting(pair: Pair) -> None:
    mail = pair.host.send("hello")
    assert pair.host.sweep(Runner(pair, starts=False)).started is False
    assert pair.status(mail.id) == "pending"
    assert pair.host.due() == 1


def test_context_wakes_nobody(pair: Pair) -> None:
    pair.host.send("just so you know", trigger=False)
    pair.host.note("a word")
    runner = Runner(pair)
    assert pair.host.sweep(runner).due == 0
    assert runner.log == []


def test_answers_of_a_running_container_are_taken_over(pair: Pair) -> None:
    mail = pair.host.send("hello")
    pair.claim()
    pair.agent.complete([mail.id])
    swept = pair.host.sweep(Runner(pair, running=True))
    assert swept.settled == SettleReport(completed=(mail.id,))
    assert swept.reset is None


def test_a_stuck_container_is_ended_and_a_new_one_started_later(pair: Pair) -> None:
    mail = pair.host.send("hello")
    pair.claim()
    pair.later(61)
    runner = Runner(pair, running=True)
    swept = pair.host.sweep(runner)
    assert swept.stuck == "claim-stuck"
    assert runner.log == ["stop: claim-stuck"]
    # Its mail waits for its turn: nothing is due yet, so nothing is started.
    assert swept.reset == ResetReport(retried=(mail.id,), released=1)
    assert (swept.due, swept.started) == (0, None)
    pair.later(5)
    assert pair.host.sweep(runner).started is True


def test_what_a_container_said_before_it_was_ended_counts(pair: Pair) -> None:
    done, stuck = pair.host.send("one"), pair.host.send("two")
    pair.claim()
    pair.later(61)
    runner = Runner(pair, running=True)
    runner.last_words = [done.id]
    swept = pair.host.sweep(runner)
    assert swept.settled.completed == (done.id,)
    assert swept.reset == ResetReport(retried=(stuck.id,), released=1)
    assert pair.host.mail(done.id).tries == 1


def test_a_container_that_this_sweep_starts_is_not_judged_by_it(pair: Pair) -> None:
    """An orphaned claim and an old heartbeat must not end the one that was just started."""
    orphan = pair.host.send("orphan")
    pair.claim()
    pair.beat()
    pair.later(3600)
    pair.host.send("new")
    runner = Runner(pair)
    swept = pair.host.sweep(runner)
    assert swept.stuck is None
    assert runner.log == ["start"]
    assert swept.reset == ResetReport(retried=(orphan.id,), released=1)


def test_a_long_command_keeps_a_container_alive(pair: Pair) -> None:
    pair.host.send("build it")
    pair.claim()
    pair.agent.tool_started("Bash", 600_000)
    runner = Runner(pair, running=True)
    pair.later(600)
    assert pair.host.sweep(runner).stuck is None
    pair.later(1)
    assert pair.host.sweep(runner).stuck == "claim-stuck"


def test_a_silent_container_is_ended_at_the_ceiling(pair: Pair) -> None:
    pair.beat()
    runner = Runner(pair, running=True)
    pair.later(1800)
    assert pair.host.sweep(runner).stuck is None
    pair.later(1)
    assert pair.host.sweep(runner).stuck == "absolute-ceiling"


def test_a_sign_of_life_after_the_claim_saves_it(pair: Pair) -> None:
    pair.host.send("x")
    pair.claim()
    pair.later(2)
    pair.beat()
    pair.later(100)
    assert pair.host.sweep(Runner(pair, running=True)).stuck is None


@pytest.fixture
def in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_tokyo")
def test_times_are_utc_whatever_the_zone_of_the_machine(pair: Pair) -> None:
    pair.host.send("x")
    pair.claim()
    pair.later(30)
    assert pair.host.sweep(Runner(pair, running=True)).stuck is None
    pair.later(31)
    assert pair.host.sweep(Runner(pair, running=True)).stuck == "claim-stuck"


def test_without_a_runner_nothing_is_started_or_ended(pair: Pair) -> None:
    pair.host.send("x")
    swept = pair.host.sweep()
    assert (swept.due, swept.started, swept.reset) == (1, None, ResetReport())


def test_a_container_that_nobody_here_started_counts_as_running(pair: Pair) -> None:
    mail = pair.host.send("x")
    pair.agent.start()
    pair.claim()
    runner = Runner(pair)
    swept = pair.host.sweep(runner)
    assert (swept.reset, swept.started) == (None, None)
    assert runner.log == []
    pair.agent.stop()
    assert pair.host.sweep(runner).reset == ResetReport(retried=(mail.id,), released=1)


def test_the_word_of_the_host_counts_where_locks_do_not_reach(pair: Pair) -> None:
    """An agent in a virtual machine holds no lock that this kernel knows of."""
    pair.host.send("x")
    pair.claim()
    pair.host.context = pair.ctx._replace(running=lambda: True)
    assert pair.host.sweep().reset is None
    pair.later(61)
    assert pair.host.sweep().stuck == "claim-stuck"


def test_a_recent_sign_of_life_counts_where_nobody_can_tell(pair: Pair) -> None:
    """NanoClaw's container holds no lock; a look from the command line must not end its work."""
    mail = pair.host.send("x")
    pair.claim()
    pair.beat()
    pair.later(60)
    assert pair.host.sweep().reset is None
    pair.later(1)
    assert pair.host.sweep().reset == ResetReport(retried=(mail.id,), released=1)


def test_an_agent_of_ours_that_died_is_known_to_be_gone(pair: Pair) -> None:
    mail = pair.host.send("x")
    pair.agent.start()
    pair.claim()
    pair.beat()
    pair.agent.stop()
    assert pair.host.sweep().reset == ResetReport(retried=(mail.id,), released=1)


def test_next_runs_of_every_step_are_reported(pair: Pair) -> None:
    answered = pair.host.insert_task("a", recurrence="@hourly", process_after=START)
    settled = pair.host.insert_task("b", recurrence="@hourly", process_after=START)
    poison = pair.host.insert_task("c", recurrence="@hourly", process_after=START)
    pair.claim()
    pair.agent.complete([answered.id])
    pair.sql("in", "UPDATE messages_in SET status = 'completed' WHERE id = ?", settled.id)
    pair.sql("in", "UPDATE messages_in SET tries = 5 WHERE id = ?", poison.id)
    swept = pair.host.sweep(Runner(pair))
    series = [pair.host.mail(run).series_id for run in swept.rearmed]
    assert sorted(map(str, series)) == sorted([answered.id, settled.id, poison.id])


def test_a_folder_of_nanoclaws_is_swept(pair: Pair) -> None:
    mail = pair.host.send("x")
    as_nanoclaw_left_it(pair)
    pair.sql("out", "DROP TABLE container_state")
    now = sqlite_form(START)
    pair.sql("out", "INSERT INTO processing_ack VALUES (?, 'processing', ?)", mail.id, now)
    pair.later(61)
    runner = Runner(pair, running=True)
    assert pair.host.sweep(runner).stuck == "claim-stuck"


@pytest.mark.parametrize("timeout", ["'long'", "9e999", "x'00'", "NULL", "-1"])
def test_nonsense_about_a_tool_is_no_excuse(pair: Pair, timeout: str) -> None:
    pair.host.send("x")
    pair.claim()
    pair.sql("out", f"INSERT INTO container_state VALUES (1, 'Bash', {timeout}, x'ff', 7)")
    pair.later(61)
    assert pair.host.sweep(Runner(pair, running=True)).stuck == "claim-stuck"


def test_the_tool_is_read(pair: Pair) -> None:
    assert tool_state(pair.ctx) is None
    pair.agent.tool_started("Bash", 5000)
    assert tool_state(pair.ctx) == ToolState("Bash", 5000, "2026-02-02T02:40:00.000Z")


def test_a_view_in_the_place_of_a_table_is_refused(pair: Pair) -> None:
    pair.sql("out", "DROP TABLE container_state")
    pair.sql("out", "CREATE VIEW container_state AS SELECT 1 AS id, 'Bash' AS current_tool")
    with pytest.raises(Damaged, match="not a table"):
        pair.host.sweep(Runner(pair, running=True))
