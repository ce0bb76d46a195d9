"""What we write so that every version understands it, and what our older files must learn."""

import itertools
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.contracts.mailbox.pair import CHAT, START, Pair
from tests.support.nanoclaw import NanoContainer, compact, make_folder
from tests.support.nanoclaw_host import NanoHost
from threadkeep.base.clock import iso
from threadkeep.base.presence import ExclusiveLock
from threadkeep.base.tx import Tx
from threadkeep.mailbox.container.container import Container
from threadkeep.mailbox.context import DEFAULT, run_pause_ms
from threadkeep.mailbox.host.host import Host
from threadkeep.mailbox.records import Destination, Place
from threadkeep.mailbox.rows import like, read_moment, sqlite_form, whole_iso

MOMENTS = st.integers(min_value=0, max_value=4_000_000_000_000)


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


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
        Container(pair.path, clock=lambda: pair.time[0])
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
    Container(pair.path, clock=lambda: pair.time[0])
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
    real, numbers = Tx.execute, itertools.count(1)

    def execute(tx: Tx, sql: str, *rest: Any) -> Any:
        changes = "tk_remade" in sql or sql.startswith(("DROP", "CREATE INDEX"))
        if changes and next(numbers) == last:
            raise KeyboardInterrupt
        return real(tx, sql, *rest)

    monkeypatch.setattr(Tx, "execute", execute)
    with pytest.raises(KeyboardInterrupt):
        Container(pair.path, clock=lambda: pair.time[0])
    monkeypatch.undo()
    assert shape(pair) == before
    Container(pair.path, clock=lambda: pair.time[0])
    assert shape(pair)[0] == before[0]
    deny(pair)
    assert [m.text for m in pair.host.outbox()] == ["one", "no"]


