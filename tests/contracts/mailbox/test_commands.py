import itertools
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.contracts.mailbox.postal import NOW, Channel, Clock, Crash, Desk, crash_at_write
from threadkeep import Mailroom
from threadkeep.base import nofollow
from threadkeep.errors import ReadOnly
from threadkeep.mailbox import Container, FileAdapter, Host, Place
from threadkeep.mailbox.commands import CommandRefused, read_flags, read_typed, split_command
from threadkeep.mailbox.task_commands import new_task_id, run_id

DAILY = {"prompt": "water", "name": "Water plants", "recurrence": "0 9 * * *"}
FUTURE = "2030-01-01T00:00:00Z"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "ag-1" / "sess-1", Clock())


def request(container: Container, command: str, row_id: str, **args: Any) -> None:
    said = {"action": "cli_request", "requestId": row_id, "command": command, "args": args}
    container.insert_message("system", said, Place(), message_id=row_id)


def frame_of(host: Host, request_id: str) -> dict[str, Any]:
    """Find the answer as `ncl` does: by its text, among what is pending."""
    wanted = f'"requestId":"{request_id}"'
    (row,) = [mail for mail in host.inbox("pending", limit=1000) if wanted in mail.raw]
    assert (row.id, row.kind, row.trigger) == (f"cli-resp-{request_id}", "system", False)
    assert (row.place, row.series_id, row.process_after) == (Place(), row.id, None)
    assert row.content["type"] == "cli_response"
    frame: dict[str, Any] = row.content["frame"]
    assert frame["id"] == request_id
    return frame


_numbers = iter(range(1_000_000))


def ncl(desk: Desk, command: str, **args: Any) -> dict[str, Any]:
    row_id = f"cli-1760000000000-{next(_numbers):06d}"
    request(desk.container, command, row_id, **args)
    assert desk.host.drain({}).sent == (row_id,)
    return frame_of(desk.host, row_id)


def good(desk: Desk, command: str, **args: Any) -> Any:
    frame = ncl(desk, command, **args)
    assert frame["ok"], frame
    return frame["data"]


def refused(desk: Desk, command: str, **args: Any) -> tuple[str, str]:
    frame = ncl(desk, command, **args)
    assert not frame["ok"], frame
    return frame["error"]["code"], frame["error"]["message"]


# ---------------------------------------------------------------------- every command


def test_a_task_is_made_listed_and_shown(desk: Desk) -> None:
    made = good(desk, "tasks-create", **DAILY, script="echo 1")
    assert re.fullmatch("water-plants-[0-9a-f]{4}", made["series_id"])
    assert made == {
        "agent_group_id": "ag-1",
        "session_id": "sess-1",
        "series_id": made["series_id"],
        "row_id": made["series_id"],
        "status": "pending",
        "process_after": "2025-10-09T09:00:00.000Z",
        "recurrence": "0 9 * * *",
        "prompt": "water",
        "has_script": 1,
        "origin_session_id": "sess-1",
        "created_at": "2025-10-09T08:53:20.000Z",
        "tries": 0,
    }
    frame = ncl(desk, "tasks-list")
    (listed,) = frame["data"]
    assert listed == {
        **made,
        "schedule": "0 9 * * *",
        "runs": 0,
        "failed_runs": 0,
        "last_run": None,
        "next_run": "2025-10-09T09:00:00.000Z",
        "log": f"tasks/{made['series_id']}.md",
    }
    assert made["series_id"] in frame["human"]
    assert good(desk, f"tasks-get-{made['series_id']}") == {
        **made,
        "script": "echo 1",
        "completed_runs": 0,
        "failed_runs": 0,
        "recent_log": [],
    }
    (task,) = desk.host.tasks()
    assert task.content == {"prompt": "water", "script": "echo 1", "originSessionId": "sess-1"}


def test_a_list_without_tasks_says_so(desk: Desk) -> None:
    frame = ncl(desk, "tasks-list", all=True, session="sess-1")
    assert (frame["data"], frame["human"]) == ([], "No tasks.")


def test_a_long_prompt_is_shortened_in_lists_only(desk: Desk) -> None:
    made = good(desk, "tasks-create", prompt="x" * 121, **{"process-after": FUTURE})
    assert made["prompt"] == "x" * 117 + "..."
    assert re.fullmatch("t-[0-9a-f]{6}", made["series_id"])
    assert good(desk, "tasks-get", id=made["series_id"])["prompt"] == "x" * 121


