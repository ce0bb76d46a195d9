"""mail retry, pause, verify and sweep."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import Run, document
from tests.cli.mail_boxes import CHAT, contents, make_box, make_theirs
from threadkeep.mailbox.adapters import MaybeSent, Outgoing, Refused
from threadkeep.mailbox.container.container import Container
from threadkeep.mailbox.host.host import Host


@pytest.fixture
def box(tmp_path: Path) -> str:
    make_box(tmp_path / "box")
    return str(tmp_path / "box")


class Never:
    """A channel that takes nothing."""

    def send(self, mail: Outgoing) -> str | None:
        if mail.text == "maybe":
            raise MaybeSent("the line went dead")
        raise Refused("not here")


def make_dead(box: str) -> None:
    """Make three dead letters: one to the agent, one refused, one perhaps sent."""
    host, container = Host(box), Container(box)
    mail = host.send("do it", id="in-1")
    container.claim([mail])
    container.fail([mail], "no idea how")
    host.sync()
    container.send("refuse", id="out-1")
    container.send("maybe", id="out-2")
    host.drain({"cli": Never()})


# ---------------------------------------------------------------------- retry


def test_dead_letters_are_listed_with_their_reasons(run: Run, box: str) -> None:
    assert "No dead letters" in run("mail", "retry", box, "--list").stderr
    make_dead(box)
    rows = [line.split("\t") for line in run("mail", "retry", box, "--list").stdout.splitlines()]
    assert [(row[1], row[2], row[-1]) for row in rows] == [
        ("in-1", "failed", "do it"),
        ("out-1", "failed", "refuse"),
        ("out-2", "unknown", "maybe"),
    ]
    assert rows[0][5] == "no idea how"
    assert "not here" in rows[1][5]
    dead = document(run("mail", "retry", box, "--list", "--json"))["dead"]
    assert [one["direction"] for one in dead] == ["in", "out", "out"]


def test_all_that_is_safe_to_try_again_is_tried(run: Run, box: str) -> None:
    make_dead(box)
    planned = run("mail", "retry", box, "--dry-run")
    assert planned.stdout == "in-1\nout-1\n"
    assert "would try 2 dead letters again" in planned.stderr
    assert len(run("mail", "retry", box).stdout.splitlines()) == 2
    states = {one["id"]: one["state"] for one in document(run("mail", "ls", box, "--json"))["mail"]}
    assert (states["out-1"], states["out-2"]) == ("prepared", "unknown")
    assert "tried 0 dead letters" in run("mail", "retry", box).stderr


def test_one_dead_letter_is_tried_again_once(run: Run, box: str) -> None:
    make_dead(box)
    (tried,) = document(run("mail", "retry", box, "2", "--json"))["retried"]
    assert (tried["id"], tried["seq"], tried["direction"]) == ("in-1", 2, "in")
    assert Host(box).mail(tried["now"]).text == "do it"
    assert "is already being retried" in run("mail", "retry", box, "in-1", code=1).stderr
    told = run("mail", "retry", box, "out-2", code=1).stderr
    assert "may have been sent" in told
    assert "`threadkeep mail retry --force` sends it" in told
    assert run("mail", "retry", box, "out-2", "--force").stdout == "out-2\n"
    assert (
        "there is no dead letter 'nothing'" in run("mail", "retry", box, "nothing", code=3).stderr
    )
    assert "changes nothing" in run("mail", "retry", box, "--list", "--force", code=2).stderr


def test_one_that_cannot_be_tried_does_not_stop_those_behind_it(run: Run, box: str) -> None:
    make_dead(box)
    with closing(sqlite3.connect(Path(box) / "inbound.db", isolation_level=None)) as connection:
        connection.execute("UPDATE messages_in SET kind = 'odd' WHERE id = 'in-1'")
    result = run("mail", "retry", box, code=1)
    assert result.stdout == "out-1\n"
    assert "error: in-1: there is no kind of mail" in result.stderr


def test_what_was_tried_again_counts_as_failed_no_more(run: Run, home: Path) -> None:
    folder = document(run("mail", "new", "a", "--channel", "cli", "--chat", "me", "--json"))
    make_dead(folder["folder"])
    assert document(run("mail", "ls", "--json"))["sessions"][0]["failed"] == 3
    run("mail", "retry", "last", "--force")
    assert document(run("mail", "ls", "--json"))["sessions"][0]["failed"] == 0


def test_old_dead_letters_are_purged_when_somebody_says_so(run: Run, box: str) -> None:
    make_dead(box)
    assert "purged 0 dead letters" in run("mail", "retry", box, "--purge").stderr
    base = ["mail", "retry", box, "--purge", "--older-than", "0s"]
    assert len(run(*base, "--dry-run").stdout.splitlines()) == 3
    assert "confirm with --yes" in run(*base, code=2).stderr
    assert document(run("mail", "retry", box, "in-1", "--purge", "--yes", "--json"))["purged"] == 1
    assert document(run(*base, "--yes", "--json"))["dead"] == ["out-1", "out-2"]
    assert "No dead letters" in run("mail", "retry", box, "--list").stderr
    assert Host(box).mail("in-1").text == ""


# ---------------------------------------------------------------------- pause


def test_tasks_are_listed_held_and_dropped(run: Run, box: str) -> None:
    host = Host(box)
    task = host.insert_task("report", recurrence="0 9 * * *", id="task-1")
    assert run("mail", "pause", box).stdout.split("\t")[1:3] == ["task-1", "pending"]
    assert "paused 1 run" in run("mail", "pause", box, str(task.seq)).stderr
    assert "it was paused already" in run("mail", "pause", box, "task-1").stderr
    assert document(run("mail", "pause", box, "--json"))["tasks"][0]["status"] == "paused"
    assert document(run("mail", "pause", box, "task-1", "--resume", "--json"))["resumed"] == 1
    assert run("mail", "pause", box, "task-1", "--cancel").stdout == "task-1\n"
    assert "No tasks scheduled" in run("mail", "pause", box).stderr
    assert "no live task" in run("mail", "pause", box, "task-1", code=3).stderr
    assert "not both" in run("mail", "pause", box, "x", "--resume", "--cancel", code=2).stderr
    assert "no task given" in run("mail", "pause", box, "--cancel", code=2).stderr


# ---------------------------------------------------------------------- verify


def test_a_sound_folder_is_sound(run: Run, box: str) -> None:
    Host(box).send("hello")
    result = run("mail", "verify", box)
    assert (result.stdout, result.stderr) == ("", "1 session checked, 0 problems\n")
    assert document(run("mail", "verify", box, "--json"))["ok"] is True


def test_what_is_wrong_is_told_and_nothing_changed(run: Run, tmp_path: Path) -> None:
    theirs = make_theirs(tmp_path / "theirs")
    with closing(sqlite3.connect(theirs / "inbound.db", isolation_level=None)) as connection:
        connection.execute("UPDATE messages_in SET seq = NULL WHERE id = 'in-3'")
    before = contents(theirs)
    told = run("mail", "verify", str(theirs), code=1)
    assert "error: " in told.stdout
    assert "in-3" in told.stdout
    assert document(run("mail", "verify", str(theirs), "--json", code=1))["ok"] is False
    assert contents(theirs) == before


def test_damaged_folders_are_reported_too(run: Run, box: str, tmp_path: Path) -> None:
    (Path(box) / "outbound.db").write_bytes(b"nonsense" * 1000)
    assert "outbound.db" in run("mail", "verify", box, code=1).stdout
    (Path(box) / "outbound.db").unlink()
    assert "outbound.db" in run("mail", "verify", box, code=1).stdout
    assert "no folder" in run("mail", "verify", str(tmp_path / "nowhere"), code=3).stderr


def test_all_sessions_are_checked_at_once(run: Run, home: Path) -> None:
    first = document(run("mail", "new", "one", "--json"))
    run("mail", "new", "two")
    assert "2 sessions checked, 0 problems" in run("mail", "verify", "--all").stderr
    (Path(first["folder"]) / "inbound.db").write_bytes(b"")
    assert first["session"] in run("mail", "verify", "--all", code=1).stdout
    assert "name the sessions" in run("mail", "verify", code=2).stderr
    run("mail", "verify", "--all", "last", code=2)


# ---------------------------------------------------------------------- sweep


def test_a_sweep_takes_over_what_the_agent_said(run: Run, home: Path) -> None:
    folder = document(run("mail", "new", "helper", "--json"))["folder"]
    run("mail", "send", "last", "one", "--id", "one")
    run("mail", "send", "last", "two", "--id", "two")
    Container(folder).complete(["one"])
    Container(folder).fail(["two"], "no")
    session = Path(folder).name
    assert run("mail", "sweep").stdout == f"{session}\t1 completed, 1 failed\n"
    assert run("mail", "sweep", "last").stdout == f"{session}\tnothing to do\n"
    swept = document(run("mail", "sweep", folder, "--json"))["sessions"][session]
    assert swept["settled"] == {"completed": [], "failed": [], "rearmed": []}


def test_a_broken_session_does_not_stop_the_sweep(run: Run, home: Path) -> None:
    folder = Path(document(run("mail", "new", "one", "--json"))["folder"])
    other = document(run("mail", "new", "two", "--json"))["session"]
    (folder / "inbound.db").write_bytes(b"nonsense" * 1000)
    told = run("mail", "sweep", code=1).stdout.splitlines()
    assert [line.split("\t")[0] for line in told] == [folder.name, other]
    assert told[0].split("\t")[1].startswith("problem: ")
    assert told[1].endswith("nothing to do")


def test_claims_of_a_dead_agent_are_let_go(run: Run, box: str) -> None:
    mail = Host(box).send("hello", place=CHAT)
    Container(box).claim([mail])
    assert "1 to be retried" in run("mail", "sweep", box).stdout
    assert Host(box).mail(mail.id).tries == 1


# ---------------------------------------------------------------------- prune


class Takes:
    """A channel that takes everything."""

    def send(self, mail: Outgoing) -> str | None:
        return mail.id


def test_old_mail_is_pruned_on_demand(run: Run, box: str) -> None:
    for text in "abcd":
        Container(box).send(text)
    Host(box).drain({"cli": Takes()})
    shown = document(run("mail", "prune", box, "--keep", "2", "--dry-run", "--json"))
    assert (shown["messages"], shown["answers"], shown["dry_run"]) == (2, 0, True)
    assert "confirmation required" in run("mail", "prune", box, "--keep", "2", code=2).stderr
    assert len(Host(box).outbox()) == 4
    assert "removed 2 messages" in run("mail", "prune", box, "--keep", "2", "--yes").stderr
    assert [mail.text for mail in Host(box).outbox()] == ["c", "d"]
    assert "removed 0 messages" in run("mail", "prune", box, "--older-than", "90d").stderr
    assert "needs a limit" in run("mail", "prune", box, code=2).stderr


# ---------------------------------------------------------------------- commands of the host


def test_a_command_of_the_host_is_run_from_the_agents_side(
    run: Run, box: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(box)
    monkeypatch.setattr(
        "threadkeep.mailbox.container.requests.time.sleep", lambda _: host.drain({})
    )
    assert run("mail", "ncl", box, "tasks", "list").stdout == "No tasks.\n"
    typed = ("tasks", "create", "--prompt", "feed the cat", "--recurrence", "0 9 * * *", "--json")
    made = document(run("mail", "ncl", box, *typed))["data"]
    assert made["prompt"] == "feed the cat"
    assert made["series_id"] in run("mail", "ncl", box, "tasks", "list").stdout
    run("mail", "ncl", box, "tasks", "pause", made["series_id"])
    assert [task.status for task in host.tasks()] == ["paused"]
    assert "no command" in run("mail", "ncl", box, "tasks", "bogus", code=2).stderr
    monkeypatch.undo()
    silent = run("mail", "ncl", box, "--timeout", "0.01", "tasks", "list", code=4)
    assert "has not answered" in silent.stderr
