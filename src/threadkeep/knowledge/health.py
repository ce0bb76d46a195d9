"""The health of capture, one row for each source: what came last, and what went wrong last."""

from threadkeep.base.sqlite import Tx

# The names that the contract seeds; other harnesses follow the same form.
_NAMES = {"claude-code": "agentic-session-claude"}
_LONGEST_MESSAGE = 512


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
