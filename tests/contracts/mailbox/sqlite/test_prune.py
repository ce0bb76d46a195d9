"""Prune: what is about the files of SQLite."""

import sqlite3
from contextlib import closing

import pytest

from tests.contracts.mailbox.postal import CHAT, Channel, Clock, Desk
from tests.support.mail import MailFactory
from threadkeep.mailbox.host.sweep import PrunedMail


@pytest.fixture
def desk(factory: MailFactory) -> Desk:
    return Desk(factory, Clock())


def texts(desk: Desk) -> list[str]:
    return [mail.text for mail in desk.host.outbox(1000)]


def test_a_copy_from_before_that_comes_back_is_not_sent_again(desk: Desk) -> None:
    desk.say(*"abc")
    desk.host.drain({"test": Channel()})
    before = desk.container.context.folder.outbound_path.read_bytes()
    desk.host.prune(keep=0)
    desk.container.context.folder.outbound_path.write_bytes(before)
    delivered = desk.rows("SELECT count(*) FROM delivered")
    assert delivered == [(3,)]  # so that no other host sends it, either
    assert desk.new_host().drain({"test": Channel()}).sent == ()


def test_a_folder_without_tables_of_ours_is_pruned_as_well(desk: Desk) -> None:
    for number in range(3):
        desk.container.insert_message("chat", {"text": str(number)}, CHAT, message_id=f"m{number}")
    for side, tables in {
        "inbound": ("tk_delivery", "tk_cursor", "tk_meta"),
        "outbound": ("tk_claim", "tk_row_hash"),
    }.items():
        with closing(sqlite3.connect(desk.path / f"{side}.db")) as tx, tx:
            for table in tables:
                tx.execute(f"DROP TABLE {table}")
            if side == "inbound":  # as another host left it: delivered, in either form of times
                tx.execute(
                    "INSERT INTO delivered (message_out_id, delivered_at) VALUES"
                    " ('m0', '2025-10-09 09:00:00'), ('m1', '2025-10-09T09:00:00.000Z'),"
                    " ('m2', '2025-10-09T09:00:00.000Z')"
                )
    assert desk.container.prune(keep=1) == PrunedMail(2, 0)
    assert texts(desk) == ["2"]
