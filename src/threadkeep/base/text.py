r"""Any Python string, kept whole: through SQLite, and made harmless for a terminal.

Text from a JavaScript stream is UTF-16 underneath. A character beyond U+FFFF may arrive as two
halves in two chunks, and a program may send half of one by mistake; UTF-8 has no place for a half.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, AnyStr, Final, cast

from threadkeep.errors import Invalid

# ------------------------------------------------------------------------------
# Patterns that are compiled when they are first used: a short command uses one in ten.

_VERBS: Final = ("search", "match", "fullmatch", "split", "findall", "finditer", "sub", "subn")
_FACTS: Final = ("pattern", "flags", "groups", "groupindex", "scanner")


class _Pattern:
    """Stands for a pattern, and has all of it from the first time on that anything is asked."""

    def __init__(self, text: Any, flags: int) -> None:
        self._given = (text, flags)

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(*self._given)
        self.__dict__.update((one, getattr(compiled, one)) for one in (*_VERBS, *_FACTS))
        return getattr(compiled, name)


def pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern for a module to keep; compiling one takes 0.1 ms, and there are hundreds."""
    return cast("re.Pattern[AnyStr]", _Pattern(text, flags))


# ------------------------------------------------------------------------------
# Text as it is kept, and as it is shown.

_ESCAPE_SEQUENCE: Final = pattern(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor moves, erasing
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # titles, links
    r"|\x1b[ -/]*[0-Z\\^-~]"  # two-character escapes such as a terminal reset
)
# Not printable as they are: controls, halves of characters, and what reorders or hides text
# (bidirectional overrides, invisible tag characters).
_UNPRINTABLE: Final = pattern(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]"
)


def to_sql(text: str) -> str | bytes:
    """Give SQLite a value that holds exactly this text: TEXT if UTF-8 can, else WTF-8 as a BLOB."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def from_sql(value: str | bytes) -> str:
    """Read back what `to_sql` gave."""
    return value if isinstance(value, str) else value.decode("utf-8", "surrogatepass")


def decoded(value: Any) -> str:
    """Read a column as well as it can be read: bytes of another program need not be UTF-8."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "" if value is None else str(value)


def join_text(a: str, b: str) -> str:
    """Append `b` to `a`; where a character was cut between them its halves become one again."""
    if a and b and "\ud800" <= a[-1] <= "\udbff" and "\udc00" <= b[0] <= "\udfff":
        return a[:-1] + join_pairs(a[-1] + b[0]) + b[1:]
    return a + b


def join_pairs(text: str) -> str:
    """Turn every high half followed by a low half into the character they stand for."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def printable(text: str) -> str:
    r"""Make text safe for a terminal: escape sequences go, other controls show as `\x07`.

    New lines and tabs stay, and the result can always be encoded as UTF-8.
    """
    if text.isprintable():
        return text
    plain = _ESCAPE_SEQUENCE.sub("", text.replace("\r\n", "\n"))
    return _UNPRINTABLE.sub(_visible, plain)


def _visible(found: re.Match[str]) -> str:
    return ascii(found[0])[1:-1]


_TITLE: Final = 120


def one_line(text: str) -> str:
    """Return the beginning of a text, in one line."""
    flat = " ".join(text[: 4 * _TITLE].split())
    return flat if len(flat) <= _TITLE else f"{flat[: _TITLE - 1]}…"


# ------------------------------------------------------------------------------
# The host's redaction hook, applied to every text inside a value before it touches the disk.

# What a host may do to text before it touches the disk.
Redact = Callable[[str], str]


def redact_texts(redact: Redact, value: Any) -> Any:
    """Pass every text inside a JSON value through a hook."""
    try:
        return _redacted(redact, value)
    except RecursionError:
        msg = "the value is nested too deep, or contains itself"
        raise Invalid(msg, hint="store it as text, or flatten it") from None


def _redacted(redact: Redact, value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {key: _redacted(redact, item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):  # a tuple is stored as an array
        return [_redacted(redact, item) for item in value]
    return value


def not_one_of(value: str, names: Sequence[str]) -> str:
    """Refuse a name: say which there are, and the nearest of them."""
    from difflib import get_close_matches  # noqa: PLC0415  (9 ms, and rarely needed)

    shown = value[:80]
    near = get_close_matches(shown.lower(), names, 1, 0.5)
    guess = f"; did you mean {near[0]!r}?" if near else ""
    return f"{shown!r} is not one of {', '.join(map(repr, names))}{guess}"
