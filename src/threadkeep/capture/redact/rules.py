"""Rules: what a secret looks like, read from gitleaks' format or from Hippo's `redact.toml`.

Our own `rules.toml` is written in gitleaks' format too. There a match begins at its keyword,
unless `back` says otherwise, and at the edge of a word; these keys are known besides:

| key | what it says |
|---|---|
| `after` | a test in lower case for what follows the keyword right away, without a group |
| `back` | how far before the keyword a match may begin |
| `reach` | how far behind the keyword it may end |
| `edge` | false: it may begin in the middle of a word |
| `judge` | the name of a look at the value, for secrets that have no shape of their own |
| `each` | what to mask inside the match, every time it is there |
| `generic` | true: its evidence is weak, so it never masks a field that holds an identifier |
| `media` | true: it masks inside long base64 too, where others take it for a picture |

The table `[pieces]` has what several regexes share, the table `[named]` the keys that only the
name of their service gives away.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, Final, NamedTuple, NoReturn

import msgspec

from threadkeep.errors import Invalid

# ------------------------------------------------------------------------------
# Regular expressions of Go and Rust, rewritten for Python's engine over bytes.
#
# Both let a flag such as `(?i)` stand anywhere, where it holds to the end of its group; both write
# the end of the text as `\z` and know POSIX classes. Python has the same things under other names.

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
        assert token is not None, "the last alternative matches any character"  # noqa: S101
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
    msg = f"{what} has no equivalent in Python"
    raise UnsupportedRegex(msg)


MASK: Final = "[REDACTED]"

_FAR_BACK: Final = 512  # rules of others: the keyword may stand well inside the match
_FAR_AHEAD: Final = 2048
_NEAR: Final = 512
_FILLED: Final = "[a-z0-9_+/=-]{16}"  # behind a prefix stands something random
_PIECE: Final = re.compile(r"<<(\w+)>>")
# A name, the rest of it and up to three more words, a sign or "is", a value and its end.
_NAMED: Final = (
    r"(?i)(?:(?<![a-z])|(?<=\\[nrtbf])|(?-i:(?<=[a-z])(?=[A-Z])))(?:{names})"
    r"(?P<tail>[a-z0-9_.-]{{0,40}}(?:[ ][a-z]{{2,12}}){{0,3}}?)"
    r"[\\\"'`\])]{{0,8}}[ \t]{{0,3}}(?:=>|:=|\?=|\|\||[=:>,(]|is[ ]?:?|(?<=[ ]))"
    r"[ \t]{{0,3}}[\\\"'`]{{0,8}}({shape})(?![a-z0-9_=+/-])"
)
_NAMED_AFTER: Final = rb"(?=[^\r\n]{0,96}?[=:>,(|\s\"'`][a-z0-9_/=+-][a-z0-9_./:|%=+-]{13})"
_WRONG: Final = (UnsupportedRegex, KeyError, ValueError, TypeError, AttributeError)


class Allowed(msgspec.Struct, frozen=True):
    """What is no secret after all: a regex that fits it or its match, or a word inside it."""

    regexes: tuple[re.Pattern[bytes], ...] = ()
    of_match: bool = False
    stopwords: tuple[bytes, ...] = ()


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of secret: where to look for it, its shape, and what is not one after all."""

    id: str
    regex: re.Pattern[bytes]
    description: str = ""
    group: int = 0  # the group that holds the secret; 0: the first that matched, else all of it
    keywords: tuple[bytes, ...] = ()  # none: look everywhere
    after: bytes = b""
    back: int = _FAR_BACK  # 0: the match begins at the keyword
    reach: int = _FAR_AHEAD
    edge: bool = False  # the match begins where no word continues
    judge: str | None = None  # of `judges.py`; None: its shape is enough
    entropy: float = 0.0
    allowed: tuple[Allowed, ...] = ()
    replacement: str | None = None  # a template in place of the whole match
    each: re.Pattern[bytes] | None = None  # the secrets are these, inside the match
    generic: bool = False  # weak evidence: not enough in a field that holds an identifier
    media: bool = False  # looks into long base64 too


class RuleRefusal(NamedTuple):
    """A rule that was left out, and why."""

    id: str
    reason: str


class RuleFile(NamedTuple):
    """The rules of a file, and those that could not be used."""

    rules: Sequence[Rule]
    refused: Sequence[RuleRefusal] = ()


Make = Callable[[str, Mapping[str, Any]], Rule]


@cache
def own_rules() -> Sequence[Rule]:
    """Return the rules that ship with threadkeep."""
    file = resources.files("threadkeep.capture.redact").joinpath("rules.toml")
    table = tomllib.loads(file.read_text(encoding="utf-8"))
    pieces = table["pieces"]
    named = [_named(names, shape, pieces) for names, shape in table["named"].items()]
    return (*(_own(entry["id"], entry, pieces) for entry in table["rules"]), *named)


