"""Answers taken over by the host, and claims of containers that are gone."""

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from tests.contracts.mailbox.pair import START, Pair, as_nanoclaw_left_it
from tests.support.mail import MailFactory
from threadkeep.errors import Conflict, Damaged
from threadkeep.mailbox.host.sweep import NO_REASON, ResetReport, SettleReport, is_counted
from threadkeep.mailbox.records import Claim, Mail, Place
from threadkeep.mailbox.rows import read_moment, sqlite_form, whole_iso


@pytest.fixture
def pair(factory: MailFactory) -> Pair:
    return Pair(factory)


# ------------------------------------------------------------------ answers


def test_completed_mail_is_completed(pair: Pair) -> None:
    mail = pair.host.send("hello")
    pair.claim()
    pair.agent.complete([mail.id])
    assert pair.host.sync() == SettleReport(completed=(mail.id,))
    assert pair.host.mail(mail.id).status == "completed"
    assert pair.host.mail(mail.id).tries == 1


def test_without_news_nothing_is_written(pair: Pair) -> None:
    done, open_ = pair.host.send("one"), pair.host.send("two")
    pair.claim()
    pair.agent.complete([done.id])
    pair.host.sync()
    before = pair.changes()
    assert pair.host.sync() == SettleReport()
    assert pair.changes() == before
    assert pair.status(open_.id) == "pending"


def test_what_failed_stays_failed_and_the_agent_is_told_once(pair: Pair) -> None:
    mail = pair.host.send("compute pi")
    pair.claim()
    pair.agent.fail([mail.id], "ValueError: too many digits")
    assert pair.host.sync() == SettleReport(failed=(mail.id,))
    assert pair.host.sync() == SettleReport()
    assert pair.status(mail.id) == "failed"
    assert pair.notes() == ['Message 2 ("compute pi") failed: ValueError: too many digits']
    assert [letter.reason for letter in pair.host.dead_letters()] == ["ValueError: too many digits"]


def test_the_note_wakes_nobody_and_its_own_failure_is_not_noted(pair: Pair) -> None:
    mail = pair.host.send("x")
    pair.claim()
    pair.agent.fail([mail.id], "no")
    pair.host.sync()
    assert pair.host.due() == 0
    (note,) = pair.agent.poll()
    pair.agent.claim([note])
    pair.agent.fail([note], "no")
    assert pair.host.sync().failed == (note.id,)
    assert len(pair.notes()) == 1


def test_many_failures_are_told_in_one_note(pair: Pair) -> None:
    mails = [pair.host.send(f"job {number}") for number in range(12)]
    pair.claim()
    pair.agent.fail(mails, "no")
    assert len(pair.host.sync().failed) == 12
    (note,) = pair.notes()
    assert note.count("\n") == 10
    assert note.endswith("So did 2 more.")


def test_a_failed_answer_of_nanoclaws_container_has_no_reason(pair: Pair) -> None:
    as_nanoclaw_left_it(pair)
    mail = pair.host.send("x")
    pair.sql("out", "INSERT INTO processing_ack VALUES (?, 'failed', datetime('now'))", mail.id)
    assert pair.host.sync() == SettleReport(failed=(mail.id,))
    assert pair.host.dead_letters()[0].reason == NO_REASON


@pytest.mark.parametrize("tries", ["'many'", "NULL", "-5", "9223372036854775807", "x'00ff'"])
@pytest.mark.parametrize("reason", ["x'fffe'", "17", "NULL", "hex(zeroblob(9999))"])
def test_nonsense_in_the_agents_count_stops_nothing(pair: Pair, tries: str, reason: str) -> None:
    bad, good = pair.host.send("bad"), pair.host.send("good")
    pair.claim()
    pair.sql("out", "DROP TABLE tk_claim")
    pair.sql("out", "CREATE TABLE tk_claim (message_id, tries, claimed_at, reason)")
    pair.sql("out", f"INSERT INTO tk_claim VALUES (?, {tries}, 7, {reason})", bad.id)
    pair.sql("out", "UPDATE processing_ack SET status = 'failed' WHERE message_id = ?", bad.id)
    pair.sql("out", "UPDATE processing_ack SET status = 'completed' WHERE message_id = ?", good.id)
    assert pair.host.sync() == SettleReport(completed=(good.id,), failed=(bad.id,))
    assert 0 <= pair.host.mail(bad.id).tries <= 1000
    assert len(pair.host.dead_letters()[0].reason) <= 2000


