"""The verifier of a session folder: whatever is wrong is found, and nothing is changed."""

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.contracts.mailbox.pair import START, Pair, as_nanoclaw_left_it
from tests.support.mail import MailFactory
from threadkeep.mailbox.folder import Folder
from threadkeep.mailbox.records import Place
from threadkeep.mailbox.verification import Problem, verify
from threadkeep.testing import MailboxFactory

OURS_IN = ("tk_meta", "tk_delivery", "tk_cursor", "tk_dead", "tk_hops", "tk_row_hash")


@pytest.fixture(scope="module")
def original() -> Iterator[Path]:
    """A folder in which everything has happened once, and all is well."""
    with MailboxFactory() as factory:
        yield well(Pair(factory))


def well(pair: Pair) -> Path:
    mail = pair.host.send("hello", attachments=[{"name": "a.txt", "data": "aGk="}])
    task = pair.host.insert_task("report", recurrence="0 9 * * *", process_after=START)
    failed = pair.host.send("bad")
    pair.claim()
    pair.agent.send("hi", files=[("b.txt", b"hi")], in_reply_to=mail.id)
    pair.agent.complete([mail.id, task.id])
    pair.agent.fail([failed.id], "no")
    pair.host.sync()
    pair.host.retry(failed.id)
    pair.beat()
    return pair.path


@pytest.fixture
def pair(original: Path, factory: MailFactory) -> Pair:
    pair = Pair(factory)
    shutil.rmtree(pair.path)
    shutil.copytree(original, pair.path)
    return pair


def picture(path: Path) -> dict[str, tuple[int, int, bytes]]:
    found = {}
    for file in sorted(path.rglob("*")):
        info = os.lstat(file)
        plain = file.is_file() and not file.is_symlink()
        found[str(file)] = (info.st_mode, info.st_mtime_ns, file.read_bytes() if plain else b"")
    return found


def found(pair: Pair) -> list[Problem]:
    """Verify, and make sure that nothing was changed by it."""
    before = picture(pair.path)
    problems = pair.host.verify()
    assert picture(pair.path) == before
    return problems


def only(pair: Pair, severity: str = "error") -> str:
    """Return what the one problem says."""
    (problem,) = found(pair)
    assert problem.severity == severity
    assert problem.hint
    return f"{problem.where} {problem.what}"


def test_a_sound_folder_has_no_problems(pair: Pair) -> None:
    assert found(pair) == []
    assert verify(pair.path) == []
    assert verify(str(pair.path)) == []
    assert verify(Folder(pair.path), read_only=False) == []


def test_a_folder_of_nanoclaws_is_sound(pair: Pair) -> None:
    as_nanoclaw_left_it(pair)
    for (name,) in pair.sql("in", "SELECT name FROM sqlite_master WHERE type = 'trigger'"):
        pair.sql("in", f"DROP TRIGGER {name}")
    for table in OURS_IN:
        pair.sql("in", f"DROP TABLE {table}")
    pair.sql("out", "DROP TABLE container_state")
    assert found(pair) == []


def test_an_older_folder_lacks_columns(pair: Pair) -> None:
    for (name,) in pair.sql("in", "SELECT name FROM sqlite_master WHERE type = 'trigger'"):
        pair.sql("in", f"DROP TRIGGER {name}")
    pair.sql("in", "ALTER TABLE messages_in DROP COLUMN source_session_id")
    assert only(pair, "warning") == "inbound.db: messages_in lacks the column source_session_id"


# ------------------------------------------------------------------ rows

BAD_MAIL = [
    (
        "UPDATE messages_in SET status = 'processing' WHERE seq = 2",
        "warning",
        "status 'processing'",
    ),
    ("UPDATE messages_in SET kind = 'telepathy' WHERE seq = 2", "warning", "kind 'telepathy'"),
    ("UPDATE messages_in SET tries = NULL WHERE seq = 2", "warning", "no count of tries"),
    ("UPDATE messages_in SET seq = NULL WHERE seq = 2", "error", "has no number"),
    ("UPDATE messages_in SET timestamp = 'today' WHERE seq = 2", "warning", "no time but 'today'"),
    (
        "UPDATE messages_in SET process_after = 'soon' WHERE status = 'pending' AND kind = 'task'",
        "error",
        "waits for 'soon', which is not a time",
    ),
    (
        "UPDATE messages_in SET recurrence = 'often' WHERE recurrence IS NOT NULL",
        "error",
        "'often'",
    ),
    ("UPDATE messages_in SET content = 'plain words' WHERE seq = 2", "warning", "not JSON"),
    ("UPDATE messages_in SET content = x'7b7d' WHERE seq = 2", "error", "blob as its content"),
    (
        "UPDATE messages_in SET content = 'words' WHERE kind = 'task' AND status = 'pending'",
        "warning",
        "not JSON",
    ),
]


