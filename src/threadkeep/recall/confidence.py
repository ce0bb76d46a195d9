"""How sure an answer is, and why: what it rests on, how old that is, and how well it fits."""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from threadkeep.knowledge.evidence_packets import EvidencePacket

ConfidenceLevel = Literal["high", "medium", "low", "insufficient"]

_DAY_MS: Final = 86_400_000
_WEEK_MS: Final = 7 * _DAY_MS
_MONTH_MS: Final = 30 * _DAY_MS
_HIGH: Final = 0.72
_MEDIUM: Final = 0.45
_ALONE: Final = 0.78  # one row must fit better than several
_NOTHING: Final = 0.2


class ConfidenceFactor(msgspec.Struct, frozen=True):
    """One reason for being sure or not: its weight, and how far it holds."""

    name: str
    weight: float
    score: float
    detail: str

    @property
    def contribution(self) -> float:
        """What it adds to the whole."""
        return self.weight * self.score


class Confidence(msgspec.Struct, frozen=True):
    """How sure a hit is."""

    level: ConfidenceLevel
    score: float
    factors: tuple[ConfidenceFactor, ...]
    explanation: str
    withheld: bool = False


class HitFacts(NamedTuple):
    """What is known of a hit beside its evidence."""

    score: float  # how well it fits the question, the best 1.0
    at: int | None
    cwd: str = ""
    branch: str = ""


def assess(hit: HitFacts, evidence: Sequence[EvidencePacket], now: int) -> Confidence:
    """Say how sure a hit is; one without evidence never is."""
    factors = (
        _evidence(evidence),
        _diversity(evidence),
        _recency(hit.at, now),
        _match(hit.score),
        _health(evidence),
        _context(hit),
    )
    total = round(sum(factor.contribution for factor in factors), 4)
    if not evidence:
        said = "Nothing that can be looked at backs this."
        return Confidence("insufficient", min(total, _NOTHING), factors, said, withheld=True)
    level = _level(total, evidence)
    best = sorted(factors, key=lambda factor: -factor.contribution)[:3]
    reasons = "; ".join(f"{factor.name}: {factor.detail}" for factor in best)
    return Confidence(level, total, factors, f"{level.capitalize()} confidence. {reasons}.")


def lowered(one: Confidence, level: ConfidenceLevel, why: str) -> Confidence:
    """Give a confidence that something else makes smaller."""
    said = f"{one.explanation} {why}"
    return msgspec.structs.replace(one, level=level, explanation=said)


def _level(total: float, evidence: Sequence[EvidencePacket]) -> ConfidenceLevel:
    unhealthy = any(one.freshness is not None and one.freshness.is_unhealthy for one in evidence)
    needed = _ALONE if len(evidence) == 1 else _HIGH
    if total >= needed and not unhealthy:
        return "high"
    if unhealthy and total < (_HIGH + _MEDIUM) / 2 - 0.03:
        return "low"
    return "medium" if total >= _MEDIUM else "low"


def _evidence(evidence: Sequence[EvidencePacket]) -> ConfidenceFactor:
    score = (0.0, 0.55, 0.8, 1.0)[min(len(evidence), 3)]
    said = f"{len(evidence)} row{'' if len(evidence) == 1 else 's'} behind it"
    return ConfidenceFactor("evidence", 0.3, score, said)


def _diversity(evidence: Sequence[EvidencePacket]) -> ConfidenceFactor:
    kinds = {one.source_kind for one in evidence}
    score = (0.0, 0.45, 0.75, 1.0)[min(len(kinds), 3)]
    return ConfidenceFactor(
        "source_diversity", 0.15, score, f"of {', '.join(sorted(kinds)) or 'none'}"
    )


def _recency(at: int | None, now: int) -> ConfidenceFactor:
    if not at:
        return ConfidenceFactor("recency", 0.15, 0.2, "nobody knows when")
    age = max(0, now - at)
    score = 1.0 if age <= _WEEK_MS else 0.5 if age <= _MONTH_MS else 0.15
    return ConfidenceFactor("recency", 0.15, score, f"{age // _DAY_MS} days old")


def _match(score: float) -> ConfidenceFactor:
    fits = max(0.0, min(1.0, score))
    said = "fits well" if fits >= 0.8 else "fits in part" if fits >= 0.5 else "hardly fits"  # noqa: PLR2004
    return ConfidenceFactor("retrieval_match", 0.2, fits, said)


def _health(evidence: Sequence[EvidencePacket]) -> ConfidenceFactor:
    known = [one.freshness for one in evidence if one.freshness is not None]
    if not known:
        return ConfidenceFactor("capture_health", 0.15, 0.5, "nothing is known of its capture")
    bad = sum(one.is_unhealthy for one in known)
    if bad:
        said = f"{bad} of {len(known)} come from a source that is stale, failing or absent"
        return ConfidenceFactor("capture_health", 0.15, 1.0 - bad / len(known), said)
    if all(one.status == "fresh" for one in known):
        return ConfidenceFactor("capture_health", 0.15, 1.0, "its sources are fresh")
    return ConfidenceFactor("capture_health", 0.15, 0.7, "its sources rest")


def _context(hit: HitFacts) -> ConfidenceFactor:
    known = [name for name, value in (("folder", hit.cwd), ("branch", hit.branch)) if value]
    score = 1.0 if len(known) > 1 else {"folder": 0.7, "branch": 0.5}.get("".join(known), 0.3)
    return ConfidenceFactor(
        "context_alignment", 0.05, score, f"{' and '.join(known) or 'no place'} known"
    )
