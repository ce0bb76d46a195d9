"""A transaction as stores see it: it runs the named queries of its store, on any engine."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Literal, Protocol, TypeVar

from threadkeep.errors import (
    Busy,
    Damaged,
    ReadOnly,
    SchemaMismatch,
    StorageFull,
    ThreadkeepError,
    Unreachable,
)

Row = tuple[Any, ...]
Params = Mapping[str, Any] | Sequence[Any]
T = TypeVar("T")


class NoText(Damaged):
    """A text in a file is no UTF-8: a flipped bit, or another program's doing."""


# What a full-text index that is missing or damaged raises, for callers who can do without it.
BROKEN_TABLE: Final = (Damaged, SchemaMismatch)

_OF_STORE: Final = (Busy, Damaged, ReadOnly, StorageFull, Unreachable)


def is_of_store(error: BaseException) -> bool:
    """Tell whether an error is about the store or its disk, not about what was written."""
    return isinstance(error, _OF_STORE) and not isinstance(error, NoText)


def engine_words(error: Exception) -> str:
    """Return what the engine said about an error, without the text of a row that it quotes."""
    said = error.message if isinstance(error, ThreadkeepError) else error
    return str(error.__cause__ or said).partition(" with text ")[0]


LAST_ROW: Final = (1 << 63) - 1  # the largest number of a row


class Sql(str):
    """SQL that is written at run time, given where else the name of a query stands."""

    __slots__ = ()


class Tx(Protocol):
    """A transaction, good for its `with` block; each verb takes a query by its name, or `Sql`."""

    @property
    def engine(self) -> Literal["sqlite", "postgres"]:
        """What is behind it; asked for by full-text indexes only."""

    def run(self, name: str, params: Params = ()) -> None:
        """Run a query that gives nothing; an engine may send it with the next that does."""

    def count(self, name: str, params: Params = ()) -> int:
        """Run a query and give the number of rows that it changed."""

    def insert(self, name: str, params: Params = ()) -> int:
        """Run a query that inserts one row and give its id, 0 if it had nothing to insert."""

    def run_bulk(self, name: str, rows: Iterable[Params]) -> None:
        """Run a query for many rows of values that are fit to be stored: half the time."""

    def one(self, name: str, params: Params = ()) -> Row | None:
        """Return the first row of a query, None if there is none."""

    def all(self, name: str, params: Params = ()) -> list[Row]:
        """Return every row of a query."""

    def each(self, name: str, params: Params = ()) -> Iterator[Row]:
        """Return the rows of a query one after the other, for results that may be large."""

    def dicts(self, name: str, params: Params = ()) -> list[dict[str, Any]]:
        """Return every row of a query by the names of its columns, known and unknown ones."""

    def value(self, name: str, params: Params = ()) -> Any:
        """Return the first column of the first row, None if there is no row."""

    def tables(self) -> set[str]:
        """Name the tables of the database."""

    def columns(self, table: str) -> list[str]:
        """Name the columns that a table really has, in order; none if no such table exists."""

    def is_alive(self, mark: str) -> bool:
        """Tell whether the process of a mark, which has announced itself, still runs."""

    def script(self, sql: str) -> None:
        """Run the statements of a script, which shape the schema, inside this transaction."""

    def step(self) -> AbstractContextManager[None]:
        """Do what is inside whole or not at all; what an error takes back is this step alone."""

    def kept(self, name: object, make: Callable[[], T]) -> T:
        """Return what was made under a name and still holds, or make it; an engine may always."""
