"""Where a secret may be: the keywords of all rules, found in one run over a block.

An automaton finds any number of words at once (2.2 ms per MB, measured); each place is then tested
for what must follow the keyword. A single letter stands too often for that (11,000 dots in a MB of
transcripts), but a regex that begins with it is fast (0.7 ms per MB), so it gets its own run.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from ahocorasick_rs import BytesAhoCorasick, Implementation

from threadkeep.redact.rules import Rule

_PIECE: Final = 1 << 16  # read at once: all matches of it are in memory, a million in a MB of dashes


class Hit(NamedTuple):
    """A place where a keyword stands, and a rule that wants to look there."""

    start: int
    end: int
    rule: Rule


class Look(NamedTuple):
    """What must follow a keyword, and the rules that ask for it."""

    after: re.Pattern[bytes]
    rules: Sequence[Rule]


class Plan(NamedTuple):
    """How to find every keyword of some rules."""

    automaton: BytesAhoCorasick
    looks: Sequence[Sequence[Look]]  # of each keyword in the automaton
    longest: int
    letters: Sequence[Look]  # keywords of one letter, each with what must follow it


def make_plan(rules: Sequence[Rule]) -> Plan:
    """Plan how to find the keywords of these rules, which mean capitals and small letters alike."""
    wanted: dict[bytes, dict[bytes, list[Rule]]] = defaultdict(lambda: defaultdict(list))
    for rule in rules:
        for keyword in {keyword.lower(): None for keyword in rule.keywords}:
            wanted[keyword][rule.after].append(rule)
    words = [keyword for keyword in wanted if len(keyword) > 1]
    return Plan(
        BytesAhoCorasick(words, implementation=Implementation.DFA),
        [[Look(re.compile(after), takers) for after, takers in wanted[w].items()] for w in words],
        max(map(len, wanted), default=0),
        [
            Look(re.compile(re.escape(keyword) + b"(?=" + after + b")"), takers)
            for keyword in wanted.keys() - words
            for after, takers in wanted[keyword].items()
        ],
    )


def hits(plan: Plan, data: bytes) -> list[Hit]:
    """Give the places in a block where a rule has to look, in their order, longer ones first."""
    lowered = data.lower()
    found: list[Hit] = []
    for regex, rules in plan.letters:
        for match in regex.finditer(lowered):
            found.extend([Hit(*match.span(), rule) for rule in rules])
    view = memoryview(lowered)
    for first in range(0, len(data), _PIECE):
        piece = view[first : first + _PIECE + plan.longest - 1]
        for word, start, end in plan.automaton.find_matches_as_indexes(piece, overlapping=True):
            for after, rules in plan.looks[word]:
                if after.match(lowered, first + end) and start < _PIECE:
                    found.extend([Hit(first + start, first + end, rule) for rule in rules])
    return sorted(found, key=lambda hit: (hit.start, -hit.end))
