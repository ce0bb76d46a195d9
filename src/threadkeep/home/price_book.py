"""Prices that were looked up today, kept in a file: loading the list itself takes 0.15 s."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from threadkeep.base.config import read_settings
from threadkeep.base.files import write_note
from threadkeep.errors import ThreadkeepError
from threadkeep.knowledge.prices import (
    FindRates,
    Prices,
    Rates,
    list_version,
    rates_change,
    rates_of,
)

if TYPE_CHECKING:
    from threadkeep.home.home import Home

_DAY: Final = 86_400_000
_FILE: Final = "prices.json"


class PriceBook(msgspec.Struct):
    """Prices of one version of the list, as they were on the day that they were looked up."""

    day: int
    version: str
    changing: dict[str, bool] = {}  # whether a model's price depends on the day
    rates: dict[str, Rates | None] = {}
    grown: bool = False

    def rates_of(
        self, model: str, harness: str, step: int = 0, at: int | None = None
    ) -> Rates | None:
        """Return what a model's tokens cost, as the list does, from the book if it is there."""
        if not model or not self.version:
            return None
        named = f"{harness} {model}"
        if named not in self.changing:
            self.changing[named], self.grown = rates_change(model, harness), True
        key = f"{named} {step}"
        if at is not None and self.changing[named]:
            key += f" {at // _DAY}"
        if key not in self.rates:
            self.rates[key], self.grown = rates_of(model, harness, step, at), True
        return self.rates[key]


def booked_prices(home: "Home", clock: Callable[[], int]) -> Prices:
    """Return what opens the book of a home; what was looked up meanwhile is kept at its end."""

    @contextmanager
    def opened() -> Iterator[FindRates]:
        path = home.paths().cache / _FILE
        book = _read(path, clock() // _DAY)
        yield book.rates_of
        if book.grown:
            _keep(path, book)

    return opened


def _read(path: Path, day: int) -> PriceBook:
    """Read what was looked up today in this version of the list; any other book is forgotten."""
    version = list_version()
    try:
        book = msgspec.json.decode(read_settings(path), type=PriceBook)
    except (msgspec.DecodeError, ThreadkeepError):
        return PriceBook(day, version)
    return book if (book.day, book.version) == (day, version) else PriceBook(day, version)


def _keep(path: Path, book: PriceBook) -> None:
    book.grown = False
    try:
        write_note(path, msgspec.json.encode(book).decode())
    except (OSError, ThreadkeepError):
        return  # it is looked up again the next time
