"""What a caller gives, checked: what is of the wrong type is refused before anything is done."""

import math
from collections.abc import Iterable
from typing import Any, Final

from threadkeep.errors import Invalid
from threadkeep.mailbox.records import Place

_LINE: Final = 80  # about one line of a terminal


def shown(value: object) -> str:
    """Return a value as messages show it: short, and harmless on a terminal."""
    text = ascii(value)
    return text if len(text) <= _LINE else f"{text[: _LINE - 3]}…"


def need_str(value: object, what: str) -> str:
    """Check that a value is text; it may be empty."""
    if isinstance(value, str):
        return value
    msg = f"the {what} must be text, not {type(value).__name__}"
    raise Invalid(msg, hint=f"pass the {what} as a string")


def optional_str(value: object, what: str) -> str | None:
    """Check that a value is text, or None."""
    return None if value is None else need_str(value, what)


def need_text(value: object, what: str) -> str:
    """Check that a value is text with something in it."""
    text = need_str(value, what)
    if not text.strip():
        raise Invalid(f"the {what} is empty", hint=f"give the {what} at least one character")
    return text


def need_name(value: object, what: str) -> str:
    """Check that a value is text that can be looked for; half a character is kept as bytes."""
    text = need_text(value, what)
    try:
        text.encode()
    except UnicodeEncodeError:
        msg = f"the {what} {shown(text)} contains an incomplete character"
        raise Invalid(msg, hint="send text that is valid Unicode") from None
    return text


def optional_name(value: object, what: str) -> str | None:
    """Check that a value is text that can be looked for, or None."""
    return None if value is None else need_name(value, what)


def need_whole(value: object, what: str, *, at_least: int | None = None) -> int:
    """Check that a value is a whole number, and not too small."""
    if not isinstance(value, int) or isinstance(value, bool):
        msg = f"the {what} must be a whole number, not {shown(value)}"
        raise Invalid(msg, hint=f"pass the {what} as an int")
    if at_least is not None and value < at_least:
        raise Invalid(f"the {what} is {value}", hint=f"give at least {at_least}")
    return value


def need_seconds(value: object, what: str) -> float:
    """Check that a value is a length of time; infinity is one."""
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        msg = f"the {what} must be a number of seconds, not {shown(value)}"
        raise Invalid(msg, hint=f"pass the {what} as a number")
    return value


def need_place(value: object) -> Place:
    """Check that a value is a place that can be written."""
    if not isinstance(value, Place):
        msg = f"a place must be a Place, not {type(value).__name__}"
        raise Invalid(msg, hint="give Place(channel_type, platform_id, thread_id)")
    for part in (value.channel_type, value.platform_id, value.thread_id):
        if part != "":
            optional_name(part, "place")
    return value


def need_dict(value: object, what: str) -> dict[str, Any]:
    """Check that a value is a JSON object."""
    if isinstance(value, dict):
        return value
    msg = f"the {what} must be a dict, not {type(value).__name__}"
    raise Invalid(msg, hint=f"pass the {what} as it should be in JSON")


def need_each(values: object, kinds: tuple[type, ...], what: str) -> list[Any]:
    """Check that a value is several of something, not one; give them as a list."""
    named = " or ".join(kind.__name__ for kind in kinds)
    if isinstance(values, str | bytes | dict) or not isinstance(values, Iterable):
        msg = f"the {what} must be a list, not {type(values).__name__}"
        raise Invalid(msg, hint=f"pass several {what} as a list of {named}, one as a list of one")
    found = list(values)
    for one in found:
        if not isinstance(one, kinds):
            msg = f"{shown(one)} among the {what} is a {type(one).__name__}"
            raise Invalid(msg, hint=f"give each as {named}")
    return found
