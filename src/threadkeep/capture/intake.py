"""From what a parser gives to rows: one log, one transaction."""

import logging
import os
import socket
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import msgspec

from threadkeep.base.json import decode_line
from threadkeep.base.paths import project_name
from threadkeep.base.tx import Tx
from threadkeep.capture.records import AgentReport, Exclusion
from threadkeep.capture.redact.engine import PRIVATE, MaskedBlock, Redactor
from threadkeep.capture.redact.rules import MASK
from threadkeep.errors import Invalid
from threadkeep.knowledge import archive
from threadkeep.knowledge.commands import write_tool_runs
from threadkeep.knowledge.copies import is_here, parts_of, told_in
from threadkeep.knowledge.forget import Marks, exempt_rules
from threadkeep.knowledge.health import health_name, note_success
from threadkeep.knowledge.recent_entries import RecentEntries
from threadkeep.knowledge.records import NOTES, Entry
from threadkeep.knowledge.segments import write_segment
from threadkeep.knowledge.sessions import (
    Growth,
    grow_session,
    learn,
    place,
    recount,
    session_number,
)
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.knowledge.usage import counted, write_usage
from threadkeep.sources.copy_marks import marks_in, may_be_marked, unmarked
from threadkeep.sources.git_facts import main_work_tree
from threadkeep.sources.records import Harvest, Parser, UserHome

# ------------------------------------------------------------------------------
# One write transaction for many small logs, several for a big one.

# A commit waits for the disk; at 16 MB of source that is a small part of the work, while others
# who want to write wait about half a second at most.
BATCH_BYTES: Final = 16 * 1024 * 1024

# Learns from what was stored, outside of any transaction.
Learn = Callable[[RecentEntries], object]


# The number of a session, the folder that it is of, and its project as far as that tells.
Folders = list[tuple[int, str, str]]


class Batches:
    """Gives the transaction to write into, and ends it whenever enough was written.

    With `learn`, what was stored is handed over to be learned from between two logs, while its
    texts are at hand: read again from the archive, they took an eighth of all the time.
    """

    def __init__(self, store: KnowledgeStore, learn: Learn | None = None) -> None:
        self._store = store
        self._learn = learn
        self.recent = RecentEntries() if learn is not None else None
        self._open: Tx | None = None
        self._spent = 0
        self._words_before = 0
        self._folders_before = 0
        self.words: archive.Words = []  # of the open transaction, to be indexed at its end
        self.folders: Folders = []  # of its sessions, to be looked at behind it

    def tx(self) -> Tx:
        """Return the open transaction, or begin one."""
        if self._open is None:
            # Two captures at once may have found the same log: they take turns. Who follows counts
            # on it: entries are numbered in the order in which they are stored.
            self._block = self._store.write(key="capture")
            self._open = self._block.__enter__()
            self._begin_step(self._open)
            self._spent = 0
        return self._open

    def hand_over(self, least: int = 0) -> None:
        """Let what was stored be learned from, if there is anything, and that many letters."""
        if self._learn is not None and self.recent and self.recent.size >= least:
            self.commit()
            self._learn(self.recent)
            self.recent.clear()

    def next_log(self) -> None:
        """Begin the next log: what fails in it is taken back to here, or to the last commit."""
        self._words_before, self._folders_before = len(self.words), len(self.folders)
        if self._open is not None:
            self._step.__exit__(None, None, None)
            self._begin_step(self._open)

    def take_back(self, error: Exception) -> None:
        """Undo what was written of the current log since then, because of an error."""
        del self.words[self._words_before :]
        del self.folders[self._folders_before :]
        if self._open is not None:
            self._step.__exit__(type(error), error, error.__traceback__)
            self._begin_step(self._open)

    def _begin_step(self, tx: Tx) -> None:
        self._step = tx.step()
        self._step.__enter__()

    def spend(self, size: int) -> bool:
        """Count what was written; tell whether it is time to commit."""
        self._spent += size
        return self._spent >= BATCH_BYTES

    def commit(self) -> None:
        """End the transaction, if one is open."""
        if self._open is not None:
            tx, self._open = self._open, None
            with ExitStack() as end:
                end.push(self._block)  # whatever goes wrong with the index ends it as well
                end.push(self._step)
                archive.index_words(tx, self.words)
            self.words.clear()
            self._words_before = 0
        self._place()

    def _place(self) -> None:
        """Give sessions in linked work trees the project of the repository.

        A folder may be on a disk that does not answer: no transaction waits for it.
        """
        seen, self.folders, self._folders_before = self.folders, [], 0
        trees = {folder: main_work_tree(folder) for _, folder, _ in seen}
        moved = {
            session: tree
            for session, folder, project in seen
            if (tree := trees[folder]) and project_name(tree) != project
        }
        if moved:
            with self._store.write(key="capture") as tx:
                for session, tree in moved.items():
                    place(tx, session, tree)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.commit()
        elif self._open is not None:
            self._open = None
            self._block.__exit__(kind, error, trace)


