"""Sums over the answers of models: tokens, and what they cost as far as prices are known."""

from collections.abc import Iterable, Sequence

import msgspec

from threadkeep.base.tx import Tx
from threadkeep.browse.prices import PICO, TokenCounts, rates_of
from threadkeep.browse.records import Sum


class SumBuilder(msgspec.Struct):
    """A sum while it is made; the cost is in picodollars, so that parts add up exactly."""

    answers: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    pico: int = 0
    unpriced: int = 0

    def add(self, spent: Sequence[int], pico: int | None) -> None:
        """Add answers: their number and tokens as `Spent` has them, and their price if known."""
        answers, input_, output, read, write, _hour, reasoning = spent
        self.answers += answers
        self.input += input_
        self.output += output
        self.cache_read += read
        self.cache_write += write
        self.reasoning += reasoning
        if pico is None:
            self.unpriced += answers
        else:
            self.pico += pico

    def done(self) -> Sum:
        """Give the finished sum, its cost in microdollars."""
        return Sum(
            answers=self.answers,
            input=self.input,
            output=self.output,
            cache_read=self.cache_read,
            cache_write=self.cache_write,
            reasoning=self.reasoning,
            cost=round(self.pico / PICO),
            unpriced=self.unpriced,
        )


def pico_of(
    harness: str, model: str, step: int, at: int | None, spent: Sequence[int]
) -> int | None:
    """Give what answers of one model cost, in picodollars; what has no tokens costs nothing."""
    _answers, input_, output, read, write, hour, _reasoning = spent
    if not (input_ or output or read or write):
        return 0
    rates = rates_of(model, harness, step, at)
    return None if rates is None else rates.of(TokenCounts(input_, output, read, write, hour))


def tokens_of(total: Sum) -> int:
    """Give all tokens of a sum."""
    return total.input + total.output + total.cache_read + total.cache_write


def cost_known(total: Sum) -> int | None:
    """Give the cost of a sum; None if something in it has no known price."""
    return None if total.unpriced else total.cost


def sums_of(tx: Tx, ids: Iterable[int]) -> dict[int, Sum]:
    """Sum up sessions by their numbers; one without an answer has no sum."""
    sums: dict[int, SumBuilder] = {}
    values = {"ids": msgspec.json.encode(list(ids)).decode()}
    for row in tx.all("browse_sums", values):
        session, harness, model, step, at, *spent = row
        adding = sums.setdefault(session, SumBuilder())
        adding.add(spent, pico_of(harness, model, step, at, spent))
    return {session: adding.done() for session, adding in sums.items()}