def test_a_task_is_held_goes_on_and_is_called_off(desk: Desk) -> None:
    series = good(desk, "tasks-create", **DAILY)["series_id"]
    assert good(desk, f"tasks-pause-{series}") == {"series_id": series, "touched": 1}
    assert [row["status"] for row in good(desk, "tasks-list", status="paused")] == ["paused"]
    assert good(desk, "tasks-list", status="pending") == []
    assert good(desk, "tasks-resume", id=series)["touched"] == 1
    assert good(desk, "tasks-cancel", id=series)["touched"] == 1
    (row,) = desk.host.inbox(kind="task")
    assert (row.status, row.recurrence) == ("cancelled", None)
    assert refused(desk, "tasks-cancel", id=series)[0] == "handler-error"
    assert good(desk, "tasks-get", id=series)["status"] == "cancelled"


def test_all_tasks_are_called_off_at_once(desk: Desk) -> None:
    assert good(desk, "tasks-cancel", all=True) == {"cancelled": 0}
    good(desk, "tasks-create", **DAILY)
    good(desk, "tasks-create", prompt="x", process_after=FUTURE)
    assert good(desk, "tasks-cancel", all="true") == {"cancelled": 2}
    assert desk.host.tasks() == []


def test_an_update_changes_every_live_row_also_one_that_is_due(desk: Desk) -> None:
    series = good(desk, "tasks-create", **DAILY)["series_id"]
    extra = good(desk, "tasks-run", id=series)["row_id"]
    done = good(desk, "tasks-update", id=series, prompt="feed", script="true")
    assert done == {"series_id": series, "touched": 2, "fields": ["prompt", "script"]}
    assert {t.text for t in desk.host.tasks()} == {"feed"}
    good(desk, "tasks-update", id=series, recurrence="0 7 * * *", script="none")
    by_id = {task.id: task for task in desk.host.tasks()}
    assert by_id[series].process_after == "2025-10-10T07:00:00.000Z"
    assert by_id[extra].recurrence is None
    assert by_id[series].content["script"] is None
    desk.clock.pass_seconds(2 * 86_400)
    good(desk, "tasks-update", id=series, recurrence="0 8 * * *")
    assert desk.host.mail(series).process_after == "2025-10-10T07:00:00.000Z"  # due: it comes
    good(desk, "tasks-update", id=series, recurrence="null", process_after="2030-05-05T05:05:00Z")
    assert desk.host.mail(series).recurrence is None


def test_a_run_of_now_leaves_the_schedule_alone(desk: Desk) -> None:
    series = good(desk, "tasks-create", **DAILY)["series_id"]
    done = good(desk, "tasks-run", id=series)
    assert done == {"series_id": series, "row_id": done["row_id"], "status": "pending"}
    assert done["row_id"].startswith(f"{series}-run-")
    row = desk.host.mail(done["row_id"])
    assert (row.recurrence, row.series_id, row.trigger) == (None, series, True)
    assert desk.host.due() == 1
    (listed,) = good(desk, "tasks-list")
    assert listed["row_id"] == series
    desk.container.claim([row])
    desk.container.complete([row])
    desk.host.sweep()
    (listed,) = good(desk, "tasks-list")
    assert (listed["runs"], listed["failed_runs"]) == (1, 0)
    assert listed["last_run"] == row.process_after
    assert [task.id for task in desk.host.tasks()] == [series]


def test_a_task_is_removed_with_all_that_it_left(desk: Desk) -> None:
    series = good(desk, "tasks-create", **DAILY)["series_id"]
    extra = desk.host.mail(good(desk, "tasks-run", id=series)["row_id"])
    desk.container.fail([extra], "no water")
    desk.host.sweep()
    good(desk, "tasks-append-log", id=series, msg="half done")
    assert good(desk, f"tasks-delete-{series}") == {"series_id": series, "touched": 2}
    assert desk.host.inbox(kind="task") == []
    assert not (desk.path / "tasks" / f"{series}.md").exists()
    assert desk.host.dead_letters() == []
    assert refused(desk, "tasks-get", id=series) == ("handler-error", f"task not found: {series}")
    assert [p for p in desk.host.verify() if p.severity == "error"] == []