# ------------------------------------------------------------------------------
# What was read of other programs' files and waits to be written.
#
# A file of another program may be slow to read, or never come to an end. So nothing is read of one
# while a transaction of ours is open: it is read first, up to a few megabytes of it, then written.

# Enough for hundreds of small sessions to share a commit, little enough to be kept in memory.
MOST_BYTES: Final = 8 * 1024 * 1024

Write = Callable[[], None]


class Backlog:
    """Keeps what is to be done in the next transaction, and does it when there is enough."""

    def __init__(self, batches: Batches) -> None:
        """End the transaction that is open: reading begins."""
        self.batches = batches
        self._waiting: list[Write] = []
        self._bytes = 0
        batches.commit()

    def add(self, write: Write, size: int = 0) -> None:
        """Have something written later, or now with all that waits if that is enough."""
        self._waiting.append(write)
        self._bytes += size
        if self._bytes >= MOST_BYTES:
            self.settle()

    def settle(self) -> None:
        """Write all that waits, in order, and end the transaction."""
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        for write in waiting:
            write()
        self.batches.commit()


# ------------------------------------------------------------------------------
# Claims: what a log says it has from another session counts if that session really has it.
#
# The mark of a hand-off stands in the log, where anybody can write one. Taken at its word it would
# hide from search and sums whatever an agent did; so a record whose text its origin does not hold
# is
# one like all others.

Fresh = Callable[[], Parser]


class Claims:
    """Checks what the records of one log say about where they come from."""

    def __init__(self, fresh: Fresh, own: str) -> None:
        """Take what makes a parser for the log, and the log's own session as a reference."""
        self._fresh = fresh
        self._own = own
        self._told: dict[str, frozenset[int] | None] = {}  # None: the origin is not here

    def checked(self, tx: Tx, record: Any, line: bytes, number: int) -> Any:
        """Return a record as it is to be taken: without a mark that is not true."""
        if not may_be_marked(line) or not isinstance(record, dict):
            return record
        origins = {mark.origin for mark in marks_in(record)}
        if not origins:
            return record
        said = {archive.text_hash(entry.text) for entry in alone(self._fresh, record, line, number)}
        return record if all(self._holds(tx, one, said) for one in origins) else unmarked(record)

    def _holds(self, tx: Tx, origin: str, said: set[int]) -> bool:
        if origin not in self._told:
            self._told[origin] = _told(tx, origin, self._own)
        told = self._told[origin]
        return told is None or said <= told


def alone(fresh: Fresh, record: Any, line: bytes, number: int) -> Iterable[Entry]:
    """Return the entries of one record, read by itself."""
    with suppress(Exception):  # whatever is wrong with it shows when it is captured
        return fresh().feed(record, line, number)
    return ()


def _told(tx: Tx, origin: str, own: str) -> frozenset[int] | None:
    named = parts_of(origin)
    if named is None or origin == own:
        return frozenset()
    return told_in(tx, named) if is_here(tx, named) else None


log = logging.getLogger(__name__)

_LONGEST_NAME: Final = 80


class MachineUser(msgspec.Struct, frozen=True):
    """On which machine, and as whom, tools were run."""

    hostname: str
    username: str


def this_machine() -> MachineUser:
    """Name this machine and its user."""
    return MachineUser(socket.gethostname(), os.environ.get("USER") or "unknown")


