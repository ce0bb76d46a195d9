"""What most sources need: times, and the text of tool calls."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from threadkeep.knowledge.hashing import compact

_TOO_BIG = 2**63
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def iso_ms(text: object) -> int | None:
    """Read an ISO time as epoch milliseconds; None if it is no time. Without a zone it is UTC."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MILLISECOND


def number(value: object) -> int:
    """Give a count from a log as an integer, 0 if it is none that a database can hold."""
    return int(value) if isinstance(value, (int, float)) and abs(value) < _TOO_BIG else 0


def text(value: object) -> str:
    """Give a text from a log, empty if it is none."""
    return value if isinstance(value, str) else ""


def table(value: object) -> dict[str, Any]:
    """Give an object from a log, empty if it is none."""
    return value if isinstance(value, dict) else {}


def rows(value: object) -> list[Any]:
    """Give a list from a log, empty if it is none."""
    return value if isinstance(value, list) else []


def describe_input(given: object) -> str:
    """Write out a tool's input to be read and searched: commands bare, else `key: value`."""
    if isinstance(given, str):
        return given
    if not isinstance(given, dict):
        return "" if given is None else _rendered(given)
    lines = []
    for key, value in given.items():
        shown = value if isinstance(value, str) else _rendered(value)
        lines.append(shown if key in {"command", "cmd"} and value is shown else f"{key}: {shown}")
    return "\n".join(lines)


def _rendered(value: object) -> str:
    try:
        return compact(value)
    except (RecursionError, ValueError):  # nested beyond reason
        return "…"


def block_text(content: object) -> str:
    """Join the texts of a message's content: a string, or blocks with a `text`."""
    if isinstance(content, str):
        return content
    found = [
        block if isinstance(block, str) else text(table(block).get("text"))
        for block in rows(content)
    ]
    return "\n".join(piece for piece in found if piece)
