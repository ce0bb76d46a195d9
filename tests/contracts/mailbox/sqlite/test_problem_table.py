"""In files: what went wrong for users of the same protocol elsewhere: one short test for each."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.contracts.mailbox.pair import CHAT, Pair
from tests.support.mail import MailFactory, leave_unfinished
from threadkeep.base.tx import Sql
from threadkeep.errors import Busy, Damaged, Invalid
from threadkeep.mailbox.attachments import collect
from threadkeep.mailbox.folder import Owner
from threadkeep.mailbox.host.host import Host

# Rows that are enough for SQLite to write into the file before the commit.
MUCH = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300) "
    "INSERT INTO session_state SELECT i, printf('%.*c', 1000, 'x'), '' FROM n"
)


@pytest.fixture
def pair(factory: MailFactory) -> Pair:
    return Pair(factory)


def test_no_poll_reads_all_that_was_ever_said(pair: Pair) -> None:
    folder = pair.ctx.folder
    asked = {"now": "", "limit": 1, "first": 1, "seq": 0, "rowid": 0}
    polls = {"poll", "poll_waking", "poll_system", "triggered", "count_due", "answered"}
    with folder.inbound.read(folder.beside_inbound) as tx:
        for name in sorted(polls | {"open_deliveries", "to_rearm"}):
            query = f"EXPLAIN QUERY PLAN {folder.inbound.queries[name]}"
            plan = [row[3] for row in tx.all(Sql(query), asked)]
            scans = [line for line in plan if line.startswith("SCAN") and "INDEX tk_" not in line]
            assert [line for line in scans if line != "SCAN CONSTANT ROW"] == [], name


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
        assert tx.one(Sql("PRAGMA busy_timeout")) == (int(patience * 1000),)


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
    host = pair.box.new_host(running=lambda: True)
    with pytest.raises(Busy):
        host.outbox()
    assert (pair.path / "outbound.db-journal").exists()


@pytest.mark.parametrize("name", ["in", "out"])
def test_both_files_have_a_rollback_journal_and_a_log_is_refused(pair: Pair, name: str) -> None:
    assert pair.value(name, "PRAGMA journal_mode") == "delete"
    pair.sql(name, "PRAGMA journal_mode = WAL")
    with pytest.raises(Damaged, match="write-ahead log"):
        pair.host.sweep()


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
