"""NanoClaw and we, in every pairing: either host, either container, a folder that either made.

Each test runs on a folder of ours and on one of theirs.
"""

import json
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.lengths import examples
from tests.support.mail import CHAT, GROUP, FakeClock
from tests.support.nanoclaw import NanoContainer, Row, in_iso
from tests.support.nanoclaw_world import World
from threadkeep.errors import Invalid
from threadkeep.mailbox.host.host import Host
from threadkeep.mailbox.mailroom import Mailroom
from threadkeep.mailbox.records import Destination, Mail, Place

LONG_AGO = "2020-01-01T00:00:00.000Z"
FAR = "2999-01-01T00:00:00.000Z"
LADDER = [5, 10, 20, 40, 80]
SLACK = {"channel_type": "slack", "platform_id": "C1", "thread_id": "T1"}


@pytest.fixture(params=["a folder of ours", "a folder of theirs"])
def world(tmp_path: Path, request: pytest.FixtureRequest) -> World:
    return World.make(tmp_path / GROUP / "sess-1-abcdef", ours=request.param == "a folder of ours")


# ---------------------------------------------------------------- their host, our container


def test_our_container_works_for_their_host(world: World) -> None:
    container = world.container
    container.start()
    world.their_host.post(f"77:{GROUP}", {"text": "hello", "sender": "Ann"})
    world.their_host.post("m2", {"text": "by the way"}, trigger=0)
    world.their_host.post("m3", {"text": "good morning"}, on_wake=1)
    mails = container.poll()
    assert [(m.text, m.trigger, m.on_wake) for m in mails] == [
        ("hello", True, False),
        ("by the way", False, False),
        ("good morning", True, True),
    ]
    assert container.claim(mails) == [m.id for m in mails]
    sent = container.send("hi Ann")
    container.complete(mails)
    assert world.drain(ours=False) == ["hi Ann"]
    assert world.drain(ours=False) == []
    world.their_host.sweep()
    assert (world.statuses(), world.their_host.due()) == ({"completed"}, 0)
    container.edit(sent.seq or 0, "hi, Ann")
    container.react(2, "wave")
    world.drain(ours=False)
    assert [said["messageId"] for _, said, _ in world.channel.sent[1:]] == [f"p-{sent.id}", "77"]
    world.check()


def test_a_long_queue_of_theirs_is_worked_off_in_order(world: World) -> None:
    container, words = world.container, [f"m{number}" for number in range(15)]
    for word in words:
        world.their_host.post(word, {"text": word})
    while mails := container.poll():
        container.claim(mails)
        for mail in mails:
            container.send(mail.text)
        container.complete(mails)
    assert world.drain(ours=False) == words
    world.their_host.sweep()
    assert world.statuses() == {"completed"}


def tasks_of(world: World) -> list[tuple[str, str, str | None]]:
    return [(t.text, t.status, t.recurrence) for t in world.container.tasks()]


@contextmanager
def their_host_at_work(world: World) -> Iterator[None]:
    """Let their host deliver while our container waits to hear which commands it knows."""
    stop = threading.Event()

    def serve() -> None:
        while not stop.wait(0.01):
            world.drain(ours=False)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_their_host_carries_out_what_our_container_asks(world: World) -> None:
    container = world.container
    with their_host_at_work(world):
        water = container.schedule("water", process_after=LONG_AGO, recurrence="*/5 * * * *")
    world.clock.forward(0.001)
    feed = container.schedule("feed", process_after=FAR, script="echo 1")
    world.drain(ours=False)
    assert tasks_of(world) == [("water", "pending", "*/5 * * * *"), ("feed", "pending", None)]
    assert world.host.mail(feed).content == {"prompt": "feed", "script": "echo 1"}
    container.pause_task(feed)
    container.update_task(water, prompt="soak", recurrence="0 9 * * *", script=None)
    container.update_task("nobody", prompt="x")
    world.drain(ours=False)
    assert tasks_of(world) == [("soak", "pending", "0 9 * * *"), ("feed", "paused", None)]
    assert any("no live task matched" in m.text for m in container.poll())
    container.resume_task(feed)
    container.cancel_task(water)
    world.drain(ours=False)
    assert tasks_of(world) == [("feed", "pending", None)]


