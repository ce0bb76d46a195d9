"""One question of an agent: what is known, what that rests on, how fresh and how sure it is."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from threadkeep.base.tx import Tx
from threadkeep.knowledge.agent_views import AgentNodeView, node_views
from threadkeep.knowledge.evidence_packets import EvidencePacket, evidence_packets
from threadkeep.knowledge.freshness import Freshness, freshness_of
from threadkeep.recall.confidence import HitFacts, assess
from threadkeep.recall.conflicts import AgentHit, ConflictReport, capped, find_conflicts
from threadkeep.recall.records import Filters, Hit

if TYPE_CHECKING:
    from threadkeep.recall.memory import Memory

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


def agent_query(
    memory: "Memory", query: str, filters: Filters, *, mode: AgentMode = "known", limit: int = 10
) -> AgentAnswer:
    """Answer a question of an agent from nodes alone."""
    size = max(0, min(limit, _MOST))
    if not size:
        return AgentAnswer(mode, query, "Ask for at least one hit: the limit is 0.")
    only_nodes = msgspec.structs.replace(filters, kinds=("node",))
    wanted = min(size * _WIDER, _MOST) if mode == "decisions" else size
    found = memory.recall("" if mode == "recent" else query, only_nodes, limit=wanted + 1).hits
    everything = filters.include_excluded or memory.include_excluded
    with memory.store.context.db.read(lenient=True) as tx:
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
        return "Nothing is known about it." if mode != "decisions" else "No decision is known."
    count = f"{len(hits)} piece{'' if len(hits) == 1 else 's'} of knowledge"
    if mode == "evidence":
        rows = sum(len(hit.evidence) for hit in hits)
        said = f"{count} with {rows} rows behind them; each stands in hits[].evidence."
    elif mode == "decisions":
        made = sum(len(hit.design_decisions) for hit in hits)
        said = f"{count} with {made} decisions; each stands in hits[].design_decisions."
    else:
        said = "\n".join(f"- {_cut(hit.summary, 300)}" for hit in hits[:_LINES])
    return _cut(f"{said}\n\n{report.summary}".strip(), _ANSWER)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
