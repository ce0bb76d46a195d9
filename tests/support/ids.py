"""What our own ids look like, and the time that they hold."""

import re
from typing import Final

_TAIL: Final = re.compile(r"[0-9a-f]{12}[0-9A-Za-z]{14}")
_TAIL_LENGTH: Final = 26


def is_id(text: str, prefix: str) -> bool:
    """Tell whether this could be one of our ids of that kind (foreign ids may be any string)."""
    head = len(prefix) + 1
    return (
        len(text) == head + _TAIL_LENGTH
        and text.startswith(f"{prefix}_")
        and _TAIL.fullmatch(text, head) is not None
    )


def time_of(text: str) -> int | None:
    """Read the milliseconds out of one of our ids; None for a foreign one."""
    _, _, tail = text.rpartition("_")
    return int(tail[:12], 16) if _TAIL.fullmatch(tail) else None
