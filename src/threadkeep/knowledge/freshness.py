"""How fresh the capture of a source is: what an answer that rests on it is worth today."""

from collections.abc import Iterable, Mapping
from typing import Final, Literal

import msgspec

from threadkeep.base.tx import Tx
from threadkeep.knowledge.health import health_name
from threadkeep.knowledge.layout import names
from threadkeep.knowledge.memory_names import PROBE_REPOSITORY, SOURCE_KIND

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
