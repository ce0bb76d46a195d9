"""One question of an agent: what is known, what that rests on, how fresh and how sure it is."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import msgspec

from threadkeep.base.tx import Tx
from threadkeep.knowledge.agent_views import AgentNodeView, node_views
from threadkeep.knowledge.evidence import EvidencePacket, Freshness, evidence_packets, freshness_of
from threadkeep.knowledge.memory_documents import SOURCE_KIND
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.search_scope import ANY_NODE, NodeChoice
from threadkeep.memory.records import Hit

if TYPE_CHECKING:
    from threadkeep.memory.memory import Memory


# ------------------------------------------------------------------------------
# How sure an answer is, and why: what it rests on, how old that is, and how well it fits.

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
        said = "No evidence that can be checked supports this."
        return Confidence("insufficient", min(total, _NOTHING), factors, said, withheld=True)
    level = _level(total, evidence)
    best = sorted(factors, key=lambda factor: -factor.contribution)[:3]
    reasons = "; ".join(f"{factor.name}: {factor.detail}" for factor in best)
    return Confidence(level, total, factors, f"{level.capitalize()} confidence. {reasons}.")


def lowered(one: Confidence, level: ConfidenceLevel, why: str) -> Confidence:
    """Return a confidence that something else makes smaller."""
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
        return ConfidenceFactor("capture_health", 0.15, 0.5, "the state of its capture is unknown")
    bad = sum(one.is_unhealthy for one in known)
    if bad:
        said = f"{bad} of {len(known)} come from a source that is stale, failing or absent"
        return ConfidenceFactor("capture_health", 0.15, 1.0 - bad / len(known), said)
    if all(one.status == "fresh" for one in known):
        return ConfidenceFactor("capture_health", 0.15, 1.0, "its sources are fresh")
    return ConfidenceFactor("capture_health", 0.15, 0.7, "its sources are idle")


def _context(hit: HitFacts) -> ConfidenceFactor:
    known = [name for name, value in (("folder", hit.cwd), ("branch", hit.branch)) if value]
    score = 1.0 if len(known) > 1 else {"folder": 0.7, "branch": 0.5}.get("".join(known), 0.3)
    return ConfidenceFactor(
        "context_alignment", 0.05, score, f"{' and '.join(known) or 'no place'} known"
    )


# ------------------------------------------------------------------------------
# Where hits contradict each other, or rest on nothing but what is stale: said, never smoothed.


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
    """Return hits that are less sure where they contradict each other, or all are stale."""
    return [msgspec.structs.replace(one, confidence=_cap(one.confidence, report)) for one in hits]


def _cap(one: Confidence, report: ConflictReport) -> Confidence:
    if report.has_unresolved_conflicts and one.level in {"high", "medium"}:
        level = "medium" if one.level == "high" else "low"
        return lowered(one, level, "Other evidence contradicts it.")  # type: ignore[arg-type]
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


AgentMode = Literal["known", "evidence", "recent", "decisions"]

_MOST: Final = 100
_WIDER: Final = 3  # of nodes few tell of a decision
_SUMMARY: Final = 400
_ANSWER: Final = 2_000
_LINES: Final = 5


class AgentAnswer(msgspec.Struct, frozen=True):
    """What is known about a question."""

    mode: AgentMode
    query: str
    answer: str
    hits: tuple[AgentHit, ...] = ()
    freshness: dict[str, Freshness] = {}
    conflicts: ConflictReport = ConflictReport()
    limit: int = 0
    truncated: bool = False


# What the contract's tools call the evidence of a node -> what the index calls it.
_GROUNDS: Final = {
    "shell": "shell",
    "claude": "agent",
    "agent": "agent",
    "browser": "browser",
    "workflow": "ci",
    "ci": "ci",
    "memory": "memory",
    SOURCE_KIND: "memory",
}


def of_contract_source(query: Query, source: str | None) -> tuple[Query, NodeChoice]:
    """Read a source as the contract's own server does: `claude` means any agent."""
    if not source or source in _GROUNDS:
        return query, NodeChoice(evidence=_GROUNDS.get(source or ""))
    return msgspec.structs.replace(query, agent=(*query.agent, source)), NodeChoice()


