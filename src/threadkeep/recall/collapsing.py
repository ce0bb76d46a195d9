"""Saying things once: of hits that say the same the best is kept, with the number of the others."""

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from threadkeep.recall.fusing import RankedCandidate

MOST: Final = 50  # only so many hits are compared
_ALIKE: Final = 0.85  # share of words that two texts have in common
_NEAR_LENGTH: Final = 0.97
_LOOKED_INTO: Final = 4_000  # characters of a text that are compared
_MOST_READ: Final = 4  # texts that are read from the archive for this alone
_WORD: Final = re.compile(r"\w+")


class HitGroup(NamedTuple):
    """A hit, and how many others say the same."""

    ranked: RankedCandidate
    same: int


def words_in(text: str) -> frozenset[str]:
    """Give the words that a text is compared by; numbers count as one, they differ in every log."""
    found = _WORD.findall(text[:_LOOKED_INTO].lower())
    return frozenset("0" if word.isdigit() else word for word in found)


def are_alike(one: frozenset[str], two: frozenset[str]) -> bool:
    """Tell whether two texts have nearly all words in common."""
    if not one or not two:
        return one == two
    return len(one & two) / len(one | two) >= _ALIKE


def collapse(
    ranked: Sequence[RankedCandidate], limit: int, text_of: Callable[[RankedCandidate], str]
) -> list[HitGroup]:
    """Keep one of those that say the same, among the first fifty; give at most `limit`.

    Two may be alike only if they have the same words of the question and the same kind: only
    then are their texts read. Reading costs about a millisecond, so few are.
    """
    kept: list[RankedCandidate] = []
    same: list[int] = []
    texts: dict[int, frozenset[str]] = {}
    reads = 0
    for at, one in enumerate(ranked[: max(MOST, limit)]):
        twin = _same_hash(one, kept)
        if twin is None and at < MOST and reads < _MOST_READ:
            twins = [n for n, other in enumerate(kept) if _may_be_alike(one, other)]
            if twins:
                reads += 1
                mine = words_in(text_of(one))
                theirs = (n for n in twins if are_alike(mine, _words(kept[n], n, texts, text_of)))
                twin = next(theirs, None)
        if twin is None:
            kept.append(one)
            same.append(0)
        else:
            same[twin] += 1
        if len(kept) > limit and at >= MOST:
            break
    return [HitGroup(one, count) for one, count in zip(kept, same, strict=True)][:limit]


def _words(
    one: RankedCandidate,
    number: int,
    texts: dict[int, frozenset[str]],
    text_of: Callable[[RankedCandidate], str],
) -> frozenset[str]:
    if number not in texts:
        texts[number] = words_in(text_of(one))
    return texts[number]


def _same_hash(one: RankedCandidate, kept: Sequence[RankedCandidate]) -> int | None:
    mine = one.candidate
    found = (n for n, other in enumerate(kept) if other.candidate.hash == mine.hash)
    return next(found, None)


def _may_be_alike(one: RankedCandidate, other: RankedCandidate) -> bool:
    """Judge by what is known without reading: the kind, the words found, and how well."""
    mine, theirs = one.candidate, other.candidate
    if mine.kind != theirs.kind or mine.clues != theirs.clues or not mine.clues:
        return False
    low, high = sorted((mine.words - mine.around, theirs.words - theirs.around))
    return high <= 0 or low / high >= _NEAR_LENGTH
