"""Factories of stores: made fresh, opened again and looked into, whatever engine keeps them.

The contract suites know their stores by a factory alone, so that another engine is another factory:
`FACTORIES` says which there are.
"""

import tempfile
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Final, Generic, Protocol, Self, TypeVar

from threadkeep.base.sqlite.outside import (
    BrokenConstraint,
    OutsideConnection,
    RowDict,
    all_rows,
    delete_row,
    insert_row,
    matching_rows,
    open_raw,
    raw_rows,
    update_row,
)
from threadkeep.chat.store import ChatStore
from threadkeep.errors import ThreadkeepError
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.mailbox.container.container import Container
from threadkeep.mailbox.host.host import Host
from threadkeep.mailbox.mailroom import Mailroom
from threadkeep.state.session_db import SessionDB
from threadkeep.testing.clock import ManualClock


class Closes(Protocol):
    """Whatever a factory makes: it can be closed, more than once."""

    def close(self) -> object:
        """Let go of the data."""


S = TypeVar("S", bound=Closes)


class StoreFactory(Generic[S]):
    """Makes stores of one contract; a `with` block closes them all and removes their data.

    An engine of your own is a subclass that says where data is (`place`), how a store of it is
    opened (`connect`), and how another program sees it (`raw`, `rows`, `contents`; here, as SQLite
    files). `clock` is the clock of every store that is opened without one; `refused` are the
    errors by which a store refuses what its contract forbids.
    """

    file_name: ClassVar[str]
    refused: ClassVar[tuple[type[Exception], ...]] = (ThreadkeepError, BrokenConstraint)

    def __init__(self, clock: ManualClock | None = None) -> None:
        self.clock = clock or ManualClock()
        self._folder = tempfile.TemporaryDirectory(prefix="threadkeep-", ignore_cleanup_errors=True)
        self._opened: list[S] = []
        self._places = 0

    def open(self, **options: Any) -> S:
        """Open a store that is new and empty; options are those of the store."""
        return self._keep(self.place(), options)

    def reopen(self, store: S, **options: Any) -> S:
        """Open the data of a store once more, while it is open or after it was closed."""
        return self._keep(self.place(store), options)

    def place(self, store: S | None = None) -> str:
        """Give what opens the data of a store; without a store, of one that does not exist yet."""
        if store is not None:
            return str(place_of(store))
        self._places += 1
        return str(Path(self._folder.name, str(self._places), self.file_name))

    def connect(self, place: str, **options: Any) -> S:
        """Open what is at a place, or make it."""
        raise NotImplementedError

    def raw(self, store: S) -> AbstractContextManager[OutsideConnection]:
        """Open a store's data as another program would: no lock of ours, foreign keys on."""
        return raw(self.place(store))

    def rows(self, store: S, sql: str, *params: object) -> list[RowDict]:
        """Return the rows that a statement finds in a store's data, by their columns."""
        return rows(self.place(store), sql, *params)

    def contents(self, store: S) -> dict[str, list[RowDict]]:
        """Return every row of every table of a store; indexes over them are left out."""
        return contents(self.place(store))

    def _keep(self, place: str, options: dict[str, Any]) -> S:
        store = self.connect(place, **options)
        self._opened.append(store)
        return store

    def close(self) -> None:
        """Close every store and remove the data."""
        while self._opened:
            self._opened.pop().close()
        self._folder.cleanup()

    def __enter__(self) -> Self:
        """Use the factory in a `with` block, which closes it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the factory."""
        self.close()


class ChatFactory(StoreFactory[ChatStore]):
    """Chat stores in SQLite files."""

    file_name = "chat.db"

    def connect(self, place: str, **options: Any) -> ChatStore:
        """Open a chat file."""
        return ChatStore.open(place, **{"clock": self.clock, **options})


class StateFactory(StoreFactory[SessionDB]):
    """Session stores in SQLite files."""

    file_name = "state.db"

    def connect(self, place: str, **options: Any) -> SessionDB:
        """Open a state file."""
        return SessionDB(place, **{"clock": self.clock.seconds, **options})


