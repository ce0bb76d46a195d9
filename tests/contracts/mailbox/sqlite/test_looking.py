"""Looking: what is about the files of SQLite."""

import pytest

from tests.support.mail import FakeClock, MailFactory, look, open_pair
from threadkeep.mailbox.letters import (
    again,
    incoming,
    letters,
    look_at,
    outgoing,
    overview,
)


def test_states_come_from_both_files(factory: MailFactory) -> None:
    pair = open_pair(factory)
    first, second = pair.host.send("one"), pair.host.send("two")
    ctx = look_at(pair.path, clock=pair.clock)
    before = letters(ctx)
    pair.container.claim([first, second])
    pair.container.complete([first])
    assert [one.state for one in again(ctx, before)] == ["completed", "processing"]
    pair.container.fail([second], "no idea")
    pair.host.sync()
    done = again(ctx, before)
    assert [(one.state, one.reason) for one in done] == [("completed", None), ("failed", "no idea")]


def test_what_follows_a_number(factory: MailFactory) -> None:
    pair = open_pair(factory)
    for number in range(4):
        pair.host.send(f"in {number}")
        pair.container.send(f"out {number}")
    ctx = look_at(pair.path)
    assert [one.seq for one in incoming(ctx, after=4)] == [6, 8]
    assert [one.seq for one in outgoing(ctx, after=5, limit=1)] == [7]
    assert [one.seq for one in incoming(ctx, limit=2)] == [6, 8]
    assert letters(ctx, limit=0) == []


def test_counts_of_what_is_open(factory: MailFactory) -> None:
    clock = FakeClock()
    pair = open_pair(factory, clock)
    pair.host.send("now")
    pair.host.send("later", process_after=clock() + 1000)
    pair.host.insert_task("held", process_after=clock() + 1000, id="task-1")
    pair.host.pause_task("task-1")
    pair.container.send("waits")
    pair.container.beat()
    found = overview(look_at(pair.path, clock=clock))
    assert (found.pending, found.due, found.paused, found.failed, found.waiting) == (2, 1, 1, 0, 1)
    assert found.heartbeat_ms is not None


@pytest.mark.parametrize("name", ["open_mail", "buried_and_done_with", "delivery_counts"])
def test_counting_reads_no_history(name: str, factory: MailFactory) -> None:
    pair = open_pair(factory)
    sql = pair.host.context.folder.inbound.queries[name]
    plan = [str(row[3]) for row in look(pair.path, f"EXPLAIN QUERY PLAN {sql}")]
    tables = [
        line for line in plan if line.startswith(("SCAN", "SEARCH")) and "CONSTANT" not in line
    ]
    assert tables
    for line in tables:
        assert line.startswith("SEARCH") or " USING " in line, line
