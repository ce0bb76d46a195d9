"""NanoClaw's statements on our files, and our verbs on its rows; plain sqlite3 plays NanoClaw."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.mail import CHAT, MailFactory, Pair, open_pair, texts
from threadkeep.mailbox.records import Place

Rows = list[dict[str, Any]]


class Stranger:
    """Does to a session folder what NanoClaw's two programs do, by their conditions and columns."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def open(self, file: str) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.folder / file, isolation_level=None)) as connection:
            connection.row_factory = sqlite3.Row
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute("PRAGMA foreign_keys = ON")
            yield connection

    def inbound(self, sql: str, **values: object) -> Rows:
        with self.open("inbound.db") as connection:
            return [dict(row) for row in connection.execute(sql, values)]

    def outbound(self, sql: str, **values: object) -> Rows:
        with self.open("outbound.db") as connection:
            return [dict(row) for row in connection.execute(sql, values)]

    # ------------------------------------------------------------------ as the host

    def post(self, row_id: str, said: dict[str, Any], *, kind: str = "chat") -> int:
        top = self.inbound("SELECT COALESCE(MAX(seq), 0) AS m FROM messages_in")[0]["m"]
        seq = 2 if top < 2 else top + 2 - top % 2
        self.inbound(
            """INSERT INTO messages_in (id, seq, kind, timestamp, status, platform_id, channel_type,
                 thread_id, content, process_after, recurrence, series_id, trigger,
                 source_session_id, on_wake)
               VALUES (:id, :seq, :kind, '2025-10-09T11:00:00.000Z', 'pending', 'C1', 'slack', 'T1',
                 :content, NULL, NULL, :id, 1, NULL, 0)""",
            id=row_id,
            seq=seq,
            kind=kind,
            content=json.dumps(said, separators=(",", ":")),
        )
        return int(seq)

    def sync_acks(self) -> None:
        done = self.outbound(
            "SELECT message_id FROM processing_ack WHERE status IN ('completed', 'failed')"
        )
        for ack in done:
            self.inbound(
                """UPDATE messages_in SET status = 'completed'
                   WHERE id = :id AND status != 'completed'""",
                id=ack["message_id"],
            )

    def due_outbound(self) -> Rows:
        delivered = self.inbound("SELECT message_out_id FROM delivered")
        known = {row["message_out_id"] for row in delivered}
        due = self.outbound(
            """SELECT * FROM messages_out
               WHERE (deliver_after IS NULL OR deliver_after <= datetime('now'))
               ORDER BY timestamp ASC"""
        )
        return [row for row in due if row["id"] not in known]

    def mark_delivered(self, out_id: str, platform_id: str) -> None:
        self.inbound(
            """INSERT OR IGNORE INTO delivered (message_out_id, platform_message_id, status,
                 delivered_at) VALUES (:id, :platform, 'delivered', datetime('now'))""",
            id=out_id,
            platform=platform_id,
        )

    # ------------------------------------------------------------------ as the container

    def pending(self, *, first: bool = True) -> Rows:
        found = self.inbound(
            """SELECT * FROM messages_in WHERE status = 'pending'
                 AND (process_after IS NULL OR datetime(process_after) <= datetime('now'))
                 AND (on_wake = 0 OR :first = 1) ORDER BY seq DESC LIMIT 10""",
            first=int(first),
        )
        acked = {row["message_id"] for row in self.outbound("SELECT * FROM processing_ack")}
        return [row for row in reversed(found) if row["id"] not in acked]

    def ack(self, row_id: str, status: str) -> None:
        self.outbound(
            """INSERT OR REPLACE INTO processing_ack (message_id, status, status_changed)
               VALUES (:id, :status, datetime('now'))""",
            id=row_id,
            status=status,
        )

    def reply(self, row_id: str, said: dict[str, Any]) -> int:
        top = max(
            self.inbound("SELECT COALESCE(MAX(seq), 0) AS m FROM messages_in")[0]["m"],
            self.outbound("SELECT COALESCE(MAX(seq), 0) AS m FROM messages_out")[0]["m"],
        )
        seq = top + 1 if top % 2 == 0 else top + 2
        self.outbound(
            """INSERT INTO messages_out (id, seq, in_reply_to, timestamp, deliver_after, recurrence,
                 kind, platform_id, channel_type, thread_id, content)
               VALUES (:id, :seq, NULL, datetime('now'), NULL, NULL, 'chat', 'C1', 'slack', 'T1',
                 :content)""",
            id=row_id,
            seq=seq,
            content=json.dumps(said),
        )
        return int(seq)

    def find_answer(self, question_id: str) -> Rows:
        return self.inbound(
            "SELECT * FROM messages_in WHERE status = 'pending' AND content LIKE :like",
            like=f'%"questionId":"{question_id}"%',
        )


