"""Times and lengths of time."""

import pytest
from hypothesis import given, strategies as st

from threadkeep.base.clock import believed, is_due, iso, now_ms, parse_duration
from threadkeep.errors import Invalid


def test_now_is_a_whole_number_of_milliseconds_in_this_century() -> None:
    now = now_ms()
    assert type(now) is int
    assert iso(now).startswith("20")


@pytest.mark.parametrize(
    "ms,text",
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1, "1970-01-01T00:00:00.001Z"),
        (1786706395136, "2026-08-14T11:19:55.136Z"),
        (1855425871872, "2028-10-17T20:04:31.872Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (10**17, "100000000000000000 ms since 1970"),
        (10**300, f"{10**300} ms since 1970"),
    ],
)
def test_iso_writes_any_number_for_people(ms: int, text: str) -> None:
    assert iso(ms) == text


@pytest.mark.parametrize(
    "text,ms",
    [
        ("45s", 45_000),
        ("90m", 5_400_000),
        ("12h", 43_200_000),
        ("30d", 2_592_000_000),
        ("2w", 1_209_600_000),
        (" 7 D ", 604_800_000),
        ("0s", 0),
    ],
)
def test_parse_duration_reads_a_number_and_a_unit(text: str, ms: int) -> None:
    assert parse_duration(text) == ms


@pytest.mark.parametrize(
    "text", ["", "30", "d", "-1d", "1.5h", "1y", "30d12h", "٣d", "9" * 30 + "d"]
)
def test_parse_duration_says_how_to_write_one(text: str) -> None:
    with pytest.raises(Invalid, match="30d"):
        parse_duration(text)


def test_parse_duration_refuses_more_than_a_century() -> None:
    with pytest.raises(Invalid, match="century"):
        parse_duration("99999w")


times = st.integers(0, 10**13)
lengths = st.integers(1, 10**9)


@given(times, lengths, st.data())
def test_under_a_clock_that_is_right_a_due_time_is_kept(
    now: int, interval: int, data: st.DataObject
) -> None:
    written = now - data.draw(st.integers(0, 2 * interval))
    due = written + data.draw(st.integers(0, interval))
    assert is_due(due, now, interval) == (due <= now)


@given(times, lengths, times)
def test_what_is_deleted_by_age_goes_on_by_two_intervals_at_most(
    now: int, interval: int, last: int
) -> None:
    until = believed(now, last, interval)
    assert until <= min(now, last + 2 * interval)
    assert until == now or now - last > 2 * interval
    assert believed(now, None, interval) == now


@given(times, lengths, times)
def test_whatever_was_written_nothing_waits_for_more_than_two_intervals(
    now: int, interval: int, due: int
) -> None:
    assert is_due(due, now, interval) or is_due(due, now + 2 * interval, interval)
    assert is_due(due, now, interval) or now < due <= now + 2 * interval
