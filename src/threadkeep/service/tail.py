"""Following what all agents write, as it is captured: by this process, or by one that serves."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from threadkeep.base.presence import is_held
from threadkeep.base.tx import Tx
from threadkeep.capture.capture import History
from threadkeep.errors import ThreadkeepError
from threadkeep.knowledge.records import CapturedSession, Entry, EntryRow, to_entry, to_session
from threadkeep.knowledge.sessions import CapturedSessionFilter
from threadkeep.knowledge.transcript import ArchivedEntries
from threadkeep.service.parts import serve_lock

if TYPE_CHECKING:
    from threadkeep.home.home import Home


_AT_ONCE: Final = 500  # entries of one look
_LOOK_SECONDS: Final = 0.5
_WIDTH: Final = len(EntryRow.__struct_fields__)


class TailEntry(msgspec.Struct, frozen=True):
    """Something that was said or done, and where."""

    session: CapturedSession
    row: EntryRow
    entry: Entry


class Tail:
    """Reads what is new in a captured history, of all sessions or of some."""

    def __init__(
        self,
        history: History,
        among: CapturedSessionFilter | None = None,
        session: CapturedSession | None = None,
    ) -> None:
        """Begin at the end of what is there."""
        self._history = history
        self._db = history.store.context.db
        chosen = (among or CapturedSessionFilter()).params()
        self._values = {**chosen, "session": None if session is None else session.id}
        with self._db.read() as tx:
            self._mark = int(tx.value("last_entry_id") or 0)

    def latest(self, count: int) -> list[TailEntry]:
        """Give the last things of what was there at the beginning, in their order."""
        values = {**self._values, "limit": count, "upto": self._mark}
        with self._db.read() as tx:
            return self._read(tx, tx.all("tail_latest", values)[::-1])

    def new(self) -> list[TailEntry]:
        """Give what came since the last look."""
        found: list[TailEntry] = []
        with self._db.read() as tx:
            while upto := tx.value("tail_upto", {"mark": self._mark, "limit": _AT_ONCE}):
                values = {**self._values, "mark": self._mark, "upto": upto}
                found += self._read(tx, tx.all("tail_after", values))
                self._mark = upto
        return found

    def follow(self, goes_on: Callable[[], bool]) -> Iterator[TailEntry]:
        """Give what comes, for as long as it is wanted; that is asked twice a second."""
        seen = self._db.changes()
        while goes_on():
            yield from self.new()
            seen = self._db.changed(seen, _LOOK_SECONDS)

    def _read(self, tx: Tx, rows: list[tuple[object, ...]]) -> list[TailEntry]:
        archive = ArchivedEntries(tx, self._history.sources)
        found = []
        for values in rows:
            row, session = to_entry(values), to_session(values[_WIDTH:])
            entry = archive.entry(row)
            if entry is not None:
                found.append(TailEntry(session, row, entry))
        return found


def is_served(home: "Home", path: str | Path | None = None) -> bool:
    """Tell whether a process serves a store: then it captures, and nobody else needs to."""
    return is_held(serve_lock(Path(os.path.realpath(home.knowledge_path(path)))))


@contextmanager
def capturing(history: History, tell: Callable[[str], None]) -> Iterator[None]:
    """Capture what agents write beside the block, in a thread that ends with it."""
    stop = threading.Event()

    def work() -> None:
        try:
            history.watch(stop.is_set, lambda _: None)
        except ThreadkeepError as error:
            tell(f"nothing is captured any more: {error.message}")

    thread = threading.Thread(target=work, name="threadkeep-capture", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        with suppress(KeyboardInterrupt):  # asked twice: what is half read is read again later
            thread.join()
