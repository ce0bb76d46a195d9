"""Cron expressions: from text to the seconds, minutes, hours, days and months it names.

The grammar is that of the npm library cron-parser 5.5.0, which NanoClaw uses, with its oddities:
a task that one host accepted must not be refused, or read differently, by the other. Refused are
only `H` (a value picked at random; a schedule here always means the same times), a weekday `L`
without a number (the library refuses it when it comes to it), and `#` with more than digits.
"""

import calendar
import re
from collections.abc import Iterable
from datetime import date
from typing import NamedTuple

import msgspec

from threadkeep.errors import Invalid
from threadkeep.mailbox.given import need_str

NICKNAMES = {
    "@secondly": "* * * * * *",
    "@minutely": "0 * * * * *",
    "@hourly": "0 0 * * * *",
    "@daily": "0 0 0 * * *",
    "@weekdays": "0 0 0 * * 1-5",
    "@weekends": "0 0 0 * * 0,6",
    "@weekly": "0 0 0 * * 0",
    "@monthly": "0 0 0 1 * *",
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
}
HINT = "five fields: minute hour day month weekday, like `0 9 * * 1-5`, or a name like @daily"

_FIELDS = 6
_FEWEST_FIELDS = 3  # with fewer, day or month would be the 0 that fills up from the left
_WEEK = 7
_LONGEST_MONTH = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_MOST_DIGITS = 9  # far above every limit, far below where int() refuses to read
_SPACE = re.compile("[\t\n\v\f\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]+")
_H = re.compile("(?<![A-Za-z])H(?![A-Za-z])")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
# Either field takes either kind of name: `mon` as a month is January.
_NAMES = {name: str(number) for number, name in enumerate(_MONTHS, 1)} | {
    name: str(number) for number, name in enumerate(_WEEKDAYS)
}


class Schedule(msgspec.Struct, frozen=True):
    """What a cron expression asks for; numbers ascend, Sunday is 0."""

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    last_day: bool  # also the last day of the month
    last_weekdays: frozenset[int]  # also these weekdays, the last time in the month
    occurrence: int  # only the n-th time that a weekday comes in the month; 0 for every
    any_day: bool  # the day field is a bare * or ?, so the weekday decides alone
    any_weekday: bool
    every_hour: bool


class _Unit(NamedTuple):
    name: str
    low: int
    high: int
    signs: str = r"[?,*\d/-]+"
    named: bool = False


class _Field(NamedTuple):
    text: str
    numbers: list[int]
    lasts: list[str]


_SECOND = _Unit("second", 0, 59)
_MINUTE = _Unit("minute", 0, 59)
_HOUR = _Unit("hour", 0, 23)
_DAY = _Unit("day of the month", 1, 31, r"[?,*\dL/-]+")
_MONTH = _Unit("month", 1, 12, named=True)
_WEEKDAY = _Unit("weekday", 0, 7, r"[?,*\dL/-]+", named=True)


def parse_cron(expr: str) -> Schedule:
    """Read a cron expression, or refuse it."""
    need_str(expr, "recurrence")
    try:
        return _schedule(*_six_fields(NICKNAMES.get(expr, expr)))
    except Invalid as why:
        hint = "H is a random value; write a number instead" if _H.search(expr) else HINT
        raise Invalid(f"{expr[:60]!r} is no recurrence: {why.message}", hint=hint) from None


def day_matches(schedule: Schedule, day: date) -> bool:
    """Say whether the schedule wants this day of its month (the month itself is not looked at)."""
    if schedule.occurrence and (day.day + _WEEK - 1) // _WEEK != schedule.occurrence:
        return False
    if schedule.any_day:
        return _weekday_matches(schedule, day)
    if schedule.any_weekday:
        return _number_matches(schedule, day)
    return _number_matches(schedule, day) or _weekday_matches(schedule, day)


def _number_matches(schedule: Schedule, day: date) -> bool:
    return day.day in schedule.days or (schedule.last_day and day.day == _month_length(day))


def _weekday_matches(schedule: Schedule, day: date) -> bool:
    weekday = day.isoweekday() % _WEEK
    return weekday in schedule.weekdays or (
        weekday in schedule.last_weekdays and day.day > _month_length(day) - _WEEK
    )


def _month_length(day: date) -> int:
    return calendar.monthrange(day.year, day.month)[1]


def _six_fields(expr: str) -> list[str]:
    if not expr:
        return ["0", *"*****"]  # the library reads nothing at all as every minute
    fields = [field for field in _SPACE.split(expr) if field]
    if not _FEWEST_FIELDS <= len(fields) <= _FIELDS:
        raise Invalid(f"it has {len(fields)} fields")
    missing = _FIELDS - len(fields)
    return [*["*"] * (missing - 1), *["0"] * (missing > 0), *fields]


