"""Where a secret may be: the keywords of all rules, found in one run over a block.

An automaton finds any number of words at once (2.2 ms per MB, measured); each place is then tested
for what must follow the keyword. A single letter stands too often for that (11,000 dots in a MB of
transcripts), but a regex that begins with it is fast (0.7 ms per MB), so it gets a run of its own.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from ahocorasick_rs import BytesAhoCorasick, Implementation

from threadkeep.redact.rules import Rule

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
    """Give the places where a rule has to look, in their order, the longest keyword first.

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
