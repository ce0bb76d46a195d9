"""How long to wait before a request is made again, by what the server said."""

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final

LONGEST_WAIT: Final = 300.0
_UNTOLD: Final = 60.0  # GitHub asks for a minute where it does not say how long
_TOO_MANY: Final = 429
_FORBIDDEN: Final = 403
_SERVER_TROUBLE: Final = 500

Headers = Mapping[str, str]  # names in lower case


def is_limit(status: int, headers: Headers) -> bool:
    """Tell whether an answer means that there were too many requests."""
    if status == _TOO_MANY:
        return True
    spent = headers.get("x-ratelimit-remaining", "").strip() == "0"
    return status == _FORBIDDEN and (spent or "retry-after" in headers)


def wait_after(status: int, headers: Headers, tries: int, now: float) -> float | None:
    """Give the seconds until a request may be made again; None if that would be of no use.

    `now` is in epoch seconds, `tries` says how often it was made again already.
    """
    if is_limit(status, headers):
        return _capped(_told(headers, now))
    if status >= _SERVER_TROUBLE:
        asked = _seconds(headers.get("retry-after"), now)
        return back_off(tries) if asked is None else _capped(asked)
    return None


def back_off(tries: int) -> float:
    """Give the seconds to wait after trouble: 1, 2, 4 and so on."""
    return _capped(2.0 ** min(tries, 10))


def _told(headers: Headers, now: float) -> float:
    asked = _seconds(headers.get("retry-after"), now)
    if asked is not None:
        return asked
    try:
        return float(int(headers.get("x-ratelimit-reset", ""))) - now
    except (ValueError, OverflowError):
        return _UNTOLD


def _seconds(text: str | None, now: float) -> float | None:
    """Read a number of seconds, or a date."""
    if text is None:
        return None
    try:
        return float(int(text))
    except (ValueError, OverflowError):
        pass
    try:
        return parsedate_to_datetime(text).timestamp() - now
    except (ValueError, OverflowError, OSError):
        return _UNTOLD


def _capped(seconds: float) -> float:
    return min(max(seconds, 1.0), LONGEST_WAIT)
