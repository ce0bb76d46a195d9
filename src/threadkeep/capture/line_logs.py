"""Line logs: read on from the last complete line, whatever happened to the file meanwhile.

A log that was truncated, rewritten or replaced is read from its start; lines that are archived
already are passed over, so nothing is lost and nothing is kept twice. A renamed one is recognised
by its first bytes.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from threadkeep.base.sqlite import Tx
from threadkeep.capture.batches import Batches
from threadkeep.capture.context import Surroundings
from threadkeep.capture.harvesting import Intake
from threadkeep.capture.report import HarnessReport, Progress, Watcher
from threadkeep.errors import Invalid
from threadkeep.knowledge.archive import LineWriter, digest, read_lines
from threadkeep.knowledge.logs import LogRow, load_log, save_log
from threadkeep.sources.decoding import decode_line
from threadkeep.sources.files import LogFile, Piece
from threadkeep.sources.records import Log, Source, Stamp

HEAD_BYTES: Final = 4096
_TAIL_BYTES: Final = 256
# A last line that is no JSON yet may still be written to; after this long it is what it is.
_SETTLED_MS: Final = 60_000


class LineCapture:
    """Captures what is new in one line log."""

    def __init__(
        self, around: Surroundings, source: Source, log: Log, row: LogRow, report: HarnessReport
    ) -> None:
        self._around = around
        self._source = source
        self._log = log
        self._row = row
        self._report = report
        self._intake = Intake(source.harness, row, source.parser(log, row.parser), report)
        self._seen: Counter[bytes] | None = None  # after a rewrite: what is archived already
        self._writer: LineWriter | None = None
        self._unterminated = False  # the last line was taken without its line feed
        self._before = (row.lines, row.source_bytes)

    def run(self, file: LogFile, batches: Batches, progress: Progress, show: Watcher) -> None:
        """Read to the end of the last complete line, committing now and then."""
        row = self._row
        tx = batches.tx()
        if not row.id:
            save_log(tx, row)
        if self._was_rewritten(file):
            self._start_over(tx)
        self._unterminated = file.between(max(0, row.read_to - 1), row.read_to) not in {b"", b"\n"}
        for piece in _settled(file.pieces(row.read_to), settled=self._is_settled(file.stamp)):
            if self._writer is None:
                tx = batches.tx()
                if self._overtaken(tx):
                    return
                self._writer = LineWriter(tx, row.id)
            self._take(self._writer, piece)
            self._intake.write_entries(tx, batches.words)
            progress.bytes_done += len(piece)
            progress.entries = self._report.entries
            show(progress)
            if batches.spend(len(piece)):
                self._save(tx, file)
                batches.commit()
                self._writer = None
        tx = batches.tx()
        if self._writer is not None or not self._overtaken(tx):
            self._note_looks(file.stamp)
            self._save(tx, file)

    # ------------------------------------------------------------------ is it still the same file

    def _was_rewritten(self, file: LogFile) -> bool:
        row = self._row
        if row.read_to == 0 and row.lines == 0:
            return False
        if file.stamp.size < row.read_to and not self._log.path.endswith(".zst"):
            return True
        same_head = digest(file.between(0, row.head_size)) == row.head
        last = file.between(max(0, row.read_to - _TAIL_BYTES), row.read_to)
        return not (same_head and digest(last) == row.tail)

    def _start_over(self, tx: Tx) -> None:
        self._seen = Counter(digest(line) for line in read_lines(tx, self._row.id))
        self._row.read_to = 0
        self._row.head, self._row.head_size = None, 0

    def _overtaken(self, tx: Tx) -> bool:
        """Tell whether another process read on in this log while no transaction was open."""
        stored = load_log(tx, self._row.reader, self._row.path)
        return stored is None or (stored.lines, stored.read_to) != (
            self._row.lines,
            self._row.read_to if self._seen is None else stored.read_to,
        )

    def _is_settled(self, stamp: Stamp) -> bool:
        return abs(self._around.clock() - stamp.mtime_ns // 1_000_000) > _SETTLED_MS

    # ------------------------------------------------------------------ lines

    def _take(self, writer: LineWriter, piece: bytes) -> None:
        if self._unterminated and piece.startswith(b"\n"):  # the line feed that was missing
            self._row.read_to += 1
            piece = piece[1:]
        self._unterminated = False
        for line in self._masked(piece):
            if self._seen and self._seen[name := digest(line)] > 0:
                self._seen[name] -= 1
                continue
            self._intake.feed(line, writer.next_line)
            writer.append(line)
            self._row.source_bytes += len(line) + 1
        self._row.read_to += len(piece)

    def _masked(self, piece: bytes) -> list[bytes]:
        masked = self._around.mask(piece)
        lines = masked.split(b"\n")
        if masked is not piece:
            before = piece.split(b"\n")
            self._report.masked_lines += sum(map(bytes.__ne__, before, lines))
        return lines[:-1] if masked.endswith(b"\n") else lines

    # ------------------------------------------------------------------ what is remembered

    def _save(self, tx: Tx, file: LogFile) -> None:
        row, now = self._row, self._around.clock()
        if self._writer is not None:
            self._writer.finish()
            row.lines = self._writer.next_line
        self._intake.write_harvest(tx, self._around.who, now)
        row.parser = self._intake.state()
        self._remember_bytes(file)
        row.captured_at, row.gone_at, row.error = now, None, None
        save_log(tx, row)
        self._note_for_others(tx, now)
        lines, size = self._before
        self._report.lines += row.lines - lines
        self._report.source_bytes += row.source_bytes - size
        self._before = (row.lines, row.source_bytes)

    def _remember_bytes(self, file: LogFile) -> None:
        row = self._row
        if row.head_size < HEAD_BYTES and row.head_size < row.read_to:
            head = file.between(0, min(HEAD_BYTES, row.read_to))
            row.head, row.head_size = digest(head), len(head)
        row.tail = digest(file.between(max(0, row.read_to - _TAIL_BYTES), row.read_to))

    def _note_looks(self, stamp: Stamp) -> None:
        row = self._row
        row.size, row.mtime_ns, row.device, row.inode = stamp
        if row.read_to < stamp.size and not self._is_settled(stamp):
            row.mtime_ns = -1  # look again: the last line may be complete by then

    def _note_for_others(self, tx: Tx, now: int) -> None:
        """Tell the contract's own readers that they need not read this file again."""
        row = self._row
        values = {"session_id": row.session_id, "now": now}
        if row.harness == "claude-code":
            place = {"path": row.path, "size": row.size, "inode": row.inode, "device": row.device}
            tx.run("put_claude_offset", {**values, **place})
        elif row.harness in {"codex", "cursor"}:
            prefix = {"codex": "codex", "cursor": "cursor-agent"}[row.harness]
            cursor = {"key": f"{prefix}-{row.inode}", "mtime": max(0, row.mtime_ns) // 1_000_000}
            tx.run("put_cursor", {**cursor, "last_id": row.session_id, "now": now})


def _settled(pieces: Iterable[Piece], *, settled: bool) -> Iterator[bytes]:
    """Yield the pieces to take: whole lines, and a last one that will not be finished any more."""
    held: Piece | None = None
    for piece in pieces:
        if held is not None:
            yield held.data  # not the last: a line too long to be held, taken in parts
        held = None if piece.complete else piece
        if piece.complete:
            yield piece.data
    if held is not None and (settled or _is_whole(held.data)):
        yield held.data


def _is_whole(data: bytes) -> bool:
    """Tell whether a line without a line feed is a whole record: no part of one is JSON."""
    try:
        return isinstance(decode_line(data)[0], (dict, list))
    except (Invalid, IndexError):
        return False
