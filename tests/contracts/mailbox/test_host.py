"""The host's verbs: mail goes in once, in order, at its time, or is refused whole."""

import re

import pytest

from tests.support.mail import (
    CHAT,
    GROUP,
    NOON,
    MailFactory,
    Pair,
    name_places,
    open_pair,
    texts,
)
from threadkeep.errors import Conflict, Invalid, NotFound, TooLarge
from threadkeep.mailbox.context import Policy, channel_message_id
from threadkeep.mailbox.records import Destination, Place

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@pytest.fixture
def pair(factory: MailFactory) -> Pair:
    return open_pair(factory)


# ---------------------------------------------------------------------- one message


def test_a_message_has_every_column_that_nanoclaw_reads(pair: Pair) -> None:
    mail = pair.host.send("hello", sender="Ann", sender_id="u1", id=f"m1:{GROUP}")
    (row,) = pair.rows(
        "SELECT id, seq, kind, timestamp, status, process_after, recurrence, series_id, tries,"
        " trigger, platform_id, channel_type, thread_id, content, source_session_id, on_wake"
        " FROM messages_in"
    )
    assert row == (
        *(f"m1:{GROUP}", 2, "chat", "2025-10-09T12:00:00.000Z", "pending", None, None),
        *(f"m1:{GROUP}", 0, 1, "C1", "slack", "T1"),
        *('{"sender":"Ann","senderId":"u1","text":"hello"}', None, 0),
    )
    assert (mail.seq, mail.place, mail.text, mail.series_id) == (2, CHAT, "hello", mail.id)


def test_a_minted_id_has_the_shape_of_the_others(pair: Pair) -> None:
    assert re.fullmatch(rf"msg-{NOON}-[0-9a-z]{{6}}", pair.host.send("x").id)
    assert re.fullmatch(rf"task-{NOON}-[0-9a-z]{{6}}", pair.host.insert_task("x").id)
    assert re.fullmatch(rf"sys-{NOON}-[0-9a-z]{{6}}", pair.host.note("x").id)


def test_the_time_of_a_message_and_of_a_task_is_iso(pair: Pair) -> None:
    assert ISO.fullmatch(pair.host.send("x").timestamp)
    given = pair.host.send("x", timestamp="2025-10-09T14:00:00+02:00")
    assert given.timestamp == "2025-10-09T12:00:00.000Z"
    task = pair.host.insert_task("x", process_after="2025-10-09T13:00:00+00:00")
    assert ISO.fullmatch(task.timestamp)
    assert task.process_after == "2025-10-09T13:00:00.000Z"
    assert ISO.fullmatch(pair.host.note("x").timestamp)


def test_everything_a_caller_may_give_is_stored(pair: Pair) -> None:
    place = Place("agent", "ag-2-helper", None)
    mail = pair.host.insert_message(
        "webhook",
        {"source": "ci", "event": "done", "payload": {}},
        id="w1",
        place=place,
        process_after=NOON + 60_000,
        trigger=False,
        on_wake=True,
        source_session_id="sess-2",
        hops=3,
    )
    found = pair.host.mail("w1")
    assert found == mail
    assert (found.place, found.trigger, found.on_wake) == (place, False, True)
    assert (found.process_after, found.source_session_id) == ("2025-10-09T12:01:00.000Z", "sess-2")
    assert pair.rows("SELECT * FROM tk_hops") == [("w1", 3)]


def test_a_note_comes_from_the_host_itself_and_wakes_nobody(pair: Pair) -> None:
    note = pair.host.note("your delivery failed")
    assert (note.kind, note.place, note.trigger) == ("chat", Place("agent", GROUP), False)
    assert note.content == {
        "text": "your delivery failed",
        "sender": "system",
        "senderId": "system",
    }
    assert pair.host.due() == 0
    assert pair.host.note("wake up", trigger=True).trigger


def test_a_task_is_a_series_of_its_own(pair: Pair) -> None:
    task = pair.host.insert_task("water the plants", recurrence="0 9 * * *", script="exit 0")
    assert (task.kind, task.series_id, task.recurrence) == ("task", task.id, "0 9 * * *")
    assert task.raw == '{"prompt":"water the plants","script":"exit 0"}'
    assert task.process_after == "2025-10-10T09:00:00.000Z"
    assert pair.host.insert_task("once").process_after is None


