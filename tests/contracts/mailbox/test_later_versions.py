"""What we write so that every version understands it, and what our older files must learn."""

import pytest
from hypothesis import given, strategies as st

from tests.contracts.mailbox.pair import CHAT, START, Pair
from tests.support.mail import MailFactory
from tests.support.nanoclaw import compact
from threadkeep.base.clock import iso
from threadkeep.mailbox.context import DEFAULT, run_pause_ms
from threadkeep.mailbox.records import Destination, Place
from threadkeep.mailbox.rows import like, read_moment, sqlite_form, whole_iso

MOMENTS = st.integers(min_value=0, max_value=4_000_000_000_000)


@pytest.fixture
def pair(factory: MailFactory) -> Pair:
    return Pair(factory)


# ------------------------------------------------------------------ times


@given(MOMENTS, MOMENTS)
def test_a_time_sorts_as_text_behind_the_one_it_follows(first: int, second: int) -> None:
    for form in (iso, sqlite_form):
        written = form(min(first, second))
        following = like(written, max(first, second))
        assert written <= following
        assert (following[10] == " ") is (form is sqlite_form)
    assert like(None, first) == like("no time", first) == iso(first)


@given(MOMENTS)
def test_a_pause_is_a_time_without_milliseconds(ms: int) -> None:
    assert read_moment(whole_iso(ms)) == ms // 1000 * 1000
    assert "." not in whole_iso(ms)


def test_all_times_of_messages_in_are_iso(pair: Pair) -> None:
    pair.host.send("x")
    pair.host.insert_task("look", recurrence="@hourly", process_after=START)
    pair.claim()
    pair.host.sweep()
    pair.later(10)
    pair.agent.complete(pair.claim())
    pair.host.sweep()
    times = pair.sql("in", "SELECT timestamp, process_after FROM messages_in")
    found = [time for row in times for time in row if time is not None]
    assert len(found) > 4
    assert all("T" in time and time.endswith("Z") for time in found)


# ------------------------------------------------------------------ words


@given(st.integers(min_value=-5, max_value=10_000))
def test_pauses_of_a_failing_series_double_up_to_an_hour(failures: int) -> None:
    minutes = run_pause_ms(DEFAULT, failures) / 60_000
    ladder = [0, 2, 4, 8, 16, 32, 60]
    assert minutes == (0 if failures < 0 else ladder[min(failures, 6)])


def test_where_a_host_of_ours_was_its_word_is_taken(pair: Pair) -> None:
    sql = "INSERT INTO delivered (message_out_id, delivered_at) VALUES ('o', ?)"
    pair.sql("in", sql, iso(START))
    task = pair.host.insert_task("look", process_after=START)
    pair.agent.claim([task.id])
    pair.agent.fail([task.id], "no")
    assert pair.value("out", "SELECT status FROM processing_ack") == "failed"


def test_a_failing_series_is_told_of_once_when_it_is_held(pair: Pair) -> None:
    task = pair.host.insert_task("look", recurrence="* * * * *", process_after=START)
    starts = 0
    for _ in range(12):
        pair.later(3600 + 60)
        for mail in pair.agent.poll(200):
            if mail.kind == "task":
                starts += 1
                pair.agent.claim([mail])
                pair.agent.fail([mail], "broken")
            else:
                pair.agent.complete([mail])
        pair.host.sweep()
    assert starts == 8
    (live,) = pair.host.tasks()
    assert (live.status, live.series_id) == ("paused", task.id)
    assert len([note for note in pair.notes() if "on hold" in note]) == 1
    pair.host.resume_task(task.id)
    pair.later(60)
    (mail,) = [mail for mail in pair.agent.poll() if mail.kind == "task"]
    pair.agent.claim([mail])
    pair.agent.complete([mail])
    pair.host.sweep()
    assert [run.status for run in pair.host.tasks()] == ["pending"]


def test_destinations_have_what_their_type_has_and_nothing_else(pair: Pair) -> None:
    names = [
        Destination("chat", "Chat", "channel", "telegram", "42", "ag-1"),
        Destination("peer", "Peer", "agent", "telegram", "42", "ag-2"),
    ]
    pair.host.write_destinations(names)
    sql = "SELECT channel_type, platform_id, agent_group_id FROM destinations ORDER BY name"
    assert pair.sql("in", sql) == [("telegram", "42", None), (None, None, "ag-2")]


def test_columns_of_later_versions_keep_what_they_hold(pair: Pair) -> None:
    pair.host.write_destinations([Destination("a", "A", "channel", "telegram", "1")])
    pair.agent.set_state("mood", "good")
    pair.sql("in", "ALTER TABLE destinations ADD COLUMN thread_id_override TEXT")
    pair.sql("in", "UPDATE destinations SET thread_id_override = 'T9'")
    pair.sql("out", "ALTER TABLE session_state ADD COLUMN turn INTEGER")
    pair.sql("out", "UPDATE session_state SET turn = 7")
    names = [Destination(name, name, "channel", "telegram", "2") for name in ("a", "b")]
    pair.host.write_destinations(names)
    pair.agent.set_state("mood", "better")
    sql = "SELECT name, platform_id, thread_id_override FROM destinations ORDER BY name"
    assert pair.sql("in", sql) == [("a", "2", "T9"), ("b", "2", None)]
    assert pair.sql("out", "SELECT value, turn FROM session_state") == [("better", 7)]
    pair.host.write_destinations(names[1:])
    assert [one.name for one in pair.host.destinations()] == ["b"]


def test_a_very_old_task_is_its_prompt(pair: Pair) -> None:
    task = pair.host.insert_task("look", recurrence="@hourly", process_after=START)
    pair.sql("in", "UPDATE messages_in SET content = 'water the plants' WHERE id = ?", task.id)
    (mail,) = pair.agent.poll()
    assert mail.text == "water the plants"
    pair.agent.claim([mail])
    pair.agent.complete([mail])
    pair.host.sweep()
    assert [run.text for run in pair.host.tasks()] == ["water the plants"]
    assert [one for one in pair.host.verify() if one.severity == "error"] == []


def test_an_answer_to_an_echo_goes_to_the_chat_of_the_session(pair: Pair) -> None:
    echo = Place("session-echo", "sess-2")
    assert not echo.known
    pair.host.insert_message("chat", {"text": "said elsewhere"}, place=echo, trigger=False)
    assert pair.agent.send("hello").place == CHAT


def test_a_number_of_both_sides_means_the_one_that_failed(pair: Pair) -> None:
    pair.host.send("in")
    pair.agent.send("out")
    pair.sql("out", "DELETE FROM tk_row_hash")
    pair.sql("out", "UPDATE messages_out SET seq = 2, content = 'no JSON'")
    assert len(pair.host.drain({}).failed) == 1
    assert pair.host.retry(2).__class__.__name__ == "Delivery"


# ------------------------------------------------------------------ ids that come again


def test_ends_of_mail_that_is_gone_are_dropped_at_a_start(pair: Pair) -> None:
    mail = pair.host.send("x")
    pair.agent.claim([mail.id])
    pair.agent.complete([mail.id])
    pair.sql("in", "DELETE FROM messages_in")
    pair.agent.start()
    assert pair.sql("out", "SELECT * FROM processing_ack") == []
    pair.sql(
        "in",
        "INSERT INTO messages_in (id, seq, kind, timestamp, content) VALUES (?, 2, 'chat', ?, ?)",
        *(mail.id, iso(START), compact({"text": "anew"})),
    )
    assert [m.text for m in pair.agent.poll()] == ["anew"]