def agent_query(
    memory: "Memory",
    query: str,
    within: Query,
    *,
    nodes: NodeChoice = ANY_NODE,
    mode: AgentMode = "known",
    limit: int = 10,
) -> AgentAnswer:
    """Answer a question of an agent from nodes alone."""
    size = max(0, min(limit, _MOST))
    if not size:
        return AgentAnswer(mode, query, "Ask for at least one hit: the limit is 0.")
    only_nodes = msgspec.structs.replace(within, kind=("node",))
    wanted = min(size * _WIDER, _MOST) if mode == "decisions" else size
    text = "" if mode == "recent" else query
    found = memory.recall(text, only_nodes, nodes=nodes, limit=wanted + 1).hits
    everything = nodes.excluded or memory.include_excluded
    with memory.store.read(lenient=True) as tx:
        hits = _hits(tx, found, memory.clock(), everything=everything)
    if mode == "decisions":
        hits = [hit for hit in hits if hit.design_decisions]
    else:
        hits = [msgspec.structs.replace(hit, design_decisions=()) for hit in hits]
    shown = hits[:size]
    report = find_conflicts(shown)
    shown = capped(shown, report)
    packets = [one for hit in shown for one in hit.evidence]
    freshness = {one.freshness.source: one.freshness for one in packets if one.freshness}
    answer = _answer(mode, shown, report)
    more = len(hits) > size
    return AgentAnswer(mode, query, answer, tuple(shown), freshness, report, size, more)


def _hits(tx: Tx, found: Sequence[Hit], now: int, *, everything: bool) -> list[AgentHit]:
    numbers = [int(hit.ref.partition(":")[2]) for hit in found]
    nodes = node_views(tx, numbers)
    packets = evidence_packets(tx, numbers, now, everything=everything)
    kinds = {one.source_kind for some in packets.values() for one in some}
    fresh = freshness_of(tx, kinds, now)
    return [
        _hit(hit, nodes[number], _dated(packets.get(number, ()), fresh), now)
        for hit, number in zip(found, numbers, strict=True)
        if number in nodes
    ]


def _dated(
    packets: Sequence[EvidencePacket], fresh: dict[str, Freshness]
) -> tuple[EvidencePacket, ...]:
    return tuple(
        msgspec.structs.replace(one, freshness=fresh.get(one.source_kind)) for one in packets
    )


def _hit(hit: Hit, node: AgentNodeView, evidence: tuple[EvidencePacket, ...], now: int) -> AgentHit:
    decisions: Any = node.content.get("design_decisions")
    about = HitFacts(hit.score, hit.at, hit.cwd or "", hit.branch or "")
    return AgentHit(
        uuid=node.uuid,
        score=hit.score,
        summary=_cut(str(node.content.get("summary") or hit.title), _SUMMARY),
        captured_at=hit.at or node.created_at,
        cwd=hit.cwd or "",
        git_branch=hit.branch or "",
        outcome=node.outcome,
        evidence=evidence,
        confidence=assess(about, evidence, now),
        design_decisions=tuple(decisions) if isinstance(decisions, list) else (),
    )


def _answer(mode: AgentMode, hits: Sequence[AgentHit], report: ConflictReport) -> str:
    if not hits:
        return "Nothing is known about this." if mode != "decisions" else "No decision is known."
    count = f"{len(hits)} piece{'' if len(hits) == 1 else 's'} of knowledge"
    if mode == "evidence":
        rows = sum(len(hit.evidence) for hit in hits)
        said = f"{count} with {rows} rows behind them; each is in hits[].evidence."
    elif mode == "decisions":
        made = sum(len(hit.design_decisions) for hit in hits)
        said = f"{count} with {made} decisions; each is in hits[].design_decisions."
    else:
        said = "\n".join(f"- {_cut(hit.summary, 300)}" for hit in hits[:_LINES])
    return _cut(f"{said}\n\n{report.summary}".strip(), _ANSWER)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
