"""Where hits contradict each other, or rest on nothing but what is stale: said, never smoothed."""

from collections.abc import Sequence
from typing import Any

import msgspec

from threadkeep.knowledge.evidence_packets import EvidencePacket
from threadkeep.recall.confidence import Confidence, lowered


class AgentHit(msgspec.Struct, frozen=True):
    """A piece of knowledge that answers an agent, with what it rests on."""

    uuid: str
    score: float
    summary: str
    captured_at: int
    cwd: str
    git_branch: str
    outcome: str
    evidence: tuple[EvidencePacket, ...]
    confidence: Confidence
    design_decisions: tuple[Any, ...] = ()


class ConflictSide(msgspec.Struct, frozen=True):
    """What one of two sides says."""

    says: str
    uuid: str
    captured_at: int
    evidence_refs: tuple[str, ...]


class Disagreement(msgspec.Struct, frozen=True):
    """A disagreement, the older side first; of stale evidence there is one side alone."""

    kind: str  # outcome_disagreement, decision_contradiction, stale_evidence
    message: str
    sides: tuple[ConflictSide, ...] = ()
    evidence_refs: tuple[str, ...] = ()


class ConflictReport(msgspec.Struct, frozen=True):
    """Everything that speaks against taking hits for the truth of today."""

    staleness: Disagreement | None = None
    conflicts: tuple[Disagreement, ...] = ()
    has_unresolved_conflicts: bool = False
    summary: str = ""


def find_conflicts(hits: Sequence[AgentHit]) -> ConflictReport:
    """Name what contradicts itself among hits, and whether all of it is stale."""
    stale = _stale(hits)
    found = tuple(one for one in (_outcomes(hits), _decisions(hits)) if one is not None)
    messages = [one.message for one in (stale, *found) if one is not None]
    return ConflictReport(stale, found, bool(found), " ".join(messages))


def capped(hits: Sequence[AgentHit], report: ConflictReport) -> list[AgentHit]:
    """Give hits that are less sure where they contradict each other, or all are stale."""
    return [msgspec.structs.replace(one, confidence=_cap(one.confidence, report)) for one in hits]


def _cap(one: Confidence, report: ConflictReport) -> Confidence:
    if report.has_unresolved_conflicts and one.level in {"high", "medium"}:
        level = "medium" if one.level == "high" else "low"
        return lowered(one, level, "Others contradict it.")  # type: ignore[arg-type]
    if report.staleness is not None and one.level == "high":
        return lowered(one, "medium", "All of it is stale.")
    return one


def _refs(hit: AgentHit) -> tuple[str, ...]:
    return tuple(one.ref for one in hit.evidence)


def _stale(hits: Sequence[AgentHit]) -> Disagreement | None:
    known = [one.freshness for hit in hits for one in hit.evidence if one.freshness is not None]
    if not known or not all(one.is_stale for one in known):
        return None
    refs = tuple(ref for hit in hits for ref in _refs(hit))
    said = "Everything that is cited comes from sources that are stale, idle or absent."
    return Disagreement("stale_evidence", said, evidence_refs=refs)


def _outcomes(hits: Sequence[AgentHit]) -> Disagreement | None:
    ended = [hit for hit in hits if hit.outcome in {"success", "failure"}]
    if len({hit.outcome for hit in ended}) < 2:  # noqa: PLR2004
        return None
    sides = sorted((_side(hit, hit.outcome) for hit in ended), key=lambda one: one.captured_at)
    said = "The hits do not agree on whether it worked."
    return Disagreement("outcome_disagreement", said, tuple(sides))


def _decisions(hits: Sequence[AgentHit]) -> Disagreement | None:
    chosen = [
        _side(hit, str(one["chosen"]))
        for hit in hits
        for one in hit.design_decisions
        if isinstance(one, dict) and one.get("chosen")
    ]
    ordered = sorted(chosen, key=lambda one: one.captured_at)
    if not ordered or ordered[0].says == ordered[-1].says:
        return None
    older, newer = ordered[0], ordered[-1]
    said = f"A later decision ({newer.says!r}) contradicts an earlier one ({older.says!r})."
    return Disagreement("decision_contradiction", said, (older, newer))


def _side(hit: AgentHit, says: str) -> ConflictSide:
    return ConflictSide(says, hit.uuid, hit.captured_at, _refs(hit))
