"""Windows of a transcript: some consecutive messages, read from the archive where they stand."""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, tzinfo
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from threadkeep.base.match import read_match
from threadkeep.base.snippet import snippet, snippet_of_match
from threadkeep.base.tx import Row, Tx
from threadkeep.errors import NotFound
from threadkeep.knowledge.archive import (
    TAIL_BYTES,
    LogRow,
    digest,
    load_log_by_id,
    logs_of_session,
    read_block,
    read_lines,
)
from threadkeep.knowledge.copies import COPY, Links
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.records import CapturedSession, Entry, EntryRow, Readers, to_entry
from threadkeep.knowledge.results import Spot, Sum, TranscriptMessage, UsageReport, Window
from threadkeep.knowledge.schema import ENTRY_WORDS
from threadkeep.knowledge.sessions import EVERYTHING, entries_of, search_rows

if TYPE_CHECKING:
    from threadkeep.knowledge.archived import ArchivedEntries
    from threadkeep.knowledge.prices import Prices
    from threadkeep.knowledge.store import KnowledgeStore

# ------------------------------------------------------------------------------
# From the archive back to text: whole sessions, single entries, and the raw lines.


class TranscriptEntry(msgspec.Struct, frozen=True):
    """One entry with its text, and the log that it stands in."""

    row: EntryRow
    entry: Entry


class EntryHit(msgspec.Struct, frozen=True):
    """An entry that a search found, with the place where the words are."""

    session: CapturedSession
    shown: TranscriptEntry
    snippet: str
    rank: float


def transcript(tx: Tx, sources: Readers, session: CapturedSession) -> Iterator[TranscriptEntry]:
    """Yield everything said and done in a session, in its order."""
    rows = entries_of(tx, session)
    for log_id, group in groupby(rows, attrgetter("log_id")):
        log = load_log_by_id(tx, log_id)
        if log is not None:
            shown = _shown(tx, sources, log, list(group))
            yield from shown if log.item == "" else _in_time(shown)


def _shown(
    tx: Tx, sources: Readers, log: LogRow, rows: list[EntryRow]
) -> Iterator[TranscriptEntry]:
    """Read the lines of some entries of one log, given in the order of their lines."""
    from threadkeep.knowledge.archived import entries_in  # noqa: PLC0415  (no list reads entries)

    wanted = iter(rows)
    row = next(wanted, None)
    if row is None:
        return
    for number, line in enumerate(read_lines(tx, log.id, row.line), row.line):
        if row.line > number:
            continue
        entries = entries_in(sources, log.reader, line, number)
        while row is not None and row.line == number:
            if row.key in entries:
                yield TranscriptEntry(as_said(row, entries[row.key]), entries[row.key])
            row = next(wanted, None)
        if row is None:
            return


def as_said(row: EntryRow, entry: Entry) -> EntryRow:
    """Return the row of a copy as that of what was said; any other as it is."""
    said: EntryRow = msgspec.structs.replace(row, kind=entry.kind) if row.kind == COPY else row
    return said


def _in_time(shown: Iterable[TranscriptEntry]) -> list[TranscriptEntry]:
    """Order what came out of a database: a record that changed stands behind later ones there."""
    last = 0
    keyed = []
    for one in shown:
        last = one.row.at if one.row.at is not None else last
        keyed.append((last, one))
    return [one for _, one in sorted(keyed, key=lambda pair: pair[0])]


def entry_at(tx: Tx, sources: Readers, row: EntryRow) -> Entry | None:
    """Read one entry from its place in the archive."""
    from threadkeep.knowledge.archived import entries_in  # noqa: PLC0415  (the same)

    found = tx.one("block_at", {"log": row.log_id, "line": row.line})
    if found is None:
        return None
    first, block, reader = found
    lines = read_block(tx, block)
    at = row.line - first
    return (
        entries_in(sources, reader, lines[at], row.line).get(row.key) if at < len(lines) else None
    )