class KnowledgeFactory(StoreFactory[KnowledgeStore]):
    """Knowledge stores in SQLite files."""

    file_name = "knowledge.db"

    def connect(self, place: str, **options: Any) -> KnowledgeStore:
        """Open a knowledge file."""
        return KnowledgeStore.open(place, **{"clock": self.clock, **options})

    def insert(self, store: KnowledgeStore, table: str, **values: Any) -> int:
        """Add a row to a table as another program would, and give its number."""
        return insert_row(Path(self.place(store)), table, values)

    def update(self, store: KnowledgeStore, table: str, number: int, **values: Any) -> None:
        """Change a row of a table as another program would."""
        update_row(Path(self.place(store)), table, number, values)

    def delete(self, store: KnowledgeStore, table: str, number: int) -> None:
        """Take a row out of a table as another program would."""
        delete_row(Path(self.place(store)), table, number)

    def find(self, store: KnowledgeStore, words: str) -> list[int]:
        """Return the nodes in which the contract's full-text index finds words."""
        return matching_rows(Path(self.place(store)), "knowledge_fts", words)


class MailPair:
    """Both sides of one mailbox, and more of either: as after a restart, or beside the first."""

    def __init__(
        self,
        path: Path,
        *,
        agent_group: str | None = None,
        session: str | None = None,
        **options: Any,
    ) -> None:
        self.path = path
        self._options = options
        self.host = Host.create(path, agent_group=agent_group, session=session, **options)
        self.container = self.new_container()

    def new_host(self, **options: Any) -> Host:
        """Open the host's side once more; options are those of the pair unless they are given."""
        return Host(self.path, **{**self._options, **options})

    def new_container(self, **options: Any) -> Container:
        """Open the container's side once more."""
        return Container(self.path, **{**self._options, **options})

    def close(self) -> None:
        """Let go of both sides: they hold nothing between two calls."""


class MailboxFactory(StoreFactory[MailPair]):
    """Mailboxes in session folders: two SQLite files each, one for either side."""

    file_name = "ag-1/sess-1"

    def connect(self, place: str, **options: Any) -> MailPair:
        """Open both sides of a session folder."""
        return MailPair(Path(place), **{"clock": self.clock, **options})


class MailroomFactory(StoreFactory[Mailroom]):
    """Mailrooms in folders: the index is a SQLite file, and every session has its mailbox."""

    file_name = "mailbox.db"

    def connect(self, place: str, **options: Any) -> Mailroom:
        """Open a mailroom by the file of its index."""
        return Mailroom.open(Path(place).parent, **{"clock": self.clock, **options})


# Engine -> contract -> factory. An engine that is added here is one more run of every suite.
FACTORIES: Final[dict[str, dict[str, type[StoreFactory[Any]]]]] = {
    "sqlite": {
        "chat": ChatFactory,
        "state": StateFactory,
        "mailbox": MailboxFactory,
        "mailroom": MailroomFactory,
        "knowledge": KnowledgeFactory,
    }
}


# ------------------------------------------------------------------------------
# Looking behind the back of a store that is kept in SQLite files.


def place_of(store: object) -> Path:
    """Return the file or folder of a store; a path is its own place."""
    if isinstance(store, Mailroom):
        return store.index.path
    path = getattr(store, "db_path", None) or getattr(store, "path", store)
    return Path(path)  # type: ignore[arg-type]


def raw(store: object) -> AbstractContextManager[OutsideConnection]:
    """Open a store's data as another program would: no lock of ours, foreign keys on.

    Of a mailbox `main` is the host's file and `outbound` the container's.
    """
    return open_raw(place_of(store))


def rows(store: object, sql: str, *params: object) -> list[RowDict]:
    """Return the rows that a statement finds in a store's data, by their columns."""
    return raw_rows(place_of(store), sql, *params)


def contents(store: object) -> dict[str, list[RowDict]]:
    """Return every row of every table of a store; indexes over them are left out."""
    return all_rows(place_of(store))
