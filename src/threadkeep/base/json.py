r"""JSON that gives back exactly what it was given, or refuses it.

msgspec does the work where it is exact. It is not for everything (0.22): it refuses text with half
a surrogate pair, and it turns NaN into null, bytes and dates into strings, and number keys into
text without a word. Such values take the slow road through the standard library, or are refused.
"""

import math
from typing import Any, Final, NoReturn

import msgspec

from threadkeep.base.text import join_pairs, pattern
from threadkeep.errors import Invalid

# Both parsers stop at the interpreter's recursion limit (1,000 less the caller's own depth), so
# what one caller could write a deeper one could not read. This leaves room for either.
MAX_DEPTH: Final = 256
_ONE = "pass one complete JSON value"
_AS_TEXT = "write the number as text"

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode
_PLAIN: Final = frozenset((int, bool, type(None)))
_HALF: Final = pattern("[\ud800-\udfff]")
_SHOWN: Final = 80


def encode(value: Any) -> str:
    r"""Write a value as compact JSON that is always valid UTF-8; `decode` gives an equal value.

    Strings may hold anything: half of a surrogate pair is written as `\udXXX`, two halves that
    belong together as the character they are. Tuples become arrays. What JSON cannot hold (NaN,
    bytes, dates, keys that are not strings, more than 256 levels) is refused with its path.
    """
    try:
        raw = _encode(value)
    except (TypeError, ValueError, RecursionError):
        return _encode_carefully(value)
    return raw.decode() if _is_plain(value, MAX_DEPTH) else _encode_carefully(value)


def compact(value: Any) -> str:
    """Write JSON as the contract hashes it: no spaces, nothing escaped without need."""
    import json  # noqa: PLC0415  (1 ms; a command that only looks has no use for it)

    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def decode(text: str | bytes) -> Any:
    """Read JSON; of a key that comes twice the last value counts, as everywhere.

    Numbers out of a double's range are refused, because they would come back as infinity.
    """
    try:
        return _decode(text)
    except RecursionError:
        raise _too_deep() from None
    except ValueError:
        return _decode_carefully(text)


def _is_plain(value: Any, room: int) -> bool:
    """Tell whether msgspec wrote this value as it is (about 0.3 µs for a chunk)."""
    kind = type(value)
    if kind is dict:
        for key in value:
            if type(key) is not str:
                return False
        value = value.values()
    elif kind is not list and kind is not tuple:
        return kind is str or kind in _PLAIN or (kind is float and math.isfinite(value))
    for item in value:
        kind = type(item)
        if kind is not str and kind not in _PLAIN and not (room and _is_plain(item, room - 1)):
            return False
    return True


def _encode_carefully(value: Any) -> str:
    try:
        return _dump(_plain(value, "$", MAX_DEPTH))
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:  # an integer of more than 4,300 digits
        raise Invalid(f"cannot write this value as JSON: {error}", hint=_AS_TEXT) from None


def _dump(plain: Any) -> str:
    import json  # noqa: PLC0415  (seldom, and 1 ms)

    text = json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


def _plain(value: Any, path: str, room: int) -> Any:
    """Copy a value into plain types with joined surrogate pairs, or name what JSON cannot hold."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return join_pairs(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return _finite(float(value), path)
    if not room:
        raise _too_deep()
    if isinstance(value, dict):
        return _plain_object(value, path, room)
    if isinstance(value, list | tuple):
        return [_plain(item, f"{path}[{at}]", room - 1) for at, item in enumerate(value)]
    raise Invalid(
        f"JSON cannot hold a {type(value).__name__} (at {path[:_SHOWN]})",
        hint="use strings, numbers, booleans, None, lists and dicts",
    )


def _plain_object(value: dict[Any, Any], path: str, room: int) -> dict[str, Any]:
    copy: dict[str, Any] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise Invalid(
                f"a key must be a string, not {ascii(key)[:_SHOWN]} (at {path[:_SHOWN]})",
                hint="JSON objects have string keys only",
            )
        name = join_pairs(key)
        if name in copy:
            raise Invalid(
                f"two keys are the same text {ascii(name)[:_SHOWN]} (at {path[:_SHOWN]})",
                hint="give each value its own key",
            )
        step = f".{key}" if key.isidentifier() else f"[{key!a}]"
        copy[name] = _plain(item, path + step, room - 1)
    return copy


def _finite(number: float, path: str) -> float:
    if math.isfinite(number):
        return number
    raise Invalid(
        f"JSON has no {number} (at {path[:_SHOWN]})", hint="use null, or write the number as text"
    )


def _decode_carefully(text: str | bytes) -> Any:
    r"""Read what msgspec refused: a `\udXXX` without its other half is legal JSON."""
    try:
        text = text.decode() if isinstance(text, bytes) else join_pairs(text)
    except UnicodeDecodeError as error:
        raise Invalid(f"this is not JSON: not UTF-8 at byte {error.start}", hint=_ONE) from None
    try:
        import json  # noqa: PLC0415  (seldom, and 1 ms)

        return json.loads(text, parse_float=_parse_float, parse_constant=_refuse_constant)
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise Invalid(f"this is not JSON: {error}", hint=_ONE) from None


def _parse_float(digits: str) -> float:
    return _finite(float(digits), f"the number {digits[:_SHOWN]}")


def _refuse_constant(name: str) -> NoReturn:
    raise Invalid(f"this is not JSON: {name} is not a JSON number", hint=_ONE)


def _too_deep() -> Invalid:
    return Invalid(
        f"the value is nested more than {MAX_DEPTH} levels deep, or contains itself",
        hint="store it as text, or flatten it",
    )


# ------------------------------------------------------------------------------
# From a line of a log to JSON values, whatever a crash or a careless program left in it.

_fast = msgspec.json.Decoder()
_LONE: Final = pattern("[\ud800-\udfff]")
_BLANK: Final = b" \t\r\n\0\x0b\x0c"
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
# Each empty list or object takes 64 bytes of memory for two of the line: a line of nothing else
# would take forty times its size.
_LONG: Final = 1 << 20
_MOST_VALUES: Final = 1_000_000


def decode_line(line: bytes) -> list[Any]:
    """Return the JSON values of a line: one, none if it is blank, several if lines were glued.

    A byte order mark, and NUL bytes around them (a crash leaves a file's tail filled with them),
    are passed over. Raises Invalid for what is no JSON, and for more values than memory has room.
    """
    if len(line) > _LONG and line.count(b"[") + line.count(b"{") > _MOST_VALUES:
        msg = f"more than {_MOST_VALUES:,} values in one line"
        raise Invalid(msg, hint="the line is kept as it is")
    try:
        return [_fast.decode(line)]
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return _decoding_decode_carefully(line.removeprefix(_BYTE_ORDER_MARK).strip(_BLANK))


def _decoding_decode_carefully(line: bytes) -> list[Any]:
    import json  # noqa: PLC0415  (seldom, and 1 ms)

    text = line.decode("utf-8", "replace")
    decoder = json.JSONDecoder()
    found: list[Any] = []
    at = 0
    try:
        while at < len(text):
            value, at = decoder.raw_decode(text, at)
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
