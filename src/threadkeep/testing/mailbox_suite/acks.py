"""What the container says of its mail, what the host makes of it, what lasts between starts."""

import pytest

from threadkeep.testing.mailbox_suite.post import Factory, moment, open_pair, table, texts


def test_a_claim_is_an_ack(mailbox_factory: Factory) -> None:
    """§4.2 processing_ack: mail that was touched has a row, `processing`, and its time."""
    pair = open_pair(mailbox_factory)
    mail = pair.host.send("x")
    before = mailbox_factory.clock.now
    assert pair.container.claim([mail]) == [mail.id]
    (row,) = table(mailbox_factory, pair, "processing_ack")
    assert (row["message_id"], row["status"]) == (mail.id, "processing")
    assert before // 1000 <= moment(row["status_changed"]) <= mailbox_factory.clock.now / 1000


@pytest.mark.parametrize("verb, status", [("complete", "completed"), ("fail", "failed")])
def test_the_outcome_is_an_ack(mailbox_factory: Factory, verb: str, status: str) -> None:
    """§4.2 processing_ack: `completed` and `failed` take the place of `processing`."""
    pair = open_pair(mailbox_factory)
    mail = pair.host.send("x")
    pair.container.claim([mail])
    getattr(pair.container, verb)([mail], *(["no"] if verb == "fail" else []))
    (row,) = table(mailbox_factory, pair, "processing_ack")
    assert (row["message_id"], row["status"]) == (mail.id, status)


@pytest.mark.parametrize("verb, status", [("complete", "completed"), ("fail", "failed")])
def test_the_host_takes_the_outcome_over(mailbox_factory: Factory, verb: str, status: str) -> None:
    """§4.2 processing_ack: the host syncs the status back; until then its row is pending."""
    pair = open_pair(mailbox_factory)
    mail = pair.host.send("x")
    pair.container.claim([mail])
    getattr(pair.container, verb)([mail], *(["no"] if verb == "fail" else []))
    assert pair.host.mail(mail.id).status == "pending"
    pair.host.sync()
    assert pair.host.mail(mail.id).status == status
    rows = {row["id"]: row for row in table(mailbox_factory, pair, "messages_in")}
    assert rows[mail.id]["status"] == status


def test_mail_in_hand_stays_pending(mailbox_factory: Factory) -> None:
    """§4.2 processing_ack: `processing` is the container's word alone."""
    pair = open_pair(mailbox_factory)
    mail = pair.host.send("x")
    pair.container.claim([mail])
    pair.host.sync()
    assert pair.host.mail(mail.id).status == "pending"
    assert [claim.message_id for claim in pair.host.claims()] == [mail.id]


def test_mail_is_claimed_once(mailbox_factory: Factory) -> None:
    """§4.2 processing_ack: one row for each message; what is in hand is given to nobody else."""
    pair = open_pair(mailbox_factory)
    mail = pair.host.send("x")
    assert pair.container.claim([mail]) == [mail.id]
    assert pair.container.claim([mail]) == []
    assert pair.container.poll() == []
    assert len(table(mailbox_factory, pair, "processing_ack")) == 1


def test_a_container_that_starts_clears_stale_claims(mailbox_factory: Factory) -> None:
    """§4.2 processing_ack: entries left `processing` by a crash are cleared at the start."""
    pair = open_pair(mailbox_factory)
    done, open_mail = pair.host.send("done"), pair.host.send("open")
    pair.container.claim([done, open_mail])
    pair.container.complete([done])
    again = pair.new_container()
    assert again.start() == 1
    rows = table(mailbox_factory, pair, "processing_ack")
    assert [(row["message_id"], row["status"]) for row in rows] == [(done.id, "completed")]
    assert texts(again.poll()) == ["open"]


def test_mail_that_failed_is_kept(mailbox_factory: Factory) -> None:
    """§2.1 messages_in: mail that failed is not pending any more, and is not lost."""
    pair = open_pair(mailbox_factory)
    mail = pair.host.send("compute pi")
    pair.container.claim([mail])
    pair.container.fail([mail], "too many digits")
    pair.host.sync()
    assert pair.host.mail(mail.id).text == "compute pi"
    assert pair.host.mail(mail.id).status == "failed"


# ---------------------------------------------------------------------- state


def test_a_value_is_kept_between_starts(mailbox_factory: Factory) -> None:
    """§4.3 session_state: keys with values last across restarts of the container."""
    pair = open_pair(mailbox_factory)
    pair.container.set_state("sdk", "session-1")
    pair.container.set_state("sdk", "session-2")
    rows = {row["key"]: row for row in table(mailbox_factory, pair, "session_state")}
    assert rows["sdk"]["value"] == "session-2"
    assert moment(rows["sdk"]["updated_at"]) > 0
    assert pair.new_container().get_state("sdk") == "session-2"
    assert pair.container.get_state("nothing") is None


def test_a_value_can_be_forgotten(mailbox_factory: Factory) -> None:
    """§4.3 session_state: a value that is taken away is gone for the next start."""
    pair = open_pair(mailbox_factory)
    pair.container.set_state("key", "value")
    pair.container.set_state("key", None)
    assert pair.new_container().get_state("key") is None


def test_everything_is_there_when_it_is_opened_again(mailbox_factory: Factory) -> None:
    """§1 session folder: one session is one pair, which lasts beyond both programs."""
    pair = open_pair(mailbox_factory)
    pair.host.send("in")
    pair.container.send("out")
    before = mailbox_factory.contents(pair)
    pair.close()
    again = mailbox_factory.reopen(pair)
    assert texts(again.container.poll()) == ["in"]
    assert texts(again.host.outbox()) == ["out"]
    assert mailbox_factory.contents(again) == before