def test_a_file_without_its_tables_is_refused(pair: Pair) -> None:
    pair.sql("out", "DROP TABLE processing_ack")
    with pytest.raises(Damaged, match="lacks one of its tables"):
        pair.host.sync()


def test_an_ack_for_unknown_mail_changes_nothing(pair: Pair) -> None:
    pair.sql("out", "INSERT INTO processing_ack VALUES ('ghost', 'completed', 'x')")
    assert pair.host.sync() == SettleReport()


def test_cancelled_mail_stays_as_it_is(pair: Pair) -> None:
    task = pair.host.insert_task("tidy", recurrence="0 9 * * *", process_after=START)
    pair.claim()
    pair.host.cancel_task(task.id)
    pair.agent.complete([task.id])
    assert pair.host.sync() == SettleReport()
    assert pair.host.tasks() == []


def test_a_recurring_task_is_armed_again_with_its_answer(pair: Pair) -> None:
    task = pair.host.insert_task("report", recurrence="0 9 * * *", process_after=START)
    pair.claim()
    pair.agent.complete([task.id])
    (following,) = pair.host.sync().rearmed
    run = pair.host.mail(following)
    assert (run.series_id, run.recurrence) == (task.id, "0 9 * * *")
    assert run.process_after == "2026-02-02T09:00:00.000Z"
    assert pair.host.mail(task.id).recurrence is None


def test_a_failed_run_is_followed_by_the_next(pair: Pair) -> None:
    task = pair.host.insert_task("report", recurrence="0 9 * * *", process_after=START)
    pair.claim()
    pair.agent.fail([task.id], "no network")
    settled = pair.host.sync()
    assert settled.failed == (task.id,)
    assert len(settled.rearmed) == 1
    assert pair.status(task.id) == "failed"


def test_after_a_run_that_was_held_meanwhile_the_next_one_waits(pair: Pair) -> None:
    task = pair.host.insert_task("report", recurrence="0 9 * * *", process_after=START)
    pair.claim()
    assert pair.host.pause_task(task.id) == 1
    pair.agent.complete([task.id])
    (following,) = pair.host.sync().rearmed
    assert pair.status(following) == "paused"
    assert pair.host.resume_task(task.id) == 1
    assert pair.status(following) == "pending"


# ------------------------------------------------------------------ claims


def test_claims_are_listed_with_their_count(pair: Pair) -> None:
    mail = pair.host.send("x")
    pair.claim()
    assert pair.host.claims() == [Claim(mail.id, sqlite_form(START), 1)]
    as_nanoclaw_left_it(pair)
    assert pair.host.claims() == [Claim(mail.id, sqlite_form(START), None)]


