"""Time as plain numbers: epoch milliseconds, passed in as an argument wherever it matters."""

import os
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, tzinfo

from threadkeep.base.text import pattern
from threadkeep.errors import Invalid

Clock = Callable[[], int]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_DURATION = pattern(r"([0-9]{1,18})\s*([smhdw])")
# A century: anything longer is a slip of the hand, and far below where 64-bit sums would overflow.
_LONGEST_MS = 100 * 366 * _UNIT_MS["d"]


def now_ms() -> int:
    """Milliseconds since 1970, as the system clock has them."""
    return time.time_ns() // 1_000_000


def is_due(due: int, now: int, interval: int) -> bool:
    """Tell whether the time has come for something that is never put off by more than `interval`.

    A time that lies further ahead was written while the clock was wrong, and is not waited for. One
    more interval is left for clocks that differ a little, so that this is the longest wait.
    """
    return not now < due <= now + 2 * interval


def believed(now: int, last: int | None, interval: int) -> int:
    """Return the time up to which something may be deleted by its age, where `last` was so before.

    It is done once in an interval, and continues by two at most: a clock that is a year ahead must
    not delete a year, and nobody can tell it from a machine that was off.
    """
    return now if last is None else min(now, last + 2 * interval)


def iso(ms: int) -> str:
    """Write a time for people, in UTC: `2026-08-14T11:19:55.136Z`.

    A foreign file may hold any number; one that is no date is shown as the number it is.
    """
    try:
        moment = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return f"{ms} ms since 1970"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_duration(text: str) -> int:
    """Read `45s`, `90m`, `12h`, `30d` or `2w` as milliseconds."""
    found = _DURATION.fullmatch(text.strip().lower())
    if not found:
        raise Invalid(
            f"{text[:40]!r} is not a duration",
            hint="write a whole number and a unit: 45s, 90m, 12h, 30d or 2w",
        )
    ms = int(found[1]) * _UNIT_MS[found[2]]
    if ms > _LONGEST_MS:
        raise Invalid(f"{text[:40]!r} is longer than a century", hint="30d is thirty days")
    return ms


# ------------------------------------------------------------------------------
# Time zones, by their names.


def find_zone(name: str) -> tzinfo:
    """Return a time zone by its name; refuse what is none."""
    if not isinstance(name, str):
        msg = f"the time zone must be text, not {type(name).__name__}"
        raise Invalid(msg, hint="pass the time zone as a string")
    if name == "UTC":
        return UTC  # known even where no time zone database is installed
    from zoneinfo import ZoneInfo  # noqa: PLC0415  (most commands tell no zone's time)

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # not found; not a name; a folder of zones
        msg = f"the time zone {name[:60]!r} is not known here"
        hint = "use an IANA name like Europe/Madrid; if it is one, install the package tzdata"
        raise Invalid(msg, hint=hint) from None


def known_zone(name: str | None, otherwise: str) -> str:
    """Return the name of a zone, or another where it is none: what nobody knows counts as unset."""
    try:
        find_zone(name or "")
    except Invalid:
        return otherwise
    return name or otherwise


def zone_name(
    given: str | None,
    environ: Mapping[str, str],
    read_link: Callable[[str], str] = os.readlink,
) -> str:
    """Return the host's zone: the given one, else TZ, else the system's, else UTC."""
    if given is not None:
        find_zone(given)
        return given
    return known_zone(environ.get("TZ"), known_zone(_system_zone(read_link), "UTC"))


def _system_zone(read_link: Callable[[str], str]) -> str:
    try:
        target = read_link("/etc/localtime")
    except OSError:
        return ""
    return target.partition("zoneinfo/")[2]
