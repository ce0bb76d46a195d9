"""Later versions: what is about the files of SQLite."""

import itertools
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.mailbox.pair import CHAT, START, Pair
from tests.support.mail import MailFactory
from tests.support.nanoclaw import NanoContainer, make_folder
from tests.support.nanoclaw_host import NanoHost
from threadkeep.base.clock import iso
from threadkeep.base.presence import ExclusiveLock
from threadkeep.base.sqlite.tx import SqliteTx
from threadkeep.mailbox.container.container import Container
from threadkeep.mailbox.host.host import Host
from threadkeep.mailbox.rows import sqlite_form


@pytest.fixture
def pair(factory: MailFactory) -> Pair:
    return Pair(factory)


# ------------------------------------------------------------------ older files of ours


def make_older(pair: Pair) -> None:
    """Put the rule about numbers back that files of earlier builds have, and strangers' things."""
    (sql,) = pair.sql("out", "SELECT sql FROM sqlite_master WHERE name = 'messages_out'")[0]
    checked = sql.replace("INTEGER UNIQUE", "INTEGER UNIQUE CHECK (seq % 2 = 1)")
    assert checked != sql
    path = pair.path / "outbound.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        rows = connection.execute("SELECT rowid, * FROM messages_out").fetchall()
        connection.execute("DROP TABLE messages_out")
        connection.execute(checked)
        connection.execute("ALTER TABLE messages_out ADD COLUMN mood TEXT DEFAULT 'good'")
        connection.execute("CREATE INDEX stranger ON messages_out(mood)")
        connection.execute("CREATE TABLE token_usage_log (id)")
        marks = ", ".join("?" * len(rows[0]))
        names = "rowid, id, seq, in_reply_to, timestamp, deliver_after, recurrence, kind,"
        names += " platform_id, channel_type, thread_id, content"
        for row in rows:
            connection.execute(f"INSERT INTO messages_out ({names}) VALUES ({marks})", row)


def deny(pair: Pair) -> None:
    """Write as NanoClaw's host does: what is refused is left out without a word."""
    pair.sql(
        "out",
        "INSERT OR IGNORE INTO messages_out (id, seq, timestamp, kind, platform_id, channel_type,"
        " content) SELECT 'deny-1', max(seq) / 2 * 2 + 2, ?, 'chat', ?, ?, '{\"text\":\"no\"}'"
        " FROM messages_out",
        iso(pair.time[0]),
        CHAT.platform_id,
        CHAT.channel_type,
    )


def shape(pair: Pair) -> tuple[Any, ...]:
    rows = pair.sql("out", "SELECT rowid, * FROM messages_out ORDER BY rowid")
    names = pair.sql("out", "SELECT type, name FROM sqlite_master ORDER BY 1, 2")
    return rows, names


@pytest.mark.parametrize("who", ["container", "host"])
def test_an_older_file_takes_the_word_of_a_host(pair: Pair, who: str) -> None:
    for text in ("one", "two", "three"):
        pair.agent.send(text)
    pair.sql("out", "DELETE FROM messages_out WHERE seq = 3")
    make_older(pair)
    before = shape(pair)
    deny(pair)
    assert shape(pair) == before
    if who == "container":
        pair.box.new_container(clock=lambda: pair.time[0])
    else:
        pair.host.sweep()
    after = shape(pair)
    assert after[0] == before[0]
    assert set(after[1]) >= set(before[1])
    assert ("index", "stranger") in after[1]
    deny(pair)
    assert [m.text for m in pair.host.outbox()] == ["one", "three", "no"]
    assert pair.agent.send("four").seq == 7
    assert [one.what for one in pair.host.verify()] == []
    counted = pair.changes()
    pair.box.new_container(clock=lambda: pair.time[0])
    pair.host.sweep()
    assert pair.changes() == counted


def test_a_host_does_not_remake_the_file_of_an_agent_at_work(pair: Pair) -> None:
    pair.agent.send("one")
    make_older(pair)
    with ExclusiveLock(pair.ctx.folder.agent_lock_path, "an agent"):
        before = pair.changes()
        pair.host.sweep()
        assert pair.changes() == before
    pair.host.sweep()
    deny(pair)
    assert [m.text for m in pair.host.outbox()] == ["one", "no"]


@pytest.mark.parametrize("last", range(1, 7))
def test_a_remake_that_is_cut_off_leaves_the_file_as_it_was(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, last: int
) -> None:
    pair.agent.send("one")
    make_older(pair)
    before = shape(pair)
    real, numbers = SqliteTx._execute, itertools.count(1)

    def execute(tx: SqliteTx, sql: str, *rest: Any) -> Any:
        changes = "tk_remade" in sql or sql.startswith(("DROP", "CREATE INDEX"))
        if changes and next(numbers) == last:
            raise KeyboardInterrupt
        return real(tx, sql, *rest)

    monkeypatch.setattr(SqliteTx, "_execute", execute)
    with pytest.raises(KeyboardInterrupt):
        pair.box.new_container(clock=lambda: pair.time[0])
    monkeypatch.undo()
    assert shape(pair) == before
    pair.box.new_container(clock=lambda: pair.time[0])
    assert shape(pair)[0] == before[0]
    deny(pair)
    assert [m.text for m in pair.host.outbox()] == ["one", "no"]


KILLED = """
import os, signal, sys
from threadkeep.base.sqlite.tx import SqliteTx
from threadkeep.mailbox import Container

real = SqliteTx._execute

def execute(tx, sql, *rest):
    if sql.startswith(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return real(tx, sql, *rest)

SqliteTx._execute = execute
Container(sys.argv[1])
"""