@pytest.mark.parametrize("change, severity, said", BAD_MAIL)
def test_odd_rows_of_mail_are_found(pair: Pair, change: str, severity: str, said: str) -> None:
    pair.sql("in", change)
    assert said in only(pair, severity)


BAD_OUT = [
    ("UPDATE messages_out SET timestamp = 'now'", "warning", "no time but 'now'"),
    ("UPDATE messages_out SET deliver_after = 'soon'", "error", "waits for 'soon'"),
    ("UPDATE messages_out SET content = 'words'", "error", "not JSON"),
    ("UPDATE messages_out SET content = x'00'", "error", "not text, or too long"),
    ("UPDATE messages_out SET kind = 'odd'", "warning", "kind 'odd'"),
    ("UPDATE messages_out SET seq = NULL", "error", "has no number"),
    ('UPDATE messages_out SET content = \'{"files":["../x"]}\'', "error", "file '../x'"),
    ('UPDATE messages_out SET content = \'{"files":["c.txt"]}\'', "warning", "not there"),
]


@pytest.mark.parametrize("change, severity, said", BAD_OUT)
def test_odd_rows_of_the_agent_are_found(pair: Pair, change: str, severity: str, said: str) -> None:
    pair.sql("out", "DELETE FROM tk_row_hash")
    pair.sql("out", change)
    assert said in only(pair, severity)


@pytest.mark.parametrize(
    "time, due",
    [
        ("2020-01-01T00:00:00Z", True),
        ("2020-01-01 00:00:00", True),
        ("2020-01-01T00:00:00.000+02:00", True),
        ("2460000.5", True),
        ("2020-01-01T00:00:00.000+0200", False),
        ("2020-W01-1", False),
        ("20200101", False),
    ],
)
def test_mail_that_is_never_due_is_found_and_no_other(pair: Pair, time: str, due: bool) -> None:  # noqa: FBT001
    mail = pair.host.send("x")
    pair.sql("in", "UPDATE messages_in SET process_after = ? WHERE id = ?", time, mail.id)
    assert (mail.id in [one.id for one in pair.agent.poll(200)]) is due
    assert [problem.what for problem in found(pair)] == (
        [] if due else [f"waits for '{time}', which is not a time"]
    )


def test_words_and_numbers_of_other_versions_are_no_damage(pair: Pair) -> None:
    mail = pair.host.send("x")
    pair.sql("in", "UPDATE messages_in SET status = 'cancelled' WHERE id = ?", mail.id)
    pair.sql("out", "DELETE FROM tk_row_hash")
    pair.sql(
        "out", "UPDATE messages_out SET seq = 2 WHERE seq = (SELECT min(seq) FROM messages_out)"
    )
    pair.sql(
        "out", "INSERT INTO processing_ack VALUES (?, 'script-skip:why', '2026-01-01')", mail.id
    )
    assert found(pair) == []


def test_a_number_given_twice_is_found(pair: Pair) -> None:
    without_rules(pair, "in", "messages_in")
    pair.sql("in", "UPDATE messages_in SET seq = 4 WHERE seq = 2")
    assert only(pair) == "messages_in number 4 is given to 2 messages"


def without_rules(pair: Pair, name: str, table: str) -> None:
    """Rewrite the table without its constraints, as another program might have made it."""
    for (trigger,) in pair.sql(name, "SELECT name FROM sqlite_master WHERE type = 'trigger'"):
        pair.sql(name, f"DROP TRIGGER {trigger}")
    pair.sql(name, "DELETE FROM tk_row_hash")
    pair.sql(name, f"CREATE TABLE copy AS SELECT * FROM {table}")
    pair.sql(name, f"DROP TABLE {table}")
    pair.sql(name, f"ALTER TABLE copy RENAME TO {table}")


def test_a_flipped_bit_is_found_on_either_side(pair: Pair) -> None:
    for name, text in (("in", b"hello"), ("out", b"hi")):
        path = pair.path / f"{name}bound.db"
        data = path.read_bytes()
        at = data.index(b'"text":"' + text) + 8
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    said = [f"{problem.where} {problem.what}" for problem in found(pair)]
    assert len(said) == 2
    assert all("does not match its hash" in one for one in said)