KILLED = """
import os, signal, sys
from threadkeep.base.tx import Tx
from threadkeep.mailbox import Container

real = Tx.execute

def execute(tx, sql, *rest):
    if sql.startswith(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return real(tx, sql, *rest)

Tx.execute = execute
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
    Container(pair.path, clock=lambda: pair.time[0]).send("two")
    pair.host.sweep()
    assert pair.value("out", "SELECT count(*) FROM more") == 1


# ------------------------------------------------------------------ times


@given(MOMENTS, MOMENTS)
def test_a_time_sorts_as_text_behind_the_one_it_follows(first: int, second: int) -> None:
    for form in (iso, sqlite_form):
        written = form(min(first, second))
        following = like(written, max(first, second))
        assert written <= following
        assert (following[10] == " ") is (form is sqlite_form)
    assert like(None, first) == like("no time", first) == iso(first)


@given(MOMENTS)
def test_a_pause_is_a_time_without_milliseconds(ms: int) -> None:
    assert read_moment(whole_iso(ms)) == ms // 1000 * 1000
    assert "." not in whole_iso(ms)


def test_mail_is_written_in_the_form_of_what_is_there(pair: Pair) -> None:
    assert pair.agent.send("one").timestamp == iso(START)
    theirs = NanoContainer(pair.path, lambda: pair.time[0])
    theirs.write("chat", {"text": "two"}, channel_type="telegram", platform_id="chat-1")
    pair.later(1)
    assert pair.agent.send("three").timestamp == sqlite_form(START + 1000)


def test_all_times_of_messages_in_are_iso(pair: Pair) -> None:
    pair.host.send("x")
    pair.host.insert_task("look", recurrence="@hourly", process_after=START)
    pair.claim()
    pair.host.sweep()
    pair.later(10)
    pair.agent.complete(pair.claim())
    pair.host.sweep()
    times = pair.sql("in", "SELECT timestamp, process_after FROM messages_in")
    found = [time for row in times for time in row if time is not None]
    assert len(found) > 4
    assert all("T" in time and time.endswith("Z") for time in found)


# ------------------------------------------------------------------ words


@given(st.integers(min_value=-5, max_value=10_000))
def test_pauses_of_a_failing_series_double_up_to_an_hour(failures: int) -> None:
    minutes = run_pause_ms(DEFAULT, failures) / 60_000
    ladder = [0, 2, 4, 8, 16, 32, 60]
    assert minutes == (0 if failures < 0 else ladder[min(failures, 6)])


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


def test_where_a_host_of_ours_was_its_word_is_taken(pair: Pair) -> None:
    sql = "INSERT INTO delivered (message_out_id, delivered_at) VALUES ('o', ?)"
    pair.sql("in", sql, iso(START))
    task = pair.host.insert_task("look", process_after=START)
    pair.agent.claim([task.id])
    pair.agent.fail([task.id], "no")
    assert pair.value("out", "SELECT status FROM processing_ack") == "failed"


def test_a_failing_series_is_told_of_once_when_it_is_held(pair: Pair) -> None:
    task = pair.host.insert_task("look", recurrence="* * * * *", process_after=START)
    starts = 0
    for _ in range(12):
        pair.later(3600 + 60)
        for mail in pair.agent.poll(200):
            if mail.kind == "task":
                starts += 1
                pair.agent.claim([mail])
                pair.agent.fail([mail], "broken")
            else:
                pair.agent.complete([mail])
        pair.host.sweep()
    assert starts == 8
    (live,) = pair.host.tasks()
    assert (live.status, live.series_id) == ("paused", task.id)
    assert len([note for note in pair.notes() if "on hold" in note]) == 1
    pair.host.resume_task(task.id)
    pair.later(60)
    (mail,) = [mail for mail in pair.agent.poll() if mail.kind == "task"]
    pair.agent.claim([mail])
    pair.agent.complete([mail])
    pair.host.sweep()
    assert [run.status for run in pair.host.tasks()] == ["pending"]


def test_destinations_have_what_their_type_has_and_nothing_else(pair: Pair) -> None:
    names = [
        Destination("chat", "Chat", "channel", "telegram", "42", "ag-1"),
        Destination("peer", "Peer", "agent", "telegram", "42", "ag-2"),
    ]
    pair.host.write_destinations(names)
    sql = "SELECT channel_type, platform_id, agent_group_id FROM destinations ORDER BY name"
    assert pair.sql("in", sql) == [("telegram", "42", None), (None, None, "ag-2")]


def test_columns_of_later_versions_keep_what_they_hold(pair: Pair) -> None:
    pair.host.write_destinations([Destination("a", "A", "channel", "telegram", "1")])
    pair.agent.set_state("mood", "good")
    pair.sql("in", "ALTER TABLE destinations ADD COLUMN thread_id_override TEXT")
    pair.sql("in", "UPDATE destinations SET thread_id_override = 'T9'")
    pair.sql("out", "ALTER TABLE session_state ADD COLUMN turn INTEGER")
    pair.sql("out", "UPDATE session_state SET turn = 7")
    names = [Destination(name, name, "channel", "telegram", "2") for name in ("a", "b")]
    pair.host.write_destinations(names)
    pair.agent.set_state("mood", "better")
    sql = "SELECT name, platform_id, thread_id_override FROM destinations ORDER BY name"
    assert pair.sql("in", sql) == [("a", "2", "T9"), ("b", "2", None)]
    assert pair.sql("out", "SELECT value, turn FROM session_state") == [("better", 7)]
    pair.host.write_destinations(names[1:])
    assert [one.name for one in pair.host.destinations()] == ["b"]


def test_a_very_old_task_is_its_prompt(pair: Pair) -> None:
    task = pair.host.insert_task("look", recurrence="@hourly", process_after=START)
    pair.sql("in", "UPDATE messages_in SET content = 'water the plants' WHERE id = ?", task.id)
    (mail,) = pair.agent.poll()
    assert mail.text == "water the plants"
    pair.agent.claim([mail])
    pair.agent.complete([mail])
    pair.host.sweep()
    assert [run.text for run in pair.host.tasks()] == ["water the plants"]
    assert [one for one in pair.host.verify() if one.severity == "error"] == []


def test_an_answer_to_an_echo_goes_to_the_chat_of_the_session(pair: Pair) -> None:
    echo = Place("session-echo", "sess-2")
    assert not echo.known
    pair.host.insert_message("chat", {"text": "said elsewhere"}, place=echo, trigger=False)
    assert pair.agent.send("hello").place == CHAT


def test_a_number_of_both_sides_means_the_one_that_failed(pair: Pair) -> None:
    pair.host.send("in")
    pair.agent.send("out")
    pair.sql("out", "DELETE FROM tk_row_hash")
    pair.sql("out", "UPDATE messages_out SET seq = 2, content = 'no JSON'")
    assert len(pair.host.drain({}).failed) == 1
    assert pair.host.retry(2).__class__.__name__ == "Delivery"


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


# ------------------------------------------------------------------ ids that come again


def test_ends_of_mail_that_is_gone_are_dropped_at_a_start(pair: Pair) -> None:
    mail = pair.host.send("x")
    pair.agent.claim([mail.id])
    pair.agent.complete([mail.id])
    pair.sql("in", "DELETE FROM messages_in")
    pair.agent.start()
    assert pair.sql("out", "SELECT * FROM processing_ack") == []
    pair.sql(
        "in",
        "INSERT INTO messages_in (id, seq, kind, timestamp, content) VALUES (?, 2, 'chat', ?, ?)",
        *(mail.id, iso(START), compact({"text": "anew"})),
    )
    assert [m.text for m in pair.agent.poll()] == ["anew"]
