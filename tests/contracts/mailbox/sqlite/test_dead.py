"""In files: dead letters: shown with their reason, tried again once, purged."""

from typing import Any

import pytest

from tests.contracts.mailbox.pair import CHAT, START, Pair
from tests.support.mail import MailFactory
from threadkeep.errors import Conflict, NotFound
from threadkeep.mailbox.records import DeadLetter, Delivery, Mail, OutMail
from threadkeep.mailbox.rows import sqlite_form

DAY_MS = 24 * 3600 * 1000


@pytest.fixture
def pair(factory: MailFactory) -> Pair:
    return Pair(factory)


def failed(pair: Pair, text: str = "x", reason: str = "no", **more: Any) -> Mail:
    mail = pair.host.send(text, **more)
    pair.agent.claim([mail])
    pair.agent.fail([mail], reason)
    pair.host.sync()
    return mail


def undelivered(pair: Pair, text: str = "out", state: str = "failed") -> OutMail:
    mail = pair.agent.send(text)
    fields = {"id": mail.id, "seq": mail.seq, "key": f"k:{mail.id}", "place": "p", "due": None}
    now = sqlite_form(pair.time[0])
    with pair.ctx.folder.inbound.write() as tx:
        tx.run("prepare", {**fields, "held": 0, "now": now})
        told = {"attempts": 3, "due": None, "reason": "gone", "now": now}
        tx.run("set_delivery", {"id": mail.id, "state": state, **told})
        what = "delivered" if state == "sent" else "failed"
        row = {"id": mail.id, "platform_message_id": None, "status": what, "now": now}
        tx.run("mark_delivered", row)
    return mail


# ------------------------------------------------------------------ the list


def test_both_directions_are_listed_with_their_reasons(pair: Pair) -> None:
    coming = failed(pair, "compute", "ValueError: no")
    going = undelivered(pair, "hello")
    now = sqlite_form(START)
    assert pair.host.dead_letters() == [
        DeadLetter(coming.id, 2, "in", "failed", "ValueError: no", 1, now, None, "compute"),
        DeadLetter(going.id, going.seq, "out", "failed", "gone", 3, now, None, "hello"),
    ]


def test_nothing_dead_is_nothing(pair: Pair) -> None:
    pair.host.send("x")
    undelivered(pair, state="sent")
    assert pair.host.dead_letters() == []


def test_a_delivery_whose_message_is_gone_is_listed(pair: Pair) -> None:
    going = undelivered(pair)
    pair.sql("out", "DELETE FROM messages_out")
    assert [(letter.id, letter.text) for letter in pair.host.dead_letters()] == [(going.id, "")]


def test_what_did_not_fail_is_not_tried(pair: Pair) -> None:
    mail, out = pair.host.send("x"), undelivered(pair, state="sent")
    for which in (mail.id, mail.seq or 0, out.id, out.seq or 0):
        with pytest.raises(Conflict, match="not failed"):
            pair.host.retry(which)


def test_a_delivery_goes_back_to_be_delivered(pair: Pair) -> None:
    out = undelivered(pair)
    found = pair.host.retry(out.seq or 0)
    assert isinstance(found, Delivery)
    assert (found.state, found.attempts, found.due) == ("prepared", 0, None)
    assert found.key == f"k:{out.id}"
    assert pair.sql("in", "SELECT * FROM delivered") == []
    assert pair.host.dead_letters() == []


def test_what_may_have_been_sent_needs_force(pair: Pair) -> None:
    out = undelivered(pair, state="unknown")
    with pytest.raises(Conflict, match="may have been sent"):
        pair.host.retry(out.id)
    found = pair.host.retry(out.id, force=True)
    assert isinstance(found, Delivery)
    assert found.state == "prepared"


def test_what_another_host_delivered_is_not_sent_again(pair: Pair) -> None:
    out = undelivered(pair)
    pair.sql("in", "UPDATE delivered SET status = 'delivered'")
    with pytest.raises(Conflict, match="delivered by another host"):
        pair.host.retry(out.id)
    assert pair.host.dead_letters()[0].state == "failed"


# ------------------------------------------------------------------ purging