def test_wherever_a_name_stands_damage_to_it_is_found(pair: Pair) -> None:
    """The name of a message is in its row and in indexes, of which a poll uses one only."""
    mail = pair.host.send("x", place=Place("telegram", "a chat of its own"))
    path = pair.path / "inbound.db"
    whole = path.read_bytes()
    for name in (mail.id.encode(), b"a chat of its own"):
        places = [one.start() for one in re.finditer(re.escape(name), whole)]
        assert len(places) > 1
        for at in places:
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            assert any(problem.severity == "error" for problem in found(pair)), (name, at)


def test_a_series_that_runs_twice_is_found(pair: Pair) -> None:
    pair.sql("in", "DROP TRIGGER tk_one_live_row")
    pair.sql(
        "in",
        "INSERT INTO messages_in (id, seq, kind, timestamp, content, recurrence, series_id)"
        " SELECT 'twin', 100, kind, timestamp, content, recurrence, series_id FROM messages_in"
        " WHERE recurrence IS NOT NULL",
    )
    assert "has 2 runs to come, each of which recurs" in only(pair)


def test_answers_that_belong_to_nothing_are_found(pair: Pair) -> None:
    pair.sql("out", "INSERT INTO processing_ack VALUES ('ghost', 'completed', '2026-01-01')")
    assert only(pair, "warning") == "processing_ack 'ghost' answers for mail that does not exist"


def test_deliveries_of_nothing_are_found(pair: Pair) -> None:
    pair.sql("in", "INSERT INTO delivered VALUES ('ghost', NULL, 'delivered', '2026-01-01')")
    assert only(pair, "warning") == "delivered 'ghost' is of a message that does not exist"


def test_mail_that_was_passed_over_is_found(pair: Pair) -> None:
    pair.sql("in", "INSERT INTO tk_cursor VALUES ('out', 99)")
    assert "passed over and never delivered" in only(pair)
    (out,) = pair.host.outbox()
    # A row that was written after the last look is still to be found by that.
    pair.sql("in", "INSERT INTO tk_cursor VALUES ('out_rowid', 0)")
    assert found(pair) == []
    pair.sql("in", "UPDATE tk_cursor SET seq = 1 WHERE name = 'out_rowid'")
    assert len(found(pair)) == 1
    pair.sql("in", "INSERT INTO delivered VALUES (?, NULL, 'failed', '2026-01-01')", out.id)
    assert found(pair) == []


def test_attachments_that_are_missing_are_found(pair: Pair) -> None:
    (mail,) = [mail for mail in pair.host.inbox() if mail.text == "hello"]
    (pair.path / "inbox" / mail.id / "a.txt").unlink()
    assert "a.txt', which is not there" in only(pair, "warning")
    pair.host.send("new", id="m", attachments=[{"name": "c.txt", "data": "aGk="}])
    (pair.path / "inbox" / "m" / "c.txt").unlink()
    assert {problem.severity for problem in found(pair)} == {"error", "warning"}


@pytest.mark.parametrize("path", ["/etc/passwd", "inbox/../x/y", "inbox/x", "outbox/a/b", ""])
def test_attachments_outside_of_the_inbox_are_found(pair: Pair, path: str) -> None:
    pair.host.insert_message("chat", {"text": "x", "attachments": [{"localPath": path}]})
    assert "outside of its inbox" in only(pair)


def test_many_problems_are_cut_short(pair: Pair) -> None:
    pair.sql(
        "in",
        "INSERT INTO messages_in (id, seq, kind, timestamp, content)"
        " WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500)"
        " SELECT 'r' || i, 1000 + 2 * i, 'chat', '2026-01-01', 'words' FROM n",
    )
    problems = found(pair)
    assert len(problems) == 1001
    assert problems[-1].what == "500 more problems are not listed"


# ------------------------------------------------------------------ files


def test_a_file_that_is_no_database_is_found(pair: Pair) -> None:
    (pair.path / "outbound.db").write_bytes(b"x" * 9000)
    assert "outbound.db" in only(pair)


