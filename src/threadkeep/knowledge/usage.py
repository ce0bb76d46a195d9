"""What the models' answers cost, counted once each."""

from collections.abc import Iterable

from threadkeep.base.tx import Tx
from threadkeep.knowledge.logs import LogRow
from threadkeep.knowledge.records import Usage


def write_usage(tx: Tx, harness: str, usage: Iterable[tuple[int, Usage]]) -> None:
    """Store usage with the number of its session; of one key the largest output counts."""
    tx.run_bulk("put_usage", [_row(harness, session, one) for session, one in usage])


def counted(tx: Tx, log: LogRow, usage: list[Usage]) -> list[Usage]:
    """Give what counts of the usage that a log tells of.

    What stands in for a session's usage gives way to another log of that session, whichever of
    the two is read first.
    """
    if not log.item:
        return usage
    if not any(one.stands_in for one in usage):
        tx.run("drop_stand_ins", {"harness": log.harness, "session_id": log.session_id})
        return usage
    place = {"harness": log.harness, "session_id": log.session_id, "log": log.id}
    if tx.value("has_another_log", place) is None:
        return usage
    return [one for one in usage if not one.stands_in]


def _row(harness: str, session: int, one: Usage) -> tuple[object, ...]:
    cache = (one.cache_read, one.cache_write, one.cache_write_1h)
    spent = (one.input, one.output, *cache, one.reasoning)
    return (harness, one.key, session, one.at, one.model, *spent, int(one.final))
