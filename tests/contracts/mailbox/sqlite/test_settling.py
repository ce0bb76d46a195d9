"""In files: answers taken over by the host, and claims of containers that are gone."""

import pytest

from tests.contracts.mailbox.pair import Pair
from tests.support.mail import MailFactory
from threadkeep.mailbox.host.sweep import ResetReport
from threadkeep.mailbox.rows import sqlite_form


@pytest.fixture
def pair(factory: MailFactory) -> Pair:
    return Pair(factory)


@pytest.mark.parametrize("away_s", [0, 3, 5, 600])
def test_a_crash_between_the_files_counts_no_claim_twice(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, away_s: int
) -> None:
    mail = pair.host.send("x")
    pair.claim()
    with monkeypatch.context() as patch:
        patch.setattr(pair.ctx.folder.outbound, "write", _die)
        with pytest.raises(_CutError):
            pair.host.reset_claims()
    assert pair.host.mail(mail.id).tries == 1
    due = pair.host.mail(mail.id).process_after
    pair.later(away_s)
    assert pair.host.reset_claims() == ResetReport(released=1)
    assert (pair.host.mail(mail.id).tries, pair.host.mail(mail.id).process_after) == (1, due)


class _CutError(Exception):
    """The power is gone."""


def _die(*_: object) -> None:
    raise _CutError


def test_a_claim_made_anew_is_not_let_go(pair: Pair) -> None:
    mail = pair.host.send("x")
    pair.claim()
    (old,) = pair.host.claims()
    pair.later(30)
    pair.sql("out", "UPDATE processing_ack SET status_changed = ?", sqlite_form(pair.time[0]))
    with pair.ctx.folder.outbound.write() as tx:
        gone = tx.count("release_claim", {"id": mail.id, "claimed_at": old.claimed_at})
    assert gone == 0
    assert [claim.message_id for claim in pair.host.claims()] == [mail.id]
