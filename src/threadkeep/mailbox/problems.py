"""A finding about a session folder: how bad, where, what, and what to do."""

from typing import Literal

import msgspec

Severity = Literal["error", "warning"]


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong with a session folder."""

    severity: Severity
    where: str
    what: str
    hint: str = ""


def error(where: str, what: str, hint: str = "") -> Problem:
    """Something is broken, or will break something."""
    return Problem("error", where, what, hint)


def warning(where: str, what: str, hint: str = "") -> Problem:
    """Something is odd, and should be known."""
    return Problem("warning", where, what, hint)
