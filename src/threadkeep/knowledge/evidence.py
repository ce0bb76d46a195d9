"""What a node rests on, row by row, so that whoever reads an answer can look for themselves."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import msgspec

from threadkeep.base.json import encode
from threadkeep.base.tx import Row, Tx
from threadkeep.knowledge.health import health_name
from threadkeep.knowledge.memory_documents import PROBE_REPOSITORY, SOURCE_KIND
from threadkeep.knowledge.schema import changes_until, names, user_version

# ------------------------------------------------------------------------------
# Which nodes are shown by default: those without evidence, and those with some that is good.
#
# Evidence is good when it is real and settled: no probe, no session that goes on, no run of CI that
# is not over, no memory whose file is gone or whose newer text has taken its place.

_SETTLED_MS: Final = 90_000


def eligibility(tx: Tx, now: int) -> dict[str, Any]:
    """Give what queries need to tell good evidence, by the version of the file."""
    return {
        "strict": any(change.hides for change in changes_until(user_version(tx))),
        "settled": now - _SETTLED_MS,
        "probe": PROBE_REPOSITORY,
    }


def eligible_nodes(tx: Tx, ids: Iterable[int], now: int) -> set[int]:
    """Give those of some nodes that are shown by default."""
    values = {**eligibility(tx, now), "ids": encode(list(ids))}
    return {row[0] for row in tx.all("eligible_nodes", values)}


# ------------------------------------------------------------------------------
# How fresh the capture of a source is: what an answer that rests on it is worth today.

FreshnessStatus = Literal[
    "fresh", "stale", "failing", "suppressed_idle", "expected_absent", "unknown"
]

_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
# For how long a source may have been silent and counts as fresh; agents that are used now and then
# may be so for longer.
_FRESH_MS: Final[Mapping[str, int]] = {
    "shell": _DAY_MS,
    "claude-tool": _DAY_MS,
    "browser": 2 * _DAY_MS,
    "workflow": 3 * _DAY_MS,
    "agentic-session-claude": _DAY_MS // 2,
    SOURCE_KIND: 7 * _DAY_MS,
}
_AGENT: Final = "agentic-session-"
_NOW_AND_THEN_MS: Final = 3 * _DAY_MS
_TOO_MANY_FAILURES: Final = 3


class Freshness(msgspec.Struct, frozen=True):
    """How one source is captured."""

    source: str  # the row of `source_health`
    status: FreshnessStatus
    age_ms: int | None  # since something of it came
    rows: int  # that there are of it
    consecutive_failures: int = 0
    alarms: tuple[str, ...] = ()  # the rules about it that are broken now

    @property
    def is_stale(self) -> bool:
        """Tell whether nothing that is known of it may still be so."""
        return self.status != "fresh"

    @property
    def is_unhealthy(self) -> bool:
        """Tell whether something may be missing."""
        return self.status in {"stale", "failing", "expected_absent", "unknown"}


def source_of(kind: str) -> str:
    """Name the row of `source_health` that a kind of evidence belongs to."""
    if kind in {"shell", "claude-tool", "browser", "workflow", SOURCE_KIND}:
        return kind
    return health_name("claude-code" if kind == "claude" else kind)


def freshness_of(tx: Tx, kinds: Iterable[str], now: int) -> dict[str, Freshness]:
    """Tell of kinds of evidence how their sources are captured, by kind."""
    if "source_health" not in names(tx, "table"):
        return {}
    return {kind: _look(tx, kind, now) for kind in sorted(set(kinds))}


def _look(tx: Tx, kind: str, now: int) -> Freshness:
    source = source_of(kind)
    harness = "claude-code" if kind == "claude" else kind
    values = {"kind": kind, "harness": harness, "probe": PROBE_REPOSITORY}
    rows, latest = tx.one("rows_of_source", values) or (0, None)
    health = tx.one("health_of_source", {"source": source})
    alarms = tuple(row[0] for row in tx.all("alarms_about", {"source": source}))
    heard, failures, failed_at, probe_ok, probed_at = health or (None, 0, None, None, None)
    at = max((one for one in (heard, latest) if one), default=None)
    age = None if at is None else max(0, now - at)
    broken = (
        bool(alarms)
        or (failures or 0) > _TOO_MANY_FAILURES
        or bool(failures and failed_at and now - failed_at < _DAY_MS)
        or (probe_ok == 0 and probed_at is not None)
    )
    status = _status(source, rows, age, known=health is not None, broken=broken)
    return Freshness(source, status, age, rows, failures or 0, alarms)


def _status(
    source: str, rows: int, age: int | None, *, known: bool, broken: bool
) -> FreshnessStatus:
    if not rows and not known:
        return "expected_absent"
    if broken:
        return "failing"
    if not rows:
        return "expected_absent"
    if age is None or not known:
        return "unknown"
    occasional = source not in _FRESH_MS
    if age <= _FRESH_MS.get(source, _NOW_AND_THEN_MS):
        return "fresh"
    return "suppressed_idle" if occasional or source == "browser" else "stale"


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
