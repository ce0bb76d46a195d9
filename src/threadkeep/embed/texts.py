"""The texts of messages for their vectors."""

from collections.abc import Callable, Sequence

from threadkeep.base.tx import Tx
from threadkeep.capture.archived import ArchivedEntries
from threadkeep.capture.transcripts import Sources
from threadkeep.knowledge.reading import EntryRow

TextsOf = Callable[[Tx, Sequence[EntryRow]], Sequence[str]]


def archived_texts(sources: Sources) -> TextsOf:
    """Give a function that reads the texts of entries, empty where there is none any more."""

    def texts(tx: Tx, rows: Sequence[EntryRow]) -> list[str]:
        archive = ArchivedEntries(tx, sources)
        in_order = sorted(rows, key=lambda row: (row.log_id, row.line))
        found = {row.id: archive.text(row) for row in in_order}
        return [found[row.id] for row in rows]

    return texts
