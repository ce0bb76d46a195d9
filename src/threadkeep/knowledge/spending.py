"""Sums over usage: by program, model, project and day."""

from collections import defaultdict
from datetime import UTC, datetime, tzinfo

import msgspec

from threadkeep.base.tx import Tx
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
