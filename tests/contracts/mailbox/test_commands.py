import itertools
import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.contracts.mailbox.postal import Clock, Crash, Desk, crash_at_write
from tests.support.mail import MailFactory
from threadkeep.mailbox import Container, Host, Place
from threadkeep.mailbox.commands import CommandRefused, read_flags, read_typed, split_command
from threadkeep.mailbox.task_commands import new_task_id, run_id

DAILY = {"prompt": "water", "name": "Water plants", "recurrence": "0 9 * * *"}
FUTURE = "2030-01-01T00:00:00Z"


@pytest.fixture
def desk(factory: MailFactory) -> Desk:
    return Desk(factory, Clock())


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


def test_times_without_a_zone_are_those_of_the_group(factory: MailFactory) -> None:
    desk = Desk(factory, Clock(), zone="America/New_York")
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