@pytest.mark.parametrize("at", ["DROP TABLE", "CREATE INDEX"])
def test_a_process_killed_in_a_remake_leaves_the_file_as_it_was(pair: Pair, at: str) -> None:
    for letter in "abc":
        pair.agent.send(letter * 1_500_000)  # more than SQLite keeps in memory
    make_older(pair)
    before = shape(pair)
    child = subprocess.run([sys.executable, "-c", KILLED, str(pair.path), at], check=False)
    assert child.returncode == -signal.SIGKILL
    assert (pair.path / "outbound.db-journal").stat().st_size > 0
    pair.host.sweep()  # undoes what was left, then does it itself
    assert shape(pair)[0] == before[0]
    assert set(shape(pair)[1]) >= set(before[1])
    assert pair.value("out", "PRAGMA integrity_check") == "ok"
    deny(pair)
    assert [m.text[:2] for m in pair.host.outbox()] == ["aa", "bb", "cc", "no"]


def test_a_file_that_cannot_be_remade_holds_up_no_sweep(pair: Pair) -> None:
    pair.agent.send("one")
    make_older(pair)
    (sql,) = pair.sql("out", "SELECT sql FROM sqlite_master WHERE name = 'messages_out'")[0]
    pair.sql("out", "DROP TABLE messages_out")
    pair.sql("out", f"{sql} WITHOUT ROWID")  # what is copied has numbers of rows
    pair.host.insert_task("x", id="t1", process_after=pair.time[0])
    assert pair.host.sweep().due == 1


def test_a_table_that_another_refers_to_is_left_as_it_is(pair: Pair) -> None:
    pair.agent.send("one")
    make_older(pair)
    pair.sql("out", "CREATE TABLE more (id REFERENCES messages_out(id) ON DELETE CASCADE)")
    pair.sql("out", "INSERT INTO more SELECT id FROM messages_out")
    pair.box.new_container(clock=lambda: pair.time[0]).send("two")
    pair.host.sweep()
    assert pair.value("out", "SELECT count(*) FROM more") == 1


def test_mail_is_written_in_the_form_of_what_is_there(pair: Pair) -> None:
    assert pair.agent.send("one").timestamp == iso(START)
    theirs = NanoContainer(pair.path, lambda: pair.time[0])
    theirs.write("chat", {"text": "two"}, channel_type="telegram", platform_id="chat-1")
    pair.later(1)
    assert pair.agent.send("three").timestamp == sqlite_form(START + 1000)


@pytest.mark.parametrize(
    "delivered_at, word",
    [
        ("2026-11-17T03:56:15.780Z", "script-skip:error"),
        ("2026-11-17 03:56:15", "failed"),
        (None, "failed"),
    ],
)
def test_a_failed_run_is_told_in_the_word_of_the_host(
    tmp_path: Path, delivered_at: str | None, word: str
) -> None:
    path = tmp_path / "ag-1" / "sess-1"
    make_folder(path)
    theirs = NanoHost(path, lambda: START)
    theirs.post("t", {"prompt": "look"}, kind="task")
    theirs.post("m", {"text": "x"})
    if delivered_at is not None:
        sql = "INSERT INTO delivered (message_out_id, delivered_at) VALUES ('o', :at)"
        theirs.files.run("inbound", sql, {"at": delivered_at})
    agent = Container(path, clock=lambda: START)
    agent.fail(agent.claim(agent.poll()), "no")
    rows = theirs.files.run("outbound", "SELECT message_id, status FROM processing_ack")
    assert {row["message_id"]: row["status"] for row in rows} == {"t": word, "m": "failed"}
    host = Host(path, clock=lambda: START)
    host.sweep()
    assert {one.id: one.reason for one in host.dead_letters()} == {"t": "no", "m": "no"}


# ------------------------------------------------------------------ who is alive


def foreign_claim(pair: Pair) -> str:
    """Let a container of another program take mail, where one of ours was before."""
    mail = pair.host.send("x")
    theirs = NanoContainer(pair.path, lambda: pair.time[0])
    theirs.mark("processing", mail.id)
    return mail.id


@pytest.mark.parametrize("died", [True, False])
def test_a_lock_file_says_nothing_about_a_container_of_another_program(
    pair: Pair, *, died: bool
) -> None:
    pair.agent.start()
    pair.agent.stop()
    if died:
        pair.ctx.folder.agent_lock_path.write_bytes(b".")
    name = foreign_claim(pair)
    pair.beat()
    swept = pair.host.sweep()
    assert (swept.reset, [claim.message_id for claim in pair.host.claims()]) == (None, [name])
    pair.later(61)
    assert pair.host.sweep().reset is not None


def test_a_tool_that_may_take_its_time_is_a_sign_of_life(pair: Pair) -> None:
    pair.agent.start()
    pair.agent.stop()
    foreign_claim(pair)
    pair.sql(
        "out",
        "INSERT INTO container_state VALUES (1, 'Bash', 600000, ?, ?)",
        *(iso(START), iso(START)),
    )
    pair.later(599)
    assert pair.host.sweep().reset is None
    pair.later(2)
    assert pair.host.sweep().reset is not None


def test_a_tool_that_was_begun_in_the_future_is_none(pair: Pair) -> None:
    foreign_claim(pair)
    ahead = iso(START + 10 * 86_400_000)
    pair.sql("out", f"INSERT INTO container_state VALUES (1, 'Bash', 1000, '{ahead}', '{ahead}')")
    assert pair.host.sweep().reset is not None
