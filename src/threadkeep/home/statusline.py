"""What agents used lately, quickly enough for a prompt: today, the present block, one session."""

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal
from zoneinfo import ZoneInfo

import msgspec

from threadkeep.home.price_book import booked_prices
from threadkeep.knowledge.prices import (
    AnswerUsage,
    FindRates,
    RecentAnswer,
    SumBuilder,
    TokenCounts,
    make_blocks,
    step_of,
)
from threadkeep.knowledge.results import BillingBlock, Sum

if TYPE_CHECKING:
    from threadkeep.home.home import Home


# Blocks follow one another until five hours pass without an answer: people sleep.
_BACK: Final = 3 * 86_400_000
_UNKNOWN: Final = "unknown"


class RecentUsage(msgspec.Struct, frozen=True):
    """What was used today, in the block that is active now, and in one session."""

    today: Sum
    block: BillingBlock | None
    session: Sum | None
    budget: int | None = None  # what a day may cost, in microdollars
    month_budget: int | None = None
    month: Sum | None = None  # only where it has a budget


Level = Literal["", "near", "over"]
_NEAR: Final = 0.8


def level_of(spent: int, limit: int) -> Level:
    """Tell whether a budget is nearly spent, from 80 % on, or exceeded."""
    if spent > limit:
        return "over"
    return "near" if spent >= _NEAR * limit else ""


def spent_lately(
    home: "Home", now: int, *, path: str | Path | None = None, session_id: str | None = None
) -> RecentUsage:
    """Sum up what was used lately; the store must exist."""
    local = datetime.fromtimestamp(now / 1000, ZoneInfo(home.zone))
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
    today, first = (int(at.timestamp() * 1000) for at in (midnight, midnight.replace(day=1)))
    day, month = home.config.budget.day, home.config.budget.month
    with (
        booked_prices(home, lambda: now)() as find,
        home.knowledge(path, read_only=True) as store,
    ):
        since = min(now - _BACK, first) if month is not None else now - _BACK
        found = [_priced(one, find) for one in store.recent_answers(since)]
        lately = [one for one in found if one.at >= now - _BACK]
        answers = None if session_id is None else store.answers_of(session_id)
        own = None if answers is None else _summed(_priced(one, find) for one in answers)
    return RecentUsage(
        budget=None if day is None else round(day * 1_000_000),
        month_budget=None if month is None else round(month * 1_000_000),
        month=None if month is None else _summed(one for one in found if one.at >= first),
        today=_summed(one for one in lately if one.at >= today),
        block=next((one for one in make_blocks(lately, now) if one.active), None),
        session=own,
    )


def _priced(one: RecentAnswer, find: FindRates) -> AnswerUsage:
    at, agent, model, *counts = one
    size = counts[0] + counts[2] + counts[3]
    when = at or 0
    rates = find(model, agent, step_of(size), when) if model else None
    pico = None if rates is None else rates.of(TokenCounts(*counts[:5]))
    return AnswerUsage(when, model or _UNKNOWN, (1, *counts), pico if sum(counts[:4]) else 0)


def _summed(answers: Iterable[AnswerUsage]) -> Sum:
    total = SumBuilder()
    for one in answers:
        total.add(one.spent, one.pico)
    return total.done()
