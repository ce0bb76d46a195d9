"""Quarters of an hour: SQL and the calendar agree on the day and the hour of every zone."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st

from threadkeep.knowledge.query import (
    QUARTER,
    QUARTERS_OF_DAY,
    QUARTERS_OF_WEEK,
    by_hour,
    day_text,
    local_quarter,
)

ZONES = ("UTC", "Europe/Berlin", "Asia/Kathmandu", "Australia/Lord_Howe", "America/New_York")
END = int(datetime(2099, 12, 31, tzinfo=UTC).timestamp() * 1000)


def shown(zone: tzinfo, at: int) -> tuple[str, int, int]:
    """Return the day, the weekday and the hour that SQL finds for a moment."""
    with closing(sqlite3.connect(":memory:")) as connection:
        sql = f"SELECT {local_quarter('q', zone)} FROM (SELECT ? / {QUARTER} AS q)"
        (local,) = connection.execute(sql, (at,)).fetchone()
    week = [0] * QUARTERS_OF_WEEK
    week[local % QUARTERS_OF_WEEK] = 1
    ((weekday, hour),) = (
        (day, hour) for day, row in enumerate(by_hour(week)) for hour, n in enumerate(row) if n
    )
    return day_text(local // QUARTERS_OF_DAY), weekday, hour


@given(st.sampled_from(ZONES), st.integers(0, END))
def test_sql_finds_the_day_and_the_hour_of_a_zone(name: str, at: int) -> None:
    zone = ZoneInfo(name)
    moment = datetime.fromtimestamp(at / 1000, zone)
    assert shown(zone, at) == (moment.date().isoformat(), moment.weekday(), moment.hour)


@pytest.mark.parametrize("minutes", [-1, 0, 1])
def test_the_hour_changes_in_the_minute_that_clocks_are_set(minutes: int) -> None:
    zone = ZoneInfo("Europe/Berlin")
    change = int(datetime(2026, 10, 25, 1, 0, tzinfo=UTC).timestamp() * 1000)
    at = change + minutes * 60_000
    assert shown(zone, at)[2] == datetime.fromtimestamp(at / 1000, zone).hour == 2


@pytest.mark.parametrize("day", [None, 10**9, -(10**9)])
def test_a_day_that_no_calendar_has_is_unknown(day: int | None) -> None:
    assert day_text(day) == "unknown"
