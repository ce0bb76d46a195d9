"""How numbers and times are said on the pages."""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote, urlencode
from zoneinfo import ZoneInfo

from threadkeep.base.clock import now_ms

_THOUSAND: Final = 1000
_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86_400
_PATH: Final = 36  # characters of a path that are shown where many stand in a row
# A duration is said in two units: seconds, its name, and the unit below with its seconds.
_SPANS: Final = (
    (_DAY, "d", _HOUR, "h"),
    (_HOUR, "h", _MINUTE, "min"),
    (_MINUTE, "min", 1, "s"),
)


def filters(zone: ZoneInfo) -> dict[str, Callable[..., Any]]:
    """Return the filters of the templates."""
    return {
        "ago": ago,
        "short_path": short_path,
        "tokens": tokens,
        "money": money,
        "span": span,
        "when": lambda at: when(at, zone),
        "day": lambda at: when(at, zone)[:10],
        "clock": lambda at: when(at, zone)[11:16],
        "iso": lambda at: iso_of(at, zone),
    }


def when(at: int | None, zone: ZoneInfo) -> str:
    """Say a moment."""
    return "" if at is None else _moment(at, zone).strftime("%Y-%m-%d %H:%M:%S")


def iso_of(at: int | None, zone: ZoneInfo) -> str:
    """Say a moment for programs."""
    return "" if at is None else _moment(at, zone).isoformat(timespec="seconds")


def _moment(at: int, zone: ZoneInfo) -> datetime:
    try:
        return datetime.fromtimestamp(at / 1000, zone)
    except (ValueError, OverflowError, OSError):  # a log may say anything
        return datetime.fromtimestamp(0, zone)


def ago(at: int | None) -> str:
    """Say how long ago something was."""
    if at is None:
        return "at an unknown time"
    seconds = (now_ms() - at) / 1000
    if seconds < _MINUTE:
        return "just now"
    if seconds < _HOUR:
        return f"{seconds / _MINUTE:.0f} min ago"
    if seconds < _DAY:
        return f"{seconds / _HOUR:.0f} h ago"
    days = round(seconds / _DAY)
    if days < 60:  # noqa: PLR2004
        return f"{days} day{'s' if days != 1 else ''} ago"
    return f"{days / 30.4:.0f} months ago" if days < 700 else f"{days / 365:.0f} years ago"  # noqa: PLR2004


def short_path(name: str) -> str:
    """Say a long path by its end; whatever else has a name is left as it is."""
    parts = name.replace("\\", "/").split("/")
    if len(name) <= _PATH or len(parts) < 3:  # noqa: PLR2004
        return name
    kept = parts[-1]
    for part in reversed(parts[:-1]):
        if len(kept) + len(part) > _PATH:
            break
        kept = f"{part}/{kept}"
    return f"…/{kept}"


def tokens(count: float) -> str:
    """Say a number shortly: 950, 12.3k, 4.56M."""
    for limit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(count) >= limit:
            return f"{count / limit:.3g}{suffix}"
    return f"{count:.0f}"


def money(microdollars: int | None) -> str:
    """Say a price; without one a dash."""
    if microdollars is None:
        return "–"
    dollars = microdollars / 1e6
    return f"${dollars:,.2f}" if dollars >= 0.01 or not dollars else "<$0.01"  # noqa: PLR2004


def span(milliseconds: float | None) -> str:
    """Say how long something took."""
    if milliseconds is None or milliseconds < 0:
        return ""
    if milliseconds < _THOUSAND:
        return f"{milliseconds:.0f} ms"
    if milliseconds < 10 * _THOUSAND:
        return f"{milliseconds / 1000:.1f}".removesuffix(".0") + " s"
    seconds = round(milliseconds / 1000)
    for size, name, smaller, below in _SPANS:
        if seconds >= size:
            whole, rest = divmod(round(seconds / smaller), size // smaller)
            return f"{whole} {name}" + (f" {rest} {below}" if rest else "")
    return f"{seconds} s"


# ------------------------------------------------------------------------------
# Addresses within the site, and the text of the filter bar with one thing changed.

# The tokens of the filter bar: key:"a value", "a phrase", or anything without a space.
_TOKEN: Final = re.compile(r'-?[A-Za-z]+:"(?:[^"\\]|\\.)*"|"[^"]*"|[^\s"]+', re.DOTALL)
_PLAIN: Final = re.compile(r'[^\s"\\]+')
_SAME: Final = {"agent": ("agent", "harness", "source"), "on": ("on", "since", "until")}


def session_address(agent: str, session_id: str, key: str | None = None) -> str:
    """Return the address of a session, opened at one of its messages."""
    where = f"/sessions/{_quoted(f'{agent}:{session_id}')}"
    return where if key is None else with_query(where, at=key)


def opening_address(ref: str) -> str:
    """Return the address that opens a reference, whatever it is."""
    return f"/open/{_quoted(ref)}"


def _quoted(text: str) -> str:
    return quote(text, safe=":", errors="replace")


def with_query(path: str, **values: str | int | None) -> str:
    """Return an address with what of the values is not empty."""
    asked = {name: value for name, value in values.items() if value not in (None, "")}
    return f"{path}?{urlencode(asked, errors='replace')}" if asked else path


def refined(q: str, key: str, value: str) -> str:
    """Return the text of a filter bar in which a key has one value; an empty one takes it out."""
    names = tuple(f"{name}:" for name in _SAME.get(key, (key,)))
    kept = [one for one in _TOKEN.findall(q) if not one.lower().startswith(names)]
    return " ".join([*kept, f"{key}:{_value(value)}"] if value else kept)


def _value(value: str) -> str:
    if _PLAIN.fullmatch(value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
