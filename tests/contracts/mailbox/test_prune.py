import pytest

from tests.contracts.mailbox.postal import Channel, Clock, Desk
from tests.support.mail import MailFactory
from threadkeep.errors import Conflict, Invalid
from threadkeep.mailbox import Refused
from threadkeep.mailbox.host.sweep import PrunedMail

DAY = 86_400


@pytest.fixture
def desk(factory: MailFactory) -> Desk:
    return Desk(factory, Clock())


def texts(desk: Desk) -> list[str]:
    return [mail.text for mail in desk.host.outbox(1000)]


def test_old_mail_goes_by_age(desk: Desk) -> None:
    desk.say("a", "b")
    desk.clock.pass_seconds(10 * DAY)
    desk.say("c", "d")
    desk.host.drain({"test": Channel()})
    assert desk.host.prune(older_than_ms=5 * DAY * 1000, dry_run=True) == PrunedMail(2, 0)
    assert texts(desk) == ["a", "b", "c", "d"]
    assert desk.host.prune(older_than_ms=5 * DAY * 1000) == PrunedMail(2, 0)
    assert texts(desk) == ["c", "d"]
    assert desk.host.prune(older_than_ms=5 * DAY * 1000) == PrunedMail(0, 0)


def test_old_mail_goes_by_count(desk: Desk) -> None:
    desk.say(*"abcde")
    desk.host.drain({"test": Channel()})
    assert desk.host.prune(keep=9) == PrunedMail(0, 0)
    assert desk.host.prune(keep=2) == PrunedMail(3, 0)
    assert texts(desk) == ["d", "e"]
    assert desk.host.prune(keep=0) == PrunedMail(1, 0)
    assert texts(desk) == ["e"]  # numbers go on from it


def test_with_both_limits_both_must_hold(desk: Desk) -> None:
    desk.say(*"abc")
    desk.clock.pass_seconds(10 * DAY)
    desk.say("d")
    desk.host.drain({"test": Channel()})
    assert desk.host.prune(older_than_ms=DAY * 1000, keep=3) == PrunedMail(1, 0)
    assert texts(desk) == ["b", "c", "d"]


def test_numbers_go_on_and_nothing_is_sent_twice(desk: Desk) -> None:
    channel = Channel()
    desk.say(*"abc")
    desk.host.drain({"test": channel})
    last = desk.host.outbox()[-1].seq
    desk.host.prune(keep=0)
    (said,) = desk.say("d")
    assert (said.seq or 0) > (last or 0)
    assert desk.new_host().drain({"test": channel}).sent == (said.id,)
    assert channel.texts == ["a", "b", "c", "d"]
    assert desk.host.verify() == []


def test_what_is_still_needed_stays(desk: Desk) -> None:
    asked = desk.host.send("what?")
    desk.container.claim([asked])
    refused, *_ = desk.say("refused")
    desk.host.drain({"test": Channel(Refused("no"))})
    answer = desk.container.send("an answer", in_reply_to=asked.id)
    desk.say("delivered")
    desk.host.drain({"test": Channel()})
    desk.container.send("for later", deliver_after="2030-01-01T00:00:00Z")
    desk.say("waits", "waits too")
    assert desk.host.prune(keep=0) == PrunedMail(1, 0)
    assert "delivered" not in texts(desk)
    assert desk.host.retry(refused.id)
    desk.container.complete([asked])
    desk.host.sync()
    assert desk.host.prune(keep=0) == PrunedMail(1, 1)
    assert answer.text not in texts(desk)
    assert len(desk.host.drain({"test": Channel()}).sent) == 3


def test_answers_for_settled_mail_go_and_open_ones_stay(desk: Desk) -> None:
    mails = [desk.host.send(text) for text in "abc"]
    desk.container.claim(mails)
    desk.container.complete(mails[:1])
    assert desk.container.prune(keep=0) == PrunedMail(0, 0)  # the host has not heard of it yet
    desk.host.sync()
    assert desk.container.prune(older_than_ms=1000) == PrunedMail(0, 0)
    desk.clock.pass_seconds(2)
    assert desk.container.prune(older_than_ms=1000) == PrunedMail(0, 1)
    assert desk.rows("SELECT count(*) FROM tk_claim", side="outbound") == [(2,)]
    assert desk.container.poll() == []
    assert {claim.message_id for claim in desk.host.claims()} == {mail.id for mail in mails[1:]}


def test_only_the_container_prunes_while_it_works(desk: Desk) -> None:
    desk.say(*"ab")
    desk.host.drain({"test": Channel()})
    desk.container.start()
    with pytest.raises(Conflict, match="an agent is running"):
        desk.host.prune(keep=0)
    assert desk.host.prune(keep=0, dry_run=True) == PrunedMail(1, 0)
    assert desk.container.prune(keep=0) == PrunedMail(1, 0)
    desk.container.stop()


def test_a_limit_is_needed(desk: Desk) -> None:
    with pytest.raises(Invalid, match="needs a limit"):
        desk.host.prune()
    with pytest.raises(Invalid):
        desk.host.prune(keep=-1)
