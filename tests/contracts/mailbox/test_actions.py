from typing import Any

import pytest

from tests.contracts.mailbox.postal import Channel, Clock, Crash, Desk, crash_at_write
from tests.support.mail import MailFactory
from threadkeep.mailbox.adapters import Outgoing, Refused
from threadkeep.mailbox.context import MailContext
from threadkeep.mailbox.records import Mail, Place


@pytest.fixture
def desk(factory: MailFactory) -> Desk:
    return Desk(factory, Clock())


def tasks(desk: Desk, status: str | None = None) -> list[Mail]:
    return desk.host.inbox(status, kind="task")


def act(desk: Desk, action: Any, **fields: Any) -> None:
    said = {"action": action, **fields}
    desk.container.insert_message("system", said, Place())
    desk.host.drain({})


def test_a_task_is_scheduled_as_the_agent_asked(desk: Desk) -> None:
    task_id = desk.container.schedule(
        "water the plants", process_after="2025-10-10T08:00:00Z", recurrence="0 8 * * *"
    )
    assert len(desk.host.drain({}).sent) == 1
    (task,) = tasks(desk)
    assert (task.id, task.series_id, task.kind) == (task_id, task_id, "task")
    assert task.process_after == "2025-10-10T08:00:00.000Z"
    assert task.recurrence == "0 8 * * *"
    assert task.content == {"prompt": "water the plants", "script": None}
    assert task.place == Place("test", "chat-1")


def test_actions_need_no_channel(desk: Desk) -> None:
    act(desk, "schedule_task", taskId="t1", prompt="x", recurrence="", processAfter="")
    (task,) = tasks(desk)
    assert (task.recurrence, task.process_after) == (None, None)
    assert desk.rows("SELECT status FROM delivered") == [("delivered",)]


def test_a_time_without_a_zone_is_meant_in_the_zone_of_the_host(factory: MailFactory) -> None:
    desk = Desk(factory, Clock(), zone="America/New_York")
    act(desk, "schedule_task", taskId="t1", prompt="x", processAfter="2026-01-05T09:00:00")
    assert tasks(desk)[0].process_after == "2026-01-05T14:00:00.000Z"


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("number", range(1, 5))
def test_a_task_is_made_once_whenever_the_host_dies(
    desk: Desk,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    committed: bool,  # noqa: FBT001
) -> None:
    desk.container.schedule("x", process_after="2025-10-10T08:00:00Z")
    with monkeypatch.context() as patch, pytest.raises(Crash):
        crash_at_write(desk.host, patch, number, committed=committed)
        desk.host.drain({})
    desk.new_host().drain({})
    assert len(tasks(desk)) == 1
    assert desk.notes() == []
    assert desk.rows("SELECT state FROM tk_delivery") == [("sent",)]


@pytest.mark.parametrize(
    "fields, words",
    [
        ({"prompt": "x", "taskId": "t", "recurrence": "every day"}, "schedule_task: "),
        ({"prompt": "x", "taskId": "t", "recurrence": "99 * * * *"}, "schedule_task: "),
        ({"prompt": "x", "taskId": "t", "processAfter": "soon"}, "'soon' is not a time"),
        ({"prompt": "x", "taskId": "t", "processAfter": 5}, "processAfter must be text"),
        ({"prompt": " ", "taskId": "t"}, "the prompt is empty"),
        ({"prompt": 7, "taskId": "t"}, "prompt must be text"),
        ({"prompt": "x"}, "it names no task"),
        ({"prompt": "x", "taskId": "a/b"}, "cannot be the id"),
    ],
)
def test_a_bad_task_is_refused_and_the_agent_told(
    desk: Desk, fields: dict[str, Any], words: str
) -> None:
    act(desk, "schedule_task", **fields)
    assert tasks(desk) == []
    (note,) = desk.notes()
    assert words in note
    assert "(schedule_task)" in note
    assert desk.rows("SELECT state FROM tk_delivery") == [("failed",)]