@pytest.mark.parametrize("word", ["completed", "failed"])
@pytest.mark.parametrize("our_host", [True, False])
@pytest.mark.parametrize("our_container", [True, False])
def test_a_series_goes_on_whoever_runs_it(
    world: World, word: str, *, our_host: bool, our_container: bool
) -> None:
    task = world.their_container.schedule("water", LONG_AGO, "0 9 * * *")
    world.drain(ours=our_host)
    if our_container:
        world.container.claim([task])
        world.container.fail([task], "dry") if word == "failed" else world.container.complete(
            [task]
        )
    else:
        world.their_container.mark(word, task)
    world.sweep(ours=our_host)
    world.sweep(ours=not our_host)
    (live,) = world.container.tasks()
    assert (live.series_id, live.process_after) == (task, "2025-10-10T09:00:00.000Z")
    assert (live.trigger, live.on_wake, live.tries) == (True, False, 0)
    assert len(world.their_container.list_tasks()) == 1


def test_a_series_without_a_time_does_not_run_at_once(world: World) -> None:
    """Their host takes no time for now; ours reckons in its own zone, not the container's."""
    container = world.container
    with their_host_at_work(world):
        task = container.schedule("water", recurrence="30 9 * * *")
    world.drain(ours=False)
    assert world.host.mail(task).process_after == "2025-10-10T09:30:00.000Z"
    world.clock.forward(1)
    task = container.schedule("water", recurrence="30 9 * * *")
    Host(world.path, clock=world.clock, zone="Asia/Kolkata").drain({})
    assert world.host.mail(task).process_after == "2025-10-10T04:00:00.000Z"