@pytest.mark.parametrize("name", ["inbound.db", "outbound.db"])
def test_damage_is_reported_not_raised(pair: Pair, name: str) -> None:
    data = bytearray((pair.path / name).read_bytes())
    for page in range(1, len(data) // 4096):
        data[page * 4096 : page * 4096 + 200] = b"\xff" * 200
    (pair.path / name).write_bytes(bytes(data))
    problems = found(pair)
    assert any(p.severity == "error" and name in p.where + p.what for p in problems)


@pytest.mark.parametrize("size", [0, 1, 100, 5000])
def test_a_file_cut_short_is_reported(pair: Pair, size: int) -> None:
    path = pair.path / "inbound.db"
    path.write_bytes(path.read_bytes()[:size])
    assert any(problem.severity == "error" for problem in found(pair))


def test_missing_files_are_found(pair: Pair, tmp_path: Path) -> None:
    (pair.path / "outbound.db").unlink()
    said = {(problem.where, problem.what) for problem in found(pair)}
    assert ("outbound.db", "is missing") in said
    nowhere = verify(tmp_path / "nowhere")
    assert nowhere[0].what.startswith("cannot be read")


def test_missing_tables_and_views_are_found(pair: Pair) -> None:
    pair.sql("in", "DROP TABLE destinations")
    assert only(pair) == "inbound.db: destinations is missing"
    pair.sql("in", "CREATE VIEW destinations AS SELECT 1 AS name")
    assert "is a view, not a table" in only(pair)


def test_tables_that_a_host_adds_are_a_warning_in_files_of_others(pair: Pair) -> None:
    pair.sql("in", "DROP TRIGGER tk_failed_stays")
    pair.sql("in", "DROP TABLE session_routing")
    assert only(pair, "warning") == "inbound.db: session_routing is missing"
    assert pair.box.new_host().verify() == []


def test_a_foreign_trigger_is_found(pair: Pair) -> None:
    pair.sql(
        "out",
        "CREATE TRIGGER evil AFTER INSERT ON messages_out BEGIN DELETE FROM messages_out; END",
    )
    assert only(pair, "warning") == "outbound.db has a trigger that is not ours: evil"


def test_wal_mode_is_found(pair: Pair) -> None:
    pair.sql("out", "PRAGMA journal_mode = WAL")
    assert "write-ahead log" in only(pair)


LEAVES_A_JOURNAL = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN IMMEDIATE")
for number in range(300):
    connection.execute("INSERT INTO session_state VALUES (?, ?, 'x')", (number, "y" * 3000))
os._exit(9)
"""


def test_an_unfinished_commit_is_found_and_left_unless_allowed(pair: Pair) -> None:
    path = pair.path / "outbound.db"
    subprocess.run([sys.executable, "-c", LEAVES_A_JOURNAL, str(path)], check=False)
    assert path.with_name("outbound.db-journal").stat().st_size > 0
    assert "holds a commit that its writer did not finish" in only(pair)
    assert pair.host.verify(read_only=False) == []
    assert not path.with_name("outbound.db-journal").exists()


def test_a_commit_that_is_going_on_is_no_problem(pair: Pair) -> None:
    with closing(sqlite3.connect(pair.path / "inbound.db", isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE messages_in SET tries = 3 WHERE seq = 2")
        assert (pair.path / "inbound.db-journal").exists()
        assert pair.host.verify() == []
        writer.execute("ROLLBACK")


@pytest.mark.parametrize("name", ["inbox", "outbox", ".heartbeat", "outbound.db"])
def test_links_in_the_place_of_our_own_are_found(pair: Pair, name: str, tmp_path: Path) -> None:
    place = pair.path / name
    aside = tmp_path / "aside"
    place.rename(aside)
    place.symlink_to(aside)
    assert any(p.where == name and p.severity == "error" for p in found(pair))


def test_links_among_attachments_are_found(pair: Pair) -> None:
    (out,) = pair.host.outbox()
    folder = pair.path / "outbox" / out.id
    (folder / "b.txt").unlink()
    (folder / "b.txt").symlink_to("/etc/passwd")
    (pair.path / "inbox" / "planted").symlink_to("/etc")
    os.mkfifo(pair.path / "inbox" / "pipe")
    where = {problem.where for problem in found(pair) if problem.severity == "error"}
    assert where == {f"outbox/{out.id}/b.txt", "inbox/planted", "inbox/pipe"}


def test_a_link_elsewhere_in_the_folder_is_a_warning(pair: Pair) -> None:
    (pair.path / "notes").symlink_to("/etc")
    assert only(pair, "warning") == "notes is a link, or no plain file"


def test_files_that_others_may_read_are_found(pair: Pair) -> None:
    (pair.path / "inbound.db").chmod(0o644)
    pair.path.chmod(0o755)
    said = sorted(f"{problem.where} {problem.what}" for problem in found(pair))
    assert [one.rpartition("/")[2] for one in said] == [
        "sess-1 is open to other users (mode 755)",
        "inbound.db is open to other users (mode 644)",
    ]
