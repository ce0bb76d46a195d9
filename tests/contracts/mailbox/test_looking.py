"""A look at a session folder: letters of both directions, and counts that cost what is open."""

from hypothesis import given, strategies as st

from threadkeep.mailbox.letters import (
    Letter,
    in_order,
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
