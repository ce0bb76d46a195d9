"""The two ways a mailbox writes time, and one way to read both.

Rows carry ISO text with a zone (`2026-08-14T11:19:55.136Z`); what older programs let the database
write is SQLite's form (`2026-08-14 11:19:55`), always UTC, whole seconds. As text the two do not
sort together: of one day all of SQLite's form come first.
"""

from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from threadkeep.base.clock import iso
from threadkeep.errors import Invalid
from threadkeep.mailbox.given import need_str

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The years that both forms can write.
_FIRST, _LAST = -62_135_596_800_000, 253_402_300_799_999
_HINT = "write it like 2026-08-14T11:19:55Z, with a zone or in the zone of the host"


def sqlite_form(ms: int) -> str:
    """Write a time as SQLite's `datetime()` does; hosts compare some columns as such text."""
    try:
        moment = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        raise Invalid(f"{ms} ms since 1970 is no date", hint=_HINT) from None
    return moment.strftime("%Y-%m-%d %H:%M:%S").rjust(19, "0")


def whole_iso(ms: int) -> str:
    """Write a time as ISO in whole seconds: a pause, which nobody wished for by itself."""
    return sqlite_form(ms).replace(" ", "T") + "Z"


def like(written: str | None, ms: int) -> str:
    """Write a time in the form of another one, ISO if there is none, so that both sort as text."""
    is_sqlite = written is not None and written[10:11] == " "
    return sqlite_form(ms) if is_sqlite else iso(ms)


def read_moment(text: str | None) -> int | None:
    """Read either form as epoch milliseconds; text without a zone is UTC. None if it is no time."""
    if not text or not text[:1].isdigit() or "-" not in text[:5]:
        return None
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return _to_ms(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))


def parse_moment(given: datetime | str | int, zone: str = "UTC") -> int:
    """Read a time that somebody gave, in `zone` if it names none; refuse what is no time."""
    ms = None
    if isinstance(given, str | datetime):
        ms = _given_ms(given, zone)
    elif isinstance(given, int) and not isinstance(given, bool):
        ms = given
    if ms is None or not _FIRST <= ms <= _LAST:
        raise Invalid(f"{str(given)[:40]!r} is not a time", hint=_HINT)
    return ms


def _given_ms(given: datetime | str, zone: str) -> int | None:
    try:
        moment = given if isinstance(given, datetime) else datetime.fromisoformat(given.strip())
    except ValueError:
        return None
    return _to_ms(moment if moment.tzinfo is not None else moment.replace(tzinfo=find_zone(zone)))


def find_zone(name: str) -> tzinfo:
    """Give a time zone by its name; refuse what is none."""
    if need_str(name, "time zone") == "UTC":
        return UTC  # known even where no time zone database is installed
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # not found; not a name; a folder of zones
        msg = f"the time zone {name[:60]!r} is not known here"
        hint = "use an IANA name like Europe/Madrid; if it is one, install the package tzdata"
        raise Invalid(msg, hint=hint) from None


def known_zone(name: str | None, otherwise: str) -> str:
    """Give the name of a zone, or another where it is none: what nobody knows counts as unset."""
    try:
        find_zone(name or "")
    except Invalid:
        return otherwise
    return name or otherwise


def normal_moment(given: datetime | str | int | None, zone: str = "UTC") -> str | None:
    """Write a given time as ISO in UTC, None for none."""
    return None if given is None else iso(parse_moment(given, zone))


def _to_ms(moment: datetime) -> int | None:
    try:
        return (moment - _EPOCH) // timedelta(milliseconds=1)
    except OverflowError:
        return None
