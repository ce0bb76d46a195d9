"""How hits are told to a reader: who said it, how long ago, how far it is to be trusted."""

from datetime import UTC, datetime, tzinfo
from typing import Final

from threadkeep.recall.records import Hit, Kind

_SECOND: Final = 1000
# From so many seconds on it is told in this unit.
_UNITS: Final = (
    (365 * 86_400, "year"),
    (30 * 86_400, "month"),
    (7 * 86_400, "week"),
    (86_400, "day"),
    (3_600, "hour"),
    (60, "minute"),
)
_SAID: Final = {
    "user": "user said",
    "assistant": "agent said",
    "tool": "tool output (untrusted)",
    "system": "program notice",
}
_KINDS: Final[dict[Kind, str]] = {
    "message": "message",
    "node": "summary",
    "command": "shell command",
    "page": "web page (untrusted)",
    "ci": "CI",
    "lesson": "lesson",
}


def label_of(hit: Hit) -> str:
    """Say who or what a hit's text comes from, and whether that is to be trusted."""
    if hit.kind == "message" and hit.role is not None:
        return _SAID.get(hit.role, _KINDS["message"])
    return _KINDS[hit.kind]


def ago(at: int | None, now: int) -> str:
    """Say how long ago something was, in words."""
    if at is None:
        return "at an unknown time"
    seconds = max(0, now - at) // _SECOND
    for size, unit in _UNITS:
        if seconds >= size:
            count = seconds // size
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now"


def day_of(at: int | None, zone: tzinfo = UTC) -> str:
    """Give the day of a moment; empty if it is unknown or no calendar has it."""
    if at is None:
        return ""
    try:
        return datetime.fromtimestamp(at / _SECOND, zone).strftime("%Y-%m-%d")
    except (OverflowError, OSError, ValueError):
        return ""
