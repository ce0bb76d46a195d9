"""Line logs: read on from the last complete line, whatever happened to the file meanwhile.

A log that was truncated, rewritten or replaced is read from its start; lines that are archived
already are passed over, so nothing is lost and nothing is kept twice. A renamed one is recognised
by its first bytes. Whenever a log has changed, all that was read of it before is compared with
its sum: a rewrite shows wherever it is. That takes 0.4 ms a megabyte, a hundredth of reading it.
Of a large log that grows before our eyes it is done now and then, for a hundredth of the time.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final
from zlib import crc32

import msgspec

from threadkeep.base.json import decode_line
from threadkeep.base.tx import Tx
from threadkeep.capture.intake import (
    CONTEXT_BYTES,
    Batches,
    CaptureContext,
    Folders,
    Intake,
    mask_of,
    masked_lines,
    tail_of,
)
from threadkeep.capture.records import (
    AgentReport,
    Progress,
    Watcher,
    kept_out,
    tell,
)
from threadkeep.errors import Invalid, TooLarge
from threadkeep.knowledge import archive
from threadkeep.knowledge.forget import Marks, note_masks
from threadkeep.knowledge.health import count_drop, health_name
from threadkeep.knowledge.sessions import recount_of_log
from threadkeep.sources.files import LogChunk, LogFile
from threadkeep.sources.folders import printable
from threadkeep.sources.records import Log, Parser, Source, Stamp

HEAD_BYTES: Final = 4096
# A last line that is no JSON yet may still be written to; after this long it is what it is.
# The watchdog waits as long before it misses the line.
SETTLED_MS: Final = 60_000
UNFINISHED: Final = -1  # in place of the time at which a log was changed: its last line waits
# Of a log that is being written, all that was read before is compared again after so long for each
# megabyte of it; of one that looks as it did, once a week, for systems that keep no time of change.
_CHECK_MS_PER_MB: Final = 50
_CHECK_ANYHOW_MS: Final = 7 * 24 * 3_600_000
CHECKED_AT_ONCE: Final = 64 * 1024 * 1024  # bytes of those that look as they did, in one look
_MB: Final = 1 << 20
_LITTLE: Final = 64 * 1024  # bytes that a log grew by: they may lie by themselves for a while


def note_stamp(row: archive.LogRow, stamp: Stamp) -> None:
    """Remember how a log looked."""
    row.size, row.mtime_ns, row.device, row.inode, row.ctime_ns = stamp


def is_due(looks: archive.LogState, now: int) -> bool:
    """Tell whether a log is to be compared with its sum though it looks as it did."""
    if looks.gone or looks.excluded_by or not looks.read_to:
        return False
    wait = _CHECK_ANYHOW_MS if looks.is_checked else _wait(looks.read_to)
    return abs(now - (looks.checked_at or 0)) >= wait


def _wait(read_to: int) -> int:
    return _CHECK_MS_PER_MB * read_to // _MB


class LineCapture:
    """Captures what is new in one line log."""

    def __init__(
        self,
        around: CaptureContext,
        source: Source,
        log: Log,
        row: archive.LogRow,
        report: AgentReport,
        *,
        live: bool = False,
    ) -> None:
        self._around = around
        self._source = source
        self._log = log
        self._row = row
        self._report = report
        parser = _parser(source, log, row)
        fresh = partial(source.parser, log, None)
        self._intake = Intake(source.agent, row, parser, report, fresh)
        self._seen: Counter[bytes] | None = None  # after a rewrite: what is archived already
        self._unseen = 0  # how much of that was not met again
        self._writer: archive.LineWriter | None = None
        self._unterminated = False  # the last line was taken without its line feed
        self._waits = False  # the last line is not taken yet
        self._mask = around.mask
        self._tail = b""  # the end of what was read: a secret may have begun there
        self._marks: dict[int, Marks] = {}  # the masks of lines that are not noted yet
        self._last = b""  # of what was read
        self._summed = True  # all that was read before was compared with its sum
        self._live = live
        # Whoever looks live reads more than he compares, or says that he compared it before.
        self._is_behind = (row.captured_at or 0) > (row.checked_at or 0)
        self._was_cut = row.error is not None
        self._before = (row.lines, row.source_bytes)

    def run(self, file: LogFile, batches: Batches, progress: Progress, show: Watcher) -> None:
        """Read to the end of the last complete line, committing now and then."""
        row = self._row
        tx = batches.tx()
        if not row.id:
            archive.save_log(tx, row)
        if self._was_rewritten(file):
            self._start_over(tx)
        self._mask = mask_of(tx, self._around, row.harness, row.session_id)
        self._tail = file.between(max(0, row.read_to - CONTEXT_BYTES), row.read_to)
        self._unterminated = self._last[-1:] not in {b"", b"\n"}
        for piece, after in self._settled(file.pieces(row.read_to), file.stamp):
            if self._writer is None:
                tx = batches.tx()
                if self._overtaken(tx):
                    return
                little = file.stamp.size - row.read_to <= _LITTLE
                self._writer = archive.LineWriter(tx, row.id, live=self._live and little)
                self._is_forgotten = kept_out(tx)
            self._advance(piece.data)
            if piece.kept:
                self._take(tx, self._writer, piece.data, after)
                note_masks(tx, row.id, self._marks)
                self._marks.clear()
            self._intake.write_entries(tx, batches.words, batches.recent, live=self._live)
            progress.bytes_done += len(piece.data)
            progress.entries = self._report.entries
            show(progress)
            if batches.spend(len(piece.data)):
                self._save(tx, file, batches.folders)
                batches.commit()
                self._writer = None
        tx = batches.tx()
        if self._writer is not None or not self._overtaken(tx):
            self._note_looks(file.stamp)
            self._save(tx, file, batches.folders)
            self._note_cut(tx, file.cut)
            if not self._live:  # else they would read it once more at every line
                archive.tell_hippo(tx, row, printable(row.path), self._around.clock())

    # ------------------------------------------------------------------ is it still the same file

    def _was_rewritten(self, file: LogFile) -> bool:
        row = self._row
        if row.read_to == 0:
            row.crc = 0
            return row.lines > 0
        if file.stamp.size < row.read_to and not self._log.path.endswith(".zst"):
            return True
        self._summed = whole = self._is_to_be_summed(file)
        if whole:
            total, self._last = file.summed(row.read_to)
        else:
            self._last = file.between(max(0, row.read_to - archive.TAIL_BYTES), row.read_to)
        same_head = archive.digest(file.between(0, row.head_size)) == row.head
        if not (same_head and archive.digest(self._last) == row.tail):
            return True
        if not whole:
            return False
        if row.crc is None:  # of a version that kept no sum: what is there now is what was read
            row.crc = total
        return row.crc != total

    def _is_to_be_summed(self, file: LogFile) -> bool:
        """Tell whether to compare all that was read: always, but seldom for one that just grew."""
        row = self._row
        grew = file.stamp.size > row.size and file.stamp.inode == row.inode
        waited = abs(self._around.clock() - (row.checked_at or 0))
        return not (grew and self._live) or row.crc is None or waited >= _wait(row.read_to)

    def _start_over(self, tx: Tx) -> None:
        self._seen = Counter(archive.digest(line) for line in archive.read_lines(tx, self._row.id))
        self._unseen = self._seen.total()
        self._row.read_to, self._row.crc, self._last, self._summed = 0, 0, b"", True
        self._row.head, self._row.head_size = None, 0

    def _overtaken(self, tx: Tx) -> bool:
        """Tell whether another process read on in this log while no transaction was open."""
        stored = archive.load_log_by_id(tx, self._row.id)
        return stored is None or (stored.lines, stored.read_to) != (
            self._row.lines,
            self._row.read_to if self._seen is None else stored.read_to,
        )

    def _is_settled(self, stamp: Stamp) -> bool:
        return abs(self._around.clock() - stamp.mtime_ns // 1_000_000) > SETTLED_MS

    # ------------------------------------------------------------------ lines

    def _settled(
        self, pieces: Iterable[LogChunk], stamp: Stamp
    ) -> Iterator[tuple[LogChunk, bytes]]:
        """Yield the pieces to take: whole lines, and a last one that is as it will stay.

        With a part of a line comes what follows it.
        """
        held: LogChunk | None = None
        for piece in pieces:
            if held is not None:
                yield held, piece.data  # a line too long to be held, taken in parts
            held = None if piece.complete else piece
            if piece.complete:
                yield piece, b""
        if held is not None and (self._is_settled(stamp) or _is_whole(held.data)):
            yield held, b""
        else:
            self._waits = held is not None

    def _advance(self, piece: bytes) -> None:
        self._row.read_to += len(piece)
        self._row.crc = crc32(piece, self._row.crc or 0)
        self._last = (self._last + piece[-archive.TAIL_BYTES :])[-archive.TAIL_BYTES :]

    def _take(self, tx: Tx, writer: archive.LineWriter, piece: bytes, after: bytes) -> None:
        if self._unterminated:  # here comes the line feed that was missing
            whole = piece
            piece = piece.removeprefix(b"\r\n" if piece.startswith(b"\r") else b"\n")
            self._tail += whole[: len(whole) - len(piece)]
        self._unterminated = False
        masked = masked_lines(self._mask, piece, self._tail, after)
        self._tail = tail_of(self._tail, piece)
        self._report.masked_lines += len(masked.changed)
        for row, line in enumerate(masked.lines):
            if self._seen and self._seen[name := archive.digest(line)] > 0:
                self._seen[name] -= 1
                self._unseen -= 1
                continue
            if self._is_forgotten(line):
                continue
            if row in masked.marks:
                self._marks[writer.next_line] = masked.marks[row]
            self._intake.feed(tx, line, writer.next_line)
            writer.append(line)
            self._row.source_bytes += len(line) + 1

    # ------------------------------------------------------------------ what is remembered

    def _save(self, tx: Tx, file: LogFile, folders: Folders) -> None:
        row, now = self._row, self._around.clock()
        if self._writer is not None:
            self._writer.finish()
            row.lines = self._writer.next_line
        if self._is_behind and not self._live:
            recount_of_log(tx, row.id)
        self._intake.write_harvest(tx, folders, self._around.who, now, live=self._live)
        row.parser = self._intake.state()
        self._remember_bytes(file)
        row.captured_at, row.gone_at, row.error = now, None, None
        if self._summed:
            # Just before: what was left out of a live look is made up for when all are looked at.
            row.checked_at = now - 1 if self._live else now
        archive.save_log(tx, row)
        lines, size = self._before
        self._report.lines += row.lines - lines
        self._report.source_bytes += row.source_bytes - size
        self._before = (row.lines, row.source_bytes)

    def _remember_bytes(self, file: LogFile) -> None:
        row = self._row
        # Without a head the log is compared with the archive from its start the next time too:
        # what was there before it was rewritten may still come back.
        if self._unseen == 0 and row.head_size < min(HEAD_BYTES, row.read_to):
            head = file.between(0, min(HEAD_BYTES, row.read_to))
            row.head, row.head_size = archive.digest(head), len(head)
        row.tail = archive.digest(self._last)

    def _note_cut(self, tx: Tx, why: str) -> None:
        """Tell of what is left out, behind what was kept."""
        if not why:
            return
        row, now = self._row, self._around.clock()
        if not self._was_cut:
            count_drop(tx, health_name(row.harness), "too long", 1, now)
        row.error = tell(row.path, TooLarge(f"{row.path}: {why}"), self._report)
        archive.save_log(tx, row)

    def _note_looks(self, stamp: Stamp) -> None:
        row = self._row
        note_stamp(row, stamp)
        if self._waits:
            row.mtime_ns = UNFINISHED  # look again: the last line may be complete by then


def _parser(source: Source, log: Log, row: archive.LogRow) -> Parser:
    """Make the parser of a log; one that was read under another name keeps its session."""
    if row.parser is not None and log.session_id:
        log = msgspec.structs.replace(log, session_id=row.session_id)
    return source.parser(log, row.parser)


def _is_whole(data: bytes) -> bool:
    """Tell whether a line without a line feed is a whole record: no part of one is JSON."""
    try:
        return isinstance(decode_line(data)[0], (dict, list))
    except (Invalid, IndexError):
        return False
