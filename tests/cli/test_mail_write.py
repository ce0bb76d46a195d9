"""mail new, send, poll and ack: both sides from the command line."""

from pathlib import Path

import pytest

from tests.cli.conftest import Run, document
from tests.cli.mail_boxes import make_box, make_theirs
from threadkeep import Mailroom
from threadkeep.mailbox.container.container import Container
from threadkeep.mailbox.host.host import Host
from threadkeep.mailbox.records import Place


def facts(text: str) -> dict[str, str]:
    return dict(line.split("\t") for line in text.splitlines())


# ---------------------------------------------------------------------- new


def test_a_session_is_made_once_for_a_chat(run: Run, home: Path) -> None:
    words = ["mail", "new", "helper", "--channel", "cli", "--chat", "me"]
    told = facts(run(*words).stdout)
    assert (Path(told["folder"]) / "inbound.db").is_file()
    assert Path(told["folder"]).is_relative_to(home / "mailbox")
    again = document(run(*words, "--json"))
    assert again["session"] == told["session"]
    assert again["agent"] == "helper"
    with Mailroom.open(home) as room:
        assert room.host(told["session"]).routing() == Place("cli", "me")
        assert [one.name for one in room.index.agent_groups()] == ["helper"]


def test_threads_and_modes(run: Run, home: Path) -> None:
    base = ["mail", "new", "helper", "--channel", "cli", "--chat", "me", "--mode", "per-thread"]
    ids = {document(run(*base, "--thread", name, "--json"))["session"] for name in ("a", "b")}
    assert len(ids) == 2
    assert len(run("mail", "ls").stdout.splitlines()) == 2


def test_a_bare_folder_needs_no_mailroom(run: Run, home: Path, tmp_path: Path) -> None:
    box = tmp_path / "box"
    told = facts(
        run("mail", "new", "helper", "--folder", str(box), "--channel", "c", "--chat", "1").stdout
    )
    assert told == {"session": "box", "folder": str(box)}
    assert Host(box).routing() == Place("c", "1")
    assert Host(box).context.agent_group == "helper"
    assert not home.exists()


def test_half_a_place_is_refused(run: Run, home: Path) -> None:
    assert "go together" in run("mail", "new", "helper", "--chat", "me", code=2).stderr
    assert not home.exists()


# ---------------------------------------------------------------------- names


def test_a_session_is_known_by_id_beginning_agent_and_last(run: Run, home: Path) -> None:
    made = document(run("mail", "new", "helper", "--json"))["session"]
    for name in (made, made[:-2], "helper", "last"):
        run("mail", "send", name, "hello")
    assert len(run("mail", "ls", made).stdout.splitlines()) == 4
    assert "no session" in run("mail", "send", "nobody", "hello", code=3).stderr
    run("mail", "new", "other")
    told = run("mail", "send", "sess-", "hello", code=2).stderr
    assert "several sessions" in told
    assert "name of the session is empty" in run("mail", "ls", "", code=2).stderr


def test_all_sessions_are_listed_with_what_is_open(run: Run, home: Path) -> None:
    session = document(run("mail", "new", "helper", "--channel", "c", "--chat", "1", "--json"))
    run("mail", "send", "last", "now")
    run("mail", "send", "last", "later", "--at", "+1h")
    run("mail", "send", "last", "out", "--as", "agent")
    (row,) = document(run("mail", "ls", "--json"))["sessions"]
    assert (row["pending"], row["due"], row["waiting"], row["failed"]) == (2, 1, 1, 0)
    assert (row["agent"], row["chat"], row["problem"]) == ("helper", "c:1", None)
    assert row["folder"] == session["folder"]
    cells = run("mail", "ls").stdout.rstrip("\n").split("\t")
    assert cells == [session["session"], "helper", "c:1", "2", "1", "1", "0", ""]


def test_a_session_whose_folder_is_gone_does_not_hide_the_others(run: Run, home: Path) -> None:
    import shutil

    first = document(run("mail", "new", "one", "--json"))
    run("mail", "new", "two")
    shutil.rmtree(first["folder"])
    result = run("mail", "ls")
    assert len(result.stdout.splitlines()) == 2
    assert f"warning: {first['session']}" in result.stderr


# ---------------------------------------------------------------------- send


@pytest.fixture
def box(tmp_path: Path) -> str:
    make_box(tmp_path / "box")
    return str(tmp_path / "box")


def test_a_message_is_sent_by_whom_and_once(run: Run, box: str) -> None:
    first = run("mail", "send", box, "hello", "--from", "Ann", "--id", "m1")
    assert (first.stdout, first.stderr) == ("m1\n", "number 2\n")
    assert document(run("mail", "send", box, "hello", "--from", "Ann", "--id", "m1", "--json")) == {
        "schema_version": 1,
        "id": "m1",
        "seq": 2,
        "direction": "in",
    }
    (mail,) = Host(box).inbox()
    assert mail.content == {"sender": "Ann", "senderId": "Ann", "text": "hello"}
    assert (mail.trigger, mail.on_wake, mail.place) == (True, False, Place("cli", "me"))


def test_words_come_from_stdin(run: Run, box: str) -> None:
    run("mail", "send", box, "-", "--context", stdin="line 1\nline 2\n")
    run("mail", "send", box, "good morning", "--on-wake")
    first, second = Host(box).inbox()
    assert (first.text, first.trigger) == ("line 1\nline 2\n", False)
    assert (second.on_wake, second.trigger) == (True, True)