@pytest.mark.parametrize("foreign", [False, True])
def test_the_ladder_ends_in_a_dead_letter(pair: Pair, *, foreign: bool) -> None:
    if foreign:
        as_nanoclaw_left_it(pair)
    mail = pair.host.send("poison")
    pauses = []
    for claims in range(1, 6):
        take(pair, mail, foreign=foreign)
        assert pair.host.reset_claims() == ResetReport(retried=(mail.id,), released=1)
        due = read_moment(pair.host.mail(mail.id).process_after)
        assert due is not None
        pauses.append((due - pair.time[0]) // 1000)
        assert pair.host.mail(mail.id).tries == claims
        pair.until(due)
    assert pauses == [5, 10, 20, 40, 80]
    take(pair, mail, foreign=foreign)
    assert pair.host.reset_claims() == ResetReport(failed=(mail.id,), released=1)
    assert pair.status(mail.id) == "failed"
    assert pair.host.dead_letters()[0].reason == "it was claimed 6 times and never finished"
    assert "never finished" in pair.notes()[0]


def take(pair: Pair, mail: Mail, *, foreign: bool) -> None:
    if foreign:
        now = sqlite_form(pair.time[0])
        assert pair.host.due() == 1
        pair.sql("out", "INSERT INTO processing_ack VALUES (?, 'processing', ?)", mail.id, now)
    else:
        assert pair.claim() == [mail.id]


def test_a_container_that_dies_at_once_each_time_comes_to_an_end(pair: Pair) -> None:
    """Each start releases the claims of the last life, so the host never sees one."""
    mail = pair.host.send("poison")
    for _ in range(6):
        pair.agent.start()
        assert pair.claim() == [mail.id]
        pair.agent.stop()
    pair.agent.start()
    assert pair.claim() == []
    assert pair.host.sync().failed == (mail.id,)
    assert pair.host.dead_letters()[0].tries == 6


def test_what_the_container_counted_is_taken_over(pair: Pair) -> None:
    mail = pair.host.send("x")
    for _ in range(3):
        pair.agent.start()
        pair.claim()
        pair.agent.stop()
    pair.host.reset_claims()
    found = pair.host.mail(mail.id)
    assert (found.tries, found.process_after) == (3, whole_iso(START + 20_000))


def test_claims_of_a_living_container_are_its_own(pair: Pair) -> None:
    mail = pair.host.send("x")
    pair.agent.start()
    pair.claim()
    with pytest.raises(Conflict, match="an agent is running"):
        pair.host.reset_claims()
    assert pair.host.mail(mail.id).tries == 0
    pair.agent.stop()
    assert pair.host.reset_claims().retried == (mail.id,)


def test_claims_of_mail_that_is_not_open_are_only_let_go(pair: Pair) -> None:
    done = pair.host.send("done")
    held = pair.host.insert_task("held", process_after=START)
    later = pair.host.send("later")
    pair.claim()
    pair.sql("in", "UPDATE messages_in SET status = 'completed' WHERE id = ?", done.id)
    pair.host.pause_task(held.id)
    far = sqlite_form(START + 10_000)
    pair.sql("in", "UPDATE messages_in SET process_after = ? WHERE id = ?", far, later.id)
    pair.sql("out", "INSERT INTO processing_ack VALUES ('ghost', 'processing', 'x')")
    before = pair.changes()[0]
    assert pair.host.reset_claims() == ResetReport(released=4)
    assert pair.changes()[0] == before
    assert pair.host.claims() == []
    assert pair.status(held.id) == "paused"


def test_without_claims_nothing_is_written(pair: Pair) -> None:
    mail = pair.host.send("x")
    pair.claim()
    pair.agent.complete([mail.id])
    before = pair.changes()
    assert pair.host.reset_claims() == ResetReport()
    assert pair.changes() == before
    assert pair.host.sync().completed == (mail.id,)


def test_a_count_that_the_agent_forges_still_comes_to_an_end(pair: Pair) -> None:
    mail = pair.host.send("x")
    for _ in range(6):
        pair.claim()
        pair.sql("out", "UPDATE tk_claim SET tries = 1")
        pair.host.reset_claims()
        pair.later(100)
    assert pair.status(mail.id) == "failed"


def test_giving_up_a_run_arms_the_next(pair: Pair) -> None:
    task = pair.host.insert_task("report", recurrence="0 9 * * *", process_after=START)
    pair.sql("in", "UPDATE messages_in SET tries = 5 WHERE id = ?", task.id)
    as_nanoclaw_left_it(pair)
    take(pair, task, foreign=True)
    reset = pair.host.reset_claims()
    assert reset.failed == (task.id,)
    assert len(reset.rearmed) == 1


MAIL = Mail("m", 2, "chat", "x", "pending", None, None, "m", 0, True, Place(), "{}", None, False)  # noqa: FBT003


@given(st.integers(0, 10**13), st.integers(0, 6), st.integers(1, 6), st.integers(0, 10**6))
def test_a_claim_made_when_mail_was_due_is_counted_once(
    due: int, tries: int, more: int, waited: int
) -> None:
    mail = replace(MAIL, tries=tries, process_after=sqlite_form(due))
    fresh = Claim("m", sqlite_form(due + waited), tries + more)
    assert not is_counted(fresh, mail, due + waited)
    # The same claim after a reset, which set the mail to a later time and took over the count.
    later = due + waited + 5000
    after = replace(mail, tries=tries + more, process_after=sqlite_form(later))
    for now in (due + waited, later, later + 10**6):
        assert is_counted(fresh, after, now)