@pytest.fixture
def pair(factory: MailFactory) -> Pair:
    return open_pair(factory)


@pytest.fixture
def stranger(pair: Pair) -> Stranger:
    return Stranger(pair.path)


def test_our_container_answers_their_host(pair: Pair, stranger: Stranger) -> None:
    stranger.post("m1", {"text": "hello"})
    (mail,) = pair.container.poll()
    assert (mail.text, mail.place, mail.tries) == ("hello", CHAT, 0)
    pair.container.claim([mail])
    (claim,) = stranger.outbound("SELECT * FROM processing_ack WHERE status = 'processing'")
    assert claim["status_changed"] == "2025-10-09 12:00:00"
    sent = pair.container.send("hi there")
    pair.container.complete([mail])
    stranger.sync_acks()
    assert pair.host.mail("m1").status == "completed"
    (due,) = stranger.due_outbound()
    assert (due["id"], due["seq"], due["in_reply_to"]) == (sent.id, 3, "m1")
    assert json.loads(due["content"]) == {"text": "hi there"}
    stranger.mark_delivered(sent.id, "slack-1")
    stranger.mark_delivered(sent.id, "slack-2")
    assert stranger.due_outbound() == []
    assert pair.container.edit(3, "hi!").content["messageId"] == "slack-1"


def test_their_container_answers_our_host(pair: Pair, stranger: Stranger) -> None:
    sent = pair.host.send("hello")
    pair.host.send("not yet", process_after="2999-01-01T00:00:00Z")
    (row,) = stranger.pending()
    assert (row["id"], row["trigger"], row["on_wake"]) == (sent.id, 1, 0)
    assert json.loads(row["content"])["text"] == "hello"
    stranger.ack(sent.id, "processing")
    assert pair.container.poll() == []
    assert stranger.reply("r1", {"text": "hi there"}) == 5
    stranger.ack(sent.id, "completed")
    (mail,) = pair.host.outbox()
    assert (mail.id, mail.seq, mail.text, mail.place) == ("r1", 5, "hi there", CHAT)
    assert pair.host.send("next").seq == 6


def test_both_containers_number_one_conversation(pair: Pair, stranger: Stranger) -> None:
    numbers = [pair.container.send("a").seq, stranger.reply("b", {}), pair.host.send("c").seq]
    numbers += [pair.container.send("d").seq, stranger.post("e", {}), stranger.reply("f", {})]
    assert numbers == [1, 3, 2, 5, 4, 7]


def test_both_hosts_number_one_conversation(pair: Pair, stranger: Stranger) -> None:
    assert [pair.host.send("a").seq, stranger.post("b", {}), pair.host.send("c").seq] == [2, 4, 6]


def test_their_container_finds_our_answer_by_its_text(pair: Pair, stranger: Stranger) -> None:
    pair.host.answer("q1", "yes")
    (row,) = stranger.find_answer("q1")
    assert json.loads(row["content"])["selectedOption"] == "yes"
    assert row["kind"] == "system"


def test_our_container_finds_their_answer(pair: Pair, stranger: Stranger) -> None:
    said = {"type": "question_response", "questionId": "q1", "selectedOption": "no", "userId": "u"}
    stranger.post("qr-q1-1", said, kind="system")
    assert pair.container.answer("q1") == said
    assert [row["status"] for row in stranger.outbound("SELECT * FROM processing_ack")] == [
        "completed"
    ]


def test_our_rows_go_out_in_order_for_their_host(pair: Pair, stranger: Stranger) -> None:
    """It sorts by the text of the time, in which a blank comes before a T."""
    for word in ("one", "two", "three"):
        pair.container.send(word)
        pair.clock.forward(1)
    assert [json.loads(row["content"])["text"] for row in stranger.due_outbound()] == [
        "one",
        "two",
        "three",
    ]


def test_their_host_holds_back_what_is_to_wait(pair: Pair, stranger: Stranger) -> None:
    pair.container.send("later", deliver_after="2999-01-01T00:00:00Z")
    pair.container.send("an hour ago", deliver_after="2025-10-09T11:00:00Z")
    assert [json.loads(row["content"])["text"] for row in stranger.due_outbound()] == [
        "an hour ago"
    ]


def test_their_failed_words_do_not_cover_what_failed_here(pair: Pair, stranger: Stranger) -> None:
    failed, fine = pair.host.send("a"), pair.host.send("b")
    stranger.inbound("UPDATE messages_in SET status = 'failed' WHERE id = :id", id=failed.id)
    stranger.ack(failed.id, "failed")
    stranger.ack(fine.id, "completed")
    stranger.sync_acks()
    assert [mail.status for mail in pair.host.inbox()] == ["failed", "completed"]


