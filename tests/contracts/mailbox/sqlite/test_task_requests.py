"""Task requests: what is about the files of SQLite."""

import json
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.mailbox.postal import NOW, Clock, Desk
from tests.support.mail import MailFactory
from threadkeep.errors import Busy, Invalid
from threadkeep.mailbox import Container, Host, Place, run_agent
from threadkeep.mailbox.commands import CommandRefused

Frame = dict[str, Any]


class ForeignHost:
    """A host of another make over a folder; it looks when the container pauses to wait for it."""

    def __init__(self, path: Path, answer: Callable[[Frame], Frame | None]) -> None:
        self.path = path
        self.answer = answer
        Host.create(path, clock=Clock()).write_routing(Place("test", "chat-1"))
        with closing(sqlite3.connect(path / "inbound.db")) as tx, tx:
            names = (
                "SELECT type, name FROM sqlite_master WHERE name LIKE 'tk_%' AND type <> 'index'"
            )
            for kind, name in tx.execute(names).fetchall():
                tx.execute(f"DROP {kind} IF EXISTS {name}")

    def turn(self, _: float = 0) -> None:
        with closing(sqlite3.connect(self.path / "inbound.db")) as tx, tx:
            for said in self.requests:
                row_id, frame = f"cli-resp-{said['requestId']}", self.answer(said)
                if frame is None:
                    continue
                content = {"type": "cli_response", "requestId": said["requestId"], "frame": frame}
                tx.execute(
                    """INSERT OR IGNORE INTO messages_in
                    (id, seq, kind, timestamp, trigger, content)
                    SELECT ?, coalesce(max(seq), 0) + 2, 'system', '2025-10-09T09:00:00.000Z', 0, ?
                    FROM messages_in""",
                    (row_id, json.dumps(content, separators=(",", ":"))),
                )

    @property
    def asked(self) -> list[Frame]:
        """All that the container asked of its host."""
        with closing(sqlite3.connect(self.path / "outbound.db")) as tx:
            rows = tx.execute("SELECT content FROM messages_out WHERE kind = 'system' ORDER BY seq")
            return [json.loads(content) for (content,) in rows]

    @property
    def requests(self) -> list[Frame]:
        return [said for said in self.asked if said["action"] == "cli_request"]

    @property
    def commands(self) -> list[tuple[str, Frame]]:
        return [(said["command"], said["args"]) for said in self.requests]


def old(said: Frame) -> Frame:
    error = {"code": "unknown-command", "message": f'no command "{said["command"]}"'}
    return {"id": said["requestId"], "ok": False, "error": error}


def new(said: Frame) -> Frame:
    data = {"tasks-create": {"series_id": "water-9bde"}, "tasks-list": []}
    found = data.get(said["command"], {"series_id": "water-9bde", "touched": 1})
    return {"id": said["requestId"], "ok": True, "data": found}


Make = Callable[[Callable[[Frame], Frame | None]], tuple[ForeignHost, Container]]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    def pair(answer: Callable[[Frame], Frame | None]) -> tuple[ForeignHost, Container]:
        host = ForeignHost(tmp_path / "ag-1" / "sess-1", answer)
        monkeypatch.setattr("threadkeep.mailbox.container.requests.time.sleep", host.turn)
        return host, Container(host.path, clock=Clock())

    return pair


def test_a_later_host_makes_the_task_and_its_id(make: Make) -> None:
    host, agent = make(new)
    given: dict[str, Any] = {
        "name": "Water",
        "recurrence": "0 9 * * *",
        "process_after": NOW,
        "script": "true",
    }
    assert agent.schedule("water", **given) == "water-9bde"
    assert agent.schedule("x", recurrence="* * * * *", often=True) == "water-9bde"
    assert host.commands == [
        ("tasks-list", {}),  # asked once
        (
            "tasks-create",
            {
                "process_after": "2025-10-09T08:53:20.000Z",
                "prompt": "water",
                "name": "Water",
                "recurrence": "0 9 * * *",
                "script": "true",
            },
        ),
        (
            "tasks-create",
            {
                "prompt": "x",
                "recurrence": "* * * * *",
                "dangerously_override_recurrence_limit": True,
            },
        ),
    ]
    assert agent.system_mail() == []  # the answers were fetched


def test_the_verbs_on_tasks_are_commands_of_a_later_host(make: Make) -> None:
    host, agent = make(new)
    sent = agent.cancel_task("a-b")
    agent.pause_task("a-b")
    agent.resume_task("a-b")
    agent.update_task("a-b", prompt="y", script=None, recurrence=None, process_after=NOW)
    assert sent.content["command"] == "tasks-cancel"
    assert host.commands[1:] == [
        ("tasks-cancel", {"id": "a-b"}),
        ("tasks-pause", {"id": "a-b"}),
        ("tasks-resume", {"id": "a-b"}),
        (
            "tasks-update",
            {
                "prompt": "y",
                "script": "none",
                "recurrence": "none",
                "id": "a-b",
                "process_after": "2025-10-09T08:53:20.000Z",
            },
        ),
    ]


