"""Dead letters: shown with their reason, tried again once, purged."""

from typing import Any

import pytest

from tests.contracts.mailbox.pair import START, Pair
from tests.contracts.mailbox.postal import Channel
from tests.support.mail import MailFactory
from threadkeep.errors import Conflict, NotFound
from threadkeep.mailbox.adapters import MaybeSent, Refused
from threadkeep.mailbox.records import Mail


@pytest.fixture
def pair(factory: MailFactory) -> Pair:
    return Pair(factory)


def failed(pair: Pair, text: str = "x", reason: str = "no", **more: Any) -> Mail:
    mail = pair.host.send(text, **more)
    pair.agent.claim([mail])
    pair.agent.fail([mail], reason)
    pair.host.sync()
    return mail


def test_mail_that_another_host_gave_up_has_a_row_too(pair: Pair) -> None:
    mail = pair.host.send("x")
    pair.sql("in", "UPDATE messages_in SET status = 'failed' WHERE id = ?", mail.id)
    (letter,) = pair.host.dead_letters()
    assert (letter.id, letter.reason) == (mail.id, "failed")
    assert isinstance(pair.host.retry(mail.id), Mail)


# ------------------------------------------------------------------ trying again


def test_mail_is_tried_again_as_a_copy(pair: Pair) -> None:
    mail = failed(pair, "compute", hops=3, source_session_id="sess-9")
    copy = pair.host.retry(mail.id)
    assert isinstance(copy, Mail)
    assert copy.id != mail.id
    assert (copy.raw, copy.place, copy.timestamp) == (mail.raw, mail.place, mail.timestamp)
    assert (copy.status, copy.tries, copy.source_session_id) == ("pending", 0, "sess-9")
    assert copy.series_id == mail.series_id
    assert pair.value("in", "SELECT hops FROM tk_hops WHERE message_id = ?", copy.id) == 3
    assert copy.id in [polled.id for polled in pair.agent.poll()]
    assert pair.host.dead_letters()[0].retried_as == copy.id


def test_mail_is_tried_again_by_its_number_and_once(pair: Pair) -> None:
    mail = failed(pair)
    copy = pair.host.retry(mail.seq or 0)
    assert isinstance(copy, Mail)
    with pytest.raises(Conflict, match=copy.id):
        pair.host.retry(mail.id)


def test_a_run_tried_again_does_not_fork_its_series(pair: Pair) -> None:
    task = pair.host.insert_task("report", recurrence="@daily", process_after=START)
    pair.claim()
    pair.agent.fail([task.id], "no")
    pair.host.sync()
    copy = pair.host.retry(task.id)
    assert isinstance(copy, Mail)
    assert (copy.id[:5], copy.recurrence, copy.process_after) == ("task-", None, None)
    pair.claim()
    pair.agent.complete([copy.id])
    assert pair.host.sync().rearmed == ()
    assert len(pair.host.tasks()) == 1


@pytest.mark.parametrize("which", ["nobody", 4, 5])
def test_what_is_not_there_is_not_tried(pair: Pair, which: str | int) -> None:
    pair.host.send("x")
    with pytest.raises(NotFound, match="no dead letter"):
        pair.host.retry(which)


# ------------------------------------------------------------------ with a channel


def test_a_message_that_was_refused_is_sent_after_a_retry(pair: Pair) -> None:
    channel = Channel(Refused("no such chat"))
    out = pair.agent.send("hello")
    pair.host.drain({"telegram": channel})
    (letter,) = pair.host.dead_letters()
    assert (letter.id, letter.state) == (out.id, "failed")
    pair.later(1)
    assert pair.host.drain({"telegram": channel}).sent == ()
    pair.host.retry(out.id)
    assert pair.host.drain({"telegram": channel}).sent == (out.id,)
    assert channel.texts == ["hello"]
    assert pair.host.dead_letters() == []
    told = [event.what for event in pair.host.trace(out.id)]
    assert told == ["written", "the agent was notified", "sent", "delivered"]


def test_a_message_in_doubt_is_sent_again_by_force_only(pair: Pair) -> None:
    channel = Channel(MaybeSent("the line went dead"))
    out = pair.agent.send("hello")
    pair.host.drain({"telegram": channel})
    assert pair.host.dead_letters()[0].state == "unknown"
    pair.later(3600)
    assert pair.host.drain({"telegram": channel}).sent == ()
    pair.host.retry(out.id, force=True)
    assert pair.host.drain({"telegram": channel}).sent == (out.id,)


def test_a_purged_message_is_never_sent(pair: Pair) -> None:
    channel = Channel(Refused("no such chat"))
    pair.agent.send("hello")
    pair.host.drain({"telegram": channel})
    assert pair.host.purge() == 1
    pair.later(3600)
    pair.host.drain({"telegram": channel})
    assert channel.texts == []
    assert pair.host.verify() == []