def test_their_start_and_reset_release_our_claims(pair: Pair, stranger: Stranger) -> None:
    mail = pair.host.send("x")
    pair.container.claim([mail])
    stranger.outbound("DELETE FROM processing_ack WHERE status = 'processing'")
    stranger.inbound(
        "UPDATE messages_in SET tries = tries + 1, process_after = datetime(:now, '+5 seconds')"
        " WHERE id = :id",
        id=mail.id,
        now="2025-10-09 12:00:00",
    )
    assert pair.container.poll() == []
    pair.clock.forward(5)
    (again,) = pair.container.poll()
    assert (again.id, again.tries, again.process_after) == (mail.id, 1, "2025-10-09 12:00:05")
    assert pair.container.claim([again]) == [mail.id]


def test_our_tasks_are_listed_by_their_tool(pair: Pair, stranger: Stranger) -> None:
    first = pair.host.insert_task("water", recurrence="0 9 * * *")
    second = pair.host.insert_task("feed", process_after="2025-10-11T00:00:00Z")
    rows = stranger.inbound(
        """SELECT series_id AS id, status, process_after, recurrence, content, MAX(seq) AS seq
           FROM messages_in WHERE kind = 'task' AND status IN ('pending', 'paused')
           GROUP BY series_id ORDER BY process_after ASC"""
    )
    assert [row["id"] for row in rows] == [first.id, second.id]
    assert [json.loads(row["content"])["prompt"] for row in rows] == ["water", "feed"]


def test_their_host_finds_nothing_to_add_to_our_files(pair: Pair, stranger: Stranger) -> None:
    wanted = {"series_id", "trigger", "source_session_id", "on_wake"}
    names = {row["name"] for row in stranger.inbound("PRAGMA table_info('messages_in')")}
    assert wanted <= names
    names = {row["name"] for row in stranger.inbound("PRAGMA table_info('delivered')")}
    assert names == {"message_out_id", "platform_message_id", "status", "delivered_at"}


def test_their_container_keeps_its_state_in_our_files(pair: Pair, stranger: Stranger) -> None:
    stranger.outbound(
        "INSERT OR REPLACE INTO session_state (key, value, updated_at)"
        " VALUES ('sdk_session_id', 's1', '2025-10-09T12:00:00.000Z')"
    )
    stranger.outbound(
        """INSERT INTO container_state (id, current_tool, tool_declared_timeout_ms,
             tool_started_at, updated_at) VALUES (1, 'Bash', 1000, 'a', 'b')
           ON CONFLICT (id) DO UPDATE SET current_tool = excluded.current_tool"""
    )
    pair.container.start("claude")
    assert pair.container.get_state("continuation:claude") == "s1"


def test_names_and_routing_written_by_either_host_are_read(pair: Pair, stranger: Stranger) -> None:
    stranger.inbound("DELETE FROM destinations")
    stranger.inbound(
        "INSERT INTO destinations (name, display_name, type, channel_type, platform_id,"
        " agent_group_id) VALUES ('peer', 'Peer', 'agent', NULL, NULL, 'ag-7')"
    )
    stranger.inbound(
        """INSERT INTO session_routing (id, channel_type, platform_id, thread_id)
           VALUES (1, 'telegram', '5', NULL) ON CONFLICT (id) DO UPDATE SET
           channel_type = excluded.channel_type, platform_id = excluded.platform_id,
           thread_id = excluded.thread_id"""
    )
    assert pair.container.send("x", to="peer").place == Place("agent", "ag-7", None)
    assert pair.container.send("x").place == Place("telegram", "5", None)


def test_spaced_json_of_others_is_read(pair: Pair, stranger: Stranger) -> None:
    stranger.reply("r1", {"text": "spaced out", "files": ["a"]})
    assert texts(pair.host.outbox()) == ["spaced out"]


def test_even_numbers_of_a_later_host_in_outbound_are_read(pair: Pair) -> None:
    """Later NanoClaw hosts write denials with even numbers into files without our CHECK."""
    with closing(sqlite3.connect(pair.path / "outbound.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(
            "INSERT INTO messages_out (id, seq, timestamp, kind, content)"
            " VALUES ('deny-1', 2, '', 'chat', '{\"text\":\"denied\"}')"
        )
    found = pair.container.mail(2)
    assert (found.id, found.text) == ("deny-1", "denied")
    assert pair.container.send("next").seq == 3
