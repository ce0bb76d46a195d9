"""A look at a session folder: letters of both directions, and counts that cost what is open."""

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.support.mail import FakeClock, look, open_pair
from threadkeep.mailbox.letters import (
    Letter,
    again,
    in_order,
    incoming,
    letters,
    look_at,
    outgoing,
    overview,
)
from threadkeep.mailbox.records import Direction, Place

ONE_SECOND = "2026-01-02 03:04:05"


def letter(direction: Direction, seq: int | None, at: str = ONE_SECOND) -> Letter:
    return Letter(
        direction=direction,
        id=f"{direction}-{seq}",
        seq=seq,
        kind="chat",
        at=at,
        state="pending",
        place=Place(),
        content={},
    )


moments = st.sampled_from(["", "never", "2026-01-02 03:04:05", "2026-01-02T03:04:05.999Z", "2027"])
numbers = st.lists(st.integers(1, 99), unique=True).map(sorted)


@given(numbers, numbers, st.data())
def test_each_direction_keeps_its_order_and_nothing_is_lost(
    coming: list[int], going: list[int], data: st.DataObject
) -> None:
    first = [letter("in", 2 * n, data.draw(moments)) for n in coming]
    second = [letter("out", 2 * n + 1, data.draw(moments)) for n in going]
    found = in_order(first, second)
    assert [one for one in found if one.direction == "in"] == first
    assert [one for one in found if one.direction == "out"] == second


def test_within_a_second_the_lower_number_comes_first_and_time_counts_more() -> None:
    coming = [letter("in", 2), letter("in", 8), letter("in", 10, "2026-01-02T03:04:06.000Z")]
    going = [letter("out", 3), letter("out", 11), letter("out", None)]
    assert [one.seq for one in in_order(coming, going)] == [2, 3, 8, 11, None, 10]


def test_states_come_from_both_files(tmp_path: Path) -> None:
    pair = open_pair(tmp_path)
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


def test_what_follows_a_number(tmp_path: Path) -> None:
    pair = open_pair(tmp_path)
    for number in range(4):
        pair.host.send(f"in {number}")
        pair.container.send(f"out {number}")
    ctx = look_at(pair.path)
    assert [one.seq for one in incoming(ctx, after=4)] == [6, 8]
    assert [one.seq for one in outgoing(ctx, after=5, limit=1)] == [7]
    assert [one.seq for one in incoming(ctx, limit=2)] == [6, 8]
    assert letters(ctx, limit=0) == []


def test_counts_of_what_is_open(tmp_path: Path) -> None:
    clock = FakeClock()
    pair = open_pair(tmp_path, clock)
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
def test_counting_reads_no_history(name: str, tmp_path: Path) -> None:
    pair = open_pair(tmp_path)
    sql = pair.host.context.folder.inbound.queries[name]
    plan = [str(row[3]) for row in look(pair.path, f"EXPLAIN QUERY PLAN {sql}")]
    tables = [
        line for line in plan if line.startswith(("SCAN", "SEARCH")) and "CONSTANT" not in line
    ]
    assert tables
    for line in tables:
        assert line.startswith("SEARCH") or " USING " in line, line