def test_naive_times_are_read_in_the_zone_of_the_host(factory: MailFactory) -> None:
    pair = open_pair(factory, zone="Europe/Madrid")
    task = pair.host.insert_task("x", process_after="2025-12-01T09:00")
    assert task.process_after == "2025-12-01T08:00:00.000Z"


# ---------------------------------------------------------------------- the same id again


def test_the_same_message_twice_is_written_once(pair: Pair) -> None:
    first = pair.host.send("hi", id="m1")
    pair.clock.forward(5)
    assert pair.host.send("hi", id="m1") == first
    assert len(pair.host.inbox()) == 1


def test_a_reused_id_with_other_words_is_kept_under_a_derived_id(pair: Pair) -> None:
    pair.host.send("one", id="m1")
    other = pair.host.send("two", id="m1")
    assert re.fullmatch(r"m1~[0-9a-f]{8}", other.id)
    assert pair.host.send("two", id="m1") == other
    third = pair.host.send("three", id="m1")
    assert len({"m1", other.id, third.id}) == 3
    assert texts(pair.host.inbox()) == ["one", "two", "three"]


def test_the_same_words_from_another_chat_are_other_mail(pair: Pair) -> None:
    pair.host.send("hi", id="m1")
    assert pair.host.send("hi", id="m1", place=Place("slack", "C2")).id != "m1"


def test_a_reused_id_with_other_files_keeps_both(pair: Pair) -> None:
    one = pair.host.send("see", id="m1", attachments=[{"name": "a.txt", "data": "eA=="}])
    two = pair.host.send("see", id="m1", attachments=[{"name": "a.txt", "data": "eQ=="}])
    assert pair.container.attachment(one, "a.txt") == b"x"
    assert pair.container.attachment(two, "a.txt") == b"y"
    again = pair.host.send("see", id="m1", attachments=[{"name": "a.txt", "data": "eQ=="}])
    assert again == two


def test_the_attachment_is_a_file_and_not_in_the_row(pair: Pair) -> None:
    mail = pair.host.send("see", id="m1:g", attachments=[{"name": "a.txt", "data": "eA==", "x": 1}])
    assert mail.content["attachments"] == [
        {"name": "a.txt", "x": 1, "localPath": "inbox/m1:g/a.txt"}
    ]


# ---------------------------------------------------------------------- due


@pytest.mark.parametrize(
    "process_after, due",
    [
        (None, True),
        ("2025-10-09T12:00:00.000Z", True),
        ("2025-10-09T12:00:00Z", True),
        ("2025-10-09T14:00:00+02:00", True),
        ("2025-10-09T11:59:59.999999+00:00", True),
        ("2025-10-09 12:00:00", True),
        ("2025-10-09 12:00:01", False),
        ("2025-10-09T12:00:01.000Z", False),
        ("2025-10-09T13:00:00+00:30", False),
        ("2025-10-10", False),
        ("1760011200", False),
        ("soon", False),
        ("", False),
    ],
)
def test_mail_is_due_whichever_way_its_time_is_written(
    pair: Pair, process_after: str | None, *, due: bool
) -> None:
    mail = pair.host.send("x")
    pair.rows("UPDATE messages_in SET process_after = ? WHERE id = ?", process_after, mail.id)
    assert pair.host.due() == int(due)
    assert texts(pair.container.poll()) == ["x"] * due


def test_mail_becomes_due_when_its_time_comes(pair: Pair) -> None:
    pair.host.send("later", process_after=NOON + 10_000)
    assert pair.host.due() == 0
    pair.clock.forward(9)
    assert pair.host.due() == 0
    pair.clock.forward(1)
    assert pair.host.due() == 1


def test_only_pending_mail_that_wakes_counts(pair: Pair) -> None:
    for status in ("completed", "failed", "paused"):
        pair.rows("UPDATE messages_in SET status = ? WHERE id = ?", status, pair.host.send("x").id)
    pair.host.send("context", trigger=False)
    assert pair.host.due() == 0
    pair.host.send("on wake", on_wake=True)
    assert pair.host.due() == 1


# ---------------------------------------------------------------------- looking


def test_mail_is_found_by_id_and_number(pair: Pair) -> None:
    mail = pair.host.send("x")
    assert pair.host.mail(2) == pair.host.mail(mail.id) == mail
    for unknown in ("nothing", 3, 4, -1):
        with pytest.raises(NotFound, match="no inbound message"):
            pair.host.mail(unknown)