def attached(pair: Pair) -> Mail:
    return failed(pair, "see", attachments=[{"name": "a.txt", "data": "aGk="}])


def test_purged_mail_keeps_its_number_and_loses_its_words(pair: Pair) -> None:
    mail = attached(pair)
    assert (pair.path / "inbox" / mail.id / "a.txt").exists()
    assert pair.host.purge(mail.id) == 1
    found = pair.host.mail(mail.id)
    assert (found.raw, found.seq, found.status) == ("{}", mail.seq, "failed")
    assert not (pair.path / "inbox" / mail.id).exists()
    assert pair.host.dead_letters() == []
    assert pair.host.verify() == []
    with pytest.raises(Conflict, match="purged"):
        pair.host.retry(mail.id)
    with pytest.raises(NotFound):
        pair.host.purge(mail.id)


def test_a_copy_has_files_of_its_own(pair: Pair) -> None:
    mail = attached(pair)
    copy = pair.host.retry(mail.id)
    assert isinstance(copy, Mail)
    assert copy.content["attachments"] == [{"name": "a.txt", "localPath": f"inbox/{copy.id}/a.txt"}]
    pair.host.purge(mail.id)
    assert not (pair.path / "inbox" / mail.id).exists()
    assert pair.agent.attachment(copy, "a.txt") == b"hi"
    assert pair.host.verify() == []


def test_a_copy_whose_file_is_gone_still_names_it(pair: Pair) -> None:
    mail = attached(pair)
    (pair.path / "inbox" / mail.id / "a.txt").unlink()
    copy = pair.host.retry(mail.id)
    assert isinstance(copy, Mail)
    assert copy.raw == mail.raw
    assert not (pair.path / "inbox" / copy.id).exists()


def test_a_copy_takes_no_file_from_outside(pair: Pair) -> None:
    attachments = [{"localPath": path} for path in ("/etc/passwd", "inbox/../../x", "outbox/a/b")]
    content = {"text": "x", "attachments": [*attachments, "odd", {"localPath": 5}]}
    mail = pair.host.insert_message("chat", content)
    pair.agent.claim([mail])
    pair.agent.fail([mail], "no")
    pair.host.sync()
    copy = pair.host.retry(mail.id)
    assert isinstance(copy, Mail)
    assert copy.raw == mail.raw
    assert not (pair.path / "inbox").exists()


def test_files_that_a_later_run_names_are_kept(pair: Pair) -> None:
    mail = attached(pair)
    pair.sql(
        "in",
        "INSERT INTO messages_in (id, seq, kind, timestamp, content, series_id)"
        " SELECT 'next', 100, kind, timestamp, content, series_id FROM messages_in WHERE id = ?",
        mail.id,
    )
    pair.host.purge(mail.id)
    assert (pair.path / "inbox" / mail.id / "a.txt").exists()


def test_a_purged_delivery_is_never_taken_for_a_new_one(pair: Pair) -> None:
    out = undelivered(pair, state="unknown")
    pair.sql("in", "DELETE FROM delivered")
    pair.sql("in", "INSERT INTO tk_cursor VALUES ('out', ?)", out.seq)
    (pair.path / "outbox" / out.id).mkdir()
    (pair.path / "outbox" / out.id / "a.txt").write_text("hi")
    assert pair.host.purge(out.seq) == 1
    assert not (pair.path / "outbox" / out.id).exists()
    assert pair.host.dead_letters() == []
    assert pair.sql("in", "SELECT message_out_id, status FROM delivered") == [(out.id, "failed")]
    assert pair.host.verify() == []


def test_only_old_letters_go_unless_one_is_named(pair: Pair) -> None:
    old = failed(pair, "old")
    undelivered(pair, "old")
    pair.later(2 * 24 * 3600)
    new = failed(pair, "new")
    assert pair.host.purge(older_than_ms=DAY_MS) == 2
    assert [letter.id for letter in pair.host.dead_letters()] == [new.id]
    before = pair.changes()
    assert pair.host.purge(older_than_ms=DAY_MS) == 0
    assert pair.changes() == before
    assert pair.host.mail(old.id).raw == "{}"
    assert pair.host.mail(new.id).place == CHAT
    assert pair.host.purge() == 1
