"""Reads JSON that is still arriving: the value it would have if it stopped here.

This is what the AI SDK shows as a tool's `input` while the model is still writing it. The
SDK scans the whole text again at every delta; the scanner here remembers where it stopped,
so a text that comes in n deltas is scanned once and not n times.
"""

import json
import math
import re
from collections.abc import Callable
from typing import Any, ClassVar, Final, Literal, NoReturn

import msgspec

# ------------------------------------------------------------------------------
# A text that grows by deltas without ever copying what is already there.


class GrowingText:
    """The pieces of a streamed text; joined only when somebody reads it.

    A stream cut by UTF-16 units can deliver the two halves of a surrogate pair in two
    deltas. Python keeps such halves apart when strings are concatenated, so a trailing
    first half stays a piece of its own until the next delta shows what it was.
    """

    __slots__ = ("_pieces", "_waits", "size")

    def __init__(self, text: str = "") -> None:
        """Start with `text`."""
        if not isinstance(text, str):  # a stored part may hold anything; here it is noticed
            raise TypeError(f"a text cannot begin with {type(text).__name__}")
        self._pieces: list[str] = []
        self._waits = False  # the last piece is a first half
        self.size = 0
        self.feed(text)

    def feed(self, text: str) -> int:
        """Append `text` and return by how many characters the whole grew."""
        if not text:
            return 0
        before = self.size
        if self._waits and _is_second_half(text[0]):
            self._pieces[-1] = _joined(self._pieces[-1], text[0])
            text = text[1:]
        self._waits = _is_first_half(text[-1:])
        if self._waits and len(text) > 1:
            self._pieces += (text[:-1], text[-1])
        elif text:
            self._pieces.append(text)
        self.size += len(text)
        return self.size - before

    @property
    def text(self) -> str:
        """The whole text so far."""
        if len(self._pieces) > 1:
            whole = "".join(self._pieces)
            # Another list, not this one emptied: somebody may be reading it in another thread.
            self._pieces = [whole[:-1], whole[-1]] if _is_first_half(whole[-1]) else [whole]
            return whole
        return self._pieces[0] if self._pieces else ""


def _is_first_half(char: str) -> bool:
    return "\ud800" <= char <= "\udbff"


def _is_second_half(char: str) -> bool:
    return "\udc00" <= char <= "\udfff"


def _joined(first: str, second: str) -> str:
    return (first + second).encode("utf-16-le", "surrogatepass").decode("utf-16-le")


MISSING: Final = msgspec.UNSET
"""What JavaScript calls `undefined`: not even null."""

Phase = Literal[
    "value",  # a value must come: at the start, after a colon, after an array's comma
    "first-item",  # an array was just opened
    "after-value",  # a value is complete; a comma or the end of its container may come
    "first-key",  # an object was just opened
    "next-key",  # after an object's comma
    "key",
    "after-key",
    "string",
    "escape",  # after a backslash
    "hex",  # inside the four digits of a \u escape
    "number",
    "literal",  # inside true, false or null
]

_VALUE_STARTS: Final[dict[str, Phase]] = {
    '"': "string",
    "{": "first-key",
    "[": "first-item",
    **dict.fromkeys("tfn", "literal"),
    **dict.fromkeys("-0123456789", "number"),
}
_CLOSERS: Final = {"{": "}", "[": "]"}
_HEX_DIGITS: Final = 4
_WORDS: Final = ("true", "false", "null")
_RUNS: Final[dict[Phase, re.Pattern[str]]] = {
    "string": re.compile(r'[^"\\]+'),
    # The SDK's scanner knows no escapes in keys: a key ends at the first quote.
    "key": re.compile(r'[^"]+'),
}


