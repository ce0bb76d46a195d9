"""Cron expressions: from text to the seconds, minutes, hours, days and months it names.

The grammar is that of the npm library cron-parser 5.5.0, which NanoClaw uses, with its oddities:
a task that one host accepted must not be refused, or read differently, by the other. Refused are
only `H` (a value picked at random; a schedule here always means the same times), a weekday `L`
without a number (the library refuses it when it comes to it), and `#` with more than digits.
"""

import calendar
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from itertools import islice
from typing import NamedTuple

import msgspec

from threadkeep.base.clock import find_zone
from threadkeep.errors import Invalid
from threadkeep.mailbox.arguments import need_str
from threadkeep.mailbox.rows import parse_moment

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
        raise Invalid(
            f"{expr[:60]!r} is not a valid recurrence: {why.message}", hint=hint
        ) from None


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
        raise Invalid("# follows a single weekday, not a list, a range or a step")
    if not re.fullmatch("0*[1-5]", which, re.ASCII):
        raise Invalid(f"# is followed by {which!r}, not by a number from 1 to 5")
    return text, int(which[-1])


def _last_weekday(text: str) -> int:
    if text == "L":
        raise Invalid("L needs a weekday, like 5L")
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
    """Return what one place of a list names: numbers, or the text of an `L`."""
    if not item:
        raise Invalid("a list has an empty item")
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
        raise Invalid(f"{found[0]!r} is not a month or weekday")
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


# ------------------------------------------------------------------------------
# When a recurring task is due: the next times of a cron expression in a zone.
#
# The times are those of the npm library cron-parser 5.5.0, which NanoClaw uses. Where clocks change
# it has habits of its own, and a series must not jump when the other host computes it. So the
# search
# below takes the library's steps. In short: a time that a clock change skips comes an hour later, a
# time that comes twice is due once, and a day on which clocks go forward may be left out (the hours
# to the wanted one are counted as if none was missing, so the search arrives too late).

Moment = datetime | str | int

MOST_MISSED = 1000

_RECURRENCE_MINUTE = 60
_RECURRENCE_HOUR = 3600
_RECURRENCE_DAY = 86_400
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Two days inside of what datetime can hold, so that no zone can push a time over the edge.
_EARLIEST = int((datetime(1, 1, 3, tzinfo=UTC) - _EPOCH).total_seconds())
_LATEST = int((datetime(9999, 12, 30, tzinfo=UTC) - _EPOCH).total_seconds())
_MOST_STEPS = 9_999  # the library gives up here: 27 years of days, if no day is right
_FIVE_FIELDS = 5
_ANY_START = 1_704_067_200_000  # 2024 began: a recurrence comes from here, or it does not come