def test_a_log_is_kept_line_by_line(desk: Desk) -> None:
    series = good(desk, "tasks-create", **DAILY)["series_id"]
    for number in range(12):
        said = good(desk, f"tasks-append-log-{series}", msg=f"run\n {number}")
    assert said == {
        "series": series,
        "timestamp": said["timestamp"],
        "path": f"tasks/{series}.md",
        "ok": True,
    }
    log = good(desk, "tasks-get", id=series)["recent_log"]
    assert len(log) == 10
    assert log[-1].endswith("run 11")


def test_in_the_session_of_a_task_its_own_log_is_meant(desk: Desk) -> None:
    code, words = refused(desk, "tasks-append-log", msg="x")
    assert code == "handler-error"
    assert "--id is required" in words
    desk.host.write_routing(Place(None, None, "system:tasks:brief-a1b2"))
    assert good(desk, "tasks-append-log", msg="x")["series"] == "brief-a1b2"
    assert (desk.path / "tasks" / "brief-a1b2.md").read_text().endswith(" x\n")


def test_a_link_in_place_of_the_log_is_not_followed(desk: Desk, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in "ab":
        desk.host.insert_task("x", id=name, process_after=FUTURE)
    desk.rows("UPDATE messages_in SET series_id = '../a' WHERE id = 'b'")  # the agent could
    (desk.path / "tasks").symlink_to(outside)
    assert refused(desk, "tasks-append-log", id="a", msg="x")[0] == "handler-error"
    assert list(outside.iterdir()) == []
    (desk.path / "tasks").unlink()
    (desk.path / "tasks").mkdir()
    (outside / "secret").write_text("s")
    (desk.path / "tasks" / "a.md").symlink_to(outside / "secret")
    assert refused(desk, "tasks-append-log", id="a", msg="x")[0] == "handler-error"
    assert (outside / "secret").read_text() == "s"
    for name in ("../a", "b"):
        assert "cannot be that of a file" in refused(desk, "tasks-append-log", id=name, msg="x")[1]
    assert sorted(path.name for path in desk.path.glob("*.md")) == []


@pytest.mark.parametrize("way", ["a file", "locked"])
def test_a_log_out_of_reach_is_in_nobodys_way(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    desk.host.insert_task("x", id="t1", process_after=FUTURE)
    (desk.path / "tasks").write_text("in the way")
    if way == "locked":  # permissions do not hold root up

        def locked(*_: Any, **__: Any) -> None:
            raise ReadOnly(f"{desk.path} cannot be written", hint="check it")

        for verb in ("make_dir", "read_end", "remove_tree"):
            monkeypatch.setattr(nofollow, verb, locked)
    code, words = refused(desk, "tasks-append-log", id="t1", msg="x")
    assert code == "handler-error"
    assert "out of reach" in words
    assert str(desk.path) not in words
    assert good(desk, "tasks-get", id="t1")["recent_log"] == []
    desk.container.insert_message("task_log", {"text": "x"}, Place(), in_reply_to="t1")
    assert len(desk.host.drain({}).sent) == 1
    assert good(desk, "tasks-delete", id="t1")["touched"] == 1
    assert desk.host.tasks() == []
    assert desk.notes() == []


def test_the_log_of_a_task_that_is_not_there_is_refused(desk: Desk) -> None:
    words = refused(desk, "tasks-append-log", id="typo", msg="x")
    assert words == ("handler-error", "task not found: typo")
    assert not (desk.path / "tasks").exists()


# ---------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    "command, args, code, words",
    [
        ("tasks-bogus", {}, "unknown-command", "no command"),
        ("tasks", {}, "unknown-command", "no command"),
        ("tasks-listing", {}, "unknown-command", "no command"),
        ("users-list", {}, "unknown-command", "ncl help"),
        ("", {}, "unknown-command", "no command"),
        ("tasks-list", {"colour": "red"}, "invalid-args", "has no --colour"),
        ("tasks-list-x", {}, "invalid-args", "has no --id"),
        ("tasks-list", {"status": True}, "invalid-args", "--status needs a value"),
        ("tasks-list", {"status": "done"}, "invalid-args", "pending or paused"),
        ("tasks-list", {"all": "maybe"}, "invalid-args", "--all takes no value"),
        ("tasks-list", {"session": "sess-9"}, "handler-error", "session not found"),
        ("tasks-list", {"group": "ag-2"}, "forbidden", "its own group"),
        ("tasks-create", {"agent-group-id": "ag-2", "prompt": "x"}, "forbidden", "own group"),
        ("tasks-create", {"group": True, "prompt": "x"}, "forbidden", "own group"),
        ("tasks-create", {"recurrence": "0 9 * * *"}, "invalid-args", "--prompt is required"),
        ("tasks-create", {"prompt": ""}, "invalid-args", "--prompt is required"),
        ("tasks-create", {"prompt": 5}, "invalid-args", "--prompt needs a value"),
        ("tasks-create", {"prompt": "x"}, "handler-error", "--process-after is required"),
        (
            "tasks-create",
            {"prompt": "x", "process-after": "tomorrow 18:00"},
            "handler-error",
            "not a time",
        ),
        (
            "tasks-create",
            {"prompt": "x", "process-after": FUTURE, "process_after": "2031-01-01"},
            "invalid-args",
            "given twice",
        ),
        ("tasks-create", {"prompt": "x", "recurrence": "99 * * * *"}, "handler-error", ""),
        (
            "tasks-create",
            {"prompt": "x", "recurrence": "*/10 * * * *"},
            "handler-error",
            "--script",
        ),
        ("tasks-get", {}, "invalid-args", "--id is required"),
        ("tasks-get-a-b", {"id": "c"}, "invalid-args", "two ids"),
        ("tasks-get-nope-0000", {}, "handler-error", "task not found: nope-0000"),
        ("tasks-run-nope-0000", {}, "handler-error", "task not found: nope-0000"),
        ("tasks-pause-nope-0000", {}, "handler-error", "no live task matched: nope-0000"),
        ("tasks-update-nope", {"prompt": "x"}, "handler-error", "no live task matched: nope"),
        ("tasks-update-nope", {}, "handler-error", "nothing to update"),
        ("tasks-update-nope", {"prompt": " "}, "invalid-args", "--prompt cannot be empty"),
        ("tasks-cancel", {}, "invalid-args", "--id is required, or --all"),
        ("tasks-cancel-x", {"all": True}, "invalid-args", "not both"),
    ],
)
def test_a_refusal_is_an_answer(
    desk: Desk, command: str, args: dict[str, Any], code: str, words: str
) -> None:
    found, message = refused(desk, command, **args)
    assert found == code
    assert words in message
    assert desk.host.inbox(kind="task") == []
    assert (desk.notes(), desk.host.dead_letters()) == ([], [])


@pytest.mark.parametrize(
    "extra", [{"script": "true"}, {"dangerously-override-recurrence-limit": True}]
)
def test_many_runs_a_day_need_a_script_or_a_firm_word(desk: Desk, extra: dict[str, Any]) -> None:
    made = good(desk, "tasks-create", prompt="x", recurrence="*/10 * * * *", **extra)
    code, words = refused(
        desk, "tasks-update", id=made["series_id"], recurrence="* * * * *", script="none"
    )
    assert (code, "runs a day" in words) == ("handler-error", True)
    assert desk.host.mail(made["series_id"]).recurrence == "*/10 * * * *"


def test_four_runs_a_day_are_allowed(desk: Desk) -> None:
    assert good(desk, "tasks-create", prompt="x", recurrence="0 0,6,12,18 * * *")


def test_the_own_group_may_be_named(desk: Desk) -> None:
    assert good(desk, "tasks-list", group="ag-1") == []


@pytest.mark.parametrize("command", ["tasks-create", "tasks-cancel-water-9bde"])
def test_help_is_given_before_anything_is_done(desk: Desk, command: str) -> None:
    frame = ncl(desk, command, help=True, odd="flag")
    assert frame["data"] == frame["human"]
    assert frame["human"].startswith("Usage: ncl tasks c")
    assert desk.host.tasks() == []


def test_help_lists_the_commands(desk: Desk) -> None:
    text = ncl(desk, "help")["human"]
    assert "ncl tasks append-log" in text
    assert ncl(desk, "help-create")["human"].startswith("Usage: ncl tasks create")


def test_times_without_a_zone_are_those_of_the_group(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "ag-1" / "sess-1", Clock(), zone="America/New_York")
    made = good(desk, "tasks-create", prompt="x", process_after="2026-01-05T09:00:00")
    assert made["process_after"] == "2026-01-05T14:00:00.000Z"


def test_a_request_that_nobody_could_answer_is_told(desk: Desk) -> None:
    odd: tuple[Any, ...] = (None, 5, "", "a/b")
    for request_id in odd:
        said: dict[str, Any] = {
            "action": "cli_request",
            "requestId": request_id,
            "command": "help",
            "args": {},
        }
        desk.container.insert_message("system", said, Place())
    assert len(desk.host.drain({}).failed) == 4
    assert len(desk.notes()) == 4


def test_odd_requests_are_answered(desk: Desk) -> None:
    odd: list[dict[str, Any]] = [{"command": 5}, {"command": "tasks-list", "args": [1]}, {}]
    for number, said in enumerate(odd):
        row_id = f"cli-1-{number}"
        desk.container.insert_message(
            "system",
            {"action": "cli_request", "requestId": row_id, **said},
            Place(),
            message_id=row_id,
        )
        desk.host.drain({})
        assert frame_of(desk.host, row_id)["error"]["code"] == "invalid-args"


# ---------------------------------------------------------------------- once, whatever happens


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("number", range(1, 5))
@pytest.mark.parametrize("command, args", [("tasks-create", DAILY), ("tasks-run", {"id": "t1"})])
def test_a_command_is_done_once_whenever_the_host_dies(
    desk: Desk,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    committed: bool,  # noqa: FBT001
    command: str,
    args: dict[str, Any],
) -> None:
    desk.host.insert_task("x", id="t1", process_after=FUTURE)
    request(desk.container, command, "cli-1-a", **args)
    with monkeypatch.context() as patch, pytest.raises(Crash):
        crash_at_write(desk.host, patch, number, committed=committed)
        desk.host.drain({})
    desk.new_host().drain({})
    assert len(desk.host.tasks()) == 2
    assert frame_of(desk.host, "cli-1-a")["ok"]
    assert desk.notes() == []
    assert desk.rows("SELECT state FROM tk_delivery") == [("sent",)]


def test_a_request_that_was_answered_is_not_done_again(desk: Desk) -> None:
    request(desk.container, "tasks-create", "cli-1-a", **DAILY)
    desk.host.drain({})
    desk.rows("DELETE FROM delivered")
    desk.rows("UPDATE tk_delivery SET state = 'prepared'")
    assert desk.new_host().drain({}).sent == ("cli-1-a",)
    assert len(desk.host.tasks()) == 1
    assert frame_of(desk.host, "cli-1-a")["ok"]


def test_tasks_of_one_name_have_ids_of_their_own(desk: Desk) -> None:
    ids = {good(desk, "tasks-create", **DAILY)["series_id"] for _ in range(5)}
    assert len(ids) == 5


# ---------------------------------------------------------------------- what nobody understands


def test_an_action_that_nobody_knows_is_answered_if_somebody_waits(desk: Desk) -> None:
    said = {"action": "create_agent", "requestId": "req-1", "name": "x"}
    sent = desk.container.insert_message("system", said, Place())
    assert desk.host.drain({}).failed == (sent.id,)
    frame = frame_of(desk.host, "req-1")
    assert frame["error"]["code"] == "unknown-command"
    assert "create_agent" in frame["error"]["message"]
    assert desk.notes() == []
    assert desk.rows("SELECT status FROM delivered") == [("failed",)]


def test_an_action_that_nobody_knows_is_told_if_nobody_waits(desk: Desk) -> None:
    desk.container.insert_message("system", {"action": "fly"}, Place())
    desk.host.drain({})
    (note,) = desk.notes()
    assert "unknown action 'fly'" in note
    assert "cli_request" in note


def test_a_host_may_answer_commands_itself(desk: Desk) -> None:
    seen: list[Any] = []
    request(desk.container, "users-list", "cli-1-a")
    desk.host.drain({}, {"cli_request": lambda _, mail: seen.append(mail.content["command"])})
    assert seen == ["users-list"]


# ---------------------------------------------------------------------- all sessions of an agent


def test_an_agent_finds_its_tasks_from_any_of_its_sessions(tmp_path: Path) -> None:
    with Mailroom.open(tmp_path, clock=lambda: NOW, adapters={"cli": Channel()}) as room:
        first = room.new_session("helper", "cli", "one")
        second = room.new_session("helper", "cli", "two")
        stranger = room.new_session("other", "cli", "three")
        room.host(first).insert_task("mine", id="t1", recurrence="0 9 * * *")
        room.host(stranger).insert_task("not mine", id="t2", recurrence="0 9 * * *")
        agent = Container(room.folder(second), clock=lambda: NOW)
        typed: list[tuple[str, dict[str, Any]]] = [
            ("tasks-list", {}),
            ("tasks-pause-t1", {}),
            ("tasks-pause-t2", {}),
            ("tasks-list", {"session": second.id}),
            ("tasks-cancel", {"all": True}),
        ]
        for number, (command, args) in enumerate(typed):
            request(agent, command, f"cli-1-{number}", **args)
        room.deliver(second)
        host = room.host(second)
        listed, paused, strange, own, cancelled = (frame_of(host, f"cli-1-{n}") for n in range(5))
        assert [row["series_id"] for row in listed["data"]] == ["t1"]
        assert listed["data"][0]["session_id"] == first.id
        assert paused["data"]["touched"] == 1
        assert strange["error"]["message"] == "no live task matched: t2"
        assert own["data"] == []
        assert cancelled["data"] == {"cancelled": 1}
        assert room.host(first).mail("t1").status == "cancelled"
        assert room.host(stranger).mail("t2").status == "pending"


@pytest.mark.parametrize(
    "command, args, words",
    [
        ("tasks-update-t1", {"recurrence": "nonsense"}, "fewer than five fields"),
        ("tasks-update-t1", {"process-after": "tomorrow 18:00"}, "is not a time"),
        ("tasks-update-t1", {"recurrence": "* * * * *"}, "more than 4 runs a day"),
    ],
)
def test_a_refusal_for_a_task_elsewhere_is_an_answer(
    tmp_path: Path, command: str, args: dict[str, Any], words: str
) -> None:
    with Mailroom.open(tmp_path, clock=lambda: NOW, adapters={"cli": Channel()}) as room:
        first, second = (room.new_session("helper", "cli", chat) for chat in "ab")
        before = room.host(first).insert_task("x", id="t1", recurrence="0 9 * * *")
        request(Container(room.folder(second), clock=lambda: NOW), command, "cli-1-a", **args)
        assert room.drain(second).sent == ("cli-1-a",)
        error = frame_of(room.host(second), "cli-1-a")["error"]
        assert error["code"] == "handler-error"
        assert words in error["message"]
        assert room.host(first).mail("t1") == before


def test_the_log_of_a_task_elsewhere_lies_beside_it(tmp_path: Path) -> None:
    with Mailroom.open(tmp_path, clock=lambda: NOW, adapters={"cli": Channel()}) as room:
        first, second = (room.new_session("helper", "cli", chat) for chat in "ab")
        room.host(first).insert_task("x", id="t1", recurrence="0 9 * * *")
        agent = Container(room.folder(second), clock=lambda: NOW)
        request(agent, "tasks-append-log-t1", "cli-1-a", msg="went well")
        request(agent, "tasks-append-log", "cli-1-b", msg="of which task?")
        request(agent, "tasks-get-t1", "cli-1-c")
        room.drain(second)
        logged, nameless, shown = (frame_of(room.host(second), f"cli-1-{n}") for n in "abc")
        assert logged["data"]["series"] == "t1"
        assert "--id is required" in nameless["error"]["message"]
        assert [line[-9:] for line in shown["data"]["recent_log"]] == ["went well"]
        assert not (room.folder(second).path / "tasks").exists()


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("command", ["tasks-cancel-t1", "tasks-run-t1", "tasks-delete-t1"])
def test_a_task_elsewhere_is_changed_once_whenever_the_host_dies(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    committed: bool,  # noqa: FBT001
) -> None:
    with Mailroom.open(tmp_path, clock=lambda: NOW, adapters={"cli": Channel()}) as room:
        first, second = (room.new_session("helper", "cli", chat) for chat in "ab")
        room.host(first).insert_task("x", id="t1", recurrence="0 9 * * *")
        agent = Container(room.folder(second), clock=lambda: NOW)
        request(agent, command, "cli-1-a")
        with monkeypatch.context() as patch, pytest.raises(Crash):
            # The third write of its own folder: taken over, begun, and then the answer.
            crash_at_write(room.host(second), patch, 3, committed=committed)
            room.drain(second)
        before = [task.id for task in room.host(first).inbox(kind="task")]
        room.drain(second)
        frame = frame_of(room.host(second), "cli-1-a")
        assert frame["ok"], frame
        assert [task.id for task in room.host(first).inbox(kind="task")] == before
        with room.context(first).folder.inbound.read() as tx:
            keys = [key for (key,) in tx.execute("SELECT key FROM tk_meta")]
        assert not any("cli-1-a" in key for key in keys) or committed


def test_one_broken_folder_does_not_hide_the_others(tmp_path: Path) -> None:
    with Mailroom.open(
        tmp_path, clock=lambda: NOW, adapters={"cli": FileAdapter(tmp_path / "o")}
    ) as room:
        first, second, third = (room.new_session("helper", "cli", chat) for chat in "abc")
        room.host(third).insert_task("x", id="t1", process_after=FUTURE)
        room.host(second)
        room.folder(second).inbound_path.write_bytes(b"no database at all" * 100)
        agent = Container(room.folder(first), clock=lambda: NOW)
        request(agent, "tasks-list", "cli-1-a")
        room.deliver(first)
        assert [row["series_id"] for row in frame_of(room.host(first), "cli-1-a")["data"]] == ["t1"]


# ---------------------------------------------------------------------- words and ids

NAMES = st.sets(
    st.lists(st.sampled_from(["tasks", "a", "b", "log"]), min_size=1, max_size=3).map("-".join)
)


@given(
    NAMES, st.lists(st.sampled_from(["tasks", "a", "b", "log", "", "x9"]), max_size=5).map("-".join)
)
def test_the_longest_command_that_fits_is_meant(names: set[str], typed: str) -> None:
    name, rest = split_command(typed, names)
    fits = [one for one in names if typed == one or typed.startswith(f"{one}-")]
    assert name == max(fits, key=len, default="")
    if name:
        assert typed == name + (f"-{rest}" if rest is not None else typed[len(name) :])
        assert rest != ""
    else:
        assert rest is None


def test_a_command_of_many_dashes_costs_no_look_at_each() -> None:
    class Counted(set[str]):
        looks = 0

        def __contains__(self, name: object) -> bool:
            self.looks += 1
            return super().__contains__(name)

    names = Counted(("tasks-list", "tasks"))
    assert split_command("tasks" + "-" * 1000, names) == ("tasks", "-" * 999)
    assert names.looks <= len(names)


@given(st.dictionaries(st.text("ab-_", min_size=1, max_size=4), st.sampled_from(["1", "2", True])))
def test_flags_have_one_name_however_they_are_typed(args: dict[str, Any]) -> None:
    by_name: dict[str, set[Any]] = {}
    for key, value in args.items():
        by_name.setdefault(key.replace("-", "_"), set()).add(value)
    if any(len(values) > 1 for values in by_name.values()):
        with pytest.raises(CommandRefused):
            read_flags(args)
    else:
        assert read_flags(args) == {name: values.pop() for name, values in by_name.items()}


@given(st.lists(st.sampled_from(["a", "b", "--x", "--y-z", "--", "-"]), max_size=8))
def test_what_is_typed_is_words_and_flags(arguments: list[str]) -> None:
    words, flags = read_typed(arguments)
    names = [one for one in arguments if one.startswith("--") and one != "--"]
    assert set(flags) == {one.removeprefix("--") for one in names}
    values = [value for value in flags.values() if value is not True]
    assert len(words.split()) + len(values) <= len(arguments) - len(set(names))
    if not names:
        assert words.split() == arguments
    for before, one in itertools.pairwise(["", *arguments]):
        if not before.startswith("--") and not one.startswith("--"):
            assert one in words.split() or one in values


def test_flags_are_typed_as_ncl_has_them() -> None:
    typed = ["tasks", "create", "--prompt", "a b", "--all", "--json", "x", "last"]
    assert read_typed(typed) == (
        "tasks create last",
        {"prompt": "a b", "all": True, "json": "x"},
    )


@given(st.none() | st.text(max_size=60), st.text(max_size=20))
def test_ids_are_made_of_names(name: str | None, seed: str) -> None:
    made = new_task_id(name, seed)
    assert re.fullmatch("([a-z0-9](?:[a-z0-9-]{0,22}[a-z0-9])?-[0-9a-f]{4}|t-[0-9a-f]{6})", made)
    assert made == new_task_id(name, seed)
    assert run_id(made, seed).startswith(f"{made}-run-")
