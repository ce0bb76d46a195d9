"""Mail of the agent: its rows, the numbers of both directions, delivery and what it leaves."""

import json

import pytest

from threadkeep.testing.mailbox_suite.post import (
    CHAT,
    HOST_TABLES,
    Factory,
    KeepingChannel,
    moment,
    open_pair,
    table,
    tables,
    texts,
)

OUT_COLUMNS = {
    *("id", "seq", "in_reply_to", "timestamp", "deliver_after", "recurrence", "kind"),
    *("platform_id", "channel_type", "thread_id", "content"),
}


def test_what_the_agent_says_is_a_row(mailbox_factory: Factory) -> None:
    """§4.1 messages_out: a reply has every column, and goes where the session's mail goes."""
    pair = open_pair(mailbox_factory)
    question = pair.host.send("well?")
    mail = pair.container.send("yes", in_reply_to=question.id)
    (row,) = table(mailbox_factory, pair, "messages_out")
    assert set(row) >= OUT_COLUMNS
    assert (row["id"], row["seq"], row["kind"]) == (mail.id, mail.seq, "chat")
    assert row["in_reply_to"] == question.id
    assert json.loads(row["content"])["text"] == "yes"
    assert (row["channel_type"], row["platform_id"]) == (CHAT.channel_type, CHAT.platform_id)
    assert row["thread_id"] == CHAT.thread_id
    assert row["deliver_after"] is None


def test_the_host_reads_what_the_agent_says(mailbox_factory: Factory) -> None:
    """§4.1 messages_out: the host is a reader, and sees mail in the order of its numbers."""
    pair = open_pair(mailbox_factory)
    for word in ("one", "two", "three"):
        pair.container.send(word)
    assert texts(pair.new_host().outbox()) == ["one", "two", "three"]


def test_the_container_leaves_the_hosts_tables_alone(mailbox_factory: Factory) -> None:
    """§2 inbound.db: the host owns it, and to the container it is read-only."""
    pair = open_pair(mailbox_factory)
    pair.host.send("in")
    before = tables(mailbox_factory, pair, HOST_TABLES)
    mails = pair.container.poll()
    pair.container.claim(mails)
    pair.container.send("out")
    pair.container.complete(mails)
    pair.container.set_state("key", "value")
    assert tables(mailbox_factory, pair, HOST_TABLES) == before


# ---------------------------------------------------------------------- numbers


def test_the_host_writes_even_numbers(mailbox_factory: Factory) -> None:
    """§3 sequence numbering: 2, 4, 6, … in messages_in."""
    pair = open_pair(mailbox_factory)
    mails = [pair.host.send("x"), pair.host.insert_task("y"), pair.new_host().send("z")]
    assert [mail.seq for mail in mails] == [2, 4, 6]


def test_the_container_writes_odd_numbers(mailbox_factory: Factory) -> None:
    """§3 sequence numbering: 1, 3, 5, … in messages_out."""
    pair = open_pair(mailbox_factory)
    assert [pair.container.send("x").seq for _ in range(3)] == [1, 3, 5]


@pytest.mark.parametrize("turns", ["ioio", "iiioo", "oooii", "oiioiooi"])
def test_numbers_are_unique_across_both_tables(mailbox_factory: Factory, turns: str) -> None:
    """§3 sequence numbering: unique in the session, and a reply comes after all it could see."""
    pair = open_pair(mailbox_factory)
    seen: list[int] = []
    for turn in turns:
        mail = pair.host.send("x") if turn == "i" else pair.container.send("x")
        assert mail.seq is not None
        assert mail.seq % 2 == (turn == "o")
        assert turn == "i" or mail.seq > max(seen, default=0)
        seen.append(mail.seq)
    assert len(set(seen)) == len(turns)


def test_the_number_tells_which_direction_is_meant(mailbox_factory: Factory) -> None:
    """§3 sequence numbering: even numbers are looked up in messages_in, odd in messages_out."""
    pair = open_pair(mailbox_factory)
    came, went = pair.host.send("in"), pair.container.send("out")
    assert (came.seq, went.seq) == (2, 3)
    assert pair.container.mail(2).id == came.id
    assert pair.container.mail(3).id == went.id


# ---------------------------------------------------------------------- delivery


def test_what_is_delivered_is_written_down(mailbox_factory: Factory) -> None:
    """§2.2 delivered: after the channel took it, with the name that the channel gave it."""
    pair = open_pair(mailbox_factory)
    before = mailbox_factory.clock.now
    mail = pair.container.send("hello")
    channel = KeepingChannel()
    pair.host.drain({"slack": channel})
    (row,) = table(mailbox_factory, pair, "delivered")
    assert (row["message_out_id"], row["platform_message_id"]) == (mail.id, "p-1")
    assert row["status"] == "delivered"
    assert before // 1000 <= moment(row["delivered_at"]) <= mailbox_factory.clock.now / 1000
    assert [sent.text for sent in channel.sent] == ["hello"]


def test_mail_is_delivered_once_and_in_order(mailbox_factory: Factory) -> None:
    """§2.2 delivered: what is written down is not sent again, by no host."""
    pair = open_pair(mailbox_factory)
    channel = KeepingChannel()
    for word in ("one", "two", "three"):
        pair.container.send(word)
    pair.host.drain({"slack": channel})
    pair.new_host().drain({"slack": channel})
    assert [sent.text for sent in channel.sent] == ["one", "two", "three"]


def test_a_delivery_that_fails_is_written_down(mailbox_factory: Factory) -> None:
    """§2.2 delivered: `failed` is a status, too, without a name of the channel."""
    pair = open_pair(mailbox_factory)
    mail = pair.container.send("hello")
    pair.host.drain({"slack": KeepingChannel(refuses=True)})
    (row,) = table(mailbox_factory, pair, "delivered")
    assert (row["message_out_id"], row["status"]) == (mail.id, "failed")
    assert row["platform_message_id"] is None


def test_mail_waits_for_the_time_of_its_delivery(mailbox_factory: Factory) -> None:
    """§4.1 messages_out: mail is not delivered before `deliver_after`."""
    mailbox_factory.clock.step = 0
    pair = open_pair(mailbox_factory)
    channel = KeepingChannel()
    pair.container.send("later", deliver_after=mailbox_factory.clock.now + 10_000)
    pair.host.drain({"slack": channel})
    assert channel.sent == []
    mailbox_factory.clock.forward(11)
    pair.host.drain({"slack": channel})
    assert [sent.text for sent in channel.sent] == ["later"]


def test_an_edit_names_the_message_as_the_channel_does(mailbox_factory: Factory) -> None:
    """§2.2 delivered: the container reads `platform_message_id` to target edits."""
    pair = open_pair(mailbox_factory)
    channel = KeepingChannel()
    mail = pair.container.send("helo")
    pair.host.drain({"slack": channel})
    assert pair.container.target(mail.seq or 0) == ("p-1", CHAT)
    pair.container.edit(mail.seq or 0, "hello")
    pair.host.drain({"slack": channel})
    told = channel.sent[1].content
    assert (told["operation"], told["messageId"], told["text"]) == ("edit", "p-1", "hello")


def test_an_operation_lives_inside_the_content(mailbox_factory: Factory) -> None:
    """§4.1 messages_out: edits and reactions are mail whose content says what is to be done."""
    pair = open_pair(mailbox_factory)
    asked = pair.host.send("well?", id="m1")
    pair.container.react(asked.seq or 0, "thumbs_up")
    (row,) = table(mailbox_factory, pair, "messages_out")
    content = json.loads(row["content"])
    assert (content["operation"], content["emoji"]) == ("reaction", "thumbs_up")