class _Place(NamedTuple):
    """A place on a clock's way through a zone, in seconds."""

    wall: int  # what the clock on the wall shows, as if it were UTC
    offset: int  # how far it is ahead of UTC
    after_gap: int = -1  # the hour that followed a skipped one
    again: int = -1  # the hour that came a second time

    @property
    def instant(self) -> int:
        return self.wall - self.offset

    @property
    def hour(self) -> int:
        return self.wall // _RECURRENCE_HOUR % 24

    @property
    def minute(self) -> int:
        return self.wall // _RECURRENCE_MINUTE % 60

    @property
    def second(self) -> int:
        return self.wall % 60

    @property
    def day(self) -> date:
        return date.fromordinal(self.wall // _RECURRENCE_DAY + _EPOCH_ORDINAL)


def next_due(expr: str, after: Moment, zone: str = "UTC") -> datetime:
    """Return the first time after `after` (a time, ISO text or epoch ms) that `expr` names, in UTC.

    What NanoClaw would compute, with one exception: when a clock goes back by half an hour, its
    library can answer with a time that has passed. Then the answer is looked for further on.
    """
    schedule, where = parse_cron(expr), find_zone(zone)
    return _moment(_first_after(expr, schedule, parse_moment(after, zone) // 1000, where))


def next_times(expr: str, after: Moment, zone: str, count: int) -> list[datetime]:
    """Return the next `count` times as the library's iterator gives them, each from the one before.

    Where a clock goes back by half an hour, the iterator can stand still and repeat itself.
    """
    where = find_zone(zone)
    start = _at(parse_moment(after, zone) // 1000, where)
    places = islice(_places(expr, parse_cron(expr), start, where), count)
    return [_moment(place.instant) for place in places]


def check_recurrence(expr: str, zone: str = "UTC") -> str:
    """Return the expression of a new task without outer spaces, or refuse it."""
    text = need_str(expr, "recurrence").strip()
    if text not in NICKNAMES and len(text.split()) < _FIVE_FIELDS:
        raise Invalid(f"the recurrence {expr[:60]!r} has fewer than five fields", hint=HINT)
    next_due(text, _ANY_START, zone)
    return text


def missed_times(
    expr: str, due: datetime, now: datetime, zone: str, limit: int = MOST_MISSED
) -> list[datetime]:
    """Return the times after `due` up to and with `now`, oldest first, `limit` of them at most."""
    schedule, where = parse_cron(expr), find_zone(zone)
    last, until = (parse_moment(moment, zone) // 1000 for moment in (due, now))
    missed: list[datetime] = []
    while len(missed) < limit and (last := _first_after(expr, schedule, last, where)) <= until:
        missed.append(_moment(last))
    return missed


def _moment(instant: int) -> datetime:
    return _EPOCH + timedelta(seconds=instant)


def _places(expr: str, schedule: Schedule, start: _Place, zone: tzinfo) -> Iterator[_Place]:
    place = start
    while True:
        place = _search(expr, schedule, place, zone)
        yield place


def _first_after(expr: str, schedule: Schedule, start: int, zone: tzinfo) -> int:
    begin = start
    while (found := _search(expr, schedule, _at(begin, zone), zone).instant) <= start:
        begin += (
            _RECURRENCE_HOUR // 2
        )  # a search leads back by less than an hour, so this ends soon
    return found


def _search(expr: str, schedule: Schedule, start: _Place, zone: tzinfo) -> _Place:
    """Walk from `start` to the next place that is due.

    Before a clock that goes back by half an hour, a step of an hour can lead to where it began.
    The library walks in this circle until it is out of steps, and takes where it is; so do we,
    but for the full rounds.
    """
    place, left = start, _MOST_STEPS
    led_back: dict[_Place, int] = {}
    while left:
        left -= 1
        further = _step(schedule, place, start, zone)
        if further is None:
            return place
        if further.instant <= place.instant:
            if further in led_back:
                left %= led_back[further] - left
            led_back[further] = left
        place = further
    if place.day.month in schedule.months and day_matches(schedule, place.day):
        return place
    raise Invalid(
        f"the recurrence {expr[:60]!r} never occurs in the next 27 years",
        hint="name a day that one of its months has",
    )


def _step(schedule: Schedule, place: _Place, start: _Place, zone: tzinfo) -> _Place | None:
    """Take one step towards the next due place; None when it is reached."""
    day = place.day
    if not day_matches(schedule, day):
        return _next_day(place, zone)
    if day.month not in schedule.months:
        return _next_month(place, day, zone)
    if place.again == place.hour:
        return _forward(schedule, place._replace(again=-1), _RECURRENCE_HOUR, zone)
    if not _hour_is_right(schedule, place):
        return _to_hour(schedule, place._replace(after_gap=-1), zone)
    return _step_in_hour(schedule, place, start, zone)


def _step_in_hour(schedule: Schedule, place: _Place, start: _Place, zone: tzinfo) -> _Place | None:
    if place.minute not in schedule.minutes:
        return _to_minute(schedule, place, zone)
    if place.second not in schedule.seconds:
        return _to_second(schedule, place, zone)
    return _forward(schedule, place, 1, zone) if place.instant == start.instant else None


def _hour_is_right(schedule: Schedule, place: _Place) -> bool:
    if place.after_gap == place.hour:
        return place.hour - 1 in schedule.hours
    return place.hour in schedule.hours


def _next_day(place: _Place, zone: tzinfo) -> _Place:
    tomorrow = _set(place, place.wall + _RECURRENCE_DAY, zone)
    if tomorrow.wall % _RECURRENCE_DAY == 0:
        return tomorrow
    return _set(tomorrow, tomorrow.wall - tomorrow.wall % _RECURRENCE_DAY, zone)


def _next_month(place: _Place, day: date, zone: tzinfo) -> _Place:
    first = (day.replace(day=1) + timedelta(days=31)).replace(day=1)
    return _set(place, (first.toordinal() - _EPOCH_ORDINAL) * _RECURRENCE_DAY, zone)


def _to_hour(schedule: Schedule, place: _Place, zone: tzinfo) -> _Place:
    later = bisect_right(schedule.hours, place.hour)
    if later == len(schedule.hours):
        return _next_day(place, zone)
    hours = schedule.hours[later] - place.hour
    if _clock_changes(place, zone):
        for _ in range(hours):
            place = _forward(schedule, place, _RECURRENCE_HOUR, zone)
    else:
        place = _set(place, place.wall + hours * _RECURRENCE_HOUR, zone)
    return _set(place, _with_minute(schedule, place), zone)


def _clock_changes(place: _Place, zone: tzinfo) -> bool:
    midnight = _set(place, place.wall - place.wall % _RECURRENCE_DAY, zone)
    return _at(_next_day(place, zone).instant - 1, zone).offset != midnight.offset


def _to_minute(schedule: Schedule, place: _Place, zone: tzinfo) -> _Place:
    later = bisect_right(schedule.minutes, place.minute)
    if later == len(schedule.minutes):
        place = _forward(schedule, place, _RECURRENCE_HOUR, zone)
        return _set(place, _with_minute(schedule, place), zone)
    wall = place.wall - place.wall % _RECURRENCE_HOUR + schedule.minutes[later] * _RECURRENCE_MINUTE
    return _set(place, wall + schedule.seconds[0], zone)


def _with_minute(schedule: Schedule, place: _Place) -> int:
    hour = place.wall - place.wall % _RECURRENCE_HOUR
    return hour + schedule.minutes[0] * _RECURRENCE_MINUTE + schedule.seconds[0]


def _to_second(schedule: Schedule, place: _Place, zone: tzinfo) -> _Place:
    later = bisect_right(schedule.seconds, place.second)
    if later == len(schedule.seconds):
        place = _forward(schedule, place, _RECURRENCE_MINUTE, zone)
        return _set(place, place.wall + schedule.seconds[0], zone)
    return _set(place, place.wall - place.second + schedule.seconds[later], zone)


def _forward(schedule: Schedule, place: _Place, unit: int, zone: tzinfo) -> _Place:
    """Go on by an hour, a minute or a second to where it begins, and note a change of the clock."""
    moved = _at(place.instant + unit, zone)
    begun = _set(place, moved.wall - moved.wall % unit, zone, moved.offset)
    if schedule.every_hour:
        return begun
    hours = begun.hour - place.hour
    if hours == 2:  # noqa: PLR2004 — one was skipped
        return begun._replace(after_gap=begun.hour)
    if hours == 0 and begun.wall % _RECURRENCE_HOUR == 0:
        return begun._replace(again=begun.hour)
    return begun


def _at(instant: int, zone: tzinfo) -> _Place:
    offset = _offset(instant, zone)
    return _Place(instant + offset, offset)


def _set(place: _Place, wall: int, zone: tzinfo, offset: int | None = None) -> _Place:
    """Set the clock on the wall; of two such times take the nearer, skip over those that are none.

    The nearer is the one with the offset of before.
    """
    before = place.offset if offset is None else offset
    found = _offset(wall - before, zone)
    if found != before:
        other = _offset(wall - found, zone)
        wall += abs(other - found)
        found = max(found, other)
    return place._replace(wall=wall, offset=found)


def _offset(instant: int, zone: tzinfo) -> int:
    if not _EARLIEST <= instant <= _LATEST:
        raise Invalid(
            "recurrences are computed only for the years 1 to 9999",
            hint="give the time to look from as ISO text or as milliseconds since 1970",
        )
    offset = datetime.fromtimestamp(instant, zone).utcoffset()
    return 0 if offset is None else int(offset.total_seconds())
