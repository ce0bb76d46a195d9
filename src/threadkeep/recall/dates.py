"""When a question is about: days, months and years that it names, and those counted from today.

A named time is a hint, no filter: what happened then ranks higher, nothing is left out.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, NamedTuple

_MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june", "july", "august"),
    *("september", "october", "november", "december"),
)
_SHORT: Final = {name[:3]: number for number, name in enumerate(_MONTHS, 1)}
_MONTH: Final = "|".join([*_MONTHS, *(name[:3] for name in _MONTHS), "sept"])
_NAMED: Final = re.compile(
    rf"(?:(?P<before>\d{{1,2}})(?:st|nd|rd|th)?(?:\s+of)?\s+)?\b(?P<month>{_MONTH})\b\.?"
    r"(?:\s+(?P<after>\d{1,2})(?:st|nd|rd|th)?\b(?!:))?(?:,?\s+(?P<year>(?:19|20)\d\d)\b)?",
    re.IGNORECASE,
)
_ISO: Final = re.compile(r"\b(?P<year>(?:19|20)\d\d)-(?P<month>\d\d)(?:-(?P<day>\d\d))?\b")
_YEAR: Final = re.compile(r"\b(?:in|of|since|during)\s+((?:19|20)\d\d)\b", re.IGNORECASE)
# "may" and "march" are words too: alone they are months only behind one of these.
_BEFORE_MONTH: Final = re.compile(
    r"\b(?:in|on|of|during|last|this|next|early|late|since|until|by|before|after)\s+$",
    re.IGNORECASE,
)
_AGO: Final = re.compile(
    r"\b(?P<count>\d{1,3}|an?|two|three|four|five|six)\s+(?P<unit>day|week|month)s?\s+ago\b",
    re.IGNORECASE,
)
_RELATIVE: Final = re.compile(
    r"\b(today|yesterday|this week|last week|this month|last month)\b", re.IGNORECASE
)
_COUNTS: Final = {"a": 1, "an": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_UNIT_DAYS: Final = {"day": 1, "week": 7, "month": 30}
_SPANS: Final = {
    "today": (0, 1),
    "yesterday": (-1, 1),
    "this week": (-6, 7),
    "last week": (-13, 14),
    "this month": (-30, 31),
    "last month": (-61, 62),
}


class Named(NamedTuple):
    """A time that was named; what was left open is None."""

    year: int | None = None
    month: int | None = None
    day: int | None = None


class DateSpan(NamedTuple):
    """A stretch of whole days; the end is no part of it."""

    start: datetime
    end: datetime


When = tuple[Named | DateSpan, ...]


def times_in(text: str, now: int, zone: tzinfo = UTC) -> When:
    """Find the times that a text names; `now` is in epoch milliseconds."""
    return (*_named(text), *_spans(text, now, zone))


def is_then(at: int | None, when: When, zone: tzinfo = UTC) -> bool:
    """Tell whether a moment, in epoch milliseconds, is one of the named times."""
    if at is None or not when:
        return False
    try:
        moment = datetime.fromtimestamp(at / 1000, zone)
    except (OverflowError, ValueError, OSError):
        return False
    return any(_matches(moment, one) for one in when)


def _matches(moment: datetime, when: Named | DateSpan) -> bool:
    if isinstance(when, DateSpan):
        return when.start <= moment < when.end
    parts = zip(when, (moment.year, moment.month, moment.day), strict=True)
    return all(wanted is None or wanted == there for wanted, there in parts)


def _named(text: str) -> Iterator[Named]:
    for found in _ISO.finditer(text):
        day = found["day"]
        yield Named(int(found["year"]), int(found["month"]), None if day is None else int(day))
    months = [one for one in _NAMED.finditer(text) if _is_month(text, one)]
    for found in months:
        month = _SHORT[found["month"][:3].lower()]
        day, year = found["before"] or found["after"], found["year"]
        yield Named(int(year) if year else None, month, int(day) if day else None)
    if not months:
        yield from (Named(int(found[1])) for found in _YEAR.finditer(text))


def _is_month(text: str, found: re.Match[str]) -> bool:
    if found["before"] or found["after"] or found["year"]:
        return True
    name = found["month"].lower()
    whole = name in _MONTHS and name not in {"may", "march"}
    return whole or _BEFORE_MONTH.search(text[: found.start("month")]) is not None


def _spans(text: str, now: int, zone: tzinfo) -> Iterator[DateSpan]:
    today = datetime.fromtimestamp(now / 1000, zone).replace(
        hour=0, minute=0, second=0, microsecond=0
    )
    for found in _RELATIVE.finditer(text):
        first, days = _SPANS[found[1].lower()]
        yield _span(today, first, days)
    for found in _AGO.finditer(text):
        count = found["count"].lower()
        unit = _UNIT_DAYS[found["unit"].lower()]
        back = (_COUNTS[count] if count in _COUNTS else int(count)) * unit
        slack = 0 if unit == 1 else unit // 2
        yield _span(today, -back - slack, 2 * slack + 1)


def _span(today: datetime, first: int, days: int) -> DateSpan:
    start = today + timedelta(days=first)
    return DateSpan(start, start + timedelta(days=days))
