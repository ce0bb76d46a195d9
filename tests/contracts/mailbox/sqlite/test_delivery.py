"""Delivery: what is about the files of SQLite."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.mailbox.postal import (
    CHAT,
    Channel,
    Clock,
    Crash,
    Desk,
)
from tests.support.mail import MailFactory
from threadkeep.base.presence import ExclusiveLock
from threadkeep.base.sql import load_text
from threadkeep.mailbox.adapters import FileAdapter, Outgoing
from threadkeep.mailbox.host.host import Host


@pytest.fixture
def desk(factory: MailFactory) -> Desk:
    return Desk(factory, Clock())


def test_nothing_new_writes_nothing(desk: Desk) -> None:
    desk.say("one")
    desk.host.drain({"test": Channel()})
    before = (desk.path / "inbound.db").read_bytes()
    assert desk.host.drain({"test": Channel()}).sent == ()
    assert (desk.path / "inbound.db").read_bytes() == before


def test_another_drain_at_work_is_left_alone(desk: Desk) -> None:
    desk.say("one")
    channel = Channel()
    with ExclusiveLock(desk.host.context.folder.host_lock_path, "a host"):
        assert desk.host.drain({"test": channel}).busy
    assert channel.sent == []
    assert desk.host.drain({"test": channel}).sent != ()


# ---------------------------------------------------------------------- trouble


def test_attempts_are_counted_across_restarts(desk: Desk) -> None:
    channel = Channel(*(OSError("secret-token") for _ in range(5)))
    (mail,) = desk.say("hello there")
    outcomes = []
    for _ in range(4):
        drained = desk.new_host().drain({"test": channel})
        outcomes.append((len(drained.deferred), len(drained.failed)))
        desk.clock.pass_seconds(60)
    assert outcomes == [(1, 0), (1, 0), (0, 1), (0, 0)]
    assert len(channel.trouble) == 2
    assert desk.state(mail) == "failed"
    assert desk.notes() == [f'Message {mail.seq} ("hello there") was not delivered: OSError']
    assert b"secret-token" not in (desk.path / "inbound.db").read_bytes()


def write_raw(desk: Desk, **fields: Any) -> None:
    row = {
        "id": "bad",
        "seq": 1,
        "timestamp": "2025-10-09 08:00:00",
        "kind": "chat",
        "platform_id": "chat-1",
        "channel_type": "test",
        "content": '{"text":"hello"}',
        **fields,
    }
    names = ", ".join(row)
    marks = ", ".join("?" * len(row))
    insert = f"INSERT INTO messages_out ({names}) VALUES ({marks})"
    desk.rows(insert, *row.values(), side="outbound")


def test_a_late_row_with_a_lower_number_is_not_lost(desk: Desk) -> None:
    channel = Channel()
    desk.say("one")
    desk.rows("UPDATE messages_out SET seq = 101", side="outbound")
    desk.host.drain({"test": channel})
    write_raw(desk, id="late", seq=51)
    write_raw(desk, id="unnumbered", seq=None)
    desk.host.drain({"test": channel})
    assert [mail.id for mail in channel.sent[1:]] == ["unnumbered", "late"]
    before = (desk.path / "inbound.db").read_bytes()
    desk.host.drain({"test": channel})
    assert (desk.path / "inbound.db").read_bytes() == before


def test_a_folder_that_nanoclaw_made_is_drained(tmp_path: Path) -> None:
    folder = tmp_path / "v2-sessions" / "ag-9" / "sess-9"
    folder.mkdir(parents=True)
    for side in ("inbound", "outbound"):
        script = load_text("threadkeep.mailbox", f"{side}.sql")
        with closing(sqlite3.connect(folder / f"{side}.db")) as connection:
            connection.executescript(script.replace("CHECK (seq % 2 = 1)", ""))
    clock, channel = Clock(), Channel()
    host = Host(folder, clock=clock)
    with closing(sqlite3.connect(folder / "outbound.db")) as connection, connection:
        for number, words in ((2, "denied"), (3, "hello"), ("x", "odd")):
            connection.execute(
                "INSERT INTO messages_out (id, seq, timestamp, kind, platform_id, channel_type,"
                " content) VALUES (?, ?, '2025-10-09 08:00:00', 'chat', 'c', 'test', ?)",
                (words, number, '{"text":"' + words + '"}'),
            )
    host.drain({"test": channel})
    host.drain({"test": channel})
    assert sorted(channel.texts) == ["denied", "hello", "odd"]


# ---------------------------------------------------------------------- files


def test_files_go_with_the_message_and_leave_the_outbox_after_it(desk: Desk) -> None:
    mail = desk.container.send("see", files=[("a.txt", b"A"), ("b.txt", b"B")])
    desk.container.insert_message("chat", {"text": "x", "files": ["gone"]}, CHAT)
    channel = Channel(ValueError("first try"))
    outbox = desk.path / "outbox" / mail.id
    desk.host.drain({"test": channel})
    assert sorted(path.name for path in outbox.iterdir()) == ["a.txt", "b.txt"]
    desk.clock.pass_seconds(5)
    desk.host.drain({"test": channel})
    assert [(f.name, f.data) for f in channel.sent[0].files] == [("a.txt", b"A"), ("b.txt", b"B")]
    assert not outbox.exists()
    assert [name for name, _ in channel.sent[1].skipped] == ["gone"]
    assert "delivered without a file" in desk.notes()[0]


def test_files_outside_of_the_outbox_are_never_read(desk: Desk, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"key")
    (mail,) = desk.say("x")
    folder = desk.path / "outbox" / mail.id
    folder.mkdir()
    (folder / "link").symlink_to(secret)
    (folder / "hard").hardlink_to(secret)
    content = '{"text":"x","files":["link","hard","../../inbound.db"]}'
    desk.rows("UPDATE messages_out SET content = ?", content, side="outbound")
    channel = Channel()
    desk.host.drain({"test": channel})
    assert channel.sent[0].files == ()
    assert len(channel.sent[0].skipped) == 3
    assert secret.read_bytes() == b"key"
    assert (desk.path / "inbound.db").exists()


# ---------------------------------------------------------------------- cost


IN_QUERIES = (
    *("cursor", "set_cursor", "prepare", "open_deliveries", "set_delivery", "mark_delivered"),
    *("delivered", "hops_of", "newest_hop", "spoken_since", "newest_peer_session", "mail"),
)
OUT_QUERIES = ("out_fresh", "out_late", "last_rowid", "out")


@pytest.mark.parametrize("name", [*IN_QUERIES, *OUT_QUERIES])
def test_no_query_of_a_drain_reads_all_that_was_ever_said(desk: Desk, name: str) -> None:
    folder = desk.host.context.folder
    file = folder.inbound if name in IN_QUERIES else folder.outbound
    sql = file.queries[name]
    values = dict.fromkeys(re.findall(r":([a-z_]+)", sql))
    with closing(sqlite3.connect(file.path)) as connection:
        steps = connection.execute(f"EXPLAIN QUERY PLAN {sql}", values).fetchall()
    plan = [step[3] for step in steps]
    for line in plan:
        is_scan = line.startswith("SCAN") and "CONSTANT ROW" not in line
        # A partial index holds what is open; the newest row is the first from the end.
        is_short = "tk_delivery_open" in line or name == "newest_hop"
        assert not is_scan or is_short, plan
        assert "TEMP B-TREE" not in line, plan


# ---------------------------------------------------------------------- the channel that is a file


def test_a_file_takes_each_message_once(desk: Desk, tmp_path: Path) -> None:
    path = tmp_path / "sent.jsonl"
    mails = desk.say("one", "two")
    with pytest.raises(Crash):
        dying = FileAdapter(path)
        real = dying.send

        class Late:
            honours_key = True

            def send(self, mail: Outgoing) -> str | None:
                real(mail)
                raise Crash

        desk.host.drain({"test": Late()})
    with path.open("ab") as file:
        file.write(b'{"key":"sess-1:')  # half a line of a writer that died
    desk.new_host().drain({"test": FileAdapter(path)})
    lines = path.read_text().splitlines()
    assert len(lines) == 2
    assert all(mail.id in line for mail, line in zip(mails, lines, strict=True))
    assert desk.rows("SELECT platform_message_id FROM delivered ORDER BY rowid") == [
        (mail.id,) for mail in mails
    ]


def test_two_writers_of_one_file_know_of_each_other(desk: Desk, tmp_path: Path) -> None:
    path = tmp_path / "sent.jsonl"
    channel = Channel()
    desk.say("one", "two")
    desk.host.drain({"test": channel})
    first, second = FileAdapter(path), FileAdapter(path)
    for adapter in (first, second, first):
        for mail in channel.sent:
            assert adapter.send(mail) == mail.id
    assert len(path.read_text().splitlines()) == 2
    path.write_text("")  # somebody took the lines away; what we know was sent stays known
    assert first.send(channel.sent[0]) == channel.sent[0].id
    assert path.read_text() == ""