def test_the_inbox_shows_the_newest_in_order(pair: Pair) -> None:
    for number in range(5):
        pair.host.send(str(number))
    pair.host.insert_task("task")
    assert texts(pair.host.inbox(limit=3)) == ["3", "4", "task"]
    assert texts(pair.host.inbox(kind="task")) == ["task"]
    assert pair.host.inbox("failed") == []


def test_the_outbox_shows_the_newest_in_order(pair: Pair) -> None:
    for number in range(4):
        pair.container.send(str(number))
    assert texts(pair.host.outbox(limit=2)) == ["2", "3"]


# ---------------------------------------------------------------------- places


@pytest.mark.parametrize(
    "odd",
    [
        [Destination("a", None, "person", "slack", "C1")],
        [Destination("a", None, "channel", "slack", None)],
        [Destination("a", None, "agent")],
        [Destination("a", None, "agent", agent_group_id="x")] * 2,
    ],
)
def test_bad_destinations_leave_the_old_ones(pair: Pair, odd: list[Destination]) -> None:
    name_places(pair.host)
    with pytest.raises((Invalid, Conflict)):
        pair.host.write_destinations(odd)
    assert [place.name for place in pair.host.destinations()] == ["family", "helper"]


# ---------------------------------------------------------------------- questions


def test_a_question_is_answered_once_and_the_first_answer_counts(pair: Pair) -> None:
    first = pair.host.answer("q1", "yes", user_id="u1")
    assert first.id == f"qr-q1-{NOON}"
    assert (first.kind, first.trigger) == ("system", False)
    assert '"questionId":"q1"' in first.raw
    pair.clock.forward(1)
    assert pair.host.answer("q1", "yes", user_id="u1") == first
    assert pair.host.answer("q1", "no", user_id="u2") == first
    assert len(pair.host.inbox()) == 1


def test_questions_with_similar_ids_are_answered_each(pair: Pair) -> None:
    ids = ["q", "q-1", "q-1-2", "q_", "q%", "q.", "qq"]
    for question_id in ids:
        pair.host.answer(question_id, f"to {question_id}")
    for question_id in ids:
        assert (
            pair.host.answer(question_id, "again").content["selectedOption"] == f"to {question_id}"
        )
    assert len(pair.host.inbox()) == len(ids)


def test_an_error_names_the_size_and_the_way_out(factory: MailFactory) -> None:
    pair = open_pair(factory, policy=Policy(content_bytes=100))
    with pytest.raises(TooLarge, match="100 are allowed") as refused:
        pair.host.send("x" * 200)
    assert "attachments" in refused.value.hint


def test_ids_of_channels_are_the_posts_and_the_groups(pair: Pair) -> None:
    row_id = channel_message_id("1699.42", GROUP)
    assert pair.host.send("x", id=row_id).id == f"1699.42:{GROUP}"


# ---------------------------------------------------------------------- what failed stays failed


def test_nanoclaws_host_cannot_turn_failed_mail_into_completed(pair: Pair) -> None:
    mails = [pair.host.send(word) for word in ("a", "b")]
    pair.rows("UPDATE messages_in SET status = 'failed' WHERE id = ?", mails[0].id)
    pair.rows("UPDATE messages_in SET status = 'completed' WHERE status <> 'completed'")
    assert [mail.status for mail in pair.host.inbox()] == ["failed", "completed"]
    pair.rows("UPDATE messages_in SET status = 'pending' WHERE id = ?", mails[0].id)
    assert pair.host.mail(mails[0].id).status == "pending"


def test_a_series_has_one_live_row_whoever_writes(pair: Pair) -> None:
    task = pair.host.insert_task("x", recurrence="0 9 * * *")
    sql = (
        "INSERT INTO messages_in (id, seq, kind, timestamp, status, recurrence, series_id, content)"
        " VALUES (?, ?, 'task', 't', 'pending', '0 9 * * *', ?, '{}')"
    )
    pair.rows(sql, "task-2", 40, task.id)
    assert [mail.id for mail in pair.host.inbox()] == [task.id]
    pair.rows("UPDATE messages_in SET status = 'completed'")
    pair.rows(sql, "task-2", 40, task.id)
    assert [mail.id for mail in pair.host.inbox()] == [task.id, "task-2"]
