"""Points in time as people write them on a command line; the filter language has the same words."""

import os
import time as clock
from datetime import UTC, datetime, tzinfo

from threadkeep.base.clock import parse_duration
from threadkeep.errors import Invalid

_MS = 1000
_MICROSECOND = 0.000_001


def moment(text: str | None, now: float, *, end: bool = False) -> float | None:
    """Read a point in time: an age counts back from `now`, a date is a local day.

    With `end` a date means its last moment, so that the day itself is included.
    """
    if text is None:
        return None
    try:
        return now - parse_duration(text.strip()) / _MS
    except Invalid:
        pass
    from threadkeep.knowledge.query import read_since, unread_time

    days = _days(text, now)
    if days is not None:
        return days[1] / _MS - _MICROSECOND if end else days[0] / _MS
    at = read_since(text.strip(), int(now * _MS), _local())
    if at is None:
        raise unread_time(text)
    return at / _MS


def read_times(
    since: str | None, until: str | None, on: str | None = None
) -> tuple[int | None, int | None]:
    """Read a span of time as milliseconds; a date as its end means the whole day."""
    now = clock.time()
    if on is not None:
        return _span(on, now, alone=since is None and until is None)
    first, last = moment(since, now), moment(until, now, end=True)
    return (
        None if first is None else int(first * _MS),
        None if last is None else int(last * _MS) + 1,
    )


def day_span(text: str) -> tuple[int, int] | None:
    """Read a day, a week or a month, such as `yesterday`; None for anything else."""
    return _days(text, clock.time())


def _span(on: str, now: float, *, alone: bool) -> tuple[int, int]:
    from threadkeep.knowledge.query import unread_time

    if not alone:
        raise Invalid("a day cannot be combined with --since or --until", hint="leave one out")
    days = _days(on, now)
    if days is None:
        raise unread_time(on)
    return days


def _days(text: str, now: float) -> tuple[int, int] | None:
    from threadkeep.knowledge.query import read_on

    return read_on(text.strip(), int(now * _MS), _local())


def _local() -> tzinfo:
    """Return the zone of this machine, whose rules hold for each date."""
    from threadkeep.base.clock import find_zone, zone_name

    try:
        return find_zone(zone_name(None, os.environ))
    except Invalid:  # a zone without a name
        return datetime.now(UTC).astimezone().tzinfo or UTC