class Intake:
    """Feeds lines to a parser and turns what it gives into rows of one log."""

    def __init__(
        self, harness: str, row: archive.LogRow, parser: Parser, report: AgentReport, fresh: Fresh
    ) -> None:
        """Take a log with its parser; `fresh` makes others that know nothing of it yet."""
        self._harness = harness
        self._row = row
        self._parser = parser
        self._claims = Claims(fresh, f"{harness}:{row.session_id}")
        self._report = report
        self._placed: dict[str, list[archive.EntryLocation]] = defaultdict(list)
        self._troubles: dict[str, int] = {}

    def go_on(self, row: archive.LogRow) -> None:
        """Go on in another transaction, with the row of the log as it is there."""
        row.bad_lines = self._row.bad_lines
        self._row = row

    def feed(self, tx: Tx, line: bytes, number: int) -> bool:
        """Take one masked line; tell whether it is readable."""
        try:
            records = decode_line(line)
        except Invalid:
            self._row.bad_lines += 1
            self._report.bad_lines += 1
            return False
        part = 0
        for record in records:
            taken = self._claims.checked(tx, record, line, number)
            for entry in self._entries(taken, line, number):
                session_id = entry.session_id or self._row.session_id
                self._placed[session_id].append(archive.EntryLocation(entry, number, part))
                part += 1
        return True

    def _entries(self, record: Any, line: bytes, number: int) -> list[Entry]:
        try:
            return self._parser.feed(record, line, number)
        except Exception as error:
            # The line itself is archived; a parser's mistake must not stop the capture, and is
            # reported with the record types that are unknown.
            name = f"{type(error).__name__}: {error}"[:_LONGEST_NAME]
            self._troubles[name] = self._troubles.get(name, 0) + 1
            log.debug("%s line %d: %s", self._row.path, number, name, exc_info=True)
            return []

    def write_entries(
        self,
        tx: Tx,
        words: archive.Words,
        recent: RecentEntries | None = None,
        *,
        live: bool = False,
    ) -> None:
        """Store the entries fed so far; `words` takes what is to be indexed, `recent` all."""
        if self._placed and not archive.has_entries(tx, self._row.id):
            # The log itself knows better than its name whose it is.
            self._row.session_id = next(iter(self._placed))
            self._take_over_notes(tx)
        for session_id, placed in self._placed.items():
            session = session_number(tx, self._harness, session_id)
            written = archive.write_entries(tx, self._row.id, session, placed, words, recent)
            self._count(tx, session, written, live=live)
        self._placed.clear()

    def _take_over_notes(self, tx: Tx) -> None:
        """Let notes of the sessions of a log give way to the log."""
        if self._row.reader != NOTES:
            for session_id in self._placed:
                archive.drop_notes(tx, NOTES, self._harness, session_id)

    def _count(self, tx: Tx, session: int, written: archive.EntryChanges, *, live: bool) -> None:
        growth = Growth()
        for entry in written.fresh:
            growth.count(entry)
        for entry in written.copies:
            growth.cover(entry)
        if growth.entries:
            grow_session(tx, session, growth, live=live)
            self._report.entries += len(written.fresh)
        if written.replaced:
            recount(tx, session)

    def write_harvest(
        self, tx: Tx, folders: Folders, who: MachineUser, now: int, *, live: bool = False
    ) -> None:
        """Store what the parser found out beside the entries; `folders` takes those of sessions.

        While somebody watches a log grow (`live`), what nobody waits for is left to the next look
        at all logs: the segment that is still open, and that all is well. To write them for each
        line took a third of what was written.
        """
        harvest = self._parser.harvest()
        if live:
            harvest.segments = [one for one in harvest.segments if not one.is_open]
        for session_id, facts in harvest.facts.items():
            session = session_number(tx, self._harness, session_id or self._row.session_id)
            project = learn(tx, session, facts)
            if folder := facts.began_in or facts.cwd:
                folders.append((session, folder, project))
        self._write_usage(tx, harvest)
        changed = self._write_segments(tx, harvest, now)
        tools = write_tool_runs(
            tx,
            harvest.tools,
            shell=self._harness,
            hostname=who.hostname,
            username=who.username,
            now=now,
        )
        if tools:
            newest = max(run.at for run in harvest.tools)
            note_success(tx, "claude-tool", last_event=newest, count=tools, now=now)
        self._write_unknown(tx, harvest, now)
        if not live or changed:
            newest_end = max((segment.end for segment in harvest.segments), default=None)
            source = health_name(self._harness)
            note_success(tx, source, last_event=newest_end, count=changed, now=now)

    def _write_usage(self, tx: Tx, harvest: Harvest) -> None:
        sessions: dict[str, int] = {}
        usage = counted(tx, self._row, harvest.usage)
        for one in usage:
            name = one.session_id or self._row.session_id
            if name not in sessions:
                sessions[name] = session_number(tx, self._harness, name)
        rows = [(sessions[u.session_id or self._row.session_id], u) for u in usage]
        write_usage(tx, self._harness, rows)

    def _write_segments(self, tx: Tx, harvest: Harvest, now: int) -> int:
        changed = 0
        for segment in harvest.segments:
            changed += write_segment(tx, self._harness, segment, self._row.path, now)
        self._report.segments += changed
        return changed

    def _write_unknown(self, tx: Tx, harvest: Harvest, now: int) -> None:
        found = {**harvest.unknown}
        for name, count in self._troubles.items():
            found[name] = found.get(name, 0) + count
        self._troubles.clear()
        for kind, count in found.items():
            archive.count_unknown(tx, self._row, kind[:_LONGEST_NAME], count, now)
            self._report.unknown[kind] = self._report.unknown.get(kind, 0) + count

    def state(self) -> bytes:
        """Return what the parser needs to continue later."""
        return self._parser.state()


