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
from typing import Any, Final, NamedTuple

import msgspec

from threadkeep.errors import Invalid
from threadkeep.redact.go_syntax import UnsupportedRegex, compile_go

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
    edge: bool = False  # the match begins where no word goes on
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
    """Give the rules that ship with threadkeep."""
    file = resources.files("threadkeep.redact").joinpath("rules.toml")
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
