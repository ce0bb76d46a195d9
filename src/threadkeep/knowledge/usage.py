"""What the models' answers cost, counted once each."""

from collections.abc import Iterable

from threadkeep.base.sqlite import Tx
from threadkeep.knowledge.records import Usage


def write_usage(tx: Tx, harness: str, usage: Iterable[tuple[int, Usage]]) -> None:
    """Store usage with the number of its session; of one key the largest output counts."""
    tx.run_bulk("put_usage", [_row(harness, session, one) for session, one in usage])


def _row(harness: str, session: int, one: Usage) -> tuple[object, ...]:
    cache = (one.cache_read, one.cache_write, one.cache_write_1h)
    spent = (one.input, one.output, *cache, one.reasoning)
    return (harness, one.key, session, one.at, one.model, *spent, int(one.final))