# ------------------------------------------------------------------------------
# What a run of capture works with.

# Masks the secrets in a piece of a log, given what comes before and behind it there; the number of
# lines stays the same.
Mask = Callable[[bytes, bytes, bytes], MaskedBlock]


class CaptureContext(msgspec.Struct, frozen=True):
    """The store, whose logs they are, and what is done to every line before it is stored."""

    store: KnowledgeStore
    user: UserHome
    mask: Mask
    clock: Callable[[], int]  # epoch milliseconds
    who: MachineUser
    exclusion: Exclusion
    redactor: Redactor | None = None  # the same for single texts; None: our own rules alone


# ------------------------------------------------------------------------------
# The masks of a log: its lines without their secrets, and a note of each mask.

CONTEXT_BYTES: Final = 64 * 1024  # how much of a log before a piece may matter: a key in lines
MARKERS: Final = (MASK.encode(), PRIVATE.encode())


class MaskedLines(NamedTuple):
    """The lines of a piece, masked; the masks of those that have one; which of them changed."""

    lines: Sequence[bytes]
    marks: Mapping[int, Marks]
    changed: Sequence[int]


def mask_of(tx: Tx, around: CaptureContext, harness: str, session_id: str) -> Mask:
    """Return what masks the lines of a session: all rules, but those that were undone there."""
    undone = exempt_rules(tx, harness, session_id)
    return redactor_of(around).sparing(undone).piece if undone else around.mask


def redactor_of(around: CaptureContext) -> Redactor:
    """Return the redactor of a home; without one, our own rules."""
    return around.redactor or Redactor.default()


def masked_lines(mask: Mask, data: bytes, before: bytes = b"", after: bytes = b"") -> MaskedLines:
    """Mask the lines of a piece; `before` and `after` are what is beside it in the log."""
    masked = mask(data, before, after)
    lines = masked.data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    if masked.data is data:
        return MaskedLines(lines, {}, ())
    marks: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for note in masked.notes:
        marks[note.line].append((note.rule, note.place))
    before_and_after = enumerate(zip(data.split(b"\n"), lines, strict=False))
    return MaskedLines(lines, marks, [row for row, (old, new) in before_and_after if old != new])


def tail_of(before: bytes, piece: bytes) -> bytes:
    """Return the end of what was read of a log, after one more piece."""
    if len(piece) >= CONTEXT_BYTES:
        return piece[-CONTEXT_BYTES:]
    return (before + piece)[-CONTEXT_BYTES:]


def markers_in(line: bytes) -> list[int]:
    """Return where the masks of a line begin."""
    places = []
    for marker in MARKERS:
        place = line.find(marker)
        while place >= 0:
            places.append(place)
            place = line.find(marker, place + 1)
    return sorted(places)


def noted_again(line: bytes, fresh: Marks, noted: Marks) -> Marks:
    """Return the masks of a line that was masked once more: the fresh ones, and the old ones again.

    The old ones have moved, but are still in their order; where they cannot be told, they are left
    out.
    """
    known = {place for _, place in fresh}
    old = [place for place in markers_in(line) if place not in known]
    moved = zip((rule for rule, _ in noted), old, strict=True) if len(old) == len(noted) else ()
    return sorted([*fresh, *moved], key=lambda mark: mark[1])
