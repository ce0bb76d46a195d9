"""Times, amounts and values of the state store in words, and values that JSON can hold."""

import math
from typing import Any

from threadkeep.base.clock import iso, parse_duration
from threadkeep.cli.chat.words import local_time, money
from threadkeep.cli.output import is_terminal, json_text

Json = dict[str, Any]

_DAY_MS = 86_400_000


def when(seconds: Any) -> str:
    """Write a time: as the clock on the wall has it for a person, in UTC for a program."""
    if not isinstance(seconds, int | float) or not math.isfinite(seconds):
        return "" if seconds is None else str(seconds)  # another program wrote it
    try:
        return (local_time if is_terminal() else iso)(int(seconds * 1000))
    except (OverflowError, ValueError, OSError):
        return f"{seconds:g} s since 1970"


def days(text: str) -> float:
    """Read an age as a number of days."""
    return parse_duration(text) / _DAY_MS


def cost_of(amounts: Json) -> str:
    """Write what something cost: as billed, else as estimated."""
    return money(amounts.get("actual_cost_usd") or amounts.get("estimated_cost_usd") or 0.0)


def plain(value: Any) -> Any:
    """Copy a stored value for `--json`: a number that JSON does not know becomes its name."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def readable(value: Any) -> str:
    """Write the content of a message as text: the texts of a list of parts, the rest as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list):
        return "\n".join(_part(part) for part in value)
    return _part(value)


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        return str(part["text"])
    return json_text(plain(part))