def load_rules(text: str, name: str = "the rules") -> RuleFile:
    """Read rules in gitleaks' format, or Hippo's patterns; a bad rule is left out and named."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        hint = "put each regex between three single quotes"
        raise Invalid(f"{name}: this is not TOML: {error}", hint=hint) from None
    rules: list[Rule] = []
    refused: list[RuleRefusal] = []
    everywhere = _allowances(table)
    for number, (make, entry) in enumerate(_entries(table, name), 1):
        called = str(entry.get("id") or entry.get("name") or f"rule {number}")
        try:
            rule = make(called, entry)
            rules.append(msgspec.structs.replace(rule, allowed=rule.allowed + everywhere))
        except _WRONG as error:
            refused.append(RuleRefusal(called, str(error)))
    return RuleFile(rules, refused)


def _entries(table: Mapping[str, Any], name: str) -> Iterator[tuple[Make, Mapping[str, Any]]]:
    for key, make in (("rules", _from_gitleaks), ("patterns", _from_hippo)):
        entries = table.get(key, [])
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            msg = f"{name}: {key} is not a list of tables"
            raise Invalid(msg, hint=f"write [[{key}]] above each of them")
        # gitleaks also has rules on file names alone; there are no file names here
        yield from ((make, entry) for entry in entries if "regex" in entry or "path" not in entry)


def _own(called: str, entry: Mapping[str, Any], pieces: Mapping[str, str]) -> Rule:
    back = entry.get("back", 0)
    each = entry.get("each")
    return Rule(
        id=called,
        regex=_compiled(entry["regex"], pieces),
        description=entry["description"],
        group=entry.get("secretGroup", 0),
        keywords=tuple(word.encode() for word in entry["keywords"]),
        after=_whole(entry.get("after", "" if back else _FILLED), pieces).encode(),
        back=back,
        reach=entry.get("reach", _NEAR),
        edge=entry.get("edge", back == 0),
        judge=entry.get("judge", ""),
        entropy=entry.get("entropy", 0.0),
        each=None if each is None else _compiled(each, pieces),
        generic=entry.get("generic", False),
        media=entry.get("media", False),
    )


def _named(names: str, shape: str, pieces: Mapping[str, str]) -> Rule:
    """Make the rule for a key that the name of its service gives away."""
    service = names.split("|", maxsplit=1)[0]
    return Rule(
        id=f"{service.replace('_', '-')}-named-key",
        regex=_compiled(_NAMED.format(names=names, shape=shape), pieces),
        description=f"A key of its shape behind the name of {service}",
        group=2,  # behind the rest of the name
        keywords=tuple(name.encode() for name in names.split("|")),
        after=_NAMED_AFTER,
        back=0,
        judge="named",
    )


def _compiled(regex: str, pieces: Mapping[str, str]) -> re.Pattern[bytes]:
    return re.compile(_whole(regex, pieces).encode())


def _whole(regex: str, pieces: Mapping[str, str]) -> str:
    """Put the shared pieces in their places; a piece may name others."""
    while (found := _PIECE.search(regex)) is not None:
        regex = regex[: found.start()] + pieces[found[1]] + regex[found.end() :]
    return regex


def _from_gitleaks(called: str, entry: Mapping[str, Any]) -> Rule:
    regex = compile_go(entry["regex"])
    group = int(entry.get("secretGroup", 0))
    if not 0 <= group <= regex.groups:
        msg = f"secretGroup is {group}, but the regex has {regex.groups} groups"
        raise ValueError(msg)
    return Rule(
        id=called,
        regex=regex,
        group=group,
        keywords=tuple(word.lower().encode() for word in entry.get("keywords", ()) if word),
        entropy=float(entry.get("entropy", 0)),
        allowed=_allowances(entry),
    )


def _from_hippo(called: str, entry: Mapping[str, Any]) -> Rule:
    replacement = str(entry.get("replacement", MASK))
    return Rule(id=called, regex=compile_go(entry["regex"]), replacement=replacement)


def _allowances(table: Mapping[str, Any]) -> tuple[Allowed, ...]:
    """Read what a rule, or a whole file, excuses; what hangs on a path can never hold here."""
    lists = [*table.get("allowlists", ()), *([table["allowlist"]] if "allowlist" in table else ())]
    return tuple(
        Allowed(
            regexes=tuple(compile_go(regex) for regex in entry.get("regexes", ())),
            of_match=entry.get("regexTarget", "secret") != "secret",
            stopwords=tuple(word.lower().encode() for word in entry.get("stopwords", ())),
        )
        for entry in lists
        if str(entry.get("condition", "or")).lower() not in {"and", "&&"} or "paths" not in entry
    )
