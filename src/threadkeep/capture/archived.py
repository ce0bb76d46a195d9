"""Single entries out of the archive, for those who need some here and some there."""

from typing import Final

from threadkeep.base.tx import Tx
from threadkeep.capture.transcripts import Sources, entries_in
from threadkeep.errors import Damaged
from threadkeep.knowledge.archive import read_block
from threadkeep.knowledge.logs import LogRow, load_log_by_id
from threadkeep.knowledge.reading import EntryRow
from threadkeep.knowledge.records import Entry

_BLOCKS_KEPT: Final = 16  # of 256 KB; memory must stay small where all of the archive is read


class ArchivedEntries:
    """Reads entries within one transaction; a block is unpacked once, a line is read once."""

    def __init__(self, tx: Tx, sources: Sources) -> None:
        self.tx = tx
        self._sources = sources
        self._logs: dict[int, LogRow | None] = {}
        self._blocks: dict[int, list[bytes]] = {}
        self._line: tuple[int, int, dict[str, Entry]] = (-1, -1, {})
        self.damaged: set[int] = set()  # blocks that could not be read

    def entry(self, row: EntryRow) -> Entry | None:
        """Give one entry with its text; None if its place or its source is gone."""
        if self._line[:2] != (row.log_id, row.line):
            self._line = (row.log_id, row.line, self._entries(row))
        return self._line[2].get(row.key)

    def text(self, row: EntryRow) -> str:
        """Give the text of an entry, empty if it is gone."""
        entry = self.entry(row)
        return "" if entry is None else entry.text

    def _entries(self, row: EntryRow) -> dict[str, Entry]:
        if row.log_id not in self._logs:
            self._logs[row.log_id] = load_log_by_id(self.tx, row.log_id)
        log = self._logs[row.log_id]
        block = self.tx.one("block_at", {"log": row.log_id, "line": row.line})
        if log is None or block is None:
            return {}
        lines = self._lines(block[1])
        at = row.line - block[0]
        return entries_in(self._sources, log, lines[at], row.line) if at < len(lines) else {}

    def _lines(self, block: int) -> list[bytes]:
        if block not in self._blocks:
            if len(self._blocks) >= _BLOCKS_KEPT:
                del self._blocks[next(iter(self._blocks))]
            try:
                self._blocks[block] = read_block(self.tx, block)
            except Damaged:  # it is told by whoever checks the store; the others are still good
                self.damaged.add(block)
                self._blocks[block] = []
        return self._blocks[block]