def search(
    tx: Tx,
    sources: Readers,
    text: str,
    query: Query = EVERYTHING,
    *,
    newest: bool = False,
    limit: int = 20,
    width: int = 160,
) -> list[EntryHit]:
    """Find what was said and done by words, and show where they stand."""
    found = search_rows(tx, text, query, newest=newest, limit=limit)
    hits = []
    for row, session, rank in found:
        entry = entry_at(tx, sources, row)
        if entry is not None:
            hits.append(
                EntryHit(
                    session, TranscriptEntry(row, entry), snippet(entry.text, text, width), rank
                )
            )
    return hits


def raw_lines(tx: Tx, session: CapturedSession) -> Iterator[bytes]:
    """Yield the archived lines of a session as they were, but for masked secrets.

    Of a log that holds several sessions only the lines that belong to this one.
    """
    rows = entries_of(tx, session)
    for log in logs_of_session(tx, session.agent, session.session_id):
        lines = read_lines(tx, log.id)
        if log.session_id == session.session_id:
            yield from lines
        else:
            mine = {row.line for row in rows if row.log_id == log.id}
            yield from (line for number, line in enumerate(lines) if number in mine)


def ends_open(tx: Tx, session: CapturedSession) -> bool:
    """Tell whether the last line of a session stands in its log without a line feed.

    The digest of the last bytes read tells; where a secret was masked in these, nothing does.
    """
    logs = logs_of_session(tx, session.agent, session.session_id)
    last = logs[-1] if logs else None
    if last is None or last.tail is None or last.session_id != session.session_id:
        return False
    text = b"\n".join(read_lines(tx, last.id, max(0, last.lines - TAIL_BYTES)))
    return digest(text[-TAIL_BYTES:]) == last.tail


# ------------------------------------------------------------------------------
# The order of a session's entries: which message stands at which position, and in which turn.

# Columns of an entry's row. Of 10,000 rows few are ever made into records: that takes 15 ms.
_ID, _KEY, _LOG, _KIND, _AT = 0, 2, 3, 7, 8
_PLACE: Final = itemgetter(3, 4, 5)  # log, line, part


class Prompt(msgspec.Struct, frozen=True):
    """How a turn begins: the text of its prompt, and the record that the prompt continues from."""

    text: str
    parent: str


class Outline(msgspec.Struct, frozen=True):
    """Where everything in a session stands; texts are not part of it."""

    rows: list[Row]  # in the order that is shown
    starts: tuple[int, ...]  # positions of the prompts: the first message of each turn

    @property
    def total(self) -> int:
        """How many entries there are."""
        return len(self.rows)

    def entry(self, position: int) -> EntryRow:
        """Return the entry at a position."""
        return to_entry(self.rows[position])

    def entries(self, start: int, end: int) -> list[EntryRow]:
        """Return the entries from a position up to another."""
        return [to_entry(row) for row in self.rows[start:end]]

    def number(self, position: int) -> int:
        """Return the number of the entry at a position."""
        number: int = self.rows[position][_ID]
        return number

    def numbers(self) -> list[int]:
        """Return the numbers of all entries, by which the index knows them."""
        return [row[_ID] for row in self.rows]

    def turn_of(self, position: int) -> int:
        """Return the turn of a position; what comes before the first prompt belongs to it."""
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


def read_prompts(archive: "ArchivedEntries", outline: Outline, width: int) -> tuple[Prompt, ...]:
    """Read the beginnings of all prompts of a session; one that is gone is empty."""
    prompts = []
    for position in outline.starts:
        entry = archive.entry(outline.entry(position))
        text = "" if entry is None else " ".join(entry.text[: 4 * width].split())[:width]
        prompts.append(Prompt(text, "" if entry is None else entry.parent))
    return tuple(prompts)


def branches_at(outline: Outline, parents: Mapping[int, str]) -> dict[int, int]:
    """Count how often the conversation was continued at each prompt that has siblings.

    `parents` has the records that prompts continue from, by position. Answers, and results of tools
    that ran side by side, have one parent, too: only prompts count.
    """
    records = {(parent, *_PLACE(outline.rows[at])[:2]) for at, parent in parents.items() if parent}
    siblings = Counter(parent for parent, _log, _line in records)
    return {at: siblings[parent] for at, parent in parents.items() if siblings[parent] > 1}


