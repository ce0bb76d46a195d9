"""Where a secret may be: the keywords of all rules, found in a few passes over a block.

A regex that begins with one literal letter runs at memory speed in Python (0.4 to 1.1 ms per MB,
measured); an alternation of words takes 8 to 20 ms. So each keyword is found by the rarest of its
letters, looking back and ahead from there, and keywords with the same letter share a pass.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from operator import itemgetter
from typing import Final, NamedTuple, TypeVar

from threadkeep.redact.rules import Rule

_MANY: Final = 4
_DEPTH: Final = 3
_LITERAL: Final = re.compile(rb"[A-Za-z0-9_-]*")
_RUN: Final = re.compile(rb"\[a-z0-9[_+/=-]*\]\{(\d+)")

K = TypeVar("K", bound=Hashable)

# The letters to find keywords by, best first: rare in transcripts, and few in number, as each
# costs a pass. Capitals are searched in the text as it is, all others in its lower-case form.
_LETTERS: Final = b"_~A=-.kp/hcB"
# Then all others, by how rare they are in transcripts.
_RARER: Final = b"@%QXZ!qzJVKWYHjGDUM#xFLOPNRTCSIE987654321v0yw:gbfmdulrisoante"


class Hit(NamedTuple):
    """A place where a keyword stands, and a rule that wants to look there."""

    start: int
    end: int
    rule: Rule


class Pass(NamedTuple):
    """One run over a block: a regex, and for each of its groups what to look at."""

    regex: re.Pattern[bytes]
    exact: bool
    found: Sequence[Sequence["_Word"]]


class _Word(NamedTuple):
    """A keyword seen from its rarest letter."""

    whole: bytes
    before: bytes
    behind: bytes
    after: bytes
    rules: tuple[Rule, ...]


def passes(rules: Sequence[Rule]) -> list[Pass]:
    """Plan the passes that find every keyword of these rules."""
    wanted: dict[tuple[bytes, bytes], list[Rule]] = defaultdict(list)
    for rule in rules:
        for keyword in rule.keywords:
            wanted[keyword, rule.after].append(rule)
    by_letter: dict[bytes, list[_Word]] = defaultdict(list)
    for (keyword, after), takers in wanted.items():
        before, letter, behind = _from_rarest(keyword)
        by_letter[letter].append(
            _Word(before + letter + behind, before, behind, after, tuple(takers))
        )
    return [_planned(letter, words) for letter, words in sorted(by_letter.items())]


def hits(plan: Sequence[Pass], data: bytes, lowered: bytes) -> list[Hit]:
    """Give the places in a block where a rule has to look, in their order."""
    found: list[Hit] = []
    for regex, exact, groups in plan:
        text = data if exact else lowered
        for match in regex.finditer(text):
            place = match.start()
            for word in groups[match.lastindex or 0]:
                start = place - len(word.before)
                if text.startswith(word.whole, max(start, 0)):
                    end = start + len(word.whole)
                    found.extend([Hit(start, end, rule) for rule in word.rules])
    return sorted(found, key=itemgetter(0))


def _from_rarest(keyword: bytes) -> tuple[bytes, bytes, bytes]:
    """Cut a keyword at its rarest letter; in lower case, unless that is a capital."""
    for code in _LETTERS + _RARER + keyword:
        letter = bytes([code])
        spelt = keyword if letter.isupper() else keyword.lower()
        if letter in spelt:
            break
    return spelt.partition(letter) if letter.isalpha() else spelt.rpartition(letter)


def _planned(letter: bytes, words: Sequence[_Word]) -> Pass:
    """Write the regex of one pass: cheap tests first, longer keywords before those inside them."""
    exact = letter.isupper()
    longest_first = sorted(words, key=lambda word: (len(word.behind), len(word.before)))[::-1]
    found: list[Sequence[_Word]] = [()]
    branches = []
    for (behind, after), alike in _grouped(longest_first, lambda word: (word.behind, word.after)):
        seen = letter + behind
        looks = []
        for last, closer in _grouped(alike, lambda word: word.before[-1:]):
            found.extend([other for other in words if _together(word, other)] for word in closer)
            ends = [_look_back(word.before, seen) + b"()" for word in closer]
            looks.append(ends[0] if len(ends) == 1 else _look_back(last, seen) + _any(ends))
        test = b"(?=" + (b"(?i:" + after + b")" if exact else after) + b")"
        tests = (
            [_any(looks), test] if len(alike) < _MANY else [_one_of(alike, seen), test, _any(looks)]
        )
        branches.append(re.escape(behind) + b"".join(tests))
    size = min(map(_filled, words))
    gate = b"(?=[a-z0-9_+/=-]{%d})" % size if size > 1 else b""
    whole = re.escape(letter) + (b"(?i:" + gate + b")" if exact else gate) + _any(branches)
    return Pass(re.compile(whole), exact, found)


def _filled(word: _Word) -> int:
    """Count the letters that must follow the rare one, as a first test for all keywords."""
    literal = _LITERAL.match(word.behind)
    size = literal.end() if literal else 0
    run = _RUN.match(word.after) if size == len(word.behind) else None
    return size + int(run[1]) if run else size


def _together(one: _Word, other: _Word) -> bool:
    """Tell whether another keyword may stand where this one was found.

    A longer one around it does not: that would have been found instead.
    """
    left = one.before.endswith(other.before)
    right = one.behind.startswith(other.behind)
    longer_left = other.before.endswith(one.before)
    longer_right = other.behind.startswith(one.behind)
    around = (
        longer_left and longer_right and (one.before, one.behind) != (other.before, other.behind)
    )
    return (left or longer_left) and (right or longer_right) and not around


def _one_of(words: Sequence[_Word], seen: bytes) -> bytes:
    """Test the letters before the rare one against those of many keywords at once."""
    depth = min(_DEPTH, *(len(word.before) for word in words))
    letters = [{word.before[-place] for word in words} for place in range(depth, 0, -1)]
    sets = b"".join(b"[" + re.escape(bytes(sorted(kinds))) + b"]" for kinds in letters)
    return b"(?<=" + sets + re.escape(seen) + b")" if sets else b""


def _grouped(words: Sequence[_Word], key: Callable[[_Word], K]) -> list[tuple[K, list[_Word]]]:
    groups: dict[K, list[_Word]] = defaultdict(list)
    for word in words:
        groups[key(word)].append(word)
    return list(groups.items())


def _look_back(before: bytes, seen: bytes) -> bytes:
    return b"(?<=" + re.escape(before + seen) + b")" if before else b""


def _any(branches: Sequence[bytes]) -> bytes:
    return b"(?:" + b"|".join(branches) + b")"
