"""Lines of the archive change: everything that was made of their log is rebuilt.

A dropped line leaves an empty one in its place, so that the numbers of all others, and the keys
made of them, stay. How far the log was read stays too: capture continues behind it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

import msgspec

from threadkeep.base.json import decode_line
from threadkeep.base.tx import Tx
from threadkeep.capture.intake import CaptureContext, Claims, Intake
from threadkeep.capture.records import TROUBLES, AgentReport
from threadkeep.errors import Conflict
from threadkeep.knowledge.archive import (
    LogRow,
    Words,
    digest,
    drop_entries,
    folders_of_log,
    load_log,
    put_record,
    read_lines,
    records_of,
    rewrite_lines,
    save_log,
    sessions_of_log,
)
from threadkeep.knowledge.archived import entries_in
from threadkeep.knowledge.commands import (
    envelope_of,
    event_number,
    renew_ticket,
    rewrite_tool_run,
    write_tool_runs,
)
from threadkeep.knowledge.forget import (
    FORGOTTEN_RECORD,
    drop_masks,
    erase,
    forsake,
    remember_forgotten,
)
from threadkeep.knowledge.records import Entry, ToolRun
from threadkeep.knowledge.segments import (
    content_hash,
    enqueue,
    legacy_numbers,
    move_segment,
    segment_number,
    write_segment,
)
from threadkeep.knowledge.sessions import (
    Growth,
    known_number,
    learn,
    recount,
    session_number,
    unlearn,
    unlearn_prompt,
)
from threadkeep.knowledge.usage import counted, drop_usage, write_usage
from threadkeep.sources.records import Harvest, Log, Source, Stamp

# ------------------------------------------------------------------------------
# Where the original of a log lies, and in which order a document has its records.
#
# That is asked of other programs' files, so they are read before our own is locked for writing.

Order = list[str] | None  # the keys of a document's records; None if nobody can tell any more
T = TypeVar("T")


class Unread(Exception):
    """A transaction needs what has to be read outside of it."""

    def __init__(self, look: Callable[[], object]) -> None:
        super().__init__()
        self.look = look


class Places:
    """Finds logs as their sources know them; each source is asked once."""

    def __init__(self, around: CaptureContext, sources: Mapping[str, Source]) -> None:
        self._around = around
        self.sources = sources
        self._found: dict[str, dict[str, Log]] = {}
        self._orders: dict[tuple[str, str, str], Order] = {}

    def write(self, step: Callable[[Tx], T]) -> T:
        """Run a step in a transaction that writes; no original is read while others have to wait.

        Which originals a step needs shows in it alone. Then it is undone, they are read, and it
        starts over; what it does must be in the transaction, or in what it gives.
        """
        self._orders.clear()  # logs grow
        while True:
            try:
                with self._around.store.write() as tx:
                    return step(tx)
            except Unread as unread:
                unread.look()

    def source(self, row: LogRow) -> Source:
        """Return the source that reads a log."""
        source = self.sources.get(row.reader)
        if source is None:
            msg = f"{row.path} cannot be read again: its source {row.reader!r} is switched off"
            raise Conflict(msg, hint=f"take {row.reader!r} out of [capture] disable")
        return source

    def log(self, tx: Tx, row: LogRow) -> Log:
        """Return a log as it is on the disk, or as it was when it was."""
        self.source(row)  # refuses one that is switched off
        if row.reader not in self._found:
            raise Unread(partial(self.find, row))
        found = self._found[row.reader].get(row.path)
        return _remembered(tx, row) if found is None else found

    def find(self, row: LogRow) -> None:
        """Look for the logs of the source that reads a log; never while our store is locked."""
        if row.reader not in self._found:
            logs = self.source(row).find(self._around.user)
            self._found[row.reader] = {log.path: log for log in logs}

    def order(self, tx: Tx, row: LogRow) -> Order:
        """Return the keys of a document's records in their order; None if it is gone."""
        name = (row.reader, row.path, row.item)
        if name not in self._orders:
            raise Unread(partial(self.read, self.log(tx, row), row))
        return self._orders[name]

    def read(self, log: Log, row: LogRow) -> None:
        """Read in which order a document has its records; never while our store is locked."""
        order: Order = None
        with suppress(*TROUBLES):
            order = [key for key, _ in self.source(row).records(log, row.item)]
        self._orders[row.reader, row.path, row.item] = order


