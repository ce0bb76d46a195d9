"""What agents used lately, quickly enough for a prompt: today, the present block, one session."""

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal
from zoneinfo import ZoneInfo

import msgspec

from threadkeep.base.config import read_settings
from threadkeep.base.tokens import write_note
from threadkeep.errors import ThreadkeepError
from threadkeep.knowledge.prices import (
    AnswerUsage,
    Rates,
    RecentAnswer,
    SumBuilder,
    TokenCounts,
    make_blocks,
    rates_of,
    step_of,
)
from threadkeep.knowledge.results import BillingBlock, Sum

if TYPE_CHECKING:
    from threadkeep.home.home import Home


_DAY: Final = 86_400_000
# Blocks follow one another until five hours pass without an answer: people sleep.
_BACK: Final = 3 * _DAY
_BOOK: Final = "prices.json"
_UNKNOWN: Final = "unknown"


class RecentUsage(msgspec.Struct, frozen=True):
    """What was used today, in the block that is active now, and in one session."""

    today: Sum
    block: BillingBlock | None
    session: Sum | None
    budget: int | None = None  # what a day may cost, in microdollars


Level = Literal["", "near", "over"]
_NEAR: Final = 0.8


def level_of(spent: int, limit: int) -> Level:
    """Tell whether a budget is nearly spent, from 80 % on, or exceeded."""
    if spent > limit:
        return "over"
    return "near" if spent >= _NEAR * limit else ""


class Book(msgspec.Struct):
    """Prices that were looked up on one day; loading the list itself takes 0.2 s."""

    day: int
    rates: dict[str, Rates | None] = {}
    changed: bool = False

    def rates_of(self, agent: str, model: str, step: int, at: int) -> Rates | None:
        """Give a price, from the book if it is there."""
        key = f"{agent} {model} {step} {at // _DAY}"
        if key not in self.rates:
            self.rates[key] = rates_of(model, agent, step, at)
            self.changed = True
        return self.rates[key]


def spent_lately(
    home: "Home", now: int, *, path: str | Path | None = None, session_id: str | None = None
) -> RecentUsage:
    """Sum up what was used lately; the store must exist."""
    book = _open_book(home, now)
    with home.knowledge(path, read_only=True) as store:
        lately = [_priced(one, book) for one in store.recent_answers(now - _BACK)]
        own = None if session_id is None else store.answers_of(session_id)
    midnight = datetime.fromtimestamp(now / 1000, ZoneInfo(home.zone)).replace(
        hour=0, minute=0, second=0, microsecond=0
    )
    today = midnight.timestamp() * 1000
    _keep_book(home, book)
    day = home.config.budget.day
    return RecentUsage(
        budget=None if day is None else round(day * 1_000_000),
        today=_summed(one for one in lately if one.at >= today),
        block=next((one for one in make_blocks(lately, now) if one.active), None),
        session=None if own is None else _summed(_priced(one, book) for one in own),
    )


def _priced(one: RecentAnswer, book: Book) -> AnswerUsage:
    at, agent, model, *counts = one
    size = counts[0] + counts[2] + counts[3]
    when = at or 0
    rates = book.rates_of(agent, model, step_of(size), when) if model else None
    pico = None if rates is None else rates.of(TokenCounts(*counts[:5]))
    return AnswerUsage(when, model or _UNKNOWN, (1, *counts), pico if sum(counts[:4]) else 0)


def _summed(answers: Iterable[AnswerUsage]) -> Sum:
    total = SumBuilder()
    for one in answers:
        total.add(one.spent, one.pico)
    return total.done()


# ---------------------------------------------------------------------- prices


def _open_book(home: "Home", now: int) -> Book:
    """Read the prices that were looked up today; any other book is forgotten."""
    try:
        book = msgspec.json.decode(read_settings(home.paths().cache / _BOOK), type=Book)
    except (msgspec.DecodeError, ThreadkeepError):
        return Book(now // _DAY)
    return book if book.day == now // _DAY else Book(now // _DAY)


def _keep_book(home: "Home", book: Book) -> None:
    if not book.changed:
        return
    book.changed = False
    try:
        write_note(home.paths().cache / _BOOK, msgspec.json.encode(book).decode())
    except (OSError, ThreadkeepError):
        return  # it is looked up again the next time
