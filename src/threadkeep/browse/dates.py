"""Times as they are typed into a query, and back: days of a zone, spans of time, moments."""

import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final

_AGO: Final = re.compile(r"(\d{1,5})(m|h|d|w|mo|y)")
_DAYS: Final = {"d": 1, "w": 7, "mo": 30, "y": 365}
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
_MONTH: Final = re.compile(r"\d{4}-\d\d")
_NAMED: Final = {"today": 0, "yesterday": 1}
_LONGEST: Final = 40  # characters of a moment; nothing longer is one
# What every zone can still tell the next day, or the next month, of.
_FIRST, _LAST = date(1, 1, 3), date(9999, 11, 28)


def day_of(at: int, zone: tzinfo) -> date:
    """Give the day of a moment in epoch milliseconds."""
    return (datetime.fromtimestamp(at // 1000, zone)).date()


def start_of(day: date, zone: tzinfo) -> int:
    """Give the moment at which a day begins in a zone."""
    return int(datetime.combine(day, time(), zone).timestamp() * 1000)


def next_day(day: date) -> date:
    """Give the day after a day."""
    return day + timedelta(days=1)


def read_since(text: str, now: int, zone: tzinfo) -> int | None:
    """Read when something begins: a day, a month, `7d`, `today`, a moment; None: it is no time.

    Days and longer spans begin at midnight, hours and minutes at that very moment.
    """
    day = _read_day(text, now, zone)
    if day is not None:
        return start_of(day, zone)
    return _read_moment(text, now, zone)


def read_until(text: str, now: int, zone: tzinfo) -> int | None:
    """Read when something ends; a day is part of it to its end, a month to its last day."""
    day = _read_day(text, now, zone)
    if day is None:
        return _read_moment(text, now, zone)
    return start_of(_day_after(day, text), zone)


def read_on(text: str, now: int, zone: tzinfo) -> tuple[int, int] | None:
    """Read a day or a month as its beginning and its end."""
    day = _read_day(text, now, zone)
    if day is None:
        return None
    return start_of(day, zone), start_of(_day_after(day, text), zone)


def _day_after(day: date, text: str) -> date:
    if not _MONTH.fullmatch(text):
        return next_day(day)
    return (day.replace(day=1) + timedelta(days=31)).replace(day=1)


def _read_day(text: str, now: int, zone: tzinfo) -> date | None:
    typed = text.lower()
    found = _AGO.fullmatch(typed)
    back = _NAMED.get(typed)
    if found and found[2] in _DAYS:
        back = int(found[1]) * _DAYS[found[2]]
    if back is not None:
        today = day_of(now, zone)
        return today - timedelta(days=back) if back < today.toordinal() - 3 else _FIRST
    try:
        if _MONTH.fullmatch(typed):
            return _within(date.fromisoformat(f"{typed}-01"))
        return _within(date.fromisoformat(typed)) if _DAY.fullmatch(typed) else None
    except ValueError:
        return None


def _within(day: date) -> date | None:
    return day if _FIRST <= day <= _LAST else None


def _read_moment(text: str, now: int, zone: tzinfo) -> int | None:
    found = _AGO.fullmatch(text.lower())
    if found:
        return now - int(found[1]) * (60_000 if found[2] == "m" else 3_600_000)
    if len(text) > _LONGEST or not _DAY.match(text):
        return None
    try:
        moment = datetime.fromisoformat(text)
        if _within(moment.date()) is None:
            return None
        aware = moment if moment.tzinfo else moment.replace(tzinfo=zone)
        return round(aware.timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def write_since(at: int, zone: tzinfo) -> str:
    """Write a beginning so that `read_since` gives it back."""
    day = _whole_day(at, zone)
    return _moment(at) if day is None else day.isoformat()


def write_until(at: int, zone: tzinfo) -> str:
    """Write an end so that `read_until` gives it back."""
    day = _whole_day(at, zone)
    before = None if day is None else _within(day - timedelta(days=1))
    if before is None or start_of(next_day(before), zone) != at:
        return _moment(at)
    return before.isoformat()


def _whole_day(at: int, zone: tzinfo) -> date | None:
    """Give the day that begins at a moment, if one does."""
    try:
        day = day_of(at, zone)
        return day if _within(day) and start_of(day, zone) == at else None
    except (ValueError, OverflowError):
        return None


def _moment(at: int) -> str:
    moment = datetime.fromtimestamp(at // 1000, UTC).replace(microsecond=at % 1000 * 1000)
    return f"{moment.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"