def _remembered(tx: Tx, row: LogRow) -> Log:
    folder, cwd, parent, is_subagent = folders_of_log(tx, row)
    # Where a log knows no folder of its own, its segments have what it was found in as theirs.
    project = folder if row.harness == "claude-code" else cwd or folder
    file = load_log(tx, row.reader, row.path) or row  # of a document: the row of the whole file
    stamp = Stamp(file.size, file.mtime_ns, file.device, file.inode)
    return Log(row.path, stamp, row.session_id, project, parent, is_subagent)


# Gives what a line becomes; None drops it, and keeps it from being captured again.
Transform = Callable[[int, bytes], bytes | None]
Numbered = tuple[int, bytes]
Hear = Callable[[Entry], None]
SegmentKey = tuple[str, int]  # session and index

_WRITTEN_TOGETHER: Final = 2_000  # lines whose entries wait in memory


class LogDiff(msgspec.Struct):
    """What a log does not give any more, or gives with another content."""

    segments_gone: set[SegmentKey]
    segments_changed: set[SegmentKey]
    events_gone: set[str]  # by their envelopes
    events_changed: set[str]

    @property
    def segments(self) -> set[SegmentKey]:
        """All segments whose content was something else."""
        return self.segments_gone | self.segments_changed

    @property
    def events(self) -> set[str]:
        """All events whose content was something else."""
        return self.events_gone | self.events_changed


class RebuildReport(msgspec.Struct):
    """What changed when a log was rebuilt."""

    lines: int = 0  # changed or dropped
    lost: LogDiff = msgspec.field(default_factory=lambda: LogDiff(set(), set(), set(), set()))


def rederive(
    tx: Tx, around: CaptureContext, places: Places, log: LogRow, transform: Transform, words: Words
) -> RebuildReport:
    """Pass every line of a log through a transform; if any changes, rebuild everything.

    It is a part of a step of `places`: `log` must be as that transaction sees it. What is to be
    indexed is added to `words`.
    """
    changed = changes_of(tx, log, transform)
    if not changed:
        return RebuildReport()
    return _Remaking(tx, around, places, log, changed).run(words)


def changes_of(tx: Tx, log: LogRow, transform: Transform) -> dict[int, bytes]:
    """Return the lines that a transform changes, by their number; a dropped one is empty."""
    changed = {}
    for number, line in enumerate(read_lines(tx, log.id)):
        if line:  # an empty one was dropped before, or was never anything
            new = transform(number, line)
            if new != line:
                changed[number] = new or b""
    return changed


def reap(
    tx: Tx, source: Source, log: Log, lines: Iterable[Numbered], hear: Hear = lambda _: None
) -> Harvest:
    """Return what a fresh parser makes of lines; `hear` gets the entries."""
    fresh = partial(source.parser, log, None)
    parser, claims = fresh(), Claims(fresh, f"{source.agent}:{log.session_id}")
    for number, line in lines:
        # Whatever is wrong with a line was reported when it was captured.
        with suppress(Exception):
            for record in decode_line(line):
                taken = claims.checked(tx, record, line, number)
                for entry in parser.feed(taken, line, number):
                    hear(entry)
    return parser.harvest()


def compare(before: Harvest, after: Harvest) -> LogDiff:
    """Tell what is lost between two readings of one log."""
    old = {(one.session_id, one.index): content_hash(one) for one in before.segments}
    new = {(one.session_id, one.index): content_hash(one) for one in after.segments}
    ran = {envelope_of(run): run for run in before.tools}
    runs = {envelope_of(run): run for run in after.tools}
    return LogDiff(
        segments_gone=old.keys() - new.keys(),
        segments_changed={key for key in old.keys() & new.keys() if old[key] != new[key]},
        events_gone=ran.keys() - runs.keys(),
        events_changed={name for name in ran.keys() & runs.keys() if ran[name] != runs[name]},
    )


