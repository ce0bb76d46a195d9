"""NanoClaw from 2.1 on and we, in every pairing: no mail, task or denial lost, no second start."""

from pathlib import Path

import pytest

from tests.support.mail import GROUP
from tests.support.mail_golden import Starter
from tests.support.nanoclaw_later import LaterContainer, LaterHost
from tests.support.nanoclaw_world import World

LONG_AGO = "2020-01-01T00:00:00.000Z"
PLACE = {"channel_type": "slack", "platform_id": "C1", "thread_id": "T1"}
WORK = {"prompt": "look", "script": "exit 1", "originSessionId": None}


@pytest.fixture(params=["a folder of ours", "a folder of theirs"])
def world(tmp_path: Path, request: pytest.FixtureRequest) -> World:
    path = tmp_path / GROUP / "sess-1-abcdef"
    return World.make(path, ours=request.param == "a folder of ours")


@pytest.fixture
def their_host(world: World) -> LaterHost:
    world.their_host = host = LaterHost(world.path, world.clock)
    return host


def take_turn(world: World, *, ours: bool) -> None:
    """Let either container answer all mail."""
    world.clock.forward(1)
    if not ours:
        container = LaterContainer(world.path, world.clock)
        container.boot()
        container.turn(f"by them at {world.clock.now}")
        return
    agent = world.container
    agent.start()
    mails = agent.poll()
    agent.claim(mails)
    if any(mail.trigger for mail in mails):
        agent.send(f"by us at {world.clock.now}")
        agent.complete(mails)
    agent.stop()


@pytest.mark.parametrize("our_host", [True, False])
@pytest.mark.parametrize("our_container", [True, False])
def test_mail_answers_and_denials_arrive_once_and_in_order(
    world: World, their_host: LaterHost, *, our_host: bool, our_container: bool
) -> None:
    their_host.deny("nobody may", **PLACE)
    world.clock.forward(1)
    sent = world.drain(ours=our_host)
    assert sent == ["nobody may"]
    for number in range(3):
        their_host.post(f"m{number}", {"text": "hi"})
        take_turn(world, ours=our_container)
        world.clock.forward(1)
        their_host.deny(f"no {number}", **PLACE)
        world.clock.forward(1)
        LaterContainer(world.path, world.clock).say(f"more {number}")
    sent = world.drain(ours=our_host)
    assert [text.partition(" at")[0] for text in sent] == [
        word
        for number in range(3)
        for word in (f"by {'us' if our_container else 'them'}", f"no {number}", f"more {number}")
    ]
    assert world.drain(ours=our_host) == world.drain(ours=not our_host) == []
    world.sweep(ours=our_host)
    world.sweep(ours=not our_host)
    assert (world.statuses(), their_host.due(), world.host.due()) == ({"completed"}, 0, 0)
    world.check()


@pytest.mark.parametrize("our_host", [True, False])
@pytest.mark.parametrize("our_container", [True, False])
def test_a_broken_task_backs_off_whoever_runs_it(
    world: World, their_host: LaterHost, *, our_host: bool, our_container: bool
) -> None:
    # What it delivers shows which version their host is.
    LaterContainer(world.path, world.clock).say("hello")
    world.drain(ours=False)
    their_host.post("t", WORK, kind="task", after=LONG_AGO, recurrence="* * * * *")
    runner, agent, runs = Starter(), world.container, 0
    for _ in range(11):
        if their_host.due():
            runs += 1
            (mail,) = [mail for mail in agent.poll() if mail.kind == "task"]
            if our_container:
                agent.claim([mail])
                agent.fail([mail], "broken")
            else:
                LaterContainer(world.path, world.clock).mark("script-skip:error", mail.id)
        if our_host:
            world.host.sweep(runner)
        else:
            their_host.sweep()
        world.clock.forward(61 * 60)
    found = world.rows("SELECT status, count(*) FROM messages_in WHERE series_id = 't' GROUP BY 1")
    if our_container and not our_host and is_ours(world):
        # A host of ours was here, so the careful word is taken, which theirs calls done.
        assert dict(found).keys() == {"completed", "pending"}
        return
    assert (runs, runner.starts, dict(found)) == (8, 0, {"failed": 8, "paused": 1})


def is_ours(world: World) -> bool:
    return bool(world.rows("SELECT 1 FROM sqlite_master WHERE name = 'tk_meta'"))


def test_a_task_that_was_called_off_stays_so(world: World, their_host: LaterHost) -> None:
    their_host.post("t", WORK, kind="task", after=LONG_AGO, recurrence="* * * * *")
    agent = world.container
    agent.claim(["t"])
    their_host.cancel("t")
    assert world.host.mail("t").status == "cancelled"
    agent.complete(["t"])
    runner = Starter()
    for _ in range(5):
        world.host.sweep(runner)
    assert (runner.starts, world.host.tasks(), world.host.due()) == (0, [], 0)
    assert world.host.mail("t").status == "cancelled"
    their_host.sweep()
    assert world.host.mail("t").status in ("cancelled", "completed")
    world.check()
