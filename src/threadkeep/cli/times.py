"""Points in time as people write them on a command line."""

import time as clock
from datetime import date, datetime, time, timedelta

from threadkeep.base.clock import parse_duration
from threadkeep.errors import Invalid

_NAMED = "write a date (2026-01-15, yesterday), a time (2026-01-15T10:30) or an age (12h, 7d, 2w)"
_DAYS_BACK = {"today": 0, "yesterday": 1}


def moment(text: str | None, now: float, *, end: bool = False) -> float | None:
    """Read a point in time: an age counts back from `now`, a date is a local day.

    With `end` a date means its last moment, so that the day itself is included.
    """
    if text is None:
        return None
    text = _dated(text.strip(), now)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        try:
            return now - parse_duration(text) / 1000
        except Invalid:
            raise Invalid(f"{text[:40]!r} is no point in time", hint=_NAMED) from None
    if _is_date(text):
        found = datetime.combine(found.date(), time.max if end else time.min)
    try:
        return found.timestamp()
    except (OverflowError, ValueError, OSError):
        raise Invalid(f"{text[:40]!r} is out of reach", hint=_NAMED) from None


def _dated(text: str, now: float) -> str:
    """Write `today` and `yesterday` as the dates they are."""
    back = _DAYS_BACK.get(text.lower())
    if back is None:
        return text
    return str(datetime.fromtimestamp(now).date() - timedelta(days=back))  # noqa: DTZ006  (local)


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def read_times(since: str | None, until: str | None) -> tuple[int | None, int | None]:
    """Read a span of time as milliseconds; a date as its end means the whole day."""
    now = clock.time()
    first, last = moment(since, now), moment(until, now, end=True)
    return (
        None if first is None else int(first * 1000),
        None if last is None else int(last * 1000) + 1,
    )