def _schedule(second: str, minute: str, hour: str, day: str, month: str, weekday: str) -> Schedule:
    weekday_text, occurrence = _occurrence(weekday)
    hours = _field(_HOUR, hour).numbers
    days = _field(_DAY, day)
    months = _field(_MONTH, month).numbers
    weekdays = _field(_WEEKDAY, weekday_text)
    schedule = Schedule(
        seconds=_ascending(_field(_SECOND, second).numbers),
        minutes=_ascending(_field(_MINUTE, minute).numbers),
        hours=_ascending(hours),
        days=frozenset(days.numbers),
        months=frozenset(months),
        weekdays=frozenset(weekdays.numbers),
        last_day="L" in days.text,
        last_weekdays=frozenset(_last_weekday(text) for text in weekdays.lasts),
        occurrence=occurrence,
        any_day=day in {"*", "?"},
        any_weekday=weekday in {"*", "?"},
        every_hour=len(hours) == _HOUR.high + 1,
    )
    _check_day_exists(schedule)
    return schedule


def _ascending(numbers: list[int]) -> tuple[int, ...]:
    return tuple(sorted(set(numbers)))


def _check_day_exists(schedule: Schedule) -> None:
    if len(schedule.months) > 1 or schedule.last_day:
        return
    (month,) = schedule.months
    if min(schedule.days) > _LONGEST_MONTH[month - 1]:
        raise Invalid(f"month {month} has no day {min(schedule.days)}")


def _occurrence(weekday: str) -> tuple[str, int]:
    """Take `1#2` apart: the weekday, and which one of the month."""
    text, sign, which = weekday.partition("#")
    if not sign:
        return text, 0
    if re.search("[,/-]", weekday):
        raise Invalid("# stands behind one weekday, not behind a list, a range or a step")
    if not re.fullmatch("0*[1-5]", which, re.ASCII):
        raise Invalid(f"# is followed by {which!r}, not by a number from 1 to 5")
    return text, int(which[-1])


def _last_weekday(text: str) -> int:
    if text == "L":
        raise Invalid("L as a weekday needs to know which one, like 5L")
    return int(text[0]) % _WEEK  # the first digit counts, even of two


def _field(unit: _Unit, given: str) -> _Field:
    text = re.sub("[A-Za-z]{3}", _number_of_name, given) if unit.named else given
    if not re.fullmatch(unit.signs, text, re.ASCII):
        raise Invalid(f"{given[:20]!r} is not a {unit.name}")
    # The library swaps the signs for the range as text, so `5*` is `50-59`.
    text = re.sub("[*?]", f"{unit.low}-{unit.high}", text)
    numbers: list[int] = []
    lasts: list[str] = []
    for item in text.split(","):
        found = _item(unit, item)
        if isinstance(found, str):
            lasts.append(found)
        else:
            numbers.extend(found)
    _check_twice(unit, numbers, lasts)
    return _Field(text, numbers, lasts)


def _item(unit: _Unit, item: str) -> Iterable[int] | str:
    """Give what one place of a list names: numbers, or the text of an `L`."""
    if not item:
        raise Invalid("a list has an empty place")
    start, slash, step = item.partition("/")
    if "/" in step:
        raise Invalid(f"{item[:20]!r} has two steps")
    if "-" in start or (slash and _leading_number(start) is not None):
        return _range(unit, start, step if slash else "1")
    if "L" in start:
        return _last(unit, start)
    return [_normal(unit, _within(unit, _leading_number(start or "0")))]


def _number_of_name(found: re.Match[str]) -> str:
    number = _NAMES.get(found[0].lower())
    if number is None:
        raise Invalid(f"{found[0]!r} is no month or weekday")
    return number


def _last(unit: _Unit, text: str) -> str:
    if not re.fullmatch(r"\d{0,2}L", text, re.ASCII):
        raise Invalid(f"{text[:20]!r} is not a {unit.name}")
    return text


def _check_twice(unit: _Unit, numbers: list[int], lasts: list[str]) -> None:
    """Refuse what is named twice, but nothing at all when 0 is: so does the library."""
    if numbers.count(0) > 1:
        return
    for values in (numbers, lasts):
        if len(set(values)) < len(values):
            raise Invalid(f"the same {unit.name} is named twice")


def _range(unit: _Unit, text: str, step: str) -> set[int]:
    bounds = text.split("-") if "-" in text else [text, str(unit.high)]
    low, high = (_within(unit, _leading_number(bound)) for bound in bounds[:2])
    if low > high:
        raise Invalid(f"the range {text[:20]!r} runs backwards")
    every = _leading_number(step)
    if not every:
        raise Invalid(f"the step of {text[:20]!r} is {step[:20]!r}")
    # A range up to 7 has Sunday in it, whatever the step, and counts it once, even from 0 on.
    ends = {high} if unit is _WEEKDAY and high == _WEEK else set()
    return {_normal(unit, number) for number in ends.union(range(low, high + 1, every))}


def _within(unit: _Unit, number: int | None) -> int:
    if number is None or not unit.low <= number <= unit.high:
        raise Invalid(f"a {unit.name} is a number from {unit.low} to {unit.high}")
    return number


def _normal(unit: _Unit, number: int) -> int:
    return number % _WEEK if unit is _WEEKDAY else number


def _leading_number(text: str) -> int | None:
    digits = re.match(r"0*(\d*)", text, re.ASCII)
    if digits is None or not digits[0]:
        return None
    return int(digits[1][:_MOST_DIGITS] or "0")
