"""NanoClaw and we, in every pairing: either host, either container, a folder that either made.

The two classes of tests.support.nanoclaw do what NanoClaw's programs do. Each test runs on a
folder of ours and on one of theirs.
"""

import json
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.support.mail import CHAT, GROUP, FakeClock
from tests.support.nanoclaw import NanoContainer, Row, in_iso, make_folder
from tests.support.nanoclaw_host import NanoHost
from threadkeep.errors import Invalid
from threadkeep.mailbox.adapters import Outgoing
from threadkeep.mailbox.container import Container
from threadkeep.mailbox.host import Host
from threadkeep.mailbox.mailroom import Mailroom
from threadkeep.mailbox.records import Destination, Mail, Place

LONG_AGO = "2020-01-01T00:00:00.000Z"
FAR = "2999-01-01T00:00:00.000Z"
LADDER = [5, 10, 20, 40, 80]
SLACK = {"channel_type": "slack", "platform_id": "C1", "thread_id": "T1"}


class Channel:
    """Keeps what either host sends; `refuses` names texts it does not take."""

    honours_key = True

    def __init__(self) -> None:
        self.sent: list[tuple[str, Row, dict[str, bytes]]] = []
        self.refuses: set[str] = set()

    def send(self, mail: Outgoing) -> str | None:
        return self._take(mail.id, mail.content, {file.name: file.data for file in mail.files})

    def theirs(self, row: Row, files: dict[str, bytes]) -> str:
        return self._take(row["id"], json.loads(row["content"]), files)

    def _take(self, out_id: str, said: Row, files: dict[str, bytes]) -> str:
        if said.get("text") in self.refuses:
            raise RuntimeError(said["text"])
        self.sent.append((out_id, said, files))
        return f"p-{out_id}"

    @property
    def texts(self) -> list[str]:
        return [said.get("text", "") for _, said, _ in self.sent]


class World:
    """One folder and the four programs that may work on it."""

    def __init__(self, path: Path, *, ours: bool) -> None:
        self.path = path
        self.clock = FakeClock()
        self.channel = Channel()
        if ours:
            Host.create(path, clock=self.clock)
        else:
            make_folder(path)
        self.their_host = NanoHost(path, self.clock)
        self.their_host.route("slack", "C1", "T1")

    @property
    def host(self) -> Host:
        """A host of ours that knows only the files; no container runs as far as it knows."""
        return Host(self.path, clock=self.clock, running=lambda: False)

    @property
    def container(self) -> Container:
        return Container(self.path, clock=self.clock)

    @property
    def their_container(self) -> NanoContainer:
        container = NanoContainer(self.path, self.clock)
        container.boot()
        return container

    def drain(self, *, ours: bool) -> list[str]:
        """Deliver, and give what was said."""
        before = len(self.channel.sent)
        if ours:
            self.host.drain({"slack": self.channel})
        else:
            self.their_host.drain(self.channel.theirs)
        return self.channel.texts[before:]

    def sweep(self, *, ours: bool) -> None:
        if ours:
            self.host.sweep()
        else:
            self.their_host.sweep()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in self.their_host.inbound(sql)]

    def statuses(self) -> set[str]:
        return {status for (status,) in self.rows("SELECT DISTINCT status FROM messages_in")}

    def check(self) -> None:
        """Nothing may be wrong with the folder but that others can read theirs."""
        assert [p for p in self.host.verify() if "open to other users" not in p.what] == []


@pytest.fixture(params=["a folder of ours", "a folder of theirs"])
def world(tmp_path: Path, request: pytest.FixtureRequest) -> World:
    return World(tmp_path / GROUP / "sess-1-abcdef", ours=request.param == "a folder of ours")


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
    container, words = world.container, [f"m{number}" for number in range(25)]
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


