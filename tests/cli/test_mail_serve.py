"""mail serve, echo and demo: a host and agents in processes of their own."""

import json
import shlex
import signal
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run, Start, document
from threadkeep.mailbox.container.container import Container

ECHO = f"{shlex.quote(sys.executable)} -m threadkeep mail echo"


def lines(path: Path) -> list[str]:
    return [json.loads(line)["content"]["text"] for line in path.read_text("utf-8").splitlines()]


def test_mail_is_answered_with_nothing_to_set_up(run: Run, home: Path, tmp_path: Path) -> None:
    log = tmp_path / "out.jsonl"
    run("mail", "new", "helper", "--channel", "cli", "--chat", "me")
    run("mail", "send", "last", "hello")
    words = ["mail", "serve", "--once", "--agent", ECHO, "--channel-log", str(log)]
    told = run(*words).stdout
    assert "agent started" in told
    assert "1 completed" in told
    assert "1 sent" in told
    assert lines(log) == ["Echo: hello"]
    assert run(*words).stdout == ""
    assert lines(log) == ["Echo: hello"]
    states = [one["state"] for one in document(run("mail", "ls", "last", "--json"))["mail"]]
    assert states == ["completed", "sent"]


def test_without_a_channel_mail_waits(run: Run, home: Path, tmp_path: Path) -> None:
    run("mail", "new", "helper", "--channel", "cli", "--chat", "me")
    run("mail", "send", "last", "hello", "--as", "agent")
    assert "mail to people stays queued" in run("mail", "serve", "--once").stderr
    (row,) = document(run("mail", "ls", "--json"))["sessions"]
    assert row["waiting"] == 1


def test_what_a_turn_did_as_json(run: Run, home: Path, tmp_path: Path) -> None:
    session = document(run("mail", "new", "a", "--channel", "cli", "--chat", "me", "--json"))
    run("mail", "send", "last", "hello", "--as", "agent", "--id", "out-1")
    words = ["mail", "serve", "--once", "--channel-log", str(tmp_path / "out.jsonl"), "--json"]
    (turn,) = [json.loads(line) for line in run(*words).stdout.splitlines()]
    assert turn["delivered"][session["session"]]["sent"] == ["out-1"]
    assert turn["errors"] == {}


def test_an_agent_that_never_works_is_a_problem(run: Run, home: Path, tmp_path: Path) -> None:
    run("mail", "new", "helper", "--channel", "cli", "--chat", "me")
    run("mail", "send", "last", "hello")
    told = run("mail", "serve", "--once", "--agent", "true", code=1).stderr
    assert "does not pick up its mail" in told
    (row,) = document(run("mail", "ls", "--json"))["sessions"]
    assert row["due"] == 1


def test_a_broken_session_does_not_stop_the_others(run: Run, home: Path, tmp_path: Path) -> None:
    broken = Path(document(run("mail", "new", "one", "--json"))["folder"])
    run("mail", "new", "two", "--channel", "cli", "--chat", "me")
    run("mail", "send", "two", "hello", "--as", "agent")
    (broken / "inbound.db").write_bytes(b"nonsense" * 1000)
    log = tmp_path / "out.jsonl"
    result = run("mail", "serve", "--once", "--channel-log", str(log), code=1)
    assert f"warning: {broken.name}" in result.stderr
    assert lines(log) == ["hello"]


def test_there_must_be_a_mailroom(run: Run, home: Path) -> None:
    assert "no mailbox store" in run("mail", "serve", "--once", code=3).stderr
    assert not home.exists()


def test_serve_goes_on_until_it_is_ended(start: Start, run: Run, home: Path) -> None:
    folder = document(run("mail", "new", "helper", "--channel", "cli", "--chat", "me", "--json"))
    log = home / "out.jsonl"
    process = start("mail", "serve", "--channel-log", str(log), "--every", "0.05", "--json")
    assert process.stdout is not None
    container = Container(folder["folder"])
    for text in ("one", "two"):
        container.send(text)
        process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 0
    assert lines(log) == ["one", "two"]


def test_the_echo_agent_works_in_the_folder_it_is_given(start: Start, tmp_path: Path) -> None:
    from tests.cli.mail_boxes import make_box

    host = make_box(tmp_path / "box")
    host.send("hello")
    process = start("mail", "echo", "--json", THREADKEEP_MAIL=str(tmp_path / "box"))
    assert process.stderr is not None
    assert b"works in" in process.stderr.readline()
    while host.due() or not host.outbox():
        host.sync()
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 0
    assert process.stdout is not None
    assert json.loads(process.stdout.read())["answered"] == 1
    assert [mail.text for mail in host.outbox()] == ["Echo: hello"]


@pytest.mark.slow
def test_the_demo_shows_all_ends_by_itself_and_leaves_a_mailroom(
    start: Start, run: Run, home: Path, tmp_path: Path
) -> None:
    process = start("mail", "demo", "--keep", str(tmp_path / "kept"))
    out, err = process.communicate()
    shown = out.decode()
    assert process.returncode == 0, err.decode()
    for text in (
        "Echo: Hello",
        "[question] Shall we continue? (Yes / No)",
        "You chose: Yes",
        "[note.txt: KEPT SAFE]",
        "Done: say goodbye",
        "Echo: crash while you work on this",
    ):
        assert text in shown, text
    assert err.decode().count("the echo agent works in") == 2
    assert "the agent died with mail in hand" in err.decode()
    base = ["--home", str(tmp_path / "kept"), "mail"]
    assert document(run(*base, "verify", "--all", "--json"))["ok"]
    mail = document(run(*base, "ls", "last", "--json"))["mail"]
    assert {one["state"] for one in mail} == {"completed", "sent"}
    assert not home.exists()


@pytest.mark.slow
def test_the_demo_as_json_leaves_nothing_behind(
    run: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    told = document(run("mail", "demo", "--json"))
    assert told["heard"][0] == "Echo: Hello"
    assert len(told["said"]) == 6
    assert told["folder"] is None
    assert list((tmp_path / "temporary").iterdir()) == []


def test_ctrl_c_in_the_demo_ends_both_and_cleans_up(start: Start, tmp_path: Path) -> None:
    process = start("mail", "demo", TMPDIR=str(tmp_path), PYTHONUNBUFFERED="1")
    assert process.stdout is not None
    assert b"Hello" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.stdout.read()  # until the agent, which has the same pipe, has ended too
    assert process.wait() == 130
    assert list(tmp_path.iterdir()) == []