def foresee(tx: Tx, places: Places, row: LogRow, changed: Mapping[int, bytes]) -> LogDiff:
    """Tell what would be lost if lines of a log changed so, without changing anything."""
    source = places.source(row)
    places.find(row)
    log = places.log(tx, row)
    if source.kind != "lines":
        places.read(log, row)
    lines = list(lines_to_read(tx, places, row))
    after = ((number, changed.get(number, line)) for number, line in lines)
    return compare(reap(tx, source, log, lines), reap(tx, source, log, after))


def lines_to_read(tx: Tx, places: Places, row: LogRow) -> Iterator[Numbered]:
    """Yield the lines to be read: all of a line log, the newest records of a document."""
    source = places.source(row)
    if source.kind == "lines":
        yield from enumerate(read_lines(tx, row.id))
        return
    known = {key: line for key, (_, line) in records_of(tx, row.id).items()}
    wanted = set(known.values())
    order = places.order(tx, row)
    texts = {n: text for n, text in enumerate(read_lines(tx, row.id)) if n in wanted}
    for number in _ordered(source, row, order, known, texts):
        yield number, texts[number]


def _ordered(
    source: Source, row: LogRow, order: Order, known: dict[str, int], texts: dict[int, bytes]
) -> list[int]:
    """Put records in the order of their document, or of their time if it is gone."""
    if order is not None:
        found = dict.fromkeys(known[key] for key in order if key in known)
        return [*found, *sorted(texts.keys() - found.keys())]
    times: dict[int, int] = {}
    for number, text in sorted(texts.items()):
        first = next(
            iter(entries_in({row.reader: source}, row.reader, text, number).values()), None
        )
        times[number] = 0 if first is None or first.at is None else first.at
    return sorted(times, key=lambda number: times[number])


