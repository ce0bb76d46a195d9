"""What the models' answers cost: stored once each, summed up by program, model, project and day."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, tzinfo
from typing import Final

import msgspec

from threadkeep.base.tx import Tx
from threadkeep.knowledge.archive import LogRow
from threadkeep.knowledge.records import Usage
from threadkeep.knowledge.sessions import CapturedSessionFilter


class TokenTotals(msgspec.Struct):
    """Tokens of many answers."""

    answers: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    reasoning: int = 0
    unfinished: int = 0  # answers whose last count is missing from the log

    def add(self, counts: tuple[int, ...], *, final: bool) -> None:
        """Count one answer."""
        self.answers += 1
        self.input += counts[0]
        self.output += counts[1]
        self.cache_read += counts[2]
        self.cache_write += counts[3]
        self.cache_write_1h += counts[4]
        self.reasoning += counts[5]
        self.unfinished += not final

    @property
    def total(self) -> int:
        """All tokens."""
        return self.input + self.output + self.cache_read + self.cache_write


class UsageTotals(msgspec.Struct):
    """The same tokens, summed up in five ways."""

    total: TokenTotals
    by_harness: dict[str, TokenTotals]
    by_model: dict[str, TokenTotals]
    by_project: dict[str, TokenTotals]
    by_day: dict[str, TokenTotals]


def spending(
    tx: Tx,
    among: CapturedSessionFilter = CapturedSessionFilter(),  # noqa: B008  (a constant)
    *,
    zone: tzinfo = UTC,
) -> UsageTotals:
    """Sum up what the models' answers cost; days are those of a time zone."""
    total = TokenTotals()
    sums: tuple[dict[str, TokenTotals], ...] = tuple(defaultdict(TokenTotals) for _ in range(4))
    for harness, model, project, cwd, at, *counts, final in tx.all("usage_rows", among.params()):
        names = (harness, model or "unknown", project or cwd or "unknown", _day(at, zone))
        spent = (total, *(by[name] for by, name in zip(sums, names, strict=True)))
        for one in spent:
            one.add(tuple(counts), final=bool(final))
    return UsageTotals(total, *(dict(sorted(by.items())) for by in sums))


def _day(at: int | None, zone: tzinfo) -> str:
    return "unknown" if at is None else datetime.fromtimestamp(at / 1000, zone).date().isoformat()


_OF_SESSION: Final = (
    "SELECT input, output, cache_read, cache_write, cache_write_1h, reasoning, final"
    " FROM tk_usage WHERE session = ?"
)


def spending_of(tx: Tx, session: int) -> TokenTotals:
    """Sum up the tokens of one session, by its number."""
    spent = TokenTotals()
    for *counts, final in tx.execute(_OF_SESSION, (session,)):
        spent.add(tuple(counts), final=bool(final))
    return spent


# ------------------------------------------------------------------------------
# What the models' answers cost, counted once each.


def write_usage(tx: Tx, harness: str, usage: Iterable[tuple[int, Usage]]) -> None:
    """Store usage with the number of its session; of one key the largest output counts."""
    tx.run_bulk("put_usage", [_usage_row(harness, session, one) for session, one in usage])


def drop_usage(tx: Tx, harness: str, usage: Iterable[tuple[int, Usage]]) -> None:
    """Take out usage that was stored with the number of its session."""
    rows = [(harness, one.key, session, one.at) for session, one in usage]
    tx.run_bulk("delete_usage", rows)


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


def _usage_row(harness: str, session: int, one: Usage) -> tuple[object, ...]:
    cache = (one.cache_read, one.cache_write, one.cache_write_1h)
    spent = (one.input, one.output, *cache, one.reasoning)
    return (harness, one.key, session, one.at, one.model, *spent, int(one.final))
