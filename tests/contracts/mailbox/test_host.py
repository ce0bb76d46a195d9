"""The host's verbs: mail goes in once, in order, at its time, or is refused whole."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.mail import (
    CHAT,
    GROUP,
    NOON,
    Pair,
    leave_unfinished,
    name_places,
    open_pair,
    texts,
)
from threadkeep.base.sqlite import shared_file
from threadkeep.errors import Busy, Conflict, Invalid, NotFound, TooLarge
from threadkeep.mailbox.container.container import Container
from threadkeep.mailbox.context import Policy, channel_message_id
from threadkeep.mailbox.host.host import Host
from threadkeep.mailbox.records import Destination, Place

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
SPACE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return open_pair(tmp_path)


def everything(pair: Pair) -> tuple[Any, ...]:
    """All rows of both files and all files of the folder: what a refusal must leave alone."""
    tables = pair.rows("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    rows = [pair.rows(f"SELECT * FROM {table}") for (table,) in tables]
    out = [pair.rows(f"SELECT * FROM outbound.{t}") for t in ("messages_out", "processing_ack")]
    return rows, out, sorted(str(entry) for entry in pair.path.rglob("*"))


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


def test_naive_times_are_read_in_the_zone_of_the_host(tmp_path: Path) -> None:
    pair = open_pair(tmp_path, zone="Europe/Madrid")
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


def test_files_told_twice_are_one_message(pair: Pair) -> None:
    given: dict[str, Any] = {"id": "m1", "timestamp": NOON - 9000}
    image = {"type": "image", "data": "eA=="}
    first = pair.host.send("see", attachments=[image], **given)
    pair.clock.forward(60)
    assert pair.host.send("see", attachments=[image], **given) == first
    assert [entry.name for entry in (pair.path / "inbox").rglob("*.jpg")] == [
        f"attachment-{NOON - 9000}.jpg"
    ]


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


def test_destinations_are_replaced_whole(pair: Pair) -> None:
    name_places(pair.host)
    assert [place.name for place in pair.container.destinations()] == ["family", "helper"]
    pair.host.write_destinations([Destination("new", None, "channel", "slack", "C5")])
    assert [place.name for place in pair.host.destinations()] == ["new"]
    assert pair.host.write_destinations([]) == 0
    assert pair.container.destinations() == []


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


def test_routing_is_one_row(pair: Pair) -> None:
    pair.host.write_routing(Place("telegram", "9", None))
    assert pair.host.routing() == pair.container.routing() == Place("telegram", "9", None)
    assert pair.rows("SELECT * FROM session_routing") == [(1, "telegram", "9", None)]


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


# ---------------------------------------------------------------------- refusals

FILES = [{"name": "a.txt", "data": "eA=="}]


@pytest.mark.parametrize(
    "arguments",
    [
        {"kind": "letter", "content": {"text": "x", "attachments": FILES}},
        {"kind": "", "content": {"text": "x"}},
        {"content": "no JSON"},
        {"content": "[1, 2]"},
        {"content": {"text": float("inf")}},
        {"content": {"text": "x" * 200, "attachments": FILES}},
        {"content": {"text": "x" * 200}},
        {"content": {"text": "x"}, "id": "a\0b"},
        {"content": {"text": "x"}, "id": ""},
        {"content": {"text": "x"}, "id": "\ud800"},
        {"content": {"text": "x"}, "id": "x" * 1025},
        {"content": {"text": "x", "attachments": FILES}, "process_after": "soon"},
        {"content": {"text": "x", "attachments": FILES}, "timestamp": "once"},
        {"content": {"text": "x"}, "process_after": 10**18},
    ],
)
def test_bad_mail_is_refused_and_nothing_is_written(
    tmp_path: Path, arguments: dict[str, Any]
) -> None:
    pair = open_pair(tmp_path, policy=Policy(content_bytes=100))
    pair.host.send("other mail")
    before = everything(pair)
    with pytest.raises(Invalid):
        pair.host.insert_message(arguments.pop("kind", "chat"), **arguments)
    assert everything(pair) == before


@pytest.mark.parametrize(
    "arguments",
    [
        {"prompt": "  "},
        {"prompt": "x", "recurrence": ""},
        {"prompt": "x", "recurrence": "every day"},
        {"prompt": "x", "recurrence": "61 * * * *"},
        {"prompt": "x", "recurrence": "0 0 30 2 *"},
        {"prompt": "x", "recurrence": "* * * *"},
        {"prompt": "x", "process_after": "soon"},
        {"prompt": "x" * 200},
        {"prompt": "x", "id": "../x"},
    ],
)
def test_bad_tasks_are_refused_and_nothing_is_written(
    tmp_path: Path, arguments: dict[str, Any]
) -> None:
    pair = open_pair(tmp_path, policy=Policy(content_bytes=100))
    before = everything(pair)
    with pytest.raises(Invalid):
        pair.host.insert_task(**arguments)
    assert everything(pair) == before


def test_an_error_names_the_size_and_the_way_out(tmp_path: Path) -> None:
    pair = open_pair(tmp_path, policy=Policy(content_bytes=100))
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


# ---------------------------------------------------------------------- a container that died


@pytest.fixture
def half_sent(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> Pair:
    """A container that died in the middle of a commit, after it had sent some mail."""
    for number in range(12):
        pair.container.send(f"{number} " + "x" * 3000)
    leave_unfinished(
        pair.path / "outbound.db", "UPDATE messages_out SET content = randomblob(3000)"
    )
    monkeypatch.setattr(shared_file, "_PATIENCE", 0.0)
    return pair


def test_the_host_undoes_what_a_dead_container_left(half_sent: Pair) -> None:
    mails = half_sent.host.outbox()
    assert [mail.text.split()[0] for mail in mails] == [str(number) for number in range(12)]
    assert not (half_sent.path / "outbound.db-journal").exists()


def test_the_host_leaves_the_commit_of_a_running_container_alone(half_sent: Pair) -> None:
    running = True
    host = Host(half_sent.path, running=lambda: running)
    with pytest.raises(Busy, match="in the middle of a commit"):
        host.outbox()
    assert (half_sent.path / "outbound.db-journal").exists()
    assert host.send("its own side is not concerned").seq == 2
    running = False
    assert len(host.outbox()) == 12


def test_a_new_container_undoes_what_the_last_one_left(half_sent: Pair) -> None:
    half_sent.host.send("hello")
    container = Container(half_sent.path)
    container.start()
    assert texts(container.poll()) == ["hello"]
    assert container.send("13").seq == 25


def test_a_zone_that_is_not_known_is_refused_when_a_side_is_opened(pair: Pair) -> None:
    for side in (Host, Container):
        with pytest.raises(Invalid, match="Nonsense"):
            side(pair.path, zone="Nonsense")


def test_an_id_with_slashes_is_kept_and_its_files_have_a_folder_of_their_own(pair: Pair) -> None:
    given = {"name": "a.txt", "data": "aGk="}
    sent = pair.host.send("x", id="spaces/A/../B:ag-1", attachments=[given])
    assert sent.id == "spaces/A/../B:ag-1"
    assert pair.container.attachment(sent, "a.txt") == b"hi"
    (folder,) = (pair.path / "inbox").iterdir()
    assert folder.name.startswith("files-")
    assert pair.host.send("x", id="spaces/A/../B:ag-1", attachments=[given]) == sent