def test_their_host_carries_out_what_our_container_asks(world: World) -> None:
    container = world.container
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
        world.container.fail([task], "dry") if word == "failed" else world.container.complete([task])
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
    task = world.container.schedule("water", recurrence="30 9 * * *")
    world.drain(ours=False)
    assert world.host.mail(task).process_after == "2025-10-10T09:30:00.000Z"
    world.clock.forward(1)
    task = world.container.schedule("water", recurrence="30 9 * * *")
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
    ids = [world.host.send(f"m{number}").id for number in range(25)]
    container, done = world.their_container, []
    while taken := container.turn("ok"):
        done += taken
        world.host.sync()
    assert (sorted(done), world.statuses()) == (sorted(ids), {"completed"})
    assert world.drain(ours=True) == ["ok"] * 3


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


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
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


def test_one_host_goes_on_where_the_other_stopped(world: World) -> None:
    said: list[str] = []
    for number in range(16):
        our_host, our_container = number % 2 == 0, number // 2 % 2 == 0
        if our_host:
            world.host.send(f"m{number}")
        else:
            world.their_host.post(f"n{number}", {"text": f"m{number}"})
        if our_container:
            container = world.container
            mails = container.poll()
            container.claim(mails)
            container.send(f"m{number}")
            container.complete(mails)
        else:
            world.their_container.turn(f"m{number}")
        said += world.drain(ours=number % 3 == 0)
        world.sweep(ours=number % 3 != 0)
    world.host.sweep()
    assert said == [f"m{number}" for number in range(16)]
    assert world.statuses() == {"completed"}
    world.check()


class Crash(BaseException):
    """The power goes out."""


class Dies:
    """A channel that brings the host down."""

    def send(self, mail: Outgoing) -> str | None:
        raise Crash


