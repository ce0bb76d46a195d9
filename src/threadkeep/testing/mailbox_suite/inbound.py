"""Mail to the agent: its rows, when it is given, what wakes, tasks and their series."""

import json

import pytest

from threadkeep.mailbox.records import Place
from threadkeep.testing.mailbox_suite.post import (
    CHAT,
    CONTAINER_TABLES,
    Factory,
    moment,
    open_pair,
    table,
    tables,
    texts,
)

IN_COLUMNS = {
    *("id", "seq", "kind", "timestamp", "status", "process_after", "recurrence", "series_id"),
    *("tries", "trigger", "platform_id", "channel_type", "thread_id", "content"),
    *("source_session_id", "on_wake"),
}


def test_a_message_is_a_row_with_the_columns_of_the_schema(mailbox_factory: Factory) -> None:
    """§2.1 messages_in: a message has every column, pending, untried, and wakes the agent."""
    pair = open_pair(mailbox_factory)
    mail = pair.host.send("hello")
    (row,) = table(mailbox_factory, pair, "messages_in")
    assert set(row) >= IN_COLUMNS
    assert (row["id"], row["seq"], row["kind"]) == (mail.id, mail.seq, "chat")
    assert (row["status"], row["tries"], row["trigger"], row["on_wake"]) == ("pending", 0, 1, 0)
    assert row["process_after"] is row["recurrence"] is row["source_session_id"] is None


def test_the_content_is_json(mailbox_factory: Factory) -> None:
    """§2.1 messages_in: `content` is JSON whose shape depends on the kind."""
    pair = open_pair(mailbox_factory)
    pair.host.send("hello ü")
    pair.host.insert_message("webhook", {"source": "ci", "event": "done", "payload": {"n": 1}})
    chat, webhook = table(mailbox_factory, pair, "messages_in")
    assert json.loads(chat["content"])["text"] == "hello ü"
    assert webhook["kind"] == "webhook"
    assert json.loads(webhook["content"])["payload"] == {"n": 1}
    assert [mail.content for mail in pair.container.poll()][1]["event"] == "done"


def test_a_message_knows_where_it_came_from(mailbox_factory: Factory) -> None:
    """§2.1 messages_in: channel, chat and thread; the session another agent wrote from."""
    pair = open_pair(mailbox_factory)
    pair.host.send("hi", place=Place("telegram", "42", "7"))
    pair.host.insert_message("chat", {"text": "from afar"}, source_session_id="sess-9")
    first, second = table(mailbox_factory, pair, "messages_in")
    assert (first["channel_type"], first["platform_id"]) == ("telegram", "42")
    assert first["thread_id"] == "7"
    assert second["source_session_id"] == "sess-9"


def test_the_time_of_a_message_is_that_of_the_clock(mailbox_factory: Factory) -> None:
    """§2.1 messages_in: `timestamp` is the time at which it was written."""
    pair = open_pair(mailbox_factory)
    before = mailbox_factory.clock.now
    pair.host.send("hello")
    (row,) = table(mailbox_factory, pair, "messages_in")
    assert before <= moment(row["timestamp"]) * 1000 <= mailbox_factory.clock.now


def test_an_id_is_used_once(mailbox_factory: Factory) -> None:
    """§2.1 messages_in: `id` is the primary key, so that a message sent again is one row."""
    pair = open_pair(mailbox_factory)
    for _ in range(2):
        pair.host.send("hi", id="m1")
    assert [row["id"] for row in table(mailbox_factory, pair, "messages_in")] == ["m1"]


# ---------------------------------------------------------------------- polling


def test_the_container_is_given_what_is_pending(mailbox_factory: Factory) -> None:
    """§2.1 messages_in: a poll gives pending mail, the oldest first."""
    pair = open_pair(mailbox_factory)
    for word in ("one", "two", "three"):
        pair.host.send(word)
    assert texts(pair.container.poll()) == ["one", "two", "three"]


def test_a_poll_sees_what_another_host_wrote(mailbox_factory: Factory) -> None:
    """§2 inbound.db: the host writes and the container reads, each at its own time."""
    pair = open_pair(mailbox_factory)
    assert pair.container.poll() == []
    pair.new_host().send("new")
    assert texts(pair.container.poll()) == ["new"]


