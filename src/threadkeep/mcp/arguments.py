"""What the arguments of tools may be, each with a title and a description for the agent."""

import re
from datetime import datetime, tzinfo
from typing import Annotated, Any, Final

import msgspec

from threadkeep.errors import Invalid

MOST: Final = 100  # of anything that is asked for with `limit`
_LONGEST: Final = 20_000  # characters of an argument
_AGE: Final = re.compile(r"(\d{1,9})([mhdw])")
_MINUTE_MS: Final = 60_000
_UNITS: Final = {
    "m": _MINUTE_MS,
    "h": 60 * _MINUTE_MS,
    "d": 1440 * _MINUTE_MS,
    "w": 10_080 * _MINUTE_MS,
}


def text(title: str, description: str) -> msgspec.Meta:
    """Describe an argument that is a text."""
    return msgspec.Meta(title=title, description=description, max_length=_LONGEST)


def other(title: str, description: str) -> msgspec.Meta:
    """Describe an argument that is no free text."""
    return msgspec.Meta(title=title, description=description)


Limit = Annotated[int, other("Limit", "How many at most; 0 to 100.")]
Project = Annotated[
    str, text("Project", "Only this project: its folder, the folder's name, or owner/name.")
]
Age = Annotated[
    str, text("Since", "Only what is younger: 30m, 24h, 7d. Anything else means no filter.")
]
Since = Annotated[str, text("Since", "Not before: 24h, 7d, 2w ago, or a date 2026-03-01.")]
Until = Annotated[str, text("Until", "Before: 24h, 7d, 2w ago, or through a date 2026-03-01.")]
Source = Annotated[
    str,
    text(
        "Source",
        "Only from: shell, claude (any agent), browser, workflow, claude-auto-memory. Empty: all.",
    ),
]
Category = Annotated[
    str, text("Category", "Only notes of: user, feedback, project, reference, index. Empty: all.")
]
Everything = Annotated[
    bool, other("Include excluded", "Also what rests on nothing real or settled.")
]
Branch = Annotated[str, text("Branch", "Only on exactly this git branch.")]
Cursor = Annotated[
    str, text("Cursor", "The next_cursor of the answer before, to have what follows it.")
]


class Arguments(msgspec.Struct, frozen=True):
    """No arguments."""


def read_arguments(shape: type[Any], given: dict[str, Any]) -> Any:
    """Read what an agent passed; what is null counts as not given. Invalid says what is wrong."""
    known = {field.name for field in msgspec.structs.fields(shape)}
    unknown = sorted(set(given) - known)
    if unknown:
        msg = f"there is no argument {unknown[0]!r}"
        raise Invalid(msg, hint=f"known here: {', '.join(sorted(known)) or 'none'}")
    said = {name: value for name, value in given.items() if value is not None}
    try:
        return msgspec.convert(said, shape, strict=False)
    except (msgspec.ValidationError, OverflowError) as error:
        told, _, place = str(error).partition(" - at `$.")
        name = place.removesuffix("`")
        raise Invalid(f"{name}: {told}" if name else told, hint="see the tool's schema") from None


def clamped(limit: int) -> int:
    """Keep a limit within what is given at once."""
    return max(0, min(limit, MOST))


def younger_than(age: str, now: int) -> int | None:
    """Read an age as the contract's own server does: 30m, 24h or 7d, else there is no filter."""
    found = re.fullmatch(r"(\d+)([mhd])", age.strip())
    if found is None:
        return None
    return max(0, now - int(found[1][:15]) * _UNITS[found[2]])


def filter_source(source: str) -> str | None:
    """Read a source as the contract's own server does: `claude` means any agent."""
    return {"claude": "agent", "workflow": "ci"}.get(source, source) or None


def moment(told: str, now: int, zone: tzinfo, *, end: bool = False) -> int | None:
    """Read an age or a date as epoch milliseconds; a date as an end means through that day."""
    plain = told.strip()
    if not plain:
        return None
    found = _AGE.fullmatch(plain)
    if found is not None:
        return max(0, now - int(found[1]) * _UNITS[found[2]])
    try:
        at = datetime.fromisoformat(plain)
        at = at if at.tzinfo is not None else at.replace(tzinfo=zone)
        whole_day = end and len(plain) == len("2026-03-01")
        return int(at.timestamp() * 1000) + (86_400_000 if whole_day else 0)
    except (ValueError, OverflowError, OSError):
        msg = f"{told!r} is no time"
        raise Invalid(msg, hint="give an age such as 24h or 7d, or a date 2026-03-01") from None