def test_their_retries_count_our_claims(world: World) -> None:
    container = world.container
    world.their_host.post("m1", {"text": "poison"})
    pauses = []
    for _ in LADDER:
        assert container.claim(container.poll()) == ["m1"]
        world.their_host.sweep()
        (due,) = world.rows("SELECT unixepoch(process_after) * 1000 FROM messages_in")[0]
        pauses.append((due - world.clock.now) // 1000)
        assert container.poll() == []
        world.clock.forward(pauses[-1])
    assert container.claim(container.poll()) == ["m1"]
    world.their_host.sweep()
    assert (pauses, world.statuses(), container.poll()) == (LADDER, {"failed"}, [])
    again = world.host.retry("m1")
    assert isinstance(again, Mail)
    assert [row["id"] for row in world.their_container.pending()] == [again.id]


# ---------------------------------------------------------------- our host, their container


def test_their_container_works_for_our_host(world: World) -> None:
    host = world.host
    host.send("hello", id=f"77:{GROUP}", sender="Ann")
    host.send("by the way", trigger=False)
    host.send("good morning", on_wake=True)
    host.send("not yet", process_after=FAR)
    container = world.their_container
    assert len(container.pending()) == 2
    assert len(container.turn("hi Ann", first=True)) == 3
    assert world.drain(ours=True) == ["hi Ann"]
    assert world.drain(ours=True) == world.drain(ours=False) == []
    assert len(host.sync().completed) == 3
    container.on(9, operation="edit", text="hi, Ann")
    container.on(2, operation="reaction", emoji="wave")
    world.drain(ours=True)
    first, *others = world.channel.sent
    assert [said["messageId"] for _, said, _ in others] == [f"p-{first[0]}", "77"]
    world.check()


def test_a_long_queue_of_ours_is_worked_off_by_their_container(world: World) -> None:
    ids = [world.host.send(f"m{number}").id for number in range(15)]
    container, done = world.their_container, []
    while taken := container.turn("ok"):
        done += taken
        world.host.sync()
    assert (sorted(done), world.statuses()) == (sorted(ids), {"completed"})
    assert world.drain(ours=True) == ["ok"] * 2


def test_our_host_carries_out_what_their_container_asks(world: World) -> None:
    container = world.their_container
    task = container.schedule("water", FAR, "0 9 * * *")
    world.drain(ours=True)
    assert world.rows("SELECT content, trigger, on_wake, tries, series_id FROM messages_in") == [
        ('{"prompt":"water","script":null}', 1, 0, 0, task)
    ]
    assert container.list_tasks() == [f"{task} pending water"]
    container.write("system", {"action": "pause_task", "taskId": task})
    container.write("system", {"action": "update_task", "taskId": task, "prompt": "soak"})
    container.write("system", {"action": "update_task", "taskId": "nobody", "prompt": "x"})
    world.drain(ours=True)
    assert container.list_tasks() == [f"{task} paused soak"]
    assert "no live task matched" in container.pending()[0]["content"]
    container.write("system", {"action": "resume_task", "taskId": task})
    container.write("system", {"action": "cancel_task", "taskId": task})
    world.drain(ours=True)
    assert container.list_tasks() == []


def test_our_retries_count_their_claims(world: World) -> None:
    mail = world.host.send("poison")
    pauses = []
    for _ in LADDER:
        assert world.their_container.turn(stop="claim") == [mail.id]
        world.host.sweep()
        (due,) = world.rows("SELECT unixepoch(process_after) * 1000 FROM messages_in")[0]
        pauses.append((due - world.clock.now) // 1000)
        world.clock.forward(pauses[-1])
    assert world.their_container.turn(stop="claim") == [mail.id]
    world.host.sweep()
    assert (pauses, world.host.mail(mail.id).status) == (LADDER, "failed")
    world.their_host.sweep()
    assert world.host.mail(mail.id).status == "failed"
    world.check()


def test_what_failed_stays_failed_under_their_host(world: World) -> None:
    bad, good = world.host.send("a"), world.host.send("b")
    world.their_container.mark("failed", bad.id)
    world.their_container.mark("completed", good.id)
    world.host.sync()
    world.their_host.sweep()
    assert [world.host.mail(m.id).status for m in (bad, good)] == ["failed", "completed"]
    world.host.purge(bad.id)
    world.their_host.sweep()
    world.check()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(25))
@given(prompt=st.text(st.characters(exclude_categories=()), min_size=1).filter(str.strip))
def test_their_list_of_tasks_shows_any_task_of_ours(world: World, prompt: str) -> None:
    task = world.host.insert_task(prompt, process_after=FAR)
    assert any(line.startswith(task.id) for line in world.their_container.list_tasks())


@pytest.mark.parametrize("said", [{"prompt": 5}, {"prompt": ["x"]}, {"prompt": "x", "script": {}}])
def test_a_task_that_would_break_their_list_is_refused(world: World, said: Row) -> None:
    with pytest.raises(Invalid, match="must be text"):
        world.host.insert_message("task", said)
    assert world.their_container.list_tasks() == []


def test_what_their_container_writes_and_nobody_can_send_stops_nothing(world: World) -> None:
    container = world.their_container
    for text in ('{"text":"half \\ud83d"}', "no JSON", "[1]"):
        container.write("chat", text, **SLACK)
    container.write("chat", {"text": "to nowhere"})
    container.write("system", {"action": "install_packages", "apt": ["x"]})
    container.say("fine")
    assert world.drain(ours=True) == ["half \ud83d", "fine"]
    assert len(world.host.dead_letters()) == 4


# ---------------------------------------------------------------- either way


@pytest.mark.parametrize("our_host", [True, False])
@pytest.mark.parametrize("our_container", [True, False])
def test_a_question_is_asked_and_answered(
    world: World, *, our_host: bool, our_container: bool
) -> None:
    theirs, ours = world.their_container, world.container
    name = ours.ask("go?", ["yes", "no"]) if our_container else theirs.ask("go?", "yes", "no")
    world.drain(ours=our_host)
    ((_, said, _),) = world.channel.sent
    assert (said["type"], said["questionId"]) == ("ask_question", name)
    assert said["options"][1] == {"label": "no", "selectedLabel": "no", "value": "no"}
    look: Callable[[str], Row | None] = ours.answer if our_container else theirs.take_answer
    assert look(name) is None
    if our_host:
        world.host.answer(name, "no", user_id="u1")
    else:
        world.their_host.answer(name, "no")
    assert look(name) == {
        "type": "question_response",
        "questionId": name,
        "selectedOption": "no",
        "userId": "u1",
    }
    assert look(name) is None
    world.sweep(ours=our_host)
    assert world.statuses() == {"completed"}


@pytest.mark.parametrize("our_host", [True, False])
@pytest.mark.parametrize("our_container", [True, False])
def test_files_go_both_ways(world: World, *, our_host: bool, our_container: bool) -> None:
    files = [{"name": "a b.txt", "data": b64encode(b"in").decode(), "type": "file"}]
    row_id = f"9:1:{GROUP}"
    if our_host:
        world.host.send("see", id=row_id, attachments=files)
    else:
        world.their_host.post(row_id, {"text": "see", "attachments": files})
    (mail,) = world.container.poll()
    assert world.container.attachment(mail, "a b.txt") == b"in"
    (row,) = world.their_container.pending()
    (kept,) = json.loads(row["content"])["attachments"]
    assert kept == {"name": "a b.txt", "type": "file", "localPath": f"inbox/{row_id}/a b.txt"}
    assert (world.path / kept["localPath"]).read_bytes() == b"in"
    if our_container:
        world.container.send("take", files=[("out.bin", b"\0out")])
    else:
        out_id = world.their_container.say("take", files=["out.bin"])
        (world.path / "outbox" / out_id).mkdir()
        (world.path / "outbox" / out_id / "out.bin").write_bytes(b"\0out")
    world.drain(ours=our_host)
    assert world.channel.sent[0][2] == {"out.bin": b"\0out"}


@pytest.mark.parametrize("our_host", [True, False])
def test_mail_for_later_waits_at_either_host(world: World, *, our_host: bool) -> None:
    world.container.send("in an hour", deliver_after=world.clock.now + 3_600_000)
    world.container.send("now", deliver_after=world.clock.now)
    assert world.drain(ours=our_host) == ["now"]
    world.clock.forward(3600)
    assert world.drain(ours=our_host) == ["in an hour"]


def test_iso_times_of_their_container_are_understood(world: World) -> None:
    later = in_iso(world.clock.now + 60_000)
    world.their_container.write("chat", {"text": "x"}, deliver_after=later, **SLACK)
    assert world.drain(ours=True) == []
    world.clock.forward(60)
    assert world.drain(ours=True) == ["x"]


@pytest.mark.parametrize("our_host", [True, False])
def test_what_one_host_gave_up_the_other_leaves(world: World, *, our_host: bool) -> None:
    world.channel.refuses.add("bad")
    for word in ("good", "bad"):
        world.their_container.say(word)
    host = world.their_host
    for _ in range(3):
        world.drain(ours=our_host)
        world.clock.forward(3600)
    world.channel.refuses.clear()
    assert world.drain(ours=not our_host) == world.drain(ours=our_host) == []
    assert [row["status"] for row in host.inbound("SELECT * FROM delivered ORDER BY rowid")] == [
        "delivered",
        "failed",
    ]


def test_names_and_routing_of_either_host_reach_either_container(world: World) -> None:
    world.their_host.name_places(("home", "channel", "slack", "C1", None))
    assert world.container.send("x", to="home").place == CHAT
    world.host.write_destinations([Destination("peer", None, "agent", agent_group_id="ag-2")])
    world.host.write_routing(Place("telegram", "5"))
    container = world.their_container
    assert container.routing() == {
        "channel_type": "telegram",
        "platform_id": "5",
        "thread_id": None,
    }
    assert [row["name"] for row in container.inbound("SELECT * FROM destinations")] == ["peer"]


def test_mail_between_agents_is_passed_on_for_their_containers(tmp_path: Path) -> None:
    clock = FakeClock()
    with Mailroom.open(tmp_path, clock=clock) as room:
        one, two = room.new_session("one", "slack", "C1"), room.new_session("two")
        room.index.add_destination(one.agent_group_id, "agent", two.agent_group_id)
        containers = [NanoContainer(room.folder(s).path, clock) for s in (one, two)]
        place = {"channel_type": "agent", "platform_id": two.agent_group_id}
        containers[0].write("chat", {"text": "hello"}, **place)
        room.deliver()
        (row,) = containers[1].pending()
        assert json.loads(row["content"])["text"] == "hello"
        assert (row["channel_type"], row["platform_id"], row["source_session_id"]) == (
            "agent",
            one.agent_group_id,
            one.id,
        )