def test_tasks_have_a_time_and_a_recurrence(run: Run, box: str) -> None:
    words = ["mail", "send", box, "report", "--task"]
    run(*words, "--at", "2999-01-01T10:00", "--tz", "Europe/Madrid")
    told = run(*words, "--every", "0 9 * * 1-5", "--tz", "Europe/Madrid").stderr
    assert "later runs are due in the zone of the agent" in told
    once, often = Host(box).tasks()
    assert once.process_after == "2999-01-01T09:00:00.000Z"
    assert once.content == {"prompt": "report", "script": None}
    assert often.recurrence == "0 9 * * 1-5"
    assert often.process_after is not None
    for bad in (["--every", "61 * * * *"], ["--at", "soon"], ["--at", "+soon"]):
        assert "hint: " in run(*words, *bad, code=2).stderr
    assert len(Host(box).tasks()) == 2


def test_files_go_along(run: Run, box: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\0data")
    run("mail", "send", box, "look", "--file", str(tmp_path / "a.txt"))
    run("mail", "send", box, "and this", "--as", "agent", "--file", str(tmp_path / "a.txt"))
    (mail,) = Host(box).inbox()
    assert (Path(box) / mail.content["attachments"][0]["localPath"]).read_bytes() == b"\0data"
    (out,) = Host(box).outbox()
    assert (Path(box) / "outbox" / out.id / "a.txt").read_bytes() == b"\0data"
    assert "[files: a.txt]" in run("mail", "ls", box).stdout
    run("mail", "send", box, "look", "--file", str(tmp_path / "missing"), code=3)
    assert len(Host(box).inbox()) == 1


def test_the_agents_side_writes_too(run: Run, box: str) -> None:
    assert run("mail", "send", box, "hi", "--as", "agent").stderr == "number 1\n"
    run("mail", "send", box, "hi", "--as", "agent", "--to", "me", "--id", "mine")
    assert [mail.place for mail in Host(box).outbox()] == [Place("cli", "me")] * 2
    told = run("mail", "send", box, "hi", "--as", "agent", "--to", "nobody", code=2).stderr
    assert "no destination 'nobody'" in told
    assert "hint: name one of me" in told


@pytest.mark.parametrize(
    "words",
    [
        ["--as", "agent", "--task"],
        ["--as", "agent", "--context"],
        ["--as", "agent", "--from", "Ann"],
        ["--as", "agent", "--tz", "UTC"],
        ["--to", "me"],
        ["--every", "0 9 * * *"],
        ["--task", "--context"],
        ["--task", "--file", "x"],
        ["--id", "x" * 2000],
        ["--tz", "Mars/Olympus", "--at", "2999-01-01"],
    ],
)
def test_what_would_have_no_effect_is_refused(words: list[str], run: Run, box: str) -> None:
    assert "hint: " in run("mail", "send", box, "hi", *words, code=2).stderr
    assert Host(box).inbox() == []
    assert Host(box).outbox() == []


# ---------------------------------------------------------------------- poll and ack


def test_mail_is_polled_claimed_and_acknowledged(run: Run, box: str) -> None:
    for text in ("one", "two", "three"):
        run("mail", "send", box, text, "--id", text)
    assert [line.split("\t")[1] for line in run("mail", "poll", box).stdout.splitlines()] == [
        "one",
        "two",
        "three",
    ]
    claimed = document(run("mail", "poll", box, "--claim", "--limit", "2", "--json"))
    assert claimed["claimed"] == ["one", "two"]
    assert [mail["content"]["text"] for mail in claimed["mail"]] == ["one", "two"]
    assert run("mail", "poll", box).stdout.startswith("6\tthree\t")
    assert run("mail", "ack", box, "one").stdout == "one\n"
    told = document(run("mail", "ack", box, "4", "--failed", "no idea", "--json"))
    assert told["failed"] == ["two"]
    run("mail", "poll", box, "--claim")
    assert "No mail is waiting" in run("mail", "poll", box, "--claim").stderr
    run("mail", "ack", box, "#6", "--release")
    assert run("mail", "poll", box).stdout.startswith("6\tthree\t")


def test_acks_of_what_is_none_are_refused(run: Run, box: str) -> None:
    Container(box).send("mine")
    run("mail", "send", box, "one", "--id", "one")
    assert "mail from the agent" in run("mail", "ack", box, "1", code=2).stderr
    assert "no message" in run("mail", "ack", box, "one", "nothing", code=3).stderr
    assert "not both" in run("mail", "ack", box, "1", "--failed", "x", "--release", code=2).stderr
    assert run("mail", "poll", box).stdout.startswith("2\tone\t")


def test_mail_for_the_moment_of_waking_comes_first_only(run: Run, box: str) -> None:
    run("mail", "send", box, "good morning", "--on-wake")
    assert run("mail", "poll", box).stdout == ""
    assert "good morning" in run("mail", "poll", box, "--first").stdout


def test_both_sides_of_a_folder_of_nanoclaw(run: Run, tmp_path: Path) -> None:
    theirs = str(make_theirs(tmp_path / "ag-1" / "sess-1", 1, 4))
    assert run("mail", "send", theirs, "hello").stderr == "number 82\n"
    claimed = document(run("mail", "poll", theirs, "--claim", "--json", "--limit", "100"))
    assert claimed["claimed"][0] == "in-3"
    run("mail", "ack", theirs, "in-3", "82")
    assert "2 completed" in run("mail", "sweep", theirs).stdout
    assert document(run("mail", "verify", theirs, "--json"))["ok"]
