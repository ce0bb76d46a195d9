"""What a node rests on, row by row, so that whoever reads an answer can look for themselves."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from threadkeep.base.json import encode
from threadkeep.base.tx import Row, Tx
from threadkeep.knowledge.eligibility import eligibility
from threadkeep.knowledge.freshness import Freshness
from threadkeep.knowledge.memory_names import SOURCE_KIND

_EXCERPT: Final = 500
_MOST: Final = 50  # of one node
# The names under which the contract's own programs know the agents.
_SHORT: Final = {"claude-code": "claude"}


class EvidencePacket(msgspec.Struct, frozen=True, omit_defaults=True):
    """One row that a node rests on."""

    ref: str  # shell-1, claude-5, browser-2, workflow-9, memory-3
    source_kind: str
    table: str
    row_id: int
    timestamp_ms: int
    excerpt: str
    rank: int = 0
    session_id: str | None = None
    harness: str | None = None
    segment_index: int | None = None
    freshness: Freshness | None = None


def evidence_packets(
    tx: Tx, nodes: Iterable[int], now: int, *, everything: bool = False
) -> dict[int, list[EvidencePacket]]:
    """Give what nodes rest on, the latest first; only what is real and settled, unless all is."""
    values = {**eligibility(tx, now), "ids": encode(list(nodes)), "everything": everything}
    found: dict[int, list[EvidencePacket]] = {}
    for node, *rest in tx.all("evidence_packets", values):
        packets = found.setdefault(node, [])
        if len(packets) < _MOST:
            packets.append(_packet(tuple(rest), len(packets)))
    return found


def _packet(row: Row, rank: int) -> EvidencePacket:
    table, number, at, kind, excerpt, session, harness, segment = row
    name = _SHORT.get(harness, str(harness)) if table == "agentic_sessions" else kind
    prefix = {"events": "shell", "memory_chunks": "memory"}.get(table, name)
    return EvidencePacket(
        ref=f"{prefix}-{number}",
        source_kind=SOURCE_KIND if table == "memory_chunks" else name,
        table=table,
        row_id=number,
        timestamp_ms=at or 0,
        excerpt=_cut(excerpt),
        rank=rank,
        session_id=session,
        harness=harness,
        segment_index=segment,
    )


def _cut(value: Any) -> str:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")
    plain = text.strip()
    return plain if len(plain) <= _EXCERPT else f"{plain[: _EXCERPT - 1]}…"
