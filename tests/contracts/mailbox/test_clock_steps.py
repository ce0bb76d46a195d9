"""A clock that was days ahead for a while: once it is right, nothing sleeps for days."""

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from tests.contracts.mailbox.pair import START, Pair
from tests.contracts.mailbox.postal import CHAT, Channel, Clock, Desk
from tests.lengths import examples
from tests.support.mail import MailFactory
from threadkeep.base.clock import iso
from threadkeep.mailbox.adapters import NotNow
from threadkeep.mailbox.context import Policy
from threadkeep.mailbox.records import Mail
from threadkeep.mailbox.rows import read_moment

DAY = 86_400_000
HOUR = 3_600_000
STEPS = [2 * DAY, 400 * DAY]


@pytest.fixture
def pair(factory: MailFactory) -> Pair:
    return Pair(factory)


def run(pair: Pair) -> list[Mail]:
    """Let the agent complete what is due."""
    mails = pair.agent.poll(200)
    pair.agent.claim(mails)
    pair.agent.complete(mails)
    return mails


def due(pair: Pair) -> list[int | None]:
    return [read_moment(task.process_after) for task in pair.host.tasks()]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("cron", ["0 9 * * *", "*/5 * * * *", "30 8 * * 1"])
def test_a_series_that_ran_under_a_clock_ahead_goes_on_at_its_next_time(
    pair: Pair, cron: str, step: int
) -> None:
    pair.host.insert_task("report", recurrence=cron)
    (usual,) = due(pair)
    assert usual is not None
    pair.until(START + step)
    assert len(run(pair)) == 1
    pair.host.sweep()
    assert due(pair)[0] > START + step  # type: ignore[operator]
    pair.until(START)
    pair.host.sweep()
    assert due(pair) == [usual]
    before = pair.changes()
    pair.host.sweep()
    assert pair.changes() == before
    pair.until(usual)
    assert len(run(pair)) == 1
    pair.host.sweep()
    (following,) = due(pair)
    assert following is not None
    assert usual < following <= usual + 7 * DAY


def test_a_run_set_right_that_somebody_then_puts_off_stays_put_off(pair: Pair) -> None:
    pair.until(START + 400 * DAY)
    task = pair.host.insert_task("report", recurrence="0 9 * * *")
    pair.until(START)
    pair.host.sweep()
    later = START + 9 * DAY - START % DAY + 9 * HOUR  # as it would come, but days later
    pair.host.update_task(task.id, process_after=later)
    pair.host.sweep()
    assert due(pair) == [later]
    assert pair.host.verify() == []


def test_a_series_that_is_held_comes_forward_and_stays_held(pair: Pair) -> None:
    task = pair.host.insert_task("report", recurrence="0 9 * * *")
    pair.until(START + 2 * DAY)
    run(pair)
    pair.host.sweep()
    pair.host.pause_task(task.id)
    pair.until(START)
    pair.host.sweep()
    (found,) = pair.host.tasks()
    assert found.status == "paused"
    assert read_moment(found.process_after) < START + DAY  # type: ignore[operator]
    assert pair.host.verify() == []


def test_a_series_that_was_begun_under_a_clock_ahead_comes_forward(pair: Pair) -> None:
    pair.until(START + 2 * DAY)
    pair.host.insert_task("report", recurrence="0 9 * * *")
    pair.until(START)
    pair.host.sweep()
    (found,) = due(pair)
    assert found is not None
    assert START < found < START + DAY


@pytest.mark.parametrize("ahead", [0, 2 * DAY])
def test_what_somebody_wants_at_a_time_of_his_own_is_not_moved(pair: Pair, ahead: int) -> None:
    wanted = START + 30 * DAY + 12_345_000
    pair.until(START + ahead)
    pair.host.insert_task("once", process_after=wanted)
    pair.host.insert_task("first then", process_after=wanted, recurrence="0 9 * * *")
    moved = pair.host.insert_task("each day", recurrence="0 9 * * *")
    pair.host.update_task(moved.id, process_after=wanted)
    pair.until(START)
    for _ in range(2):
        pair.host.sweep()
        assert due(pair) == [wanted] * 3


