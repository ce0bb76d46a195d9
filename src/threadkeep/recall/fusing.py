"""The order of the hits: words, meaning, the time that was asked about, age and kind in one number.

Words and meaning are added as scores, never as ranks: an embedding that places everything is no
equal of the words. Ranks as equals lost a tenth of the answers on LoCoMo; scores lost none, and
brought the first right one further up.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, tzinfo
from typing import Final, NamedTuple

from threadkeep.base.config import RecallSettings
from threadkeep.knowledge.candidates import Side
from threadkeep.recall.dates import When, is_then

MEANING: Final = 0.4  # what a vector of the same direction is worth beside all words
THEN: Final = 0.2  # what being of the time that was asked about is worth
_DAY_MS: Final = 86_400_000
# Of two that have the same words, what was said is the better answer than what a tool put out.
_KINDS: Final = {
    "prompt": 1.0,
    "text": 1.0,
    "summary": 0.95,
    "node": 1.0,
    "lesson": 1.0,
    "command": 0.95,
    "ci": 0.95,
    "segment": 0.95,
    "page": 0.9,
    "tool_call": 0.9,
    "tool_result": 0.8,
    "reasoning": 0.8,
    "note": 0.7,
}
MESSAGE_KINDS: Final = frozenset(
    ("prompt", "text", "summary", "tool_call", "tool_result", "reasoning", "note", "segment")
)


class Candidate(NamedTuple):
    """Something that may be a hit, with what is known of it."""

    side: Side
    id: int
    kind: str  # of an entry or of a thing
    at: int | None
    hash: int
    words: float = 0.0  # of 1 for all that was asked for
    around: float = 0.0
    clues: int = 0
    meaning: float | None = None
    row: int = 0  # of a thing in its own table


class RankedCandidate(NamedTuple):
    """A candidate and how its place came about."""

    candidate: Candidate
    recency: float
    weight: float
    total: float


def recency(at: int | None, now: int, settings: RecallSettings) -> float:
    """Give the factor for an age: 1 for now, half the way to the floor after each half life."""
    if at is None:
        return settings.floor
    halvings = min(max(0.0, (now - at) / _DAY_MS) / settings.half_life_days, 1000.0)
    return settings.floor + (1 - settings.floor) * math.exp2(-halvings)


def weight_of(kind: str, settings: RecallSettings) -> float:
    """Give the factor for a kind: ours, times what the user set."""
    public = "message" if kind in MESSAGE_KINDS else kind
    own: Mapping[str, float] = {str(name): value for name, value in settings.weights.items()}
    return _KINDS.get(kind, 1.0) * own.get(public, 1.0)


def fuse(
    candidates: Sequence[Candidate],
    settings: RecallSettings,
    now: int,
    when: When = (),
    zone: tzinfo = UTC,
) -> list[RankedCandidate]:
    """Put candidates in order, the best first."""
    ranked = []
    for one in candidates:
        base = one.words + MEANING * max(0.0, one.meaning or 0.0)
        base += THEN if is_then(one.at, when, zone) else 0.0
        factors = recency(one.at, now, settings), weight_of(one.kind, settings)
        ranked.append(RankedCandidate(one, *factors, base * factors[0] * factors[1]))
    return sorted(ranked, key=lambda one: (-one.total, -(one.candidate.at or 0), one.candidate.id))


def by_time(
    candidates: Sequence[Candidate], settings: RecallSettings, now: int
) -> list[RankedCandidate]:
    """Put candidates in the order of time, the newest first."""
    ordered = sorted(candidates, key=lambda one: (-(one.at or 0), -one.id))
    factors = ((one, recency(one.at, now, settings)) for one in ordered)
    return [RankedCandidate(one, factor, 1.0, factor) for one, factor in factors]
