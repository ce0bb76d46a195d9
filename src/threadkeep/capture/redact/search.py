"""The search for secrets: every place that a keyword points to is looked at by its rules, once.

What is judged costs most, so a verdict on the same letters is kept while one text is searched: a
text of one word over and over is judged once.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from ahocorasick_rs import BytesAhoCorasick, Implementation

from threadkeep.base.text import pattern
from threadkeep.capture.redact.judges import JUDGES
from threadkeep.capture.redact.rules import Rule
from threadkeep.capture.redact.values import entropy

# ------------------------------------------------------------------------------
# Where a secret may be: the keywords of all rules, found in one run over a block.
#
# An automaton finds any number of words at once (2.2 ms per MB, measured); each place is then
# tested
# for what must follow the keyword. A single letter stands too often for that (11,000 dots in a MB
# of
# transcripts), but a regex that begins with it is fast (0.7 ms per MB), so it gets a run of its
# own.

# What the automaton reads at once. It gives all matches in one list, and a text of dashes alone
# has a match at every letter.
_PIECE: Final = 1 << 16
_TOGETHER: Final = 1 << 19  # how much of a text gives one list

Test = Callable[[bytes, int], re.Match[bytes] | None]
# Where a keyword begins, where it ends (negative: of two at one place the longer comes first),
# and the number of the rules that want to look there. A tuple, because there may be a million.
Hit = tuple[int, int, int]


class KeywordIndex(NamedTuple):
    """How to find every keyword of some rules."""

    automaton: BytesAhoCorasick
    looks: Sequence[Sequence[tuple[Test, int]]]  # for each word: what must follow it, for whom
    longest: int
    letters: Sequence[tuple[re.Pattern[bytes], int]]  # keywords of one letter
    rules: Sequence[Sequence[Rule]]  # those that look at the same places


def make_plan(rules: Sequence[Rule]) -> KeywordIndex:
    """Plan how to find the keywords of these rules, in capitals or in small letters."""
    wanted: dict[bytes, dict[bytes, list[Rule]]] = defaultdict(lambda: defaultdict(list))
    for rule in rules:
        for keyword in {keyword.lower() for keyword in rule.keywords}:
            wanted[keyword][rule.after].append(rule)
    words = [keyword for keyword in wanted if len(keyword) > 1]
    numbers: dict[tuple[bytes, bytes], int] = {}
    together: list[Sequence[Rule]] = []
    for keyword, looks in wanted.items():
        for after, by in looks.items():
            numbers[keyword, after] = len(together)
            together.append(by)
    return KeywordIndex(
        BytesAhoCorasick(words, implementation=Implementation.DFA),
        [
            [(re.compile(after).match, numbers[word, after]) for after in wanted[word]]
            for word in words
        ],
        max(map(len, wanted), default=0),
        list(_letters(wanted, numbers)),
        together,
    )


def hits(plan: KeywordIndex, data: bytes) -> Iterator[list[Hit]]:
    """Return the places where a rule has to look, in their order, the longest keyword first.

    They come in several lists: a text may have a keyword at every third letter.
    """
    lowered = data.lower()
    view = memoryview(lowered)
    singles = [_Letters(regex.finditer(lowered), number) for regex, number in plan.letters]
    for first in range(0, len(view), _TOGETHER):
        found: list[Hit] = []
        for single in singles:
            single.take(first + _TOGETHER, found)
        for at in range(first, min(first + _TOGETHER, len(view)), _PIECE):
            piece = view[at : at + _PIECE + plan.longest - 1]
            _add_words(plan, lowered, piece, at, found)
        found.sort()
        yield found


def _add_words(
    plan: KeywordIndex, lowered: bytes, piece: memoryview, at: int, found: list[Hit]
) -> None:
    looks = plan.looks
    for word, start, end in plan.automaton.find_matches_as_indexes(piece, overlapping=True):
        for fits, number in looks[word]:
            if fits(lowered, at + end) and start < _PIECE:
                found.append((at + start, -at - end, number))


class _Letters:
    """The places of a keyword of one letter, taken as far as they are wanted."""

    def __init__(self, matches: Iterator[re.Match[bytes]], number: int) -> None:
        self._matches = matches
        self._number = number
        self._next = next(matches, None)

    def take(self, end: int, into: list[Hit]) -> None:
        """Add the places before an end."""
        while self._next is not None and self._next.start() < end:
            into.append((self._next.start(), -self._next.end(), self._number))
            self._next = next(self._matches, None)


def _letters(
    wanted: Mapping[bytes, Mapping[bytes, Sequence[Rule]]],
    numbers: Mapping[tuple[bytes, bytes], int],
) -> Iterator[tuple[re.Pattern[bytes], int]]:
    for keyword, looks in wanted.items():
        if len(keyword) == 1:
            for after in looks:
                regex = re.compile(re.escape(keyword) + b"(?=" + after + b")")
                yield regex, numbers[keyword, after]


# ------------------------------------------------------------------------------
# Where a value stands: in a field for identifiers, or in the middle of a picture.
#
# Only a value that a rule would mask is looked at so, which is once in megabytes.

_QUOTES: Final = b"\\\"'`"  # and the backslashes before them
_BLANKS: Final = b" \t"
_NAME_LETTERS: Final = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.$-"
_NEAR: Final = 96
_IDENTIFIER: Final = pattern(
    rb"""(?x) (?: ^ | [_.$-] | (?<=[a-z0-9]) (?=[A-Z]) )
    (?: [iI][dD][sS]? | [uU][uU][iI][dD] | [gG][uU][iI][dD] | [oO]id | [hH]ash(?:es)? | [sS]ha\d*
    | SHA\d* | [dD]igest | [cC]hecksum | [eE]?[tT]ag | [iI]ntegrity | [sS]ignature | [nN]once
    | [fF]ingerprint | [cC]ommit | [rR]ev(?:ision)? | [cC]ursor | [sS]lug | [mM]d5 | [rR]equest )
    $"""
)
_RUN: Final = pattern(rb"(?:[A-Za-z0-9+/=]|\\+[nr]|[\r\n])*")
_TURNED_RUN: Final = pattern(rb"(?:[A-Za-z0-9+/]|[nr]\\+|[\r\n])*")
_CORE: Final = pattern(rb"[A-Za-z0-9+/=\\\r\n]")
_LOOK: Final = 1024
_PICTURE: Final = 160  # letters of base64 around a value, as no sentence and no path has them
_BASE64: Final = b"base64"
_EMBEDDED: Final = pattern(rb"base64[\\\"',: ]{1,10}[A-Za-z0-9+/_=-]*")
_LETTERS: Final = pattern(rb"[A-Za-z]")


def is_identifier(data: bytes, start: int) -> bool:
    """Tell whether a value is what a field such as `id`, `callID` or `sha256` holds."""
    before = data[max(0, start - _NEAR) : start]
    sign = before.rstrip(_QUOTES).rstrip(_BLANKS)
    if len(sign) == len(before) or not sign.endswith((b":", b"=")):
        return False
    name = sign[:-1].rstrip(_BLANKS).rstrip(_QUOTES)
    return _IDENTIFIER.search(name[len(name.rstrip(_NAME_LETTERS)) :]) is not None


def is_media(data: bytes, start: int, end: int) -> bool:
    """Tell whether a value lies inside long base64: a picture, a sound, a document."""
    before = data[max(0, start - _LOOK) : start]
    left = _TURNED_RUN.match(before[::-1]) if _CORE.match(before[-1:]) else None
    right = _RUN.match(data, end, end + _LOOK) if _CORE.match(data, end) else None
    around = (left[0] if left else b"") + (right[0] if right else b"")
    if len(around) < _PICTURE:
        embedded = before.rfind(_BASE64)
        return embedded >= 0 and _EMBEDDED.fullmatch(before, embedded) is not None
    return len(_LETTERS.findall(around)) > len(around) // 4


_WIDE: Final = 256  # a longer value that is no secret is not looked at again from its middle
_ENOUGH: Final = 512  # letters of a value that are judged: more say nothing else, and cost
_SEEN_BEFORE: Final = 48  # how far before a match a judge may look
_SEEN_BEHIND: Final = 2
_VERDICTS: Final = 20_000  # kept at a time
# A word ends before an escaped line break, a colour code of a terminal and a percent code.
# The letter of an escape is no beginning: the `t` of `\\tk-us` is a tab.
_EDGE: Final = pattern(
    rb"(?<![A-Za-z0-9_\\])|(?<=\\)(?![nrtbfu])|(?<=\\[nrtbf])|(?<=[0-9\[]m)|(?<=%[0-9A-Fa-f]{2})"
)


class RuleMatch(NamedTuple):
    """A match of a rule, and the group that is the secret."""

    match: re.Match[bytes]
    group: int | str
    rule: Rule

    @property
    def value(self) -> bytes:
        """The secret itself."""
        return self.match[self.group] or b""


class Search:
    """Looks at the places of one text; it remembers how far each rule has come."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._seen: dict[str, int] = {}  # how far each rule has looked
        self._found: list[RuleMatch] = []
        self._verdicts: dict[tuple[str, int, bytes], bool] = {}

    def look(self, plan: KeywordIndex, hits: Sequence[Hit]) -> Sequence[RuleMatch]:
        """Look at these places, which come behind those that were looked at before."""
        data, seen, together = self._data, self._seen, plan.rules
        self._found = []
        for start, behind, number in hits:
            for rule in together[number]:
                if rule.back:
                    if rule.reach // 2 - behind >= seen.get(rule.id, 0):
                        self._look_around(rule, start, -behind)
                elif start >= seen.get(rule.id, 0):  # a million times, so not in a function
                    # The edge first: in a picture a prefix is at none, and what follows is long.
                    if rule.edge and not _EDGE.match(data, start):
                        continue
                    match = rule.regex.match(data, start)
                    if match is not None and self._look_at(rule, match):
                        break  # what the others would find here is masked already
        if len(self._verdicts) > _VERDICTS:
            self._verdicts.clear()
        return self._found

    def look_everywhere(self, rules: Sequence[Rule]) -> Sequence[RuleMatch]:
        """Look for rules that have no keyword."""
        self._found = []
        for rule in rules:
            self._take(rule, rule.regex.finditer(self._data))
        return self._found

    def _look_at(self, rule: Rule, match: re.Match[bytes]) -> bool:
        """Judge what a rule matched right at its keyword; tell whether that is the secret."""
        start, end = match.span()
        if rule.each is not None:
            self._seen[rule.id] = end
            self._take(rule, rule.each.finditer(self._data, *match.span("body")))
        elif (found := self._judged(rule, match)) is not None:
            self._seen[rule.id] = end
            self._found.append(found)
            return True
        elif end - start > _WIDE:
            self._seen[rule.id] = end
        return False

    def _look_around(self, rule: Rule, start: int, end: int) -> None:
        """Search for a rule near its keyword, once for keywords that stand close together."""
        last = end + rule.reach
        self._seen[rule.id] = last
        self._take(rule, rule.regex.finditer(self._data, max(0, start - rule.back), last))

    def _take(self, rule: Rule, matches: Iterator[re.Match[bytes]]) -> None:
        judged = (self._judged(rule, match) for match in matches)
        self._found.extend(found for found in judged if found is not None)

    def _judged(self, rule: Rule, match: re.Match[bytes]) -> RuleMatch | None:
        start, end = match.span()
        if end - start > _WIDE:
            found = RuleMatch(match, secret_group(match, rule), rule)
            return found if is_secret(found) and not self._is_harmless(found) else None
        first = start - _SEEN_BEFORE if start > _SEEN_BEFORE else 0
        key = (rule.id, start - first, self._data[first : end + _SEEN_BEHIND])
        verdict = self._verdicts.get(key)
        if verdict is False:
            return None
        found = RuleMatch(match, secret_group(match, rule), rule)
        if verdict is None and not self._verdicts.setdefault(key, is_secret(found)):
            return None
        return None if self._is_harmless(found) else found

    def _is_harmless(self, found: RuleMatch) -> bool:
        """Tell whether the place of a value speaks against it: a picture, or an identifier."""
        rule, (start, end) = found.rule, found.match.span(found.group)
        if rule.judge is None:
            return False  # a rule of others means what it says
        if rule.generic and is_identifier(self._data, start):
            return True
        return not rule.media and is_media(self._data, start, end)


def secret_group(match: re.Match[bytes], rule: Rule) -> int | str:
    """Return the group that holds the secret."""
    group = _group_of(match.re, rule.group)
    if group == "quoted":
        return "bare" if match["quoted"] is None else "quoted"
    if group is not None:
        return group
    return next((n for n, text in enumerate(match.groups(), 1) if text), 0)


@lru_cache(maxsize=1024)
def _group_of(regex: re.Pattern[bytes], wanted: int) -> int | str | None:
    """Return the group in which the secrets of a regex are; None: the first that matched."""
    for name in ("quoted", "bare"):
        if name in regex.groupindex:
            return name
    return wanted if wanted or not regex.groups or "body" in regex.groupindex else None


def is_secret(found: RuleMatch) -> bool:
    """Judge a match by what its rule asks of the value."""
    rule, value = found.rule, found.value
    if rule.entropy and entropy(value) < rule.entropy:
        return False
    for allowed in rule.allowed:
        target = found.match[0] if allowed.of_match else value
        if any(regex.search(target) for regex in allowed.regexes):
            return False
        if any(word in value.lower() for word in allowed.stopwords):
            return False
    return rule.judge is None or JUDGES[rule.judge](found.match, value[:_ENOUGH])
