"""Commands: what is about the files of SQLite."""

from pathlib import Path
from typing import Any

import pytest

from tests.contracts.mailbox.postal import NOW, Channel, Clock, Crash, Desk, crash_at_write
from tests.support.mail import MailFactory
from threadkeep import Mailroom
from threadkeep.base import nofollow
from threadkeep.base.tx import Sql
from threadkeep.errors import ReadOnly
from threadkeep.mailbox import Container, FileAdapter, Host, Place

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
        assert "cannot be a file name" in refused(desk, "tasks-append-log", id=name, msg="x")[1]
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
    assert "cannot be reached" in words
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
            keys = [key for (key,) in tx.all(Sql("SELECT key FROM tk_meta"))]
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
