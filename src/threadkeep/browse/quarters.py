"""Quarters of an hour: the smallest time that sums are made of, and the days of a zone they form.

No zone of today is shifted by less than a quarter, so days and hours of any zone are made of them.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final, NamedTuple

QUARTER: Final = 900_000  # milliseconds
QUARTERS_OF_DAY: Final = 96
QUARTERS_OF_WEEK: Final = 7 * QUARTERS_OF_DAY
UNKNOWN: Final = "unknown"
_SECONDS: Final = QUARTER // 1000
_LAST_YEAR: Final = 2100  # the shift of then holds ever after, that of 1970 ever before
_LOOK: Final = QUARTERS_OF_WEEK  # no zone is shifted there and back within a week
_EPOCH: Final = date(1970, 1, 1).toordinal()
_THURSDAY: Final = 3 * QUARTERS_OF_DAY  # the weekday of the epoch, from Monday


class Shift(NamedTuple):
    """From which quarter since the epoch on a zone is how many quarters ahead of UTC."""

    start: int
    ahead: int


def local_quarter(name: str, zone: tzinfo) -> str:
    """Give SQL that makes of a quarter since the epoch the quarter that a zone's clocks show."""
    return f"{name} + {_choice(name, shifts_of(zone))}"


def in_hours(at: str, hours: Sequence[int], zone: tzinfo) -> str:
    """Give SQL that tells whether a time is in one of some hours of the week, from Monday 00:00."""
    local = local_quarter(f"({at} / {QUARTER})", zone)
    shown = f"(({local}) % {QUARTERS_OF_WEEK} + {_THURSDAY}) % {QUARTERS_OF_WEEK} / 4"
    return f"{shown} IN ({', '.join(map(str, hours))})"


def _choice(name: str, shifts: Sequence[Shift]) -> str:
    """Choose among shifts by halves: a zone may have 200 of them."""
    if len(shifts) == 1:
        return str(shifts[0].ahead)
    middle = len(shifts) // 2
    before, after = _choice(name, shifts[:middle]), _choice(name, shifts[middle:])
    return f"CASE WHEN {name} < {shifts[middle].start} THEN {before} ELSE {after} END"


@lru_cache(maxsize=8)
def shifts_of(zone: tzinfo) -> tuple[Shift, ...]:
    """Give all shifts of a zone since the epoch, the earliest first."""
    end = int(datetime(_LAST_YEAR, 1, 1, tzinfo=UTC).timestamp()) // _SECONDS
    shifts = [Shift(0, _ahead(zone, 0))]
    for quarter in range(_LOOK, end, _LOOK):
        if _ahead(zone, quarter) != shifts[-1].ahead:
            start = _first_with(zone, quarter - _LOOK, quarter)
            shifts.append(Shift(start, _ahead(zone, start)))
    return tuple(shifts)


def _first_with(zone: tzinfo, before: int, after: int) -> int:
    """Find where between two quarters the shift of the second begins."""
    wanted = _ahead(zone, after)
    while after - before > 1:
        middle = (before + after) // 2
        before, after = (before, middle) if _ahead(zone, middle) == wanted else (middle, after)
    return after


def _ahead(zone: tzinfo, quarter: int) -> int:
    moment = datetime.fromtimestamp(quarter * _SECONDS, zone)
    return (moment.utcoffset() or timedelta(0)) // timedelta(seconds=_SECONDS)


def day_text(day: int | None) -> str:
    """Write a day, counted from the epoch."""
    try:
        return UNKNOWN if day is None else date.fromordinal(_EPOCH + day).isoformat()
    except (ValueError, OverflowError):
        return UNKNOWN


def by_hour(quarters: list[int]) -> list[list[int]]:
    """Sum up the quarters of a week, which begins as the epoch did, by weekday and hour."""
    hours = [[0] * 24 for _ in range(7)]
    for number, tokens in enumerate(quarters):
        weekday, quarter = divmod((number + _THURSDAY) % QUARTERS_OF_WEEK, QUARTERS_OF_DAY)
        hours[weekday][quarter // 4] += tokens
    return hours
