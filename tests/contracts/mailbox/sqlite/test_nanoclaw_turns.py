"""NanoClaw's programs and ours on one folder, one after the other and at the same time."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

import pytest
from hypothesis import given, settings, strategies as st

from tests.lengths import examples
from tests.support.mail import GROUP
from tests.support.nanoclaw import make_folder
from tests.support.nanoclaw_world import World
from threadkeep.errors import Busy
from threadkeep.mailbox.adapters import Outgoing

FAR = "2999-01-01T00:00:00.000Z"
SLACK = {"channel_type": "slack", "platform_id": "C1", "thread_id": "T1"}


@pytest.fixture(params=["a folder of ours", "a folder of theirs"])
def world(tmp_path: Path, request: pytest.FixtureRequest) -> World:
    return World.make(tmp_path / GROUP / "sess-1-abcdef", ours=request.param == "a folder of ours")


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


def test_mail_of_both_containers_goes_out_in_one_order(world: World) -> None:
    """Their host sorts by the text of the time."""
    for number in range(6):
        if number % 2:
            world.container.send(f"m{number}")
        else:
            world.their_container.say(f"m{number}")
        world.clock.forward(1)
    assert world.drain(ours=False) == [f"m{number}" for number in range(6)]


def test_two_runs_of_a_series_that_are_over_have_one_run_after_them(world: World) -> None:
    for name in ("run-1", "run-2"):
        world.their_host.post(name, {"prompt": "x"}, kind="task", recurrence="0 9 * * *")
    world.host.pause_task("nobody")  # a host of ours has been here
    sql = "UPDATE messages_in SET series_id = 'run-1', status = 'completed'"
    world.their_host.inbound(sql)
    world.their_host.sweep()
    assert [task.series_id for task in world.host.tasks()] == ["run-1"]


def test_the_folder_above_tells_the_agent_group_if_nobody_else_does(tmp_path: Path) -> None:
    world = World.make(tmp_path / "ag-team" / "sess-1", ours=False)
    world.their_host.post("4:2:ag-team", {"text": "hello"})
    assert world.container.react(2, "wave").content["messageId"] == "4:2"


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
    world = World(path)
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
    assert [(m.id, m.trigger, m.on_wake) for m in mails] == [
        ("m1", True, False),
        ("t1", True, False),
    ]
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
    rounds, total = SimpleQueue[str | None](), 20
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


def send(world: World, number: int, *, ours: bool) -> None:
    if ours:
        world.host.send(f"m{number}")
    else:
        world.their_host.post(f"n{number}", {"text": f"n{number}"})


def turn(world: World, number: int, *, ours: bool, stop: str = "") -> None:
    """Work on what is there; `stop` with the claim, or with the reply, as in a crash."""
    if not ours:
        world.their_container.turn(f"re {number}", first=True, stop=stop)
        return
    with world.container as container:
        container.start()
        taken = container.claim(container.poll())
        if taken and stop != "claim":
            container.send(f"re {number}")
        if not stop:
            container.complete(taken)


def claim(world: World, number: int, *, ours: bool) -> None:
    turn(world, number, ours=ours, stop="claim")


def reply(world: World, number: int, *, ours: bool) -> None:
    turn(world, number, ours=ours, stop="reply")


def fail(world: World, number: int, *, ours: bool) -> None:
    mails = world.container.poll()
    if ours:
        world.container.fail(mails, "it could not be done")
    else:
        world.their_container.mark("failed", *(mail.id for mail in mails))


def drain(world: World, number: int, *, ours: bool) -> None:
    world.drain(ours=ours)


def sweep(world: World, number: int, *, ours: bool) -> None:
    world.sweep(ours=ours)


def schedule(world: World, number: int, *, ours: bool) -> None:
    if ours:
        with suppress(Busy):  # a host of theirs that does not answer now
            world.container.schedule("again", recurrence="* * * * *", timeout=0)
    else:
        world.their_container.schedule("again", "2020-01-01T00:00:00.000Z", "* * * * *")


def hold(world: World, number: int, *, ours: bool) -> None:
    for task in world.container.tasks():
        if ours:
            world.host.pause_task(task.id)
        else:
            world.their_host.move(task.id, "paused", "pending")


def wait(world: World, number: int, *, ours: bool) -> None:
    world.clock.forward(90)


MOVES = [send, turn, claim, reply, fail, drain, sweep, schedule, hold, wait]
FORKS = """SELECT series_id FROM messages_in WHERE recurrence IS NOT NULL
  AND status IN ('pending', 'paused') GROUP BY series_id HAVING COUNT(*) > 1"""


def settle(world: World) -> None:
    """Let time pass until nothing is open any more, with both programs at work."""
    for number in range(12):
        for task in world.container.tasks():
            world.host.cancel_task(task.id)
        world.clock.forward(90)
        world.sweep(ours=number % 2 == 0)
        turn(world, number, ours=number % 4 < 2)
        world.drain(ours=number % 2 == 1)


@settings(max_examples=examples(10))
@given(moves=st.lists(st.tuples(st.sampled_from(MOVES), st.booleans()), max_size=30))
def test_programs_may_take_turns_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, moves: list[tuple[Callable[..., None], bool]]
) -> None:
    """Nothing is lost, nothing is sent twice, and no series has two runs to come."""
    path = tmp_path_factory.mktemp("turns") / GROUP / "sess-1-abcdef"
    world = World.make(path, ours=len(moves) % 2 == 0)
    for number, (move, ours) in enumerate(moves):
        move(world, number, ours=ours)
        world.clock.forward(0.001)  # ids carry the time
        assert world.rows(FORKS) == []
    settle(world)
    sent = [out_id for out_id, _, _ in world.channel.sent]
    written = [mail.id for mail in world.host.outbox(500) if mail.kind == "chat"]
    assert sorted(sent) == sorted(written)
    assert [m for m in world.host.inbox("pending", limit=500) if m.trigger] == []
    world.check()
