"""What went wrong for users of the same protocol elsewhere: one short test for each.

Each is impossible here or handled; most have longer tests beside what they are about.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.contracts.mailbox.pair import CHAT, Pair
from tests.contracts.mailbox.postal import Channel
from tests.support.mail import leave_unfinished
from threadkeep.errors import Busy, Conflict, Damaged, Invalid
from threadkeep.mailbox.adapters import NotNow, Outgoing, Refused
from threadkeep.mailbox.attachments import collect
from threadkeep.mailbox.container.agent_loop import step
from threadkeep.mailbox.container.container import Container
from threadkeep.mailbox.context import CatchUp, Policy
from threadkeep.mailbox.folder import Owner
from threadkeep.mailbox.host.host import Host
from threadkeep.mailbox.records import Mail

HOUR = 3600
# Rows that are enough for SQLite to write into the file before the commit.
MUCH = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300) "
    "INSERT INTO session_state SELECT i, printf('%.*c', 1000, 'x'), '' FROM n"
)


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


class Runner:
    """Notes what a sweep asks for."""

    def __init__(self, *, running: bool) -> None:
        self.running = running
        self.said: list[str] = []

    def is_running(self) -> bool:
        return self.running

    def start(self) -> bool:
        self.said.append("start")
        self.running = True
        return True

    def stop(self, reason: str) -> None:
        self.said.append(reason)
        self.running = False


def drain(pair: Pair, channel: Channel) -> None:
    pair.host.drain({"telegram": channel})


# ---------------------------------------------------------------------- delivery


def test_words_said_by_a_tool_and_again_at_the_end_of_a_turn_are_sent_once(pair: Pair) -> None:
    def handler(mails: list[Mail]) -> str:
        pair.agent.send("done", in_reply_to=mails[-1].id)
        return "done"

    pair.host.send("do it")
    step(pair.agent, handler)
    assert [mail.text for mail in pair.host.outbox()] == ["done"]


def test_overlapping_drains_send_nothing_twice(pair: Pair) -> None:
    class Meanwhile(Channel):
        def send(self, mail: Outgoing) -> str | None:
            assert Host(pair.path).drain({"telegram": self}).busy
            return super().send(mail)

    pair.agent.send("hello")
    channel = Meanwhile()
    drain(pair, channel)
    assert channel.texts == ["hello"]


def test_mail_without_a_channel_or_to_one_that_is_offline_is_not_called_delivered(
    pair: Pair,
) -> None:
    pair.agent.send("hello")
    assert pair.host.drain({}).deferred
    channel = Channel(*[NotNow("offline")] * 5)
    for _ in range(6):
        assert pair.sql("in", "SELECT * FROM delivered") == []
        pair.later(60)
        drain(pair, channel)
    assert channel.texts == ["hello"]


def test_a_delivery_that_failed_is_told_to_the_agent(pair: Pair) -> None:
    pair.agent.send("hello")
    drain(pair, Channel(Refused("the chat is closed")))
    (note,) = pair.notes()
    assert "hello" in note
    assert "the chat is closed" in note


def test_attempts_are_counted_across_restarts(pair: Pair) -> None:
    pair.agent.send("hello")
    for _ in range(3):
        host = Host(pair.path, clock=lambda: pair.time[0])
        host.drain({"telegram": Channel(OSError("gone"))})
        pair.later(60)
    assert pair.value("in", "SELECT state FROM tk_delivery") == "failed"


def test_reactions_to_mail_of_a_channel_name_it_as_the_channel_does(pair: Pair) -> None:
    mail = pair.host.send("hello", id="77:ag-1")
    assert pair.agent.react(mail.seq or 0, "+1").content["messageId"] == "77"


# ---------------------------------------------------------------------- answers and polls


def test_what_failed_stays_failed(pair: Pair) -> None:
    mail = pair.host.send("hello")
    pair.claim()
    pair.agent.fail([mail], "no such file")
    pair.host.sync()
    pair.sql("in", "UPDATE messages_in SET status = 'completed' WHERE id = ?", mail.id)
    assert pair.status(mail.id) == "failed"
    assert pair.host.dead_letters()[0].reason == "no such file"


def test_an_id_that_a_platform_uses_twice_loses_no_mail(pair: Pair) -> None:
    first = pair.host.send("one", id="m-1")
    assert pair.host.send("one", id="m-1").id == first.id
    assert pair.host.send("two", id="m-1").id.startswith("m-1~")
    assert [mail.text for mail in pair.host.inbox()] == ["one", "two"]


def test_a_backlog_comes_oldest_first_and_goes_on_without_the_host(pair: Pair) -> None:
    for number in range(25):
        pair.host.send(str(number))
    seen: list[str] = []
    while mails := pair.agent.poll():
        pair.agent.complete(pair.agent.claim(mails))
        seen += [mail.text for mail in mails]
    assert seen == [str(number) for number in range(25)]


def test_mail_for_the_program_hides_no_chat(pair: Pair) -> None:
    for number in range(20):
        pair.host.answer(f"q-{number}", "yes")
    pair.host.send("hello")
    assert [mail.text for mail in pair.agent.poll()] == ["hello"]


def test_no_poll_reads_all_that_was_ever_said(pair: Pair) -> None:
    folder = pair.ctx.folder
    asked = {"now": "", "limit": 1, "first": 1, "seq": 0, "rowid": 0}
    polls = {"poll", "poll_waking", "poll_system", "triggered", "count_due", "answered"}
    with folder.inbound.read(folder.beside_inbound) as tx:
        for name in sorted(polls | {"open_deliveries", "to_rearm"}):
            query = f"EXPLAIN QUERY PLAN {folder.inbound.queries[name]}"
            plan = [row[3] for row in tx.execute(query, asked)]
            scans = [line for line in plan if line.startswith("SCAN") and "INDEX tk_" not in line]
            assert [line for line in scans if line != "SCAN CONSTANT ROW"] == [], name


# ---------------------------------------------------------------------- the two files


def test_writers_of_one_container_never_get_the_same_number(pair: Pair) -> None:
    def write(name: str) -> None:
        container = Container(pair.path)
        for number in range(10):
            container.send(f"{name} {number}")

    writers = [threading.Thread(target=write, args=(name,)) for name in "abc"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    numbers = [mail.seq for mail in pair.host.outbox()]
    assert numbers == list(range(1, 60, 2))


def test_a_lock_met_while_opening_leaves_the_patience_as_it_was(pair: Pair) -> None:
    file = pair.agent.context.folder.outbound
    patience = file.budget
    with closing(sqlite3.connect(file.path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        file.budget = 0.01
        with pytest.raises(Busy):
            pair.agent.send("too early")
        other.execute("ROLLBACK")
    file.budget = patience
    with file.write() as tx:
        assert tx.execute("PRAGMA busy_timeout").fetchone() == (int(patience * 1000),)


def test_mail_of_a_tool_process_says_what_it_answers(pair: Pair) -> None:
    mail = pair.host.send("hello")
    assert Container(pair.path).send("hi").in_reply_to == mail.id


def test_what_a_killed_writer_left_is_undone_by_the_reader(pair: Pair) -> None:
    sent = pair.agent.send("hello")
    leave_unfinished(pair.path / "outbound.db", MUCH)
    with (
        pytest.raises(sqlite3.OperationalError),
        closing(sqlite3.connect(f"file:{pair.path}/outbound.db?mode=ro", uri=True)) as plain,
    ):
        plain.execute("SELECT * FROM messages_out").fetchall()
    assert [mail.id for mail in pair.host.outbox()] == [sent.id]


def test_a_commit_of_a_living_writer_is_waited_for_and_not_undone(pair: Pair) -> None:
    pair.agent.send("hello")
    leave_unfinished(pair.path / "outbound.db", MUCH)
    host = Host(pair.path, running=lambda: True)
    with pytest.raises(Busy):
        host.outbox()
    assert (pair.path / "outbound.db-journal").exists()


@pytest.mark.parametrize("name", ["in", "out"])
def test_both_files_have_a_rollback_journal_and_a_log_is_refused(pair: Pair, name: str) -> None:
    assert pair.value(name, "PRAGMA journal_mode") == "delete"
    pair.sql(name, "PRAGMA journal_mode = WAL")
    with pytest.raises(Damaged, match="write-ahead log"):
        pair.host.sweep()


def test_a_poll_never_reads_from_an_older_look(pair: Pair) -> None:
    other = Container(pair.path)
    for number in range(3):
        pair.host.send(str(number))
        assert len(other.poll()) == number + 1


# ---------------------------------------------------------------------- containers


def test_what_an_earlier_container_left_does_not_end_the_next_one(pair: Pair) -> None:
    pair.host.send("hello")
    pair.beat()
    pair.claim()
    pair.later(HOUR)
    runner = Runner(running=False)
    pair.host.sweep(runner)
    pair.later(10)
    pair.host.sweep(runner)
    pair.host.sweep(runner)
    assert runner.said == ["start"]


@pytest.fixture
def in_new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_new_york")
def test_a_fresh_claim_is_fresh_on_a_machine_far_from_greenwich(pair: Pair) -> None:
    pair.host.send("hello")
    pair.claim()
    pair.later(30)
    runner = Runner(running=True)
    assert pair.host.sweep(runner).stuck is None
    pair.later(31)
    assert pair.host.sweep(runner).stuck == "claim-stuck"


def test_a_second_container_is_refused_and_none_is_started_beside_a_stray_one(pair: Pair) -> None:
    pair.host.send("hello")
    runner = Runner(running=False)  # it knows nothing of the one that runs
    with Container(pair.path) as stray:
        stray.start()
        with pytest.raises(Conflict):
            Container(pair.path).start()
        pair.host.sweep(runner)
    assert runner.said == []


# ---------------------------------------------------------------------- times and series


@pytest.mark.parametrize("form", ["%Y-%m-%dT%H:%M:%S.000Z", "%Y-%m-%d %H:%M:%S"])
def test_mail_is_due_in_either_form_of_time(pair: Pair, form: str) -> None:
    an_hour_ago = time.strftime(form, time.gmtime(pair.time[0] / 1000 - HOUR))
    mail = pair.host.send("hello")
    sent = pair.agent.send("hi")
    pair.sql("in", "UPDATE messages_in SET process_after = ? WHERE id = ?", an_hour_ago, mail.id)
    pair.sql("out", "UPDATE messages_out SET deliver_after = ?", an_hour_ago)
    assert [found.id for found in pair.agent.poll()] == [mail.id]
    assert pair.host.drain({"telegram": Channel()}).sent == (sent.id,)


def test_a_series_neither_dies_with_a_run_nor_forks(pair: Pair) -> None:
    task = pair.host.insert_task("report", recurrence="0 9 * * *", process_after=pair.time[0])
    pair.claim()
    pair.agent.fail([task], "no paper")
    for _ in range(3):
        pair.host.sweep()
    assert [(mail.status, bool(mail.recurrence)) for mail in pair.host.inbox(kind="task")] == [
        ("failed", False),
        ("pending", True),
    ]


def test_a_bad_cron_is_refused_and_one_of_another_host_is_told_once(pair: Pair) -> None:
    with pytest.raises(Invalid):
        pair.host.insert_task("report", recurrence="61 * * * *")
    task = pair.host.insert_task("report")
    change = "UPDATE messages_in SET recurrence = '61 * * * *', status = 'completed' WHERE id = ?"
    pair.sql("in", change, task.id)
    for _ in range(3):
        pair.host.sweep()
    assert len(pair.notes()) == 1


@pytest.mark.parametrize("catch_up, late", [("collapse", 1), ("all", 4), ("skip", 0)])
def test_what_happens_to_missed_runs_is_a_choice(
    tmp_path: Path, catch_up: CatchUp, late: int
) -> None:
    pair = Pair(tmp_path, policy=Policy(catch_up=catch_up))
    pair.host.insert_task("report", recurrence="0 * * * *")
    pair.later(4 * HOUR)
    runs = 0
    for _ in range(10):
        pair.host.sweep()
        taken = pair.claim()
        runs += len(taken)
        pair.agent.complete(taken)
    assert runs == late


# ---------------------------------------------------------------------- files and rights


def test_a_word_of_the_host_needs_nothing_of_the_agents_file(pair: Pair) -> None:
    pair.host.note("denied")
    assert pair.host.outbox() == []


def test_no_file_is_written_or_read_outside_of_the_folder(pair: Pair, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "m-1").mkdir(parents=True)
    (outside / "m-1" / "secret").write_bytes(b"secret")
    for box in ("inbox", "outbox"):
        path = pair.path / box
        if path.exists():
            path.rmdir()
        path.symlink_to(outside)
    with pytest.raises(Invalid):
        pair.host.send("look", attachments=[{"name": "a.txt", "data": "aGk="}])
    found = collect(pair.path, "m-1", ["secret", "../../secret", "/etc/passwd"])
    assert (found.files, len(found.skipped)) == ([], 3)
    assert [path.name for path in outside.iterdir()] == ["m-1"]


def test_the_folder_belongs_to_whom_the_agent_runs_as(tmp_path: Path) -> None:
    owner = Owner(65534, 65534) if os.geteuid() == 0 else Owner(os.getuid(), os.getgid())
    Host.create(tmp_path / "ag-1" / "sess-1", owner=owner).send("hello", place=CHAT)
    places = [tmp_path / "ag-1" / "sess-1", *(tmp_path / "ag-1" / "sess-1").iterdir()]
    assert {(p.stat().st_uid, p.stat().st_gid) for p in places} == {tuple(owner)}
