"""Budgets: what a day and a month may cost, and how much of it is spent."""

from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal
from zoneinfo import ZoneInfo

import msgspec

from threadkeep.home.statusline import Level, level_of
from threadkeep.knowledge.query import Query, start_of

if TYPE_CHECKING:
    from threadkeep.home.home import Home
    from threadkeep.knowledge.library import Browse

_MICRO: Final = 1_000_000


class BudgetState(msgspec.Struct, frozen=True):
    """How much of a budget is spent; money is in microdollars."""

    span: Literal["day", "month"]
    limit: int
    spent: int
    level: Level  # nearly spent, or more than spent


def budget_state(home: "Home", browse: "Browse", now: int) -> tuple[BudgetState, ...]:
    """Compare the budgets of the configuration with what was spent; without one nothing is read."""
    zone = ZoneInfo(home.zone)
    today = datetime.fromtimestamp(now / 1000, zone).date()
    spans: dict[Literal["day", "month"], tuple[float | None, int]] = {
        "day": (home.config.budget.day, start_of(today, zone)),
        "month": (home.config.budget.month, start_of(today.replace(day=1), zone)),
    }
    found = []
    for span, (dollars, since) in spans.items():
        if dollars is not None:
            limit, spent = round(dollars * _MICRO), _spent_since(browse, since, zone)
            found.append(BudgetState(span, limit, spent, level_of(spent, limit)))
    return tuple(found)


def _spent_since(browse: "Browse", since: int, zone: ZoneInfo) -> int:
    """Sum up the days from one on: a session that began before may continue in them."""
    first = str(datetime.fromtimestamp(since / 1000, zone).date())
    report = browse.usage(Query(since=since), zone=zone)
    days = (models for day, models in report.by_day.items() if day >= first)
    return sum(one.cost for models in days for one in models.values())
