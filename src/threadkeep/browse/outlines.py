"""The order of a session's entries: which block stands at which position, and in which turn."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Final

import msgspec

from threadkeep.base.tx import Row, Tx
from threadkeep.capture.archived import ArchivedEntries
from threadkeep.knowledge.reading import CapturedSession, EntryRow, to_entry

# Columns of an entry's row. Of 10,000 rows few are ever made into records: that takes 15 ms.
_ID, _KEY, _LOG, _KIND, _AT = 0, 2, 3, 7, 8
_PLACE: Final = itemgetter(3, 4, 5)  # log, line, part


class Prompt(msgspec.Struct, frozen=True):
    """How a turn begins: the text of its prompt, and the record that the prompt goes on from."""

    text: str
    parent: str


class Outline(msgspec.Struct, frozen=True):
    """Where everything in a session stands; texts are not part of it."""

    rows: list[Row]  # in the order that is shown
    starts: tuple[int, ...]  # positions of the prompts: the first block of each turn

    @property
    def total(self) -> int:
        """How many entries there are."""
        return len(self.rows)

    def entry(self, position: int) -> EntryRow:
        """Give the entry at a position."""
        return to_entry(self.rows[position])

    def entries(self, start: int, end: int) -> list[EntryRow]:
        """Give the entries from a position up to another."""
        return [to_entry(row) for row in self.rows[start:end]]

    def number(self, position: int) -> int:
        """Give the number of the entry at a position."""
        number: int = self.rows[position][_ID]
        return number

    def numbers(self) -> list[int]:
        """Give the numbers of all entries, by which the index knows them."""
        return [row[_ID] for row in self.rows]

    def turn_of(self, position: int) -> int:
        """Give the turn of a position; what stands before the first prompt belongs to it."""
        return max(0, bisect_right(self.starts, position) - 1)

    def position_of(self, key: str) -> int | None:
        """Find an entry by its key, or by the name that recall gives it: `message:12`."""
        number = key.removeprefix("message:") if key.startswith("message:") else ""
        for position, row in enumerate(self.rows):
            if row[_KEY] == key or (number and str(row[_ID]) == number):
                return position
        return None


def read_outline(tx: Tx, session: CapturedSession) -> Outline:
    """Read the order of a session's entries."""
    rows = sorted(tx.all("browse_outline", {"session": session.id}), key=_PLACE)
    logs = msgspec.json.encode(sorted({row[_LOG] for row in rows})).decode()
    documents = {row[0] for row in tx.all("browse_documents", {"ids": logs})}
    if documents:
        parts = groupby(rows, itemgetter(_LOG))
        rows = [row for log, part in parts for row in _ordered(log in documents, part)]
    starts = tuple(position for position, row in enumerate(rows) if row[_KIND] == "prompt")
    return Outline(rows, starts)


def _ordered(in_document: bool, rows: Iterable[Row]) -> Iterable[Row]:  # noqa: FBT001
    """Order what came out of a database: a record that changed stands behind later ones there."""
    if not in_document:
        return rows
    last = 0
    timed = []
    for row in rows:
        last = row[_AT] if row[_AT] is not None else last
        timed.append((last, row))
    return [row for _, row in sorted(timed, key=itemgetter(0))]


def read_prompts(archive: ArchivedEntries, outline: Outline, width: int) -> tuple[Prompt, ...]:
    """Read the beginnings of all prompts of a session; one that is gone is empty."""
    prompts = []
    for position in outline.starts:
        entry = archive.entry(outline.entry(position))
        text = "" if entry is None else " ".join(entry.text[: 4 * width].split())[:width]
        prompts.append(Prompt(text, "" if entry is None else entry.parent))
    return tuple(prompts)


def branches_at(outline: Outline, parents: Mapping[int, str]) -> dict[int, int]:
    """Count how often the conversation was continued at each prompt that has siblings.

    `parents` has the records that prompts go on from, by position. Answers, and results of tools
    that ran side by side, have one parent, too: only prompts count.
    """
    records = {(parent, *_PLACE(outline.rows[at])[:2]) for at, parent in parents.items() if parent}
    siblings = Counter(parent for parent, _log, _line in records)
    return {at: siblings[parent] for at, parent in parents.items() if siblings[parent] > 1}