class PartialJson:
    """Incremental scanner; `value()` equals the SDK's `parsePartialJson(text).value`."""

    __slots__ = (
        *("_closers", "_hex_digits", "_literal", "_trusts_first_item", "_phase", "_text"),
        "_valid",
    )

    def __init__(self, text: str = "", *, trusts_first_item: bool = False) -> None:
        """Start with `text`.

        With `trusts_first_item`, as in version 6, whatever follows a `[` counts as valid: after
        a minus sign nothing can be read until its digits have come.
        """
        self._text = GrowingText()
        self._trusts_first_item = trusts_first_item
        self._phase: Phase = "value"
        self._closers: list[str] = []  # of the containers that are open, innermost last
        self._valid = -1  # index of the last character that a repaired text keeps
        self._literal = ""
        self._hex_digits = 0
        self.feed(text)

    @property
    def text(self) -> str:
        """The text so far."""
        return self._text.text

    @property
    def size(self) -> int:
        """Characters so far."""
        return self._text.size

    def feed(self, text: str) -> int:
        """Scan `text`, which follows what came before, and return the characters it added."""
        grew = self._text.feed(text)
        # Counted from the end, so that a joined surrogate half has the index of its pair.
        first = self._text.size - len(text)
        at = 0
        while at < len(text):
            at = self._skip_run(text, at, first) or self._take(text, at, first)
        return grew

    def value(self) -> Any:
        """Return the value so far, or MISSING when the text is no JSON even when repaired.

        Values nested deeper than Python's recursion limit (about 990 levels) are MISSING too.
        """
        text = self._text.text
        value = _parse(text)
        return value if value is not MISSING else _parse(self._repaired(text))

    def _skip_run(self, text: str, at: int, first: int) -> int:
        """Jump over plain characters of a string or key; 0 when there is nothing to jump."""
        pattern = _RUNS.get(self._phase)
        run = pattern.match(text, at) if pattern else None
        if run is None:
            return 0
        if self._phase == "string":
            self._valid = first + run.end() - 1
        return run.end()

    def _take(self, text: str, at: int, first: int) -> int:
        char = text[at]
        self._STEPS[self._phase](self, char, first + at)
        if char > "\uffff":
            # Two UTF-16 units, hence two steps in the SDK: `[1😀` fails but `[1é` is [1].
            self._STEPS[self._phase](self, char, first + at)
        return at + 1

    def _repaired(self, text: str) -> str:
        """Cut the text after its last valid character and close everything that is open."""
        kept = text[: self._valid + 1]
        if self._phase in ("string", "escape", "hex"):
            kept += '"'
        elif self._phase == "literal":
            word = next(word for word in _WORDS if word.startswith(self._literal))
            kept += word[len(self._literal) :]
        return kept + "".join(reversed(self._closers))

    # One method per phase: what a character at an index does to the scanner.
    # A character that fits nowhere was skipped: the JSON parser will object to it.

    def _in_value(self, char: str, at: int) -> None:
        phase = _VALUE_STARTS.get(char)
        if phase is None:
            return
        if char != "-":  # a lone minus sign is no number yet
            self._valid = at
        if char in _CLOSERS:
            self._closers.append(_CLOSERS[char])
        self._literal = char
        self._phase = phase

    def _in_first_item(self, char: str, at: int) -> None:
        if char == "]" or self._trusts_first_item:
            self._valid = at
        if char == "]":
            self._close()
        else:
            self._in_value(char, at)

    def _in_after_value(self, char: str, at: int) -> None:
        if not self._separate(char, at) and self._closers and self._closers[-1] == "]":
            self._valid = at  # the SDK keeps whatever follows an item; objects are stricter

    def _in_first_key(self, char: str, at: int) -> None:
        if char == "}":
            self._valid = at
            self._close()
        else:
            self._in_next_key(char, at)

    def _in_next_key(self, char: str, _at: int) -> None:
        if char == '"':
            self._phase = "key"

    def _in_key(self, char: str, _at: int) -> None:
        if char == '"':
            self._phase = "after-key"

    def _in_after_key(self, char: str, _at: int) -> None:
        if char == ":":
            self._phase = "value"

    def _in_string(self, char: str, at: int) -> None:
        if char == "\\":
            self._phase = "escape"
            return
        self._valid = at
        if char == '"':
            self._phase = "after-value"

    def _in_escape(self, char: str, at: int) -> None:
        if char == "u":
            self._hex_digits = 0
            self._phase = "hex"
        else:
            self._valid = at
            self._phase = "string"

    def _in_hex(self, char: str, at: int) -> None:
        if char not in "0123456789abcdefABCDEF":
            return
        self._hex_digits += 1
        if self._hex_digits == _HEX_DIGITS:
            self._valid = at
            self._phase = "string"

    def _in_number(self, char: str, at: int) -> None:
        if char in "0123456789":
            self._valid = at
        elif char not in "eE-.":  # a plus sign ends it, as in the SDK
            self._phase = "after-value"
            self._separate(char, at)

    def _in_literal(self, char: str, at: int) -> None:
        longer = self._literal + char
        if any(word.startswith(longer) for word in _WORDS):
            self._literal = longer
            self._valid = at
        else:
            self._phase = "after-value"
            self._separate(char, at)

    def _separate(self, char: str, at: int) -> bool:
        """After a value: take the comma or the end of its container, if `char` is one."""
        if not self._closers:
            return False
        if char == ",":
            self._phase = "value" if self._closers[-1] == "]" else "next-key"
        elif char == self._closers[-1]:
            self._valid = at
            self._close()
        else:
            return False
        return True

    def _close(self) -> None:
        self._closers.pop()
        self._phase = "after-value"

    _STEPS: ClassVar[dict[Phase, Callable[["PartialJson", str, int], None]]] = {
        "value": _in_value,
        "first-item": _in_first_item,
        "after-value": _in_after_value,
        "first-key": _in_first_key,
        "next-key": _in_next_key,
        "key": _in_key,
        "after-key": _in_after_key,
        "string": _in_string,
        "escape": _in_escape,
        "hex": _in_hex,
        "number": _in_number,
        "literal": _in_literal,
    }


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _integer(digits: str) -> int | None:
    """Exact, unless Python itself refuses the length (4,300 digits): Infinity in JavaScript."""
    try:
        return int(digits)
    except ValueError:
        return None


def _fraction(digits: str) -> float | None:
    """1e999 is Infinity in JavaScript, and Infinity is written as null."""
    number = float(digits)
    return number if math.isfinite(number) else None


_DECODER: Final = json.JSONDecoder(
    parse_constant=_refuse, parse_int=_integer, parse_float=_fraction
)


def _parse(text: str) -> Any:
    """JSON.parse with the SDK's guard against prototype pollution; MISSING when it fails."""
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return MISSING
    return MISSING if _pollutes_prototype(text, value) else value


def _pollutes_prototype(text: str, value: object) -> bool:
    """Whether an object holds `__proto__`, or a `constructor` object with a `prototype`."""
    if not any(hint in text for hint in ("__proto__", "constructor", "\\u00")):
        return False
    nodes = [value]
    while nodes:
        node = nodes.pop()
        if isinstance(node, dict):
            constructor = node.get("constructor")
            if "__proto__" in node or (
                isinstance(constructor, dict) and "prototype" in constructor
            ):
                return True
            nodes.extend(node.values())
        elif isinstance(node, list):
            nodes.extend(node)
    return False
