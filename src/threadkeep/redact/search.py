"""The search for secrets: every place that a keyword points to is looked at by its rules, once.

What is judged costs most, so a verdict on the same letters is kept while one text is searched: a
text of one word over and over is judged once.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from threadkeep.redact.anchors import Hit, KeywordIndex
from threadkeep.redact.judges import JUDGES
from threadkeep.redact.looks import entropy
from threadkeep.redact.places import is_identifier, is_media
from threadkeep.redact.rules import Rule

_WIDE: Final = 256  # a longer value that is no secret is not looked at again from its middle
_ENOUGH: Final = 512  # letters of a value that are judged: more say nothing else, and cost
_SEEN_BEFORE: Final = 48  # how far before a match a judge may look
_SEEN_BEHIND: Final = 2
_VERDICTS: Final = 20_000  # kept at a time
# A word ends before an escaped line break, a colour code of a terminal and a percent code.
# The letter of an escape is no beginning: the `t` of `\\tk-us` is a tab.
_EDGE: Final = re.compile(
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
    """Give the group that holds the secret."""
    group = _group_of(match.re, rule.group)
    if group == "quoted":
        return "bare" if match["quoted"] is None else "quoted"
    if group is not None:
        return group
    return next((n for n, text in enumerate(match.groups(), 1) if text), 0)


@lru_cache(maxsize=1024)
def _group_of(regex: re.Pattern[bytes], wanted: int) -> int | str | None:
    """Give the group in which the secrets of a regex are; None: the first that matched."""
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
