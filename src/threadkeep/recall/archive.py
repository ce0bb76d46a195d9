"""Texts of messages out of the archive: each block that is needed is read once."""

from collections.abc import Mapping

from threadkeep.base.sqlite import Tx
from threadkeep.capture.transcripts import entries_in
from threadkeep.errors import Damaged
from threadkeep.knowledge.archive import read_block
from threadkeep.knowledge.logs import LogRow, load_log_by_id
from threadkeep.knowledge.reading import EntryRow
from threadkeep.sources.records import Source

Sources = Mapping[str, Source]


class ArchivedTexts:
    """Reads texts inside one transaction, and remembers what it has unpacked."""

    def __init__(self, tx: Tx, sources: Sources) -> None:
        self._tx = tx
        self._sources = sources
        self._logs: dict[int, LogRow | None] = {}
        self._blocks: dict[int, list[bytes]] = {}
        self._texts: dict[int, str] = {}
        self.damaged: set[int] = set()  # blocks that could not be read

    def text_of(self, row: EntryRow) -> str:
        """Give what a message says; nothing if its block or its source is gone."""
        if row.id not in self._texts:
            self._texts[row.id] = self._read(row)
        return self._texts[row.id]

    def _read(self, row: EntryRow) -> str:
        if row.log_id not in self._logs:
            self._logs[row.log_id] = load_log_by_id(self._tx, row.log_id)
        log = self._logs[row.log_id]
        place = self._tx.one("block_at", {"log": row.log_id, "line": row.line})
        if log is None or place is None:
            return ""
        lines = self._lines(place[1])
        at = row.line - place[0]
        if not 0 <= at < len(lines):
            return ""
        entry = entries_in(self._sources, log, lines[at], row.line).get(row.key)
        return "" if entry is None else entry.text

    def _lines(self, block: int) -> list[bytes]:
        if block not in self._blocks:
            try:
                self._blocks[block] = read_block(self._tx, block)
            except Damaged:  # one damaged block must not hide the hits in all others
                self.damaged.add(block)
                self._blocks[block] = []
        return self._blocks[block]
