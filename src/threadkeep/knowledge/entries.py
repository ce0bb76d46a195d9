"""Entries: rows that say where in the archive something stands, and the words it is found by."""

import hashlib
import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from threadkeep.base.fts import index_text
from threadkeep.base.tx import Tx
from threadkeep.knowledge.copies import COPY, is_here, parts_of
from threadkeep.knowledge.records import Entry

_COLOURS: Final = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]")


class EntryLocation(NamedTuple):
    """An entry and its place in the archive."""

    entry: Entry
    line: int
    part: int


class EntryChanges(NamedTuple):
    """The entries that are new or have changed, and how many of them took another's place."""

    fresh: list[Entry]
    copies: list[Entry]  # the same, of those that another session has, too
    replaced: int


def text_hash(text: str) -> int:
    """Name a text by 64 bits: enough to see that an entry has changed, or is told twice."""
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(data).digest()[:8], "big", signed=True)


Words = list[tuple[int, str]]  # the number of an entry, and the text it is found by


def write_entries(
    tx: Tx, log_id: int, session: int, placed: Iterable[EntryLocation], words: Words
) -> EntryChanges:
    """Store entries of one session, in the order in which they were told.

    One that is told again as it was stays where it is; one that has changed takes its new place.
    What is to be indexed is added to `words`, for `index_words` before the commit. A copy is not:
    it is found where it was said first.
    """
    told = list(placed)
    known = _known(tx, session, {one.entry.key for one in told})
    latest = _latest(known, told)
    following = int(tx.value("last_entry_id") or 0) + 1
    origins = _Origins(tx, session)
    written = EntryChanges([], [], 0)
    rows, replaced = [], []
    for key, ((entry, *place), hashed) in latest.items():
        if key in known:
            replaced.append((known[key][0],))
        copied = bool(entry.origin) and origins.have(entry, following)
        kind = COPY if copied else entry.kind
        rows.append(_row(following, session, entry, (log_id, *place), (kind, hashed)))
        if entry.text and not copied:
            words.append((following, words_of(entry.text)))
        (written.copies if copied else written.fresh).append(entry)
        following += 1
    if replaced:
        tx.run_bulk("delete_entry", replaced)
    tx.run_bulk("insert_entry", rows)
    origins.note()
    return written._replace(replaced=len(replaced))


class _Origins:
    """The sessions that entries of one session were copied from."""

    def __init__(self, tx: Tx, session: int) -> None:
        self._tx = tx
        self._session = session
        self._here: dict[str, bool] = {}
        self._lone: list[tuple[object, ...]] = []

    def have(self, entry: Entry, number: int) -> bool:
        """Tell whether the store has an entry where it was copied from; if not, note that."""
        origin = parts_of(entry.origin)
        if origin is None:
            return False
        if entry.origin not in self._here:
            self._here[entry.origin] = is_here(self._tx, origin, self._session)
        if not self._here[entry.origin]:
            self._lone.append((number, self._session, *origin))
        return self._here[entry.origin]

    def note(self) -> None:
        """Remember what may become a copy, and, unless it is known, what the session continues."""
        if self._lone:
            self._tx.run_bulk("put_lone_copy", self._lone)
        for origin in self._here:
            harness, _, session_id = origin.partition(":")
            values = {"session": self._session, "harness": harness, "session_id": session_id}
            self._tx.run("put_first_origin", values)


def words_of(text: str) -> str:
    """Give what a text is found by: without the colour codes that stick to words in a terminal."""
    return index_text(_COLOURS.sub(" ", text) if "\x1b" in text else text)


def _latest(
    known: dict[str, tuple[int, int]], told: list[EntryLocation]
) -> dict[str, tuple[EntryLocation, int]]:
    """Give what is to be written: of several tellings the first of the last text."""
    stands = {key: hashed for key, (_, hashed) in known.items()}
    latest: dict[str, tuple[EntryLocation, int]] = {}
    for one in told:
        hashed = text_hash(one.entry.text)
        if stands.get(one.entry.key) != hashed:
            stands[one.entry.key] = hashed
            latest[one.entry.key] = one, hashed
    return latest


def index_words(tx: Tx, words: Words) -> None:
    """Index the texts of entries, all those of a transaction at once.

    Between two other statements FTS5 writes out what it has gathered: one by one the same texts
    take twice the time, and leave an index in hundreds of pieces.
    """
    tx.run_bulk("index_entry", words)


def _known(tx: Tx, session: int, keys: Iterable[str]) -> dict[str, tuple[int, int]]:
    if tx.value("session_has_entries", {"session": session}) is None:
        return {}
    known = {}
    for key in keys:
        row = tx.one("entry_by_key", (session, key))
        if row is not None:
            known[key] = row
    return known


def _row(
    id_: int, session: int, entry: Entry, place: tuple[int, ...], what: tuple[str, int]
) -> tuple[object, ...]:
    kind, hashed = what
    said = (entry.role, kind, entry.at, entry.tool or None, int(entry.error), hashed)
    return (id_, session, entry.key, *place, *said)
