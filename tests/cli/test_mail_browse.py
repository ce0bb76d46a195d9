"""mail ls, tail and trace: looking at mailboxes, also at NanoClaw's, changes nothing."""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.cli.conftest import HOSTILE, Run, Start, document
from tests.cli.mail_boxes import contents, make_box, make_theirs
from threadkeep.mailbox.container.container import Container


def test_mail_of_both_directions_is_listed_with_its_state(run: Run, tmp_path: Path) -> None:
    host = make_box(tmp_path / "box")
    first = host.send("hello", sender="Ann")
    host.insert_task("later", process_after="2999-01-01T00:00:00Z")
    container = Container(tmp_path / "box")
    container.claim([first])
    container.send("hi Ann")
    rows = [
        line.split("\t") for line in run("mail", "ls", str(tmp_path / "box")).stdout.splitlines()
    ]
    assert [(row[0], row[1], row[3], row[4], row[6]) for row in rows] == [
        ("2", "", "chat", "processing", "Ann: hello"),
        ("4", "", "task", "pending", "later"),
        ("", "5", "chat", "waiting", "hi Ann"),
    ]


def test_what_is_listed_can_be_chosen(run: Run, tmp_path: Path) -> None:
    box = str(tmp_path / "box")
    host = make_box(tmp_path / "box")
    host.send("one")
    host.send("two")
    Container(box).send("three")
    found = document(run("mail", "ls", box, "--json"))
    assert [one["content"]["text"] for one in found["mail"]] == ["one", "two", "three"]
    assert found["folder"] == box
    going = document(run("mail", "ls", box, "--out", "--json"))["mail"]
    assert [one["direction"] for one in going] == ["out"]
    assert len(document(run("mail", "ls", box, "--in", "--limit", "1", "--json"))["mail"]) == 1
    assert len(document(run("mail", "ls", box, "--limit", "0", "--json"))["mail"]) == 0
    assert "No mail matches" in run("mail", "ls", box, "--status", "failed").stderr
    run("mail", "ls", box, "--status", "nonsense", code=2)


@pytest.mark.parametrize("inbound, outbound", [(1, 4), (2, 5), (3, 5)])
def test_a_folder_of_nanoclaw_is_read_as_it_is(
    inbound: int, outbound: int, run: Run, tmp_path: Path
) -> None:
    theirs = make_theirs(tmp_path / "ag-1" / "sess-1", inbound, outbound)
    before = contents(theirs)
    mail = document(run("mail", "ls", str(theirs), "--json", "--limit", "-1"))["mail"]
    assert [one["seq"] for one in mail if one["direction"] == "in"] == list(range(2, 82, 2))
    assert {one["state"] for one in mail if one["direction"] == "out"} == {"waiting"}
    assert len(run("mail", "tail", str(theirs), "-n", "5").stdout.splitlines()) == 5
    assert run("mail", "poll", str(theirs)).stdout.startswith("6\tin-3\tchat")
    assert "written" in run("mail", "trace", str(theirs), "6").stdout
    assert "No tasks scheduled" in run("mail", "pause", str(theirs)).stderr
    assert contents(theirs) == before


def test_what_mail_says_cannot_harm_a_terminal(run: Run, tmp_path: Path) -> None:
    box = str(tmp_path / "box")
    host = make_box(tmp_path / "box")
    mail = host.send(HOSTILE, sender=HOSTILE)
    Container(box).send(HOSTILE)
    commands = (["ls"], ["tail"], ["poll"], ["trace", str(mail.seq)], ["ls", "--json"])
    for name, *more in commands:
        shown = run("mail", name, box, *more).stdout
        assert not set(shown) & {"\x1b", "\x07", "\u202e"}, name


def test_a_folder_that_is_none_is_not_found(run: Run, tmp_path: Path) -> None:
    told = run("mail", "ls", str(tmp_path), code=3).stderr
    assert "is not a mailbox" in told
    assert "hint: " in told
    assert "no mailbox store" in run("mail", "ls", "sess-1", code=3).stderr
    assert "no mailbox store" in run("mail", "ls", code=3).stderr


def test_a_view_in_the_place_of_a_table_is_refused(run: Run, tmp_path: Path) -> None:
    import sqlite3

    theirs = make_theirs(tmp_path / "box")
    with sqlite3.connect(theirs / "outbound.db", isolation_level=None) as connection:
        connection.execute("DROP TABLE processing_ack")
        connection.execute("CREATE VIEW processing_ack AS SELECT 1 AS message_id, 2 AS status")
    connection.close()
    assert "is a view, not a table" in run("mail", "ls", str(theirs), code=1).stderr


# ---------------------------------------------------------------------- tail


def test_tail_shows_the_newest(run: Run, tmp_path: Path) -> None:
    box = str(tmp_path / "box")
    host = make_box(tmp_path / "box")
    for number in range(5):
        host.send(f"say {number}")
    lines = run("mail", "tail", box, "-n", "2").stdout.splitlines()
    assert [line.split(" chat ")[1] for line in lines] == ["user: say 3", "user: say 4"]
    assert run("mail", "tail", box, "-n", "0").stdout == ""
    seen = [json.loads(line) for line in run("mail", "tail", box, "--json").stdout.splitlines()]
    assert [one["seq"] for one in seen] == [2, 4, 6, 8, 10]


def test_tail_follows_mail_and_its_states(start: Start, tmp_path: Path) -> None:
    host = make_box(tmp_path / "box")
    first = host.send("first")
    process = start("mail", "tail", str(tmp_path / "box"), "-f", "--json")
    assert process.stdout is not None
    seen = [json.loads(process.stdout.readline())]
    container = Container(tmp_path / "box")
    container.claim([first])
    seen.append(json.loads(process.stdout.readline()))
    container.send("answer")
    seen.append(json.loads(process.stdout.readline()))
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 130
    assert [(one["seq"], one["state"]) for one in seen] == [
        (2, "pending"),
        (2, "processing"),
        (3, "waiting"),
    ]


def test_tail_ends_when_nobody_reads(start: Start, tmp_path: Path) -> None:
    make_box(tmp_path / "box").send("first")
    process = start("mail", "tail", str(tmp_path / "box"), "-f")
    assert process.stdout is not None
    os.read(process.stdout.fileno(), 10)
    process.stdout.close()
    assert process.wait() == 0


# ---------------------------------------------------------------------- trace


def test_the_way_of_one_message_is_told(run: Run, tmp_path: Path) -> None:
    box = str(tmp_path / "box")
    mail = make_box(tmp_path / "box").send("hello")
    container = Container(box)
    container.claim([mail])
    container.fail([mail], "no idea")
    told = run("mail", "trace", box, "2").stdout
    assert "written" in told
    assert "no idea" in told
    events = document(run("mail", "trace", box, mail.id, "--json"))["events"]
    assert events[0]["where"] == "messages_in"
    assert "no message" in run("mail", "trace", box, "99", code=3).stderr
