"""What capture has just stored, at hand for whoever learns from it."""

from typing import Final

from threadkeep.knowledge.records import Entry, EntryRow

_RECENT: Final = 16 * 1024 * 1024  # letters of texts that are kept at hand


class RecentEntries:
    """Entries that were just stored, so that who learns from them need not read the archive again.

    The oldest go when there are too many. An entry counts only for a row with its very words: who
    forgot or masked something meanwhile changed the row.
    """

    def __init__(self, most: int = _RECENT) -> None:
        self._most = most
        self._entries: dict[int, tuple[Entry, int]] = {}
        self.size = 0  # letters

    def add(self, number: int, entry: Entry, hashed: int) -> None:
        """Keep an entry under its number; what was thought teaches nothing."""
        if entry.kind == "reasoning":
            return
        self._entries[number] = entry, hashed
        self.size += len(entry.text)
        while self.size > self._most and self._entries:
            oldest, _ = self._entries.pop(next(iter(self._entries)))
            self.size -= len(oldest.text)

    def get(self, row: EntryRow) -> Entry | None:
        """Return the entry of a row, None if it is not at hand."""
        found = self._entries.get(row.id)
        if found is None or found[1] != row.hash or found[0].key != row.key:
            return None
        return found[0]

    def __len__(self) -> int:
        return len(self._entries)

    def clear(self) -> None:
        """Let all go."""
        self._entries.clear()
        self.size = 0