MOST_IN_A_WINDOW: Final = 1_000
_WIDTH: Final = 160
_BEFORE: Final = 40  # characters before what was found, so that it is seen in its line


def span(
    total: int, at: int | None, before: int | None, after: int | None, limit: int
) -> tuple[int, int]:
    """Choose the positions of a window: around one, before one, after one, or from the start.

    `before` and `after` are positions that are no part of the window.
    """
    size = max(1, min(limit, MOST_IN_A_WINDOW))
    if at is not None:
        start = max(0, min(at - size // 2, total - size))
    elif before is not None:
        end = max(0, min(before, total))
        return max(0, end - size), end
    else:
        start = 0 if after is None else max(0, after + 1)
    return min(start, total), min(start + size, total)


def read_window(
    archive: "ArchivedEntries", outline: Outline, part: tuple[int, int], prompts: Sequence[Prompt]
) -> Window:
    """Read the messages from one position up to another.

    Branches are those among `prompts`; where none are given, those among the messages themselves.
    """
    entries = {position: archive.entry(outline.entry(position)) for position in range(*part)}
    known = dict(zip(outline.starts, (one.parent for one in prompts), strict=False))
    if not prompts:
        inside = (position for position in outline.starts if position in entries)
        known = {one: entry.parent for one in inside if (entry := entries[one]) is not None}
    branches = branches_at(outline, known)
    messages = (_message(outline, at, entry, branches) for at, entry in entries.items())
    return Window(tuple(messages), outline.total)


def _message(
    outline: Outline, position: int, entry: Entry | None, branches: Mapping[int, int]
) -> TranscriptMessage:
    """Put together a message; of an entry whose text is gone its row alone is told."""
    row = outline.entry(position)
    known = entry or Entry(row.key, "system", "note", row.at, "")
    return TranscriptMessage(
        position=position,
        ref=f"message:{row.id}",
        key=row.key,
        role=row.role,
        part=known.kind if row.kind == COPY else row.kind,
        at=row.at,
        text=known.text,
        tool=row.tool or known.tool,
        call_id=known.call_id,
        error=row.error,
        model=known.model,
        input=known.input,
        images=tuple(known.images),
        copied=row.kind == COPY,
        branches=branches.get(position, 0),
        turn=outline.turn_of(position),
    )


def position_in(outline: Outline, session: CapturedSession, at: str | int | None) -> int | None:
    """Return the position that is meant by a number, a key, or a name like `message:12`."""
    if at is None:
        return None
    if isinstance(at, int):
        return max(0, min(at, outline.total - 1))
    found = outline.position_of(at)
    if found is None:
        msg = f"there is no message {at!r} in {session.agent}:{session.session_id}"
        raise NotFound(msg, hint="it may have changed since; open the session without it")
    return found


# ---------------------------------------------------------------------- finding in one session


def read_texts(archive: "ArchivedEntries", outline: Outline) -> Iterator[str]:
    """Read the texts of all entries of a session, one by one."""
    return (archive.text(outline.entry(position)) for position in range(outline.total))


def find_in(
    tx: Tx, session: CapturedSession, outline: Outline, texts: Iterable[str], words: str, limit: int
) -> list[Spot]:
    """Find words in one session, in its order: as they are typed, or as words of the index."""
    literally = finder_of(words)
    indexed = _indexed(tx, session, outline, words)
    spots: list[Spot] = []
    for position, text in enumerate(texts):
        found = literally(text)
        cut = _around(text, *found.span()) if found else None
        if cut is None and outline.number(position) in indexed:
            cut = snippet_of_match(text, words, _WIDTH)
        if cut is not None:
            row = outline.entry(position)
            spots.append(Spot(position, row.key, row.kind, cut))
            if len(spots) >= limit:
                break
    return spots


def finder_of(words: str) -> Callable[[str], re.Match[str] | None]:
    """Return a function that finds words in a text as they are typed, but for case and spaces."""
    typed = words.split()
    wanted = re.compile(r"\s+".join(map(re.escape, typed)), re.IGNORECASE)
    longest = max(typed, key=len).lower()
    plain = longest.isascii()

    def find(text: str) -> re.Match[str] | None:
        # Most texts lack the word, and a plain look is cheap. Other letters fold in other ways.
        if plain and text.isascii() and longest not in text.lower():
            return None
        return wanted.search(text)

    return find


def _indexed(tx: Tx, session: CapturedSession, outline: Outline, words: str) -> frozenset[int]:
    match = read_match(words)
    ids = outline.numbers()
    if match is None or not ids:
        return frozenset()
    asked = {"match": ENTRY_WORDS.asked(tx, match), "session": session.id}
    span_ = {"first": min(ids), "last": max(ids), "limit": len(ids)}
    rows = tx.all("browse_matches_within", {**asked, **span_})
    return frozenset(row[0] for row in rows)


def _around(text: str, at: int, to: int) -> str:
    """Cut a text around a place and mark it."""
    start, end = max(0, at - _BEFORE), min(len(text), to + _WIDTH)
    marked = f"{text[start:at]}>>>{text[at:to]}<<<{text[to:end]}"
    return f"{'...' if start else ''}{marked}{'...' if end < len(text) else ''}"


# ------------------------------------------------------------------------------
# The captured sessions as those see them who only read: nothing of what captures is loaded.


class SessionArchive:
    """The captured sessions of one store, and what reads the logs of their programs."""

    def __init__(
        self, store: "KnowledgeStore", readers: Readers, prices: "Prices | None" = None
    ) -> None:
        self.store = store
        self.readers = readers
        self._prices = prices

    def sessions(
        self,
        query: Query = EVERYTHING,
        cursor: CapturedSession | None = None,
        limit: int = 50,
        *,
        everything: bool = False,
    ) -> list[CapturedSession]:
        """List the sessions that a query means, the latest first; `cursor` is the last one before.

        `everything` says the same as the mark `all`: subagents and internal threads, too.
        """
        if everything:
            query = msgspec.structs.replace(query, marks=(*query.marks, "all"))
        return self.store.sessions(query, cursor, limit)

    def find(self, name: str, agent: str | None = None) -> CapturedSession:
        """Find a session by its id, or by a beginning of it that only one has."""
        return self.store.find_session(name, agent)

    def children(self, session: CapturedSession) -> list[CapturedSession]:
        """Return the sessions that a session started."""
        return self.store.children_of(session)

    def sums(self, sessions: list[CapturedSession]) -> dict[int, Sum]:
        """Return the tokens and the cost of sessions, by their numbers."""
        from threadkeep.knowledge import prices  # noqa: PLC0415  (a search needs none)

        with (self._prices or prices.listed_prices)() as find, self.store.read() as tx:
            ids = [one.id for one in sessions]
            return prices.sums_of(tx, ids, find) if "tk_usage" in tx.tables() else {}

    def links(self, sessions: list[CapturedSession]) -> dict[int, Links]:
        """Return what sessions continue and are continued in, where there is any."""
        return self.store.links_of(sessions)

    def transcript(self, session: CapturedSession) -> Iterator[TranscriptEntry]:
        """Yield everything said and done in a session."""
        with self.store.read() as tx:
            yield from transcript(tx, self.readers, session)

    def raw(self, session: CapturedSession) -> Iterator[bytes]:
        """Yield the lines of a session as its program wrote them, but for masked secrets."""
        with self.store.read() as tx:
            yield from raw_lines(tx, session)

    def ends_open(self, session: CapturedSession) -> bool:
        """Tell whether the last raw line of a session has no line feed in its log."""
        with self.store.read() as tx:
            return ends_open(tx, session)

    def search(self, text: str, query: Query = EVERYTHING, **options: Any) -> list[EntryHit]:
        """Find what was said and done by words (see `search`)."""
        with self.store.read() as tx:
            return search(tx, self.readers, text, query, **options)

    def usage(self, query: Query = EVERYTHING, *, zone: tzinfo = UTC) -> UsageReport:
        """Sum up tokens and cost by agent, model, project and day."""
        return self.store.usage(query, zone=zone)

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