def test_an_id_of_other_mail_is_refused(desk: Desk) -> None:
    desk.host.send("hello", id="m1")
    act(desk, "schedule_task", taskId="m1", prompt="x")
    assert tasks(desk) == []
    assert "there is other mail with the id" in desk.notes()[0]


def test_tasks_are_paused_resumed_changed_and_cancelled(desk: Desk) -> None:
    desk.host.insert_task("x", id="t1", process_after="2025-10-10T08:00:00Z", script="ls")
    act(desk, "pause_task", taskId="t1")
    assert [t.status for t in tasks(desk)] == ["paused"]
    act(desk, "resume_task", taskId="t1")
    assert [t.status for t in tasks(desk)] == ["pending"]
    desk.container.update_task(
        "t1",
        prompt="y",
        script=None,
        process_after="2025-10-11T08:00:00Z",
        recurrence="0 8 * * *",
    )
    desk.host.drain({})
    (task,) = tasks(desk)
    assert task.content == {"prompt": "y", "script": None}
    assert task.process_after == "2025-10-11T08:00:00.000Z"
    assert task.recurrence == "0 8 * * *"
    act(desk, "update_task", taskId="t1", recurrence=None)
    assert tasks(desk)[0].recurrence is None
    act(desk, "cancel_task", taskId="t1")
    assert [t.status for t in tasks(desk)] == ["completed"]
    assert desk.notes() == []


@pytest.mark.parametrize("action", ["cancel_task", "pause_task", "resume_task", "update_task"])
def test_the_agent_is_told_when_no_task_matches(desk: Desk, action: str) -> None:
    act(desk, action, taskId="t9", prompt="y")
    assert desk.notes() == [f'{action}: no live task matched id "t9".']
    assert desk.rows("SELECT trigger FROM messages_in") == [(0,)]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"prompt": None},
        {"processAfter": ""},
        {"recurrence": "never"},
        {"script": 5},
        {"processAfter": "soon"},
    ],
)
def test_a_bad_change_is_refused_and_changes_nothing(desk: Desk, fields: dict[str, Any]) -> None:
    before = desk.host.insert_task("x", id="t1", process_after="2025-10-10T08:00:00Z")
    act(desk, "update_task", taskId="t1", **fields)
    assert tasks(desk) == [before]
    assert "(update_task)" in desk.notes()[0]


def test_actions_keep_their_order(desk: Desk) -> None:
    for action in ("schedule_task", "pause_task", "resume_task", "cancel_task"):
        said = {"action": action, "taskId": "t1", "prompt": "x"}
        desk.container.insert_message("system", said, Place())
    assert len(desk.host.drain({}).sent) == 4
    assert [t.status for t in tasks(desk)] == ["completed"]
    assert desk.notes() == []


def test_handlers_of_the_host_are_called(desk: Desk) -> None:
    calls: list[tuple[str, str]] = []

    def install(ctx: MailContext, mail: Outgoing) -> None:
        calls.append((ctx.session, mail.content["reason"]))
        if mail.content["reason"] == "bad":
            raise Refused("not this one")

    desk.container.act("install_packages", reason="good")
    desk.container.act("install_packages", reason="bad")
    drained = desk.host.drain({}, {"install_packages": install})
    assert calls == [("sess-1", "good"), ("sess-1", "bad")]
    assert (len(drained.sent), len(drained.failed)) == (1, 1)


def test_an_unknown_action_is_refused_with_those_that_are_known(desk: Desk) -> None:
    act(desk, "fly")
    assert "unknown action 'fly'" in desk.notes()[0]
    assert "schedule_task" in desk.notes()[0]


def test_an_action_that_fails_for_other_reasons_is_tried_again(desk: Desk) -> None:
    tries: list[int] = []

    def flaky(ctx: MailContext, mail: Outgoing) -> None:
        tries.append(mail.attempt)
        if len(tries) == 1:
            raise OSError

    desk.container.act("flaky")
    for _ in range(2):
        desk.host.drain({"test": Channel()}, {"flaky": flaky})
        desk.clock.pass_seconds(5)
    assert tries == [1, 2]
    assert desk.rows("SELECT state FROM tk_delivery") == [("sent",)]
