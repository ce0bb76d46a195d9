"""Tasks that are still to come: held, dropped, changed; and series with their next runs."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.contracts.mailbox.pair import CHAT, START, Pair
from tests.lengths import examples
from tests.support.mail import MailFactory
from threadkeep.base.clock import iso
from threadkeep.errors import Invalid
from threadkeep.mailbox.context import Policy
from threadkeep.mailbox.records import Mail, Place
from threadkeep.mailbox.rows import read_moment

DAILY = "0 9 * * *"
DAY = 24 * 3600
NINE = 1_770_022_800_000  # 2026-02-02T09:00:00Z


@pytest.fixture
def pair(factory: MailFactory) -> Pair:
    return Pair(factory)


def with_policy(factory: MailFactory, **policy: Any) -> Pair:
    return Pair(factory, policy=Policy(**policy))


def run(pair: Pair) -> list[Mail]:
    """Let the agent complete what is due; give it in the order it came."""
    mails = pair.agent.poll(200)
    pair.agent.claim(mails)
    pair.agent.complete(mails)
    pair.host.sync()
    return mails


# ------------------------------------------------------------------ one task


def test_a_task_is_held_and_goes_on(pair: Pair) -> None:
    task = pair.host.insert_task("tidy")
    assert pair.host.pause_task(task.id) == 1
    assert pair.agent.poll() == []
    assert [mail.status for mail in pair.host.tasks()] == ["paused"]
    assert pair.host.pause_task(task.id) == 0
    assert pair.host.resume_task(task.id) == 1
    assert [mail.id for mail in pair.agent.poll()] == [task.id]


def test_a_task_is_dropped_by_its_series(pair: Pair) -> None:
    task = pair.host.insert_task("report", recurrence=DAILY, process_after=START)
    run(pair)
    (following,) = pair.host.tasks()
    assert following.id != task.id
    assert pair.host.cancel_task(task.id) == 1
    assert pair.host.tasks() == []
    assert pair.host.rearm() == []


def test_what_is_no_live_task_is_left_alone_and_costs_nothing(pair: Pair) -> None:
    chat = pair.host.send("hello")
    before = pair.changes()
    for verb in (pair.host.cancel_task, pair.host.pause_task, pair.host.resume_task):
        assert verb(chat.id) == 0
        assert verb("nobody") == 0
    assert pair.host.update_task(chat.id, prompt="x") == 0
    assert pair.changes() == before


def test_a_task_is_changed_and_keeps_what_else_it_has(pair: Pair) -> None:
    task = pair.host.insert_task("old", script="echo 1", process_after=NINE)
    raw = '{"prompt":"old","script":"echo 1","extra":[1,2]}'
    pair.sql("in", "UPDATE messages_in SET content = ? WHERE id = ?", raw, task.id)
    assert pair.host.update_task(task.id, prompt="new", script=None) == 1
    found = pair.host.mail(task.id)
    assert found.raw == '{"prompt":"new","script":null,"extra":[1,2]}'
    assert (found.process_after, found.recurrence) == (iso(NINE), None)
    assert pair.host.verify() == []


def test_times_of_a_task_are_changed(pair: Pair) -> None:
    task = pair.host.insert_task("x", process_after=NINE)
    assert (
        pair.host.update_task(task.id, process_after="2026-03-01T08:00:00", recurrence="@daily")
        == 1
    )
    found = pair.host.mail(task.id)
    assert (found.process_after, found.recurrence) == ("2026-03-01T08:00:00.000Z", "@daily")
    assert pair.host.update_task(task.id, recurrence=None) == 1
    assert pair.host.mail(task.id).recurrence is None
    assert pair.host.mail(task.id).text == "x"


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"prompt": ""},
        {"prompt": None},
        {"prompt": 5},
        {"script": ["ls"]},
        {"recurrence": "61 * * * *"},
        {"recurrence": "* * *"},
        {"recurrence": 7},
        {"process_after": "tomorrow"},
        {"status": "completed"},
    ],
)
def test_a_bad_change_is_refused_whole(pair: Pair, changes: dict[str, Any]) -> None:
    task = pair.host.insert_task("x", recurrence=DAILY)
    before = pair.host.mail(task.id)
    with pytest.raises(Invalid):
        pair.host.update_task(task.id, **{"prompt": "good", **changes} if changes else {})
    assert pair.host.mail(task.id) == before


def test_a_change_of_times_moves_only_the_row_that_goes_on(factory: MailFactory) -> None:
    pair = with_policy(factory, catch_up="all")
    task = pair.host.insert_task("x", recurrence=DAILY, process_after=NINE)
    pair.until(NINE + 3 * DAY * 1000 + 1)
    run(pair)
    assert pair.host.update_task(task.id, prompt="y", recurrence="@hourly") == 4
    rows = pair.host.tasks()
    assert [row.recurrence for row in rows] == [None, None, None, "@hourly"]
    assert {row.text for row in rows} == {"y"}


# ------------------------------------------------------------------ series


def test_the_next_run_is_a_copy_in_its_place(pair: Pair) -> None:
    place = Place("slack", "C1", "T9")
    task = pair.host.insert_task("report", recurrence=DAILY, process_after=START, place=place)
    run(pair)
    (following,) = pair.host.tasks()
    assert following.id.startswith("task-")
    assert following.seq == 4
    assert (following.kind, following.place, following.raw) == ("task", place, task.raw)
    assert (following.series_id, following.tries, following.trigger) == (task.id, 0, True)
    assert following.process_after == iso(NINE)


def test_a_recurring_chat_goes_on_as_a_chat(pair: Pair) -> None:
    chat = pair.host.send("ping", trigger=False)
    pair.sql("in", "UPDATE messages_in SET recurrence = ? WHERE id = ?", DAILY, chat.id)
    pair.sql("in", "UPDATE messages_in SET status = 'completed' WHERE id = ?", chat.id)
    (following,) = pair.host.rearm()
    assert following.id.startswith("msg-")
    assert (following.kind, following.trigger, following.place) == ("chat", True, CHAT)


def test_without_anything_over_nothing_is_written(pair: Pair) -> None:
    pair.host.insert_task("x", recurrence=DAILY)
    before = pair.changes()
    assert pair.host.rearm() == []
    assert pair.changes() == before


def test_rows_that_another_host_settled_are_armed_again_once(pair: Pair) -> None:
    task = pair.host.insert_task("x", recurrence=DAILY)
    pair.sql("in", "UPDATE messages_in SET status = 'completed' WHERE id = ?", task.id)
    assert len(pair.host.rearm()) == 1
    assert pair.host.rearm() == []


def test_two_runs_that_are_over_do_not_fork_the_series(pair: Pair) -> None:
    task = pair.host.insert_task("x", recurrence=DAILY)
    pair.sql("in", "UPDATE messages_in SET status = 'completed' WHERE id = ?", task.id)
    pair.sql(
        "in",
        "INSERT INTO messages_in (id, seq, kind, timestamp, status, recurrence, series_id, content)"
        " SELECT 'twin', 100, kind, timestamp, 'completed', recurrence, series_id, content"
        " FROM messages_in WHERE id = ?",
        task.id,
    )
    assert len(pair.host.rearm()) == 1
    assert len(pair.host.tasks()) == 1
    assert pair.value("in", "SELECT count(*) FROM messages_in WHERE recurrence IS NOT NULL") == 1


@pytest.mark.parametrize("cron", ["every day", "0 0 30 2 *", "* * * * * * * *"])
def test_a_recurrence_that_cannot_be_read_ends_its_series_with_a_word(
    pair: Pair, cron: str
) -> None:
    task = pair.host.insert_task("x")
    pair.sql("in", "UPDATE messages_in SET recurrence = ? WHERE id = ?", cron, task.id)
    pair.claim()
    pair.agent.complete([task.id])
    assert pair.host.sync().completed == (task.id,)
    assert pair.host.rearm() == []
    assert pair.host.mail(task.id).recurrence is None
    (note,) = pair.notes()
    assert note.startswith('Task 2 ("x") will not run again: ')
    assert any(event.what == "given up" for event in pair.host.trace(task.id))


def test_the_reason_of_a_failure_is_kept_beside_that_of_a_bad_recurrence(pair: Pair) -> None:
    task = pair.host.insert_task("x")
    pair.sql("in", "UPDATE messages_in SET recurrence = 'never' WHERE id = ?", task.id)
    pair.claim()
    pair.agent.fail([task.id], "no network")
    pair.host.sync()
    assert pair.host.dead_letters()[0].reason.startswith("no network; ")


def test_an_unknown_zone_is_no_fault_of_the_series(pair: Pair) -> None:
    task = pair.host.insert_task("x", recurrence=DAILY)
    pair.sql("in", "UPDATE messages_in SET status = 'completed' WHERE id = ?", task.id)
    pair.host.context = pair.ctx._replace(zone="Mars/Olympus")
    with pytest.raises(Invalid, match="time zone"):
        pair.host.rearm()
    assert pair.host.mail(task.id).recurrence == DAILY


def test_the_next_run_is_due_in_the_zone_of_the_host(factory: MailFactory) -> None:
    pair = Pair(factory, zone="America/New_York")
    task = pair.host.insert_task("x", recurrence="30 2 * * *", process_after=START)
    pair.until(round(datetime(2026, 3, 8, 5, tzinfo=UTC).timestamp()) * 1000)
    run(pair)
    (following,) = pair.host.tasks()
    assert following.series_id == task.id
    # That night has no 02:30: the clock goes from 02:00 to 03:00.
    assert following.process_after == "2026-03-08T07:30:00.000Z"


# ------------------------------------------------------------------ runs that were missed


def test_collapse_runs_once_late_and_then_on_time(pair: Pair) -> None:
    task = pair.host.insert_task("x", recurrence=DAILY, process_after=NINE)
    pair.until(NINE + 3 * DAY * 1000 + 1)
    assert [mail.id for mail in run(pair)] == [task.id]
    (following,) = pair.host.tasks()
    assert following.process_after == iso(NINE + 4 * DAY * 1000)


def test_all_makes_up_for_each_missed_run_oldest_first(factory: MailFactory) -> None:
    pair = with_policy(factory, catch_up="all")
    task = pair.host.insert_task("x", recurrence=DAILY, process_after=NINE)
    pair.until(NINE + 3 * DAY * 1000)
    assert [mail.id for mail in run(pair)] == [task.id]
    late = run(pair)
    assert [mail.process_after for mail in late] == [iso(NINE + d * DAY * 1000) for d in (1, 2, 3)]
    assert all(mail.recurrence is None and mail.series_id == task.id for mail in late)
    (following,) = pair.host.tasks()
    assert following.process_after == iso(NINE + 4 * DAY * 1000)
    assert run(pair) == []


def test_all_makes_up_for_so_many_and_no_more(factory: MailFactory) -> None:
    pair = with_policy(factory, catch_up="all", catch_up_runs=2)
    pair.host.insert_task("x", recurrence=DAILY, process_after=NINE)
    pair.until(NINE + 9 * DAY * 1000)
    run(pair)
    assert len(run(pair)) == 2


def test_all_makes_up_for_nothing_while_the_task_was_held(factory: MailFactory) -> None:
    pair = with_policy(factory, catch_up="all")
    task = pair.host.insert_task("x", recurrence=DAILY, process_after=START)
    pair.claim()
    pair.host.pause_task(task.id)
    pair.later(5 * DAY)
    pair.agent.complete([task.id])
    pair.host.sync()
    assert [mail.status for mail in pair.host.tasks()] == ["paused"]


def test_skip_lets_a_late_run_go(factory: MailFactory) -> None:
    pair = with_policy(factory, catch_up="skip")
    task = pair.host.insert_task("x", recurrence=DAILY, process_after=NINE)
    pair.until(NINE + DAY * 1000 - 1)
    assert pair.host.rearm() == []
    pair.until(NINE + 3 * DAY * 1000 + 1)
    (following,) = pair.host.rearm()
    assert following.process_after == iso(NINE + 4 * DAY * 1000)
    assert pair.status(task.id) == "completed"
    assert run(pair) == []
    assert any("late runs are let go" in event.detail for event in pair.host.trace(task.id))
    assert pair.host.dead_letters() == []


@pytest.mark.parametrize("begun", ["claimed", "tried before"])
def test_skip_lets_nothing_go_that_somebody_has_begun(factory: MailFactory, begun: str) -> None:
    pair = with_policy(factory, catch_up="skip")
    task = pair.host.insert_task("x", recurrence=DAILY, process_after=NINE)
    pair.until(NINE)
    pair.claim()
    if begun == "tried before":
        pair.host.reset_claims()
    pair.later(3 * DAY)
    assert pair.host.rearm() == []
    assert pair.status(task.id) == "pending"


@settings(
    max_examples=examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture]
)  # each is a folder of its own, with dozens of commits
@given(
    policy=st.sampled_from(["collapse", "all", "skip"]),
    steps=st.lists(st.tuples(st.integers(0, 200_000), st.booleans()), min_size=1, max_size=6),
)
def test_a_series_has_one_live_row_whatever_happens(
    factory: MailFactory, policy: Any, steps: list[tuple[int, bool]]
) -> None:
    pair = with_policy(factory, catch_up=policy, catch_up_runs=3)
    pair.host.insert_task("x", recurrence="0 */6 * * *")
    last = 0
    for seconds, well in steps:
        pair.later(seconds)
        mails = pair.agent.poll(200)
        pair.agent.claim(mails)
        if well:
            pair.agent.complete(mails)
        else:
            pair.agent.fail(mails, "no")
        pair.host.sync()
        pair.host.rearm()
        (live,) = [mail for mail in pair.host.tasks() if mail.recurrence is not None]
        due = read_moment(live.process_after) or 0
        assert due >= last
        assert timedelta(milliseconds=due - pair.time[0]) <= timedelta(hours=6)
        last = due