class _Remaking:
    """Rebuilds one log, within one transaction."""

    def __init__(
        self,
        tx: Tx,
        around: CaptureContext,
        places: Places,
        row: LogRow,
        changed: dict[int, bytes],
    ) -> None:
        self._tx = tx
        self._around = around
        self._places = places
        self._row = row
        self._changed = changed
        self._source = places.source(row)
        self._log = places.log(tx, row)
        self._sessions = sessions_of_log(tx, row)

    def run(self, words: Words) -> RebuildReport:
        """Rewrite the lines, then all that was made of them."""
        tx, row, now = self._tx, self._row, self._around.clock()
        before = self._reap_old()
        drop_entries(tx, row.id)
        self._rewrite()
        after = self._feed_all(words)
        lost = compare(before, after)
        self._facts(before, after)
        self._usage(before, after)
        self._segments(after, lost, now)
        self._tools(after, lost, now)
        save_log(tx, row)
        for session in self._sessions.values():
            recount(tx, session)
        return RebuildReport(len(self._changed), lost)

    def _reap_old(self) -> Harvest:
        """Read the log as it was; how it began is not told any more, until it is told again."""
        told: dict[str, Growth] = {}

        def hear(entry: Entry) -> None:
            told.setdefault(entry.session_id or self._row.session_id, Growth()).count(entry)

        before = reap(self._tx, self._source, self._log, self._lines(), hear)
        for session_id, growth in told.items():
            unlearn_prompt(self._tx, self._session(session_id), growth.first_prompt)
        return before

    def _lines(self) -> Iterator[Numbered]:
        return lines_to_read(self._tx, self._places, self._row)

    # ------------------------------------------------------------------ lines

    def _rewrite(self) -> None:
        """Rewrite the lines, and remember which of them were dropped."""
        tx, row = self._tx, self._row
        dropped = []
        row.source_bytes = 0

        def change(number: int, line: bytes) -> bytes:
            new = self._changed.get(number, line)
            if line and not new:
                dropped.append(line)
            row.source_bytes += len(new) + 1 if new else 0
            return new

        rewrite_lines(tx, row.id, change)
        remember_forgotten(tx, dropped)
        drop_masks(tx, row.id, self._changed)  # who changed them notes them again
        for key, (_, line) in records_of(tx, row.id).items():
            if line in self._changed:
                new = self._changed[line]
                put_record(tx, row.id, key, digest(new) if new else FORGOTTEN_RECORD, line)

    def _feed_all(self, words: Words) -> Harvest:
        fresh = partial(self._source.parser, self._log, None)
        parser, row = fresh(), self._row
        row.bad_lines = 0
        intake = Intake(self._source.agent, row, parser, AgentReport(), fresh)
        for place, (number, line) in enumerate(self._lines(), 1):
            intake.feed(self._tx, line, number)
            if place % _WRITTEN_TOGETHER == 0:
                intake.write_entries(self._tx, words)
        intake.write_entries(self._tx, words)
        harvest = parser.harvest()
        # A document is read whole again: what a cursor stood for may have been forgotten.
        row.parser = intake.state() if self._source.kind == "lines" else None
        return harvest

    # ------------------------------------------------------------------ what was made of them

    def _session(self, session_id: str) -> int:
        name = session_id or self._row.session_id
        if name not in self._sessions:
            self._sessions[name] = session_number(self._tx, self._source.agent, name)
        return self._sessions[name]

    def _facts(self, before: Harvest, after: Harvest) -> None:
        for session_id, facts in before.facts.items():
            unlearn(self._tx, known_number(self._tx, self._source.agent, session_id), facts)
        for session_id, facts in after.facts.items():
            learn(self._tx, self._session(session_id), facts)

    def _usage(self, before: Harvest, after: Harvest) -> None:
        """Replace what changed; an answer that another log told first stays as told there."""
        harness = self._source.agent
        told = (counted(self._tx, self._row, found.usage) for found in (before, after))
        old, new = ({one.key: one for one in found} for found in told)
        gone = [one for key, one in old.items() if new.get(key) != one]
        drop_usage(self._tx, harness, [(self._session(one.session_id), one) for one in gone])
        fresh = [one for key, one in new.items() if old.get(key) != one]
        write_usage(self._tx, harness, [(self._session(one.session_id), one) for one in fresh])

    def _segments(self, after: Harvest, lost: LogDiff, now: int) -> None:
        """Keep what rests on segments that say the same; from the others it is taken away."""
        tx, harness = self._tx, self._source.agent
        for key in lost.segments:
            number = segment_number(tx, harness, *key)
            forsake(tx, "legacy", legacy_numbers(tx, *key))
            forsake(tx, "segment", [] if number is None else [number])
            if number is not None and key in lost.segments_gone:
                erase(tx, "segment", [number])
        for segment in after.segments:
            number = segment_number(tx, harness, segment.session_id, segment.index)
            write_segment(tx, harness, segment, self._row.path, now)
            if number is None:
                continue
            move_segment(tx, number, segment.start)
            if (segment.session_id, segment.index) in lost.segments_changed:
                enqueue(tx, number, now)

    def _tools(self, after: Harvest, lost: LogDiff, now: int) -> None:
        tx = self._tx
        gone = (event_number(tx, envelope) for envelope in lost.events_gone)
        erase(tx, "event", [number for number in gone if number is not None])
        for run in after.tools:
            envelope = envelope_of(run)
            number = event_number(tx, envelope)
            if number is None:
                self._write_tool(run, now)
            elif envelope in lost.events_changed:
                rewrite_tool_run(tx, number, run)
                forsake(tx, "event", [number])
                renew_ticket(tx, number, now)

    def _write_tool(self, run: ToolRun, now: int) -> None:
        who, shell = self._around.who, self._source.agent
        write_tool_runs(
            self._tx, [run], shell=shell, hostname=who.hostname, username=who.username, now=now
        )