class Silent:
    """A channel that cannot tell what it was sent."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def send(self, mail: Outgoing) -> str | None:
        self.sent.append(mail.text)
        return None


def test_what_their_host_sent_after_our_crash_is_no_longer_in_doubt(world: World) -> None:
    out_id = world.their_container.say("x")
    with pytest.raises(Crash):
        world.host.drain({"slack": Dies()})
    assert world.drain(ours=False) == ["x"]
    channel = Silent()
    drained = world.host.drain({"slack": channel})
    assert (drained.sent, drained.unknown, channel.sent) == ((out_id,), (), [])
    assert world.rows("SELECT id FROM messages_in") == []


def test_a_task_that_their_host_made_before_it_died_is_made_once(world: World) -> None:
    said = {"action": "schedule_task", "taskId": "t1", "prompt": "x", "processAfter": FAR}
    world.their_container.write("system", said)
    world.drain(ours=False)
    world.their_host.inbound("DELETE FROM delivered")
    drained = world.host.drain({})
    assert (len(drained.sent), drained.failed, len(world.host.tasks())) == (1, (), 1)


# ---------------------------------------------------------------- older folders


@pytest.fixture
def older(tmp_path: Path) -> World:
    """A folder of a first build, with mail and a delivery from then."""
    path = tmp_path / GROUP / "sess-1-abcdef"
    make_folder(path, older=True)
    world = World.__new__(World)
    world.path, world.clock, world.channel = path, FakeClock(), Channel()
    world.their_host = NanoHost(path, world.clock)
    files = world.their_host.files
    sql = """INSERT INTO messages_in (id, seq, kind, timestamp, content, channel_type, platform_id)
             VALUES (:id, :seq, :kind, :now, :text, 'slack', 'C1')"""
    files.run("inbound", sql, {"id": "m1", "seq": 2, "kind": "chat", "text": '{"text":"old"}'})
    files.run("inbound", sql, {"id": "t1", "seq": 4, "kind": "task", "text": '{"prompt":"p"}'})
    files.run("inbound", "INSERT INTO delivered VALUES ('o1', '2025-01-01 00:00:00')")
    sql = """INSERT INTO messages_out (id, seq, timestamp, kind, platform_id, channel_type, content)
             VALUES (:id, :seq, :now, 'chat', 'C1', 'slack', :text)"""
    files.run("outbound", sql, {"id": "o1", "seq": 3, "text": '{"text":"sent"}'})
    files.run("outbound", sql, {"id": "o2", "seq": 5, "text": '{"text":"open"}'})
    files.run("outbound", "INSERT INTO session_state VALUES ('sdk_session_id', 's1')")
    return world


def test_our_container_works_in_an_older_folder_of_theirs(older: World) -> None:
    container = older.container
    container.start("claude")
    assert container.get_state("continuation:claude") == "s1"
    mails = container.poll()
    assert [(m.id, m.trigger, m.on_wake) for m in mails] == [("m1", True, False), ("t1", True, False)]
    assert [t.id for t in container.tasks()] == ["t1"]
    container.claim(mails)
    container.complete(mails)
    container.edit(3, "changed")
    older.their_host.sweep()
    assert older.statuses() == {"completed"}
    assert older.drain(ours=False) == ["open", "changed"]


def test_our_host_takes_over_an_older_folder_of_theirs(older: World) -> None:
    assert older.drain(ours=True) == ["open"]
    assert [mail.series_id for mail in older.host.inbox()] == ["m1", "t1"]
    assert older.their_container.turn() == ["m1", "t1"]
    older.host.sweep()
    assert older.statuses() == {"completed"}
    older.check()


# ---------------------------------------------------------------- at the same time


@pytest.mark.parametrize("our_host", [True, False])
def test_two_programs_at_once_lose_and_double_nothing(world: World, *, our_host: bool) -> None:
    """Our host with their container, and the reverse; each round is begun by the other side."""
    rounds, total = SimpleQueue[str | None](), 40
    errors: list[BaseException] = []

    def container_side() -> None:
        theirs, ours = world.their_container, world.container
        while (word := rounds.get()) is not None:
            if our_host:
                theirs.write("chat", {"text": word}, **SLACK)
                theirs.mark("completed", word)
            else:
                ours.claim([word])
                ours.send(word)
                ours.complete([word])

    def host_side() -> None:
        for number in range(total):
            word = f"m{number}"
            if our_host:
                world.host.send(word, id=word)
            else:
                world.their_host.post(word, {"text": word})
            rounds.put(word)
            world.drain(ours=our_host)
            if our_host:
                world.host.sync()
            else:
                world.their_host.sweep(alive=True)

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  (raised below)
            errors.append(error)

    other = Thread(target=guarded, args=(container_side,))
    other.start()
    guarded(host_side)
    rounds.put(None)
    other.join()
    assert errors == []
    world.drain(ours=our_host)
    world.sweep(ours=our_host)
    assert world.channel.texts == [f"m{number}" for number in range(total)]
    assert world.statuses() == {"completed"}
    world.check()


# ---------------------------------------------------------------- in any order


MOVES = ["send", "turn", "crash", "half", "fail", "drain", "sweep", "schedule", "hold", "later"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15)
@given(moves=st.lists(st.tuples(st.sampled_from(MOVES), st.booleans()), max_size=30))
def test_programs_may_take_turns_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, moves: list[tuple[str, bool]]
) -> None:
    """Nothing is lost, nothing is sent twice, and no series has two runs to come."""
    path = tmp_path_factory.mktemp("turns") / GROUP / "sess-1-abcdef"
    world = World(path, ours=len(moves) % 2 == 0)
    said = 0
    for number, (move, ours) in enumerate(moves):
        said += _move(world, move, number, ours=ours)
        assert _forks(world) == []
    for task in world.container.tasks():
        world.host.cancel_task(task.series_id or task.id)
    for number in range(8):
        world.clock.forward(200)
        world.sweep(ours=number % 2 == 0)
        _move(world, "turn", number, ours=number % 2 == 1)
        world.drain(ours=True)
    world.host.sweep()
    sent = [out_id for out_id, _, _ in world.channel.sent]
    assert len(sent) == len(set(sent)) == said + _replies(world)
    assert [m for m in world.host.inbox("pending", limit=500) if m.trigger] == []
    world.check()
