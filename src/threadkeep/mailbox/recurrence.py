"""When a recurring task is due: the next times of a cron expression in a zone.

The times are those of the npm library cron-parser 5.5.0, which NanoClaw uses. Where clocks change
it has habits of its own, and a series must not jump when the other host computes it. So the search
below takes the library's steps. In short: a time that a clock change skips comes an hour later, a
time that comes twice is due once, and a day on which clocks go forward may be left out (the hours
to the wanted one are counted as if none was missing, so the search arrives too late).
"""

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta, tzinfo
from itertools import islice
from typing import NamedTuple

from threadkeep.errors import Invalid
from threadkeep.mailbox.cron import HINT, NICKNAMES, Schedule, day_matches, parse_cron
from threadkeep.mailbox.given import need_str
from threadkeep.mailbox.times import find_zone, parse_moment

Moment = datetime | str | int

MOST_MISSED = 1000

_MINUTE = 60
_HOUR = 3600
_DAY = 86_400
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
        return self.wall // _HOUR % 24

    @property
    def minute(self) -> int:
        return self.wall // _MINUTE % 60

    @property
    def second(self) -> int:
        return self.wall % 60

    @property
    def day(self) -> date:
        return date.fromordinal(self.wall // _DAY + _EPOCH_ORDINAL)


def next_due(expr: str, after: Moment, zone: str = "UTC") -> datetime:
    """Give the first time after `after` (a time, ISO text or epoch ms) that `expr` names, in UTC.

    What NanoClaw would compute, with one exception: when a clock goes back by half an hour, its
    library can answer with a time that has passed. Then the answer is looked for further on.
    """
    schedule, where = parse_cron(expr), find_zone(zone)
    return _moment(_first_after(expr, schedule, parse_moment(after, zone) // 1000, where))


def next_times(expr: str, after: Moment, zone: str, count: int) -> list[datetime]:
    """Give the next `count` times as the library's iterator gives them, each from the one before.

    Where a clock goes back by half an hour, the iterator can stand still and repeat itself.
    """
    where = find_zone(zone)
    start = _at(parse_moment(after, zone) // 1000, where)
    places = islice(_places(expr, parse_cron(expr), start, where), count)
    return [_moment(place.instant) for place in places]


def check_recurrence(expr: str, zone: str = "UTC") -> str:
    """Give the expression of a new task without outer spaces, or refuse it."""
    text = need_str(expr, "recurrence").strip()
    if text not in NICKNAMES and len(text.split()) < _FIVE_FIELDS:
        raise Invalid(f"the recurrence {expr[:60]!r} has fewer than five fields", hint=HINT)
    next_due(text, _ANY_START, zone)
    return text


def missed_times(
    expr: str, due: datetime, now: datetime, zone: str, limit: int = MOST_MISSED
) -> list[datetime]:
    """Give the times after `due` up to and with `now`, oldest first, `limit` of them at most."""
    schedule, where = parse_cron(expr), find_zone(zone)
    last, until = (parse_moment(moment, zone) // 1000 for moment in (due, now))
    missed: list[datetime] = []
    while len(missed) < limit and (last := _first_after(expr, schedule, last, where)) <= until:
        missed.append(_moment(last))
    return missed


def zone_name(
    given: str | None,
    environ: Mapping[str, str],
    read_link: Callable[[str], str] = os.readlink,
) -> str:
    """Give the host's zone: the given one, else TZ, else the system's, else UTC."""
    if given is not None:
        find_zone(given)
        return given
    named = (environ.get("TZ", ""), _system_zone(read_link))
    return next((name for name in named if name and _is_zone(name)), "UTC")


def _system_zone(read_link: Callable[[str], str]) -> str:
    try:
        target = read_link("/etc/localtime")
    except OSError:
        return ""
    return target.partition("zoneinfo/")[2]


def _is_zone(name: str) -> bool:
    try:
        find_zone(name)
    except Invalid:
        return False
    return True


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
        begin += _HOUR // 2  # a search leads back by less than an hour, so this ends soon
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
        f"the recurrence {expr[:60]!r} does not come in the next 27 years",
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
        return _forward(schedule, place._replace(again=-1), _HOUR, zone)
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
    tomorrow = _set(place, place.wall + _DAY, zone)
    if tomorrow.wall % _DAY == 0:
        return tomorrow
    return _set(tomorrow, tomorrow.wall - tomorrow.wall % _DAY, zone)


def _next_month(place: _Place, day: date, zone: tzinfo) -> _Place:
    first = (day.replace(day=1) + timedelta(days=31)).replace(day=1)
    return _set(place, (first.toordinal() - _EPOCH_ORDINAL) * _DAY, zone)


def _to_hour(schedule: Schedule, place: _Place, zone: tzinfo) -> _Place:
    later = bisect_right(schedule.hours, place.hour)
    if later == len(schedule.hours):
        return _next_day(place, zone)
    hours = schedule.hours[later] - place.hour
    if _clock_changes(place, zone):
        for _ in range(hours):
            place = _forward(schedule, place, _HOUR, zone)
    else:
        place = _set(place, place.wall + hours * _HOUR, zone)
    return _set(place, _with_minute(schedule, place), zone)


def _clock_changes(place: _Place, zone: tzinfo) -> bool:
    midnight = _set(place, place.wall - place.wall % _DAY, zone)
    return _at(_next_day(place, zone).instant - 1, zone).offset != midnight.offset


def _to_minute(schedule: Schedule, place: _Place, zone: tzinfo) -> _Place:
    later = bisect_right(schedule.minutes, place.minute)
    if later == len(schedule.minutes):
        place = _forward(schedule, place, _HOUR, zone)
        return _set(place, _with_minute(schedule, place), zone)
    wall = place.wall - place.wall % _HOUR + schedule.minutes[later] * _MINUTE
    return _set(place, wall + schedule.seconds[0], zone)


def _with_minute(schedule: Schedule, place: _Place) -> int:
    hour = place.wall - place.wall % _HOUR
    return hour + schedule.minutes[0] * _MINUTE + schedule.seconds[0]


def _to_second(schedule: Schedule, place: _Place, zone: tzinfo) -> _Place:
    later = bisect_right(schedule.seconds, place.second)
    if later == len(schedule.seconds):
        place = _forward(schedule, place, _MINUTE, zone)
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
    if hours == 0 and begun.wall % _HOUR == 0:
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
            "a recurrence is asked for outside of the years 1 to 9999",
            hint="give the time to look from as ISO text or as milliseconds since 1970",
        )
    offset = datetime.fromtimestamp(instant, zone).utcoffset()
    return 0 if offset is None else int(offset.total_seconds())
