"""A database as stores see it: transactions and a wake-up, whatever engine is behind it."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Literal, Protocol, TypeVar

from threadkeep.base.tx import Params, Tx
from threadkeep.errors import Unreachable

R = TypeVar("R")

# For how many seconds somebody waits for a lock who says nothing else.
DEFAULT_BUDGET = 30.0


class Database(Protocol):
    """A database that is open; safe to share between threads."""

    @property
    def name(self) -> str:
        """What it is called in messages: a path, or an address without its password."""

    @property
    def engine(self) -> Literal["sqlite", "postgres"]:
        """What is behind it; asked for in opening, upkeep, doctor and backup only."""

    @property
    def read_only(self) -> bool:
        """Tell whether it was opened to look only."""

    @property
    def forgets(self) -> bool:
        """Tell whether a crash may take back a commit without `durable` and leave us running.

        A server crashes alone; what is in a file is lost in a power cut only, which ends us too.
        """

    @property
    def closed(self) -> bool:
        """Tell whether `close` was called."""

    def read(self, *, lenient: bool = False) -> AbstractContextManager[Tx]:
        """Begin a read transaction: one consistent snapshot.

        Text that is no UTF-8 raises NoText; with `lenient` it is read with U+FFFD in it, slower.
        """

    def write(
        self, *, durable: bool = True, key: str | None = None, budget: float | None = None
    ) -> AbstractContextManager[Tx]:
        """Begin a write transaction; with `durable` its commit survives a power cut.

        Without, a crash of the process loses nothing, a power cut at most what was committed
        since the last durable commit. Writes of one `key` come one after the other; an engine may
        let those of different keys overlap. A write without a key is alone in the database.
        """

    def again(
        self,
        verb: Callable[[Tx], R],
        *,
        durable: bool = True,
        key: str | None = None,
        idempotent: bool = False,
    ) -> R:
        """Run a function in a write transaction of its own, and again if the engine asks for it.

        Ids and times are taken before. One that is `idempotent` finds what an earlier run left: it
        runs again as well where nobody can say whether that run was stored.
        """

    def send(self, name: str, params: Params, *, durable: bool = False) -> int:
        """Run one statement as its own transaction; give the number of rows it changed."""

    def changes(self) -> int:
        """Return a number that differs after anybody's commit; hand it to `changed`."""

    def changed(self, seen: int, timeout: float | None = None) -> int:
        """Wait until somebody, here or in another process, commits after `seen`.

        Gives the new number, or `seen` again when `timeout` seconds pass first.
        """

    def announce(self, mark: str) -> None:
        """Let `Tx.is_alive` say of the process of this mark, ours, that it runs; until we close."""

    def follow(self) -> None:
        """Announce a live reader; one that is read-only cannot."""

    def unfollow(self) -> None:
        """Take back a `follow`; closing takes back all."""

    def followed(self) -> bool:
        """Tell whether anybody follows this database live."""

    def close(self) -> None:
        """Close every connection."""


def insist(act: Callable[[], R]) -> R:
    """Do what may be done twice, and do it once more if the server was lost over it."""
    try:
        return act()
    except Unreachable:
        return act()


def ask(database: Database, question: Callable[[Tx], R]) -> R:
    """Run a function in a read transaction, and once more if the server was lost over it."""

    def read() -> R:
        with database.read() as tx:
            return question(tx)

    return insist(read)
