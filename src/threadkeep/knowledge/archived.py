"""Single entries out of the archive, for those who need some here and some there."""

from typing import TYPE_CHECKING, Final

from threadkeep.base.json import decode_line
from threadkeep.base.tx import Tx
from threadkeep.errors import Damaged, Invalid
from threadkeep.knowledge.archive import read_block
from threadkeep.knowledge.records import Entry, EntryRow, Readers

if TYPE_CHECKING:
    from threadkeep.knowledge.recent_entries import RecentEntries

_BLOCKS_KEPT: Final = 16  # of 256 KB; memory must stay small where all of the archive is read
_LINES_KEPT: Final = 4  # a result and the calls before it are asked for in turn


class ArchivedEntries:
    """Reads entries within one transaction; blocks and lines that were just read are at hand.

    With `keep` the blocks stay at hand for the next transaction, until somebody commits: what is
    asked while it is typed finds nearly the same each time. What is among `recent` is not read.
    """

    def __init__(
        self,
        tx: Tx,
        sources: Readers,
        recent: "RecentEntries | None" = None,
        *,
        keep: bool = False,
    ) -> None:
        self.tx = tx
        self._sources = sources
        self._recent = recent
        self._blocks: dict[int, list[bytes]] = tx.kept(ArchivedEntries, dict) if keep else {}
        self._read: dict[tuple[int, int], dict[str, Entry]] = {}  # by log and line
        self.damaged: set[int] = set()  # blocks that could not be read

    def entry(self, row: EntryRow) -> Entry | None:
        """Return one entry with its text; None if its place or its source is gone."""
        if self._recent is not None and (found := self._recent.get(row)) is not None:
            return found
        place = (row.log_id, row.line)
        if place not in self._read:
            if len(self._read) >= _LINES_KEPT:
                del self._read[next(iter(self._read))]
            self._read[place] = self._entries(row)
        return self._read[place].get(row.key)

    def text(self, row: EntryRow) -> str:
        """Return the text of an entry, empty if it is gone."""
        entry = self.entry(row)
        return "" if entry is None else entry.text

    def _entries(self, row: EntryRow) -> dict[str, Entry]:
        found = self.tx.one("block_at", {"log": row.log_id, "line": row.line})
        if found is None:
            return {}
        first, block, reader = found
        lines = self._lines(block)
        at = row.line - first
        return entries_in(self._sources, reader, lines[at], row.line) if at < len(lines) else {}

    def _lines(self, block: int) -> list[bytes]:
        if block not in self._blocks:
            if len(self._blocks) >= _BLOCKS_KEPT:
                del self._blocks[next(iter(self._blocks))]
            try:
                self._blocks[block] = read_block(self.tx, block, proved=False)
            except Damaged:  # it is told by whoever checks the store; the others are still good
                self.damaged.add(block)
                return []
        return self._blocks[block]


def entries_in(sources: Readers, reader: str, line: bytes, number: int) -> dict[str, Entry]:
    """Read the entries of one archived line, by key; none if its source is not there any more."""
    source = sources.get(reader)
    if source is None:
        return {}
    try:
        records = decode_line(line)
    except Invalid:
        return {}
    found = (entry for record in records for entry in source.entries(record, line, number))
    return {entry.key: entry for entry in found}