def test_mail_waits_for_its_time(mailbox_factory: Factory) -> None:
    """§2.1 messages_in: mail is not given before `process_after`."""
    mailbox_factory.clock.step = 0
    pair = open_pair(mailbox_factory)
    pair.host.send("later", process_after=mailbox_factory.clock.now + 10_000)
    assert pair.container.poll() == []
    mailbox_factory.clock.forward(9)
    assert pair.container.poll() == []
    mailbox_factory.clock.forward(1)
    assert texts(pair.container.poll()) == ["later"]


def test_context_wakes_nobody(mailbox_factory: Factory) -> None:
    """§2.1 messages_in: `trigger` 0 is context only, which is given with what wakes the agent."""
    pair = open_pair(mailbox_factory)
    pair.host.send("chatter", trigger=False)
    assert not pair.container.triggered()
    assert pair.host.due() == 0
    pair.host.send("hey you")
    assert pair.container.triggered()
    assert pair.host.due() == 1
    assert texts(pair.container.poll()) == ["chatter", "hey you"]


def test_mail_for_the_moment_of_waking_comes_once(mailbox_factory: Factory) -> None:
    """§2.1 messages_in: `on_wake` mail is given with a container's first poll only."""
    pair = open_pair(mailbox_factory)
    pair.host.send("restarted", on_wake=True)
    assert texts(pair.container.poll()) == ["restarted"]
    assert pair.container.poll() == []
    assert texts(pair.new_container().poll()) == ["restarted"]


@pytest.mark.parametrize("status", ["completed", "failed"])
def test_mail_that_is_over_is_not_given_again(mailbox_factory: Factory, status: str) -> None:
    """§2.1 messages_in: a status other than pending is not polled."""
    pair = open_pair(mailbox_factory)
    mail = pair.host.send("x")
    pair.container.claim([mail])
    if status == "completed":
        pair.container.complete([mail])
    else:
        pair.container.fail([mail], "no")
    pair.host.sync()
    assert pair.host.mail(mail.id).status == status
    assert mail.id not in [one.id for one in pair.new_container().poll()]


# ---------------------------------------------------------------------- tasks


def test_a_task_is_mail_with_a_prompt(mailbox_factory: Factory) -> None:
    """§2.1 messages_in: a scheduled task is a message of its own kind, and begins a series."""
    pair = open_pair(mailbox_factory)
    task = pair.host.insert_task("water the plants")
    (row,) = table(mailbox_factory, pair, "messages_in")
    assert (row["kind"], row["series_id"]) == ("task", task.id)
    assert json.loads(row["content"])["prompt"] == "water the plants"
    assert texts(pair.container.poll()) == ["water the plants"]


def test_a_task_that_is_held_is_not_given(mailbox_factory: Factory) -> None:
    """§2.1 messages_in: `paused` mail waits until it is resumed."""
    pair = open_pair(mailbox_factory)
    task = pair.host.insert_task("later")
    pair.host.pause_task(task.id)
    assert pair.host.mail(task.id).status == "paused"
    assert pair.container.poll() == []
    pair.host.resume_task(task.id)
    assert texts(pair.container.poll()) == ["later"]


def test_a_recurring_task_has_its_next_run(mailbox_factory: Factory) -> None:
    """§2.1 messages_in: occurrences have one `recurrence` and one `series_id`, and own ids."""
    pair = open_pair(mailbox_factory)
    task = pair.host.insert_task("report", recurrence="0 9 * * *")
    mailbox_factory.clock.forward(days=2)
    pair.container.claim(pair.container.poll())
    pair.container.complete([task.id])
    pair.host.sync()
    first, second = table(mailbox_factory, pair, "messages_in")
    assert first["id"] != second["id"]
    assert {row["series_id"] for row in (first, second)} == {task.id}
    assert second["recurrence"] == "0 9 * * *"
    assert second["status"] == "pending"
    assert moment(second["process_after"]) * 1000 > mailbox_factory.clock.now


def test_the_host_leaves_the_containers_tables_alone(mailbox_factory: Factory) -> None:
    """§4 outbound.db: the container owns it, and the host only reads."""
    pair = open_pair(mailbox_factory)
    pair.container.send("out")
    pair.container.claim([pair.host.send("in")])
    before = tables(mailbox_factory, pair, CONTAINER_TABLES)
    pair.host.send("more")
    pair.host.insert_task("task")
    pair.host.write_routing(CHAT)
    pair.host.sync()
    pair.host.outbox()
    assert tables(mailbox_factory, pair, CONTAINER_TABLES) == before
