"""The health of capture, one row for each source: what came last, and what went wrong last."""

import msgspec

from threadkeep.base.tx import Tx
from threadkeep.knowledge.context import KnowledgeContext

# The names that the contract seeds; other harnesses follow the same form.
_NAMES = {"claude-code": "agentic-session-claude"}
_LONGEST_MESSAGE = 512


class Health(msgspec.Struct, frozen=True):
    """How the capture of one source is."""

    source: str
    last_event_ts: int | None
    last_success_ts: int | None
    last_error_ts: int | None
    last_error_msg: str | None
    consecutive_failures: int
    events_last_1h: int
    events_last_24h: int
    probe_ok: int | None
    probe_lag_ms: int | None
    probe_last_run_ts: int | None
    last_heartbeat_ts: int | None


class Drop(msgspec.Struct, frozen=True):
    """How much of a source did not become a row, and why."""

    source: str
    reason: str
    count: int
    last_at: int


def health_name(harness: str) -> str:
    """Name the row of a harness in `source_health`."""
    return _NAMES.get(harness, f"agentic-session-{harness}")


def note_success(tx: Tx, source: str, *, last_event: int | None, count: int, now: int) -> None:
    """Write down that a source was read, and what it gave."""
    tx.run("health_success", {"source": source, "at": last_event, "count": count, "now": now})


def note_failure(tx: Tx, source: str, message: str, now: int) -> None:
    """Write down that a source could not be read."""
    values = {"source": source, "message": message[:_LONGEST_MESSAGE], "now": now}
    tx.run("health_failure", values)


def heartbeat(tx: Tx, source: str, now: int) -> None:
    """Write down that somebody watches a source."""
    tx.run("health_heartbeat", {"source": source, "now": now})


def heard(tx: Tx, source: str, at: int, now: int, error: str | None = None) -> None:
    """Write down a producer's own sign of life, and what it says is wrong: nothing, if None."""
    told = None if error is None else error[:_LONGEST_MESSAGE]
    tx.run("heartbeat_at", {"source": source, "at": at, "error": told, "now": now})


def note_probe(tx: Tx, source: str, *, lag_ms: int | None, now: int) -> None:
    """Write down how long a synthetic event took from end to end; None: it did not arrive."""
    tx.run(
        "note_probe", {"source": source, "ok": int(lag_ms is not None), "lag": lag_ms, "now": now}
    )


def count_drop(tx: Tx, source: str, reason: str, count: int, now: int) -> None:
    """Count what did not become a row; these counters are never set back."""
    tx.run("count_drop", {"source": source, "reason": reason, "count": count, "now": now})


def recount(tx: Tx, now: int) -> None:
    """Count the events of the last hour and day anew; probes are no events."""
    for kind in ("shell", "claude-tool"):
        tx.run("recount_events", {"kind": kind, "now": now})
    tx.run("recount_visits", {"now": now})


def all_health(_: KnowledgeContext, tx: Tx) -> list[Health]:
    """Give the health of every source."""
    return [Health(*row) for row in tx.all("all_health")]


def all_drops(_: KnowledgeContext, tx: Tx) -> list[Drop]:
    """Give what was dropped, by source and reason."""
    return [Drop(*row) for row in tx.all("drops")]
