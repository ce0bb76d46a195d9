"""Where the original of a log lies, and in which order a document has its records.

That is asked of other programs' files, so they are read before our own is locked for writing.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TypeVar

from threadkeep.base.tx import Tx
from threadkeep.capture.context import CaptureContext
from threadkeep.capture.troubles import TROUBLES
from threadkeep.errors import Conflict
from threadkeep.knowledge.logs import LogRow, load_log
from threadkeep.sources.records import Log, Source, Stamp

Order = list[str] | None  # the keys of a document's records; None if nobody can tell any more
T = TypeVar("T")


class Unread(Exception):
    """A transaction needs what has to be read outside of it."""

    def __init__(self, look: Callable[[], object]) -> None:
        super().__init__()
        self.look = look


class Places:
    """Finds logs as their sources know them; each source is asked once."""

    def __init__(self, around: CaptureContext, sources: Mapping[str, Source]) -> None:
        self._around = around
        self.sources = sources
        self._found: dict[str, dict[str, Log]] = {}
        self._orders: dict[tuple[str, str, str], Order] = {}

    def write(self, step: Callable[[Tx], T]) -> T:
        """Run a step in a transaction that writes; no original is read while others have to wait.

        Which originals a step needs shows in it alone. Then it is undone, they are read, and it
        begins anew; what it does must be in the transaction, or in what it gives.
        """
        self._orders.clear()  # logs grow
        while True:
            try:
                with self._around.db.write() as tx:
                    return step(tx)
            except Unread as unread:
                unread.look()

    def source(self, row: LogRow) -> Source:
        """Give the source that reads a log."""
        source = self.sources.get(row.reader)
        if source is None:
            msg = f"{row.path} cannot be read again: its source {row.reader!r} is switched off"
            raise Conflict(msg, hint=f"take {row.reader!r} out of [capture] disable")
        return source

    def log(self, tx: Tx, row: LogRow) -> Log:
        """Give a log as it is on the disk, or as it was when it was."""
        self.source(row)  # refuses one that is switched off
        if row.reader not in self._found:
            raise Unread(partial(self.find, row))
        found = self._found[row.reader].get(row.path)
        return _remembered(tx, row) if found is None else found

    def find(self, row: LogRow) -> None:
        """Look for the logs of the source that reads a log; never while our store is locked."""
        if row.reader not in self._found:
            logs = self.source(row).find(self._around.user)
            self._found[row.reader] = {log.path: log for log in logs}

    def order(self, tx: Tx, row: LogRow) -> Order:
        """Give the keys of a document's records in their order; None if it is gone."""
        name = (row.reader, row.path, row.item)
        if name not in self._orders:
            raise Unread(partial(self.read, self.log(tx, row), row))
        return self._orders[name]

    def read(self, log: Log, row: LogRow) -> None:
        """Read in which order a document has its records; never while our store is locked."""
        order: Order = None
        with suppress(*TROUBLES):
            order = [key for key, _ in self.source(row).records(log, row.item)]
        self._orders[row.reader, row.path, row.item] = order


def _remembered(tx: Tx, row: LogRow) -> Log:
    kept = tx.one("project_of_log", {"harness": row.harness, "path": row.path})
    folder, cwd, parent, is_subagent = kept or ("", "", None, 0)
    # Where a log knows no folder of its own, its segments have what it was found in as theirs.
    project = folder if row.harness == "claude-code" else cwd or folder
    file = load_log(tx, row.reader, row.path) or row  # of a document: the row of the whole file
    stamp = Stamp(file.size, file.mtime_ns, file.device, file.inode)
    return Log(row.path, stamp, row.session_id, project, parent, bool(is_subagent))
