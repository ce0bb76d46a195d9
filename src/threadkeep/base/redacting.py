"""The host's redaction hook, applied to every text inside a value before it touches the disk."""

from collections.abc import Callable
from typing import Any

from threadkeep.errors import Invalid

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
