r"""Regular expressions of Go and Rust, rewritten for Python's engine over bytes.

Both let a flag such as `(?i)` stand anywhere, where it holds to the end of its group; both write
the end of the text as `\z` and know POSIX classes. Python has the same things under other names.
"""

import re
from typing import Final, NoReturn

_POSIX: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\s",
    "upper": "A-Z",
    "word": r"\w",
    "xdigit": "0-9A-Fa-f",
}
_OUTSIDE: Final = re.compile(
    r"""
      \\Q(?P<quoted>.*?)(?:\\E|\Z)
    | \\x\{(?P<wide>[0-9A-Fa-f]+)\}
    | (?P<escape>\\.)
    | (?P<class>\[\^?\]?)
    | \(\?(?P<flags>[imsU]*(?:-[imsU]+)?)\)
    | (?P<open>\((?:\?(?:P?<\w+>|[imsU]*(?:-[imsU]+)?:))?)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_INSIDE: Final = re.compile(
    r"""
      \[:(?P<posix>[a-z]+):\]
    | \\x\{(?P<wide>[0-9A-Fa-f]+)\}
    | (?P<escape>\\.)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_KNOWN_ESCAPES: Final = frozenset("AbBdDfnrsStvwWxZz01234567")


class UnsupportedRegex(Exception):
    """A regular expression uses something that Python's engine does not have."""


def compile_go(pattern: str) -> re.Pattern[bytes]:
    """Compile a regular expression in Go's or Rust's syntax; refuse what has no equal here."""
    try:
        return re.compile(to_python(pattern).encode())
    except (re.error, RecursionError, OverflowError) as error:
        raise UnsupportedRegex(str(error)) from None


def to_python(pattern: str) -> str:
    """Rewrite a regular expression of Go or Rust in Python's syntax."""
    written: list[str] = []
    groups: list[list[str]] = [[]]  # for each open group the flags switched on in it
    place, in_class = 0, False
    while place < len(pattern):
        token = (_INSIDE if in_class else _OUTSIDE).match(pattern, place)
        assert token is not None, "the last alternative takes any letter"  # noqa: S101
        written.append(_in_class(token) if in_class else _outside(token, groups))
        in_class = token[0] != "]" if in_class else token.lastgroup == "class"
        place = token.end()
    return "".join(written) + ")" * len(groups[0])


def _outside(token: re.Match[str], groups: list[list[str]]) -> str:
    match token.lastgroup:
        case "flags":
            return _switched(token["flags"], groups[-1])
        case "open":
            return _opened(token["open"], groups)
        case "class":
            return token[0].replace("]", r"\]")
        case "quoted":
            return re.escape(token["quoted"])
        case "other" if token[0] in ")|":
            return _ended(token[0], groups)
        case _:
            return _letter(token)


def _opened(text: str, groups: list[list[str]]) -> str:
    groups.append([])
    if "U" in text.partition("<")[0]:
        _refuse("the flag U")
    return text.replace("(?<", "(?P<")


def _ended(sign: str, groups: list[list[str]]) -> str:
    """Close the flags of a group with it; at a bar they are closed and opened again."""
    if sign == "|":
        return ")" * len(groups[-1]) + "|" + "".join(f"(?{flag}:" for flag in groups[-1])
    return ")" * (len(groups.pop()) + 1 if len(groups) > 1 else 1)


def _switched(flags: str, group: list[str]) -> str:
    if "U" in flags:
        _refuse("the flag U")
    if not flags:
        return ""
    group.append(flags)
    return f"(?{flags}:"


def _letter(token: re.Match[str]) -> str:
    if token.lastgroup == "wide":
        return _bytes_of(chr(int(token["wide"], 16)))
    if token.lastgroup == "escape":
        return _escape(token[0])
    return token[0] if token[0].isascii() else _bytes_of(token[0])


def _in_class(token: re.Match[str]) -> str:
    text = token[0]
    match token.lastgroup:
        case "posix":
            return _POSIX.get(token["posix"]) or _refuse(f"the class {text}")
        case "escape":
            return _escape(text)
        case "wide":
            text = chr(int(token["wide"], 16))
    if not text.isascii():
        _refuse("a letter outside ASCII in brackets")
    # Python warns of a bracket in brackets, and of doubled signs that may become set operations.
    return "\\" + text if text in "[&~|" else text


def _escape(text: str) -> str:
    letter = text[1]
    if letter == "z":
        return r"\Z"
    if letter == "a":
        return r"\x07"
    if letter.isalnum() and letter not in _KNOWN_ESCAPES:
        _refuse(f"the escape {text}")
    return text if letter.isalnum() or letter != re.escape(letter) else letter


def _bytes_of(letter: str) -> str:
    return "(?:" + "".join(f"\\x{byte:02x}" for byte in letter.encode()) + ")"


def _refuse(what: str) -> NoReturn:
    msg = f"{what} has no equal in Python"
    raise UnsupportedRegex(msg)
