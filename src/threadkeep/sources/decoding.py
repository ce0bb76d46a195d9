"""From a line of a log to JSON values, whatever a crash or a careless program left in it."""

import json
import re
from typing import Any, Final

import msgspec

from threadkeep.errors import Invalid

_fast = msgspec.json.Decoder()
_careful = json.JSONDecoder()
_LONE: Final = re.compile("[\ud800-\udfff]")
_BLANK: Final = b" \t\r\n\0\x0b\x0c"
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
# Each empty list or object takes 64 bytes of memory for two of the line: a line of nothing else
# would take forty times its size.
_LONG: Final = 1 << 20
_MOST_VALUES: Final = 1_000_000


def decode_line(line: bytes) -> list[Any]:
    """Give the JSON values of a line: one, none if it is blank, several if lines were glued.

    A byte order mark, and NUL bytes around them (a crash leaves a file's tail filled with them),
    are passed over. Raises Invalid for what is no JSON, and for more values than memory has room.
    """
    if len(line) > _LONG and line.count(b"[") + line.count(b"{") > _MOST_VALUES:
        msg = f"more than {_MOST_VALUES:,} values in one line"
        raise Invalid(msg, hint="the line is kept as it is")
    try:
        return [_fast.decode(line)]
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return _decode_carefully(line.removeprefix(_BYTE_ORDER_MARK).strip(_BLANK))


def _decode_carefully(line: bytes) -> list[Any]:
    text = line.decode("utf-8", "replace")
    found: list[Any] = []
    at = 0
    try:
        while at < len(text):
            value, at = _careful.raw_decode(text, at)
            found.append(_storable(value))
            while at < len(text) and text[at] in " \t\r\n\0":
                at += 1
    except (ValueError, RecursionError):
        msg = f"not JSON: {text[at : at + 60]!r}"
        raise Invalid(msg, hint="the line is kept as it is") from None
    return found


def _storable(value: Any) -> Any:
    """Replace halves of surrogate pairs: neither a database nor a hash can take them."""
    if isinstance(value, str):
        return _LONE.sub("\ufffd", value) if not value.isascii() else value
    if isinstance(value, list):
        return [_storable(item) for item in value]
    if isinstance(value, dict):
        return {_storable(key): _storable(item) for key, item in value.items()}
    return value
