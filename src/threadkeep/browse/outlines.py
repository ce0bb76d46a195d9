"""The order of a session's entries: which block stands at which position, and in which turn."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter

import msgspec

from threadkeep.base.sqlite import Tx
from threadkeep.capture.archived import ArchivedEntries
from threadkeep.knowledge.reading import EntryRow, Session, to_entry


class Prompt(msgspec.Struct, frozen=True):
    """How a turn begins: the text of its prompt, and the record that the prompt goes on from."""

    text: str
    parent: str


class Outline(msgspec.Struct, frozen=True):
    """Where everything in a session stands; texts are not part of it."""

    rows: tuple[EntryRow, ...]  # in the order that is shown
    starts: tuple[int, ...]  # positions of the prompts: the first block of each turn

    def turn_of(self, position: int) -> int:
        """Give the turn of a position; what stands before the first prompt belongs to it."""
        return max(0, bisect_right(self.starts, position) - 1)

    def position_of(self, key: str) -> int | None:
        """Find an entry by its key, or by the name that recall gives it: `message:12`."""
        number = key.removeprefix("message:") if key.startswith("message:") else ""
        for position, row in enumerate(self.rows):
            if row.key == key or (number and str(row.id) == number):
                return position
        return None


def read_outline(tx: Tx, session: Session) -> Outline:
    """Read the order of a session's entries."""
    found = [(to_entry(row), bool(row[-1])) for row in tx.all("browse_outline", (session.id,))]
    rows: list[EntryRow] = []
    for (_log, in_document), group in groupby(found, lambda one: (one[0].log_id, one[1])):
        entries = [row for row, _ in group]
        rows += _in_time(entries) if in_document else entries
    starts = tuple(position for position, row in enumerate(rows) if row.kind == "prompt")
    return Outline(tuple(rows), starts)


def _in_time(rows: Iterable[EntryRow]) -> list[EntryRow]:
    """Order what came out of a database: a record that changed stands behind later ones there."""
    last = 0
    timed = []
    for row in rows:
        last = row.at if row.at is not None else last
        timed.append((last, row))
    return [row for _, row in sorted(timed, key=lambda pair: pair[0])]


def read_prompts(archive: ArchivedEntries, outline: Outline, width: int) -> tuple[Prompt, ...]:
    """Read the beginnings of all prompts of a session; one that is gone is empty."""
    prompts = []
    for position in outline.starts:
        entry = archive.entry(outline.rows[position])
        text = "" if entry is None else " ".join(entry.text[: 4 * width].split())[:width]
        prompts.append(Prompt(text, "" if entry is None else entry.parent))
    return tuple(prompts)


def branches_at(outline: Outline, prompts: Sequence[Prompt]) -> dict[int, int]:
    """Count how often the conversation was continued at each prompt that has siblings.

    Answers and results of tools that ran side by side have one parent, too: only prompts count.
    """
    rows = [outline.rows[position] for position in outline.starts]
    lines = {
        (prompt.parent, row.log_id, row.line)
        for prompt, row in zip(prompts, rows, strict=True)
        if prompt.parent
    }
    siblings = Counter(parent for parent, _log, _line in lines)
    told = zip(outline.starts, prompts, strict=True)
    return {at: siblings[one.parent] for at, one in told if siblings[one.parent] > 1}


def times_of(rows: Iterable[EntryRow]) -> tuple[int | None, int | None]:
    """Give the first and the last time in some entries."""
    times = [at for at in map(attrgetter("at"), rows) if at is not None]
    return (min(times), max(times)) if times else (None, None)
