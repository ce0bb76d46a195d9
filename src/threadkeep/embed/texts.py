"""The texts of messages for their vectors: each block of the archive is read once."""

from collections.abc import Callable, Mapping, Sequence

from threadkeep.base.sqlite import Tx
from threadkeep.capture.transcripts import Sources, entries_in
from threadkeep.knowledge.archive import read_block
from threadkeep.knowledge.logs import LogRow, load_log_by_id
from threadkeep.knowledge.reading import EntryRow
from threadkeep.sources.records import Entry

TextsOf = Callable[[Tx, Sequence[EntryRow]], Sequence[str]]


def archived_texts(sources: Sources) -> TextsOf:
    """Give a function that reads the texts of entries, empty where there is none any more."""

    def texts(tx: Tx, rows: Sequence[EntryRow]) -> list[str]:
        found: dict[int, str] = {}
        for log_id in {row.log_id for row in rows}:
            log = load_log_by_id(tx, log_id)
            if log is not None:
                mine = sorted((r for r in rows if r.log_id == log_id), key=lambda row: row.line)
                found.update(_texts_in(tx, sources, log, mine))
        return [found.get(row.id, "") for row in rows]

    return texts


def _texts_in(tx: Tx, sources: Sources, log: LogRow, rows: Sequence[EntryRow]) -> Mapping[int, str]:
    """Read some entries of one log, given in the order of their lines."""
    texts: dict[int, str] = {}
    first, lines = 0, list[bytes]()
    number, entries = -1, dict[str, Entry]()
    for row in rows:
        if row.line >= first + len(lines):
            first, lines = _block_with(tx, log.id, row.line)
        if row.line != number and 0 <= row.line - first < len(lines):
            number = row.line
            entries = entries_in(sources, log, lines[row.line - first], row.line)
        entry = entries.get(row.key) if row.line == number else None
        if entry is not None:
            texts[row.id] = entry.text
    return texts


def _block_with(tx: Tx, log_id: int, line: int) -> tuple[int, list[bytes]]:
    block = tx.one("block_at", {"log": log_id, "line": line})
    return (line, []) if block is None else (block[0], read_block(tx, block[1]))