def test_a_run_that_is_put_off_on_purpose_stays_put_off(pair: Pair) -> None:
    task = pair.host.insert_task("report", recurrence="0 9 * * *", process_after=START)
    run(pair)
    pair.host.sweep()
    later = START + 9 * DAY - START % DAY + 9 * HOUR  # as it would come, but days later
    pair.host.update_task(task.id, process_after=later)
    pair.host.sweep()
    assert due(pair) == [later]


@pytest.mark.parametrize("step", STEPS)
def test_another_try_is_not_put_off_for_days(pair: Pair, step: int) -> None:
    mail = pair.host.send("hello")
    pair.until(START + step)
    pair.claim()
    pair.host.sweep()  # no agent runs: its claim is let go, and counts as a try
    assert pair.host.mail(mail.id).tries == 1
    pair.until(START)
    assert pair.agent.poll() == []
    pair.host.sweep()
    pair.later(10)
    assert [one.id for one in pair.agent.poll()] == [mail.id]


def test_a_pause_after_a_try_is_kept_while_the_clock_is_right(pair: Pair) -> None:
    pair.host.send("hello")
    pair.claim()
    pair.host.sweep()
    before = pair.changes()
    pair.host.sweep()
    assert pair.changes() == before
    assert pair.agent.poll() == []


@pytest.mark.parametrize("trouble", [NotNow("offline"), ValueError("no")])
@pytest.mark.parametrize("step", STEPS)
def test_another_delivery_is_not_put_off_for_days(
    factory: MailFactory, trouble: Exception, step: int
) -> None:
    clock = Clock()
    desk, channel = Desk(factory, clock), Channel(trouble)
    desk.say("first")
    clock.now += step
    desk.host.drain({"test": channel})
    assert channel.texts == []
    desk.host.drain({"test": channel})
    assert channel.texts == []  # its pause is kept
    clock.now -= step
    desk.host.drain({"test": channel})
    assert channel.texts == ["first"]


def test_a_message_that_shall_go_on_another_day_goes_on_that_day(factory: MailFactory) -> None:
    clock = Clock()
    desk, channel = Desk(factory, clock), Channel()
    wanted = {"deliver_after": clock.now + 9 * DAY}
    desk.container.insert_message("chat", {"text": "later"}, CHAT, **wanted)
    desk.host.drain({"test": channel})
    assert channel.texts == []
    clock.now += 9 * DAY
    desk.host.drain({"test": channel})
    assert channel.texts == ["later"]


class Running:
    """A container that never says anything."""

    stopped: str | None = None

    def is_running(self) -> bool:
        return self.stopped is None

    def start(self) -> bool:
        return False

    def stop(self, reason: str) -> None:
        self.stopped = reason


def test_a_sign_of_life_from_the_future_does_not_count_for_days(pair: Pair) -> None:
    pair.until(START + 2 * DAY)
    pair.beat()
    pair.until(START)
    runner = Running()
    assert pair.host.sweep(runner).stuck is None  # it may be alive, and has its time from now on
    pair.later(29 * 60)
    assert pair.host.sweep(runner).stuck is None
    pair.later(2 * 60)
    assert pair.host.sweep(runner).stuck == "absolute-ceiling"


@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(-40, 40),
    st.sampled_from(["0 9 * * *", "15 */6 * * *", "0 0 1 * *"]),
    st.lists(st.integers(0, DAY), min_size=1, max_size=3),
)
@example(1, "0 9 * * *", [22_800_000, 0])  # set right twice
def test_whatever_the_clock_did_a_series_waits_for_its_next_time_at_most(
    factory: MailFactory, days: int, cron: str, offsets: list[int]
) -> None:
    pair = Pair(factory, policy=Policy(catch_up="collapse"))
    pair.host.insert_task("report", recurrence=cron)
    for offset in offsets:
        pair.until(START + days * DAY + offset)
        run(pair)
        pair.host.sweep()
    pair.until(START)
    run(pair)
    pair.host.sweep()
    fresh = Pair(factory)
    fresh.host.insert_task("report", recurrence=cron)
    (found,), (usual,) = due(pair), due(fresh)
    assert found is not None
    assert usual is not None
    assert found <= usual, (iso(found), iso(usual))