def test_an_older_host_gets_actions(make: Make) -> None:
    host, agent = make(old)
    task_id = agent.schedule("water", recurrence="0 9 * * *")
    agent.cancel_task(task_id)
    agent.update_task(task_id, prompt="y")
    assert [said["action"] for said in host.asked] == [
        "cli_request",
        "schedule_task",
        "cancel_task",
        "update_task",
    ]
    assert host.asked[1]["taskId"] == task_id


def test_each_life_of_a_container_asks_anew(make: Make) -> None:
    host, agent = make(old)
    agent.schedule("x", process_after=NOW)
    host.answer = new  # the install was upgraded
    agent.start()
    assert agent.schedule("x", process_after=NOW) == "water-9bde"
    agent.stop()


def test_where_nothing_answers_nothing_is_written(make: Make) -> None:
    host, agent = make(lambda _: None)
    with pytest.raises(Busy, match="has not answered 'tasks-list' within 0 s"):
        agent.schedule("x", process_after=NOW, timeout=0)
    assert host.commands == [("tasks-list", {})]
    assert len(host.asked) == 1
    host.answer = new
    assert agent.schedule("x", process_after=NOW) == "water-9bde"


def test_a_refusal_of_the_host_is_raised_with_its_code(make: Make) -> None:
    def refuse(said: Frame) -> Frame:
        error = {"code": "handler-error", "message": "no live task matched: x"}
        return new(said) if said["command"] == "tasks-list" else {"ok": False, "error": error}

    _, agent = make(refuse)
    with pytest.raises(CommandRefused, match="no live task matched: x") as caught:
        agent.cancel_task("x")
    assert caught.value.code == "handler-error"
    assert isinstance(caught.value, Invalid)


@pytest.mark.parametrize("frame", [{}, {"ok": False}, {"ok": False, "error": "no"}, {"ok": 1}])
def test_an_odd_answer_is_a_refusal(make: Make, frame: Frame) -> None:
    _, agent = make(lambda _: frame)
    with pytest.raises(CommandRefused, match="gave no reason"):
        agent.command("tasks list")


def test_a_host_that_may_not_be_asked_refuses_the_task_itself(make: Make) -> None:
    error = {"code": "forbidden", "message": "CLI access is disabled"}
    host, agent = make(lambda _: {"ok": False, "error": error})
    with pytest.raises(CommandRefused, match="disabled"):
        agent.schedule("x", process_after=NOW)
    assert [name for name, _ in host.commands] == ["tasks-list", "tasks-create"]


# ---------------------------------------------------------------------- logs of runs


def test_what_a_run_says_in_a_session_of_its_own_becomes_its_log(factory: MailFactory) -> None:
    desk = Desk(factory, Clock())
    desk.host.write_routing(Place(None, None, "system:tasks:brief-a1b2"))
    desk.host.insert_task("brief me", id="brief-a1b2", recurrence="0 9 * * *", process_after=NOW)
    stop = threading.Event()

    def answer(_: object) -> str:
        stop.set()
        return "All is well. " * 100

    run_agent(desk.container, answer, stop=stop)
    (said,) = desk.host.outbox()
    assert (said.kind, said.place, said.in_reply_to) == ("task_log", Place(), "brief-a1b2")
    assert len(said.text) == 500
    assert desk.host.drain({}).sent == (said.id,)
    log = (desk.path / "tasks" / "brief-a1b2.md").read_text()
    assert log.startswith("- 2025-10-09T08:53:20.000Z All is well.")
    desk.rows("DELETE FROM delivered")  # as after a crash between the log and its mark
    desk.rows("UPDATE tk_delivery SET state = 'prepared'")
    assert desk.new_host().drain({}).sent == (said.id,)
    assert (desk.path / "tasks" / "brief-a1b2.md").read_text() == log
    assert (desk.notes(), desk.host.dead_letters()) == ([], [])


def test_a_log_that_cannot_be_kept_is_no_dead_letter(tmp_path: Path, factory: MailFactory) -> None:
    desk = Desk(factory, Clock())
    (desk.path / "tasks").symlink_to(tmp_path)
    desk.host.insert_task("x", id="t1", process_after=NOW)
    desk.container.insert_message("task_log", {"text": "x"}, Place(), in_reply_to="t1")
    desk.container.insert_message("task_log", {"text": "nobody's"}, Place())
    assert len(desk.host.drain({}).sent) == 2
    assert not (tmp_path / "t1.md").exists()
    assert (desk.notes(), desk.host.dead_letters()) == ([], [])
