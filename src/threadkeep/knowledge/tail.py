"""What comes last: entries as they are captured."""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from threadkeep.base.tx import Tx
from threadkeep.knowledge.archived import ArchivedEntries
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.records import CapturedSession, Entry, EntryRow, Readers
from threadkeep.knowledge.sessions import EVERYTHING, entries_after, latest_entries
from threadkeep.knowledge.store import KnowledgeStore

_AT_ONCE: Final = 500  # entries of one look
_LOOK_SECONDS: Final = 0.5


class TailEntry(msgspec.Struct, frozen=True):
    """Something that was said or done, and where."""

    session: CapturedSession
    row: EntryRow
    entry: Entry


class Tail:
    """Reads what is new in a captured history, of all sessions or of some."""

    def __init__(
        self,
        store: KnowledgeStore,
        sources: Readers,
        query: Query = EVERYTHING,
        session: CapturedSession | None = None,
    ) -> None:
        """Begin at the end of what is there."""
        self._store = store
        self._sources = sources
        self._query = query
        self._session = None if session is None else session.id
        with self._store.read() as tx:
            self._mark = int(tx.value("last_entry_id") or 0)

    def latest(self, count: int) -> list[TailEntry]:
        """Return the last things of what was there at the beginning, in their order."""
        with self._store.read() as tx:
            rows = latest_entries(tx, self._query, self._mark, count, self._session)
            return self._read(tx, rows)

    def new(self) -> list[TailEntry]:
        """Return what came since the last look."""
        found: list[TailEntry] = []
        with self._store.read() as tx:
            while upto := tx.value("tail_upto", {"mark": self._mark, "limit": _AT_ONCE}):
                rows = entries_after(tx, self._query, self._mark, upto, self._session)
                found += self._read(tx, rows)
                self._mark = upto
        return found

    def follow(self, goes_on: Callable[[], bool]) -> Iterator[TailEntry]:
        """Return what comes, for as long as it is wanted; that is asked twice a second."""
        seen = self._store.database.changes()
        while goes_on():
            yield from self.new()
            seen = self._store.database.changed(seen, _LOOK_SECONDS)

    def _read(self, tx: Tx, rows: list[tuple[EntryRow, CapturedSession]]) -> list[TailEntry]:
        archive = ArchivedEntries(tx, self._sources)
        found = []
        for row, session in rows:
            entry = archive.entry(row)
            if entry is not None:
                found.append(TailEntry(session, row, entry))
        return found
