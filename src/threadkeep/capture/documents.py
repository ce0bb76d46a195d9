"""Documents: databases and files that are rewritten whole, archived record by record.

A session is read first, outside of any transaction, and then written; a large one in pieces.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple

from threadkeep.base.tx import Tx
from threadkeep.capture.backlog import MOST_BYTES, Backlog, Write
from threadkeep.capture.batches import Batches
from threadkeep.capture.context import CaptureContext, Mask
from threadkeep.capture.exclusion import ENOUGH_LINES, kept_out
from threadkeep.capture.harvesting import Intake
from threadkeep.capture.masks import mask_of, masked_lines
from threadkeep.capture.report import HarnessReport
from threadkeep.capture.troubles import TROUBLES, has_vanished, tell
from threadkeep.knowledge.archive import LineWriter, digest
from threadkeep.knowledge.entries import Words
from threadkeep.knowledge.forgetting import FORGOTTEN_RECORD
from threadkeep.knowledge.logs import LogRow, fingerprints, load_log, save_log
from threadkeep.knowledge.masks import Marks, note_masks
from threadkeep.sources.records import DocumentItem, Log, Parser, Source

_MASKED_TOGETHER = 256

Records = list[tuple[str, bytes]]


class _Record(NamedTuple):
    """A record without its secrets, and where they were."""

    key: str
    line: bytes
    marks: Marks = ()


class _Piece(NamedTuple):
    """Some of a session's records, masked; the last piece ends it."""

    records: Sequence[_Record]
    size: int
    last: bool


class DocumentCapture:
    """Captures the sessions of one document that have changed."""

    def __init__(
        self, around: CaptureContext, reader: str, source: Source, log: Log, report: HarnessReport
    ) -> None:
        self._around = around
        self._reader = reader
        self._source = source
        self._log = log
        self._report = report
        self._rules = around.exclusion.name()
        self.kept_some_out = False
        self.failure: str | None = None

    def run(self, backlog: Backlog) -> None:
        """Read every session whose fingerprint is new; what goes wrong with one is kept."""
        with self._around.db.read() as tx:
            known = fingerprints(tx, self._reader, self._log.path)
        for item in self._source.items(self._log):
            mark = known.get(item.item)
            self.kept_some_out |= mark == self._kept_out(item)
            if mark not in {item.fingerprint, self._kept_out(item)}:
                self._try(backlog, item)

    def _kept_out(self, item: DocumentItem) -> str:
        """Give the fingerprint of a session that these rules keep out, as it is now."""
        return f"{self._rules} {item.fingerprint}"

    def _try(self, backlog: Backlog, item: DocumentItem) -> None:
        """Read one session, piece by piece; what is wrong with it does not stop the others."""
        writing = _Writing(item, self._source.parser(self._log, None))
        try:
            records = iter(self._source.records(self._log, item.item))
            first = list(islice(records, ENOUGH_LINES))
            if self._is_unwanted(item, first):
                backlog.add(lambda: self._keep_out(backlog.batches.tx(), item))
                return
            for piece in self._pieces(chain(first, records), self._mask(item)):
                backlog.add(self._later(backlog.batches, writing, piece), piece.size)
        except TROUBLES as error:
            if has_vanished(self._log.path, error):
                raise
            self._fail(item, error)

    def _fail(self, item: DocumentItem, error: Exception) -> None:
        self.failure = tell(f"{self._log.path} ({item.item})", error, self._report)

    def _is_unwanted(self, item: DocumentItem, first: Records) -> bool:
        with self._around.db.read() as tx:
            row = load_log(tx, self._reader, self._log.path, item.item)
        if row is not None and row.lines >= ENOUGH_LINES and not self._around.exclusion.patterns:
            return False
        parser = self._source.parser(self._log, None)
        return self._around.exclusion.of_beginning(b"\n".join(line for _, line in first), parser)

    def _mask(self, item: DocumentItem) -> Mask:
        session_id = item.item or self._log.session_id
        with self._around.db.read() as tx:
            return mask_of(tx, self._around, self._source.harness, session_id)

    def _pieces(self, records: Iterator[tuple[str, bytes]], mask: Mask) -> Iterator[_Piece]:
        """Yield masked records in pieces that fit into memory; the last one may be empty."""
        some: Records = []
        size = 0
        for key, line in records:
            some.append((key, line))
            size += len(line)
            if size >= MOST_BYTES:
                yield _Piece(self._masked(some, mask), size, last=False)
                some, size = [], 0
        yield _Piece(self._masked(some, mask), size, last=True)

    def _masked(self, found: Records, mask: Mask) -> list[_Record]:
        masked: list[_Record] = []
        for at in range(0, len(found), _MASKED_TOGETHER):
            some = found[at : at + _MASKED_TOGETHER]
            lines, marks, changed = masked_lines(mask, b"".join([line + b"\n" for _, line in some]))
            self._report.masked_lines += len(changed)
            masked += [
                _Record(key, line, marks.get(row, ()))
                for row, ((key, _), line) in enumerate(zip(some, lines, strict=False))
            ]
        return masked

    # ------------------------------------------------------------------ writing

    def _later(self, batches: Batches, writing: "_Writing", piece: _Piece) -> Write:
        def write() -> None:
            if writing.over:
                return
            batches.next_log()
            try:
                size = self._write(batches.tx(), writing, piece, batches.words)
            except TROUBLES as error:
                batches.take_back()
                writing.over = True
                self._fail(writing.item, error)
                return
            if batches.spend(size):
                batches.commit()

        return write

    def _write(self, tx: Tx, writing: "_Writing", piece: _Piece, words: Words) -> int:
        row = self._row(tx, writing.item)
        forgotten = {"harness": row.harness, "session_id": row.session_id}
        if tx.value("is_forgotten", forgotten) is not None:
            self._keep_out(tx, writing.item)
            writing.over = True
            return 0
        if writing.intake is None:
            writing.intake = Intake(
                self._source.harness, row, writing.parser, self._report, self._fresh
            )
            row.bad_lines = 0  # every record is fed again
        elif row.lines != writing.lines:
            writing.over = True  # another process captures it at the same time, and ends it
            return 0
        intake, lines = writing.intake, row.lines
        intake.go_on(row)
        size = self._archive(tx, row, intake, piece.records)
        intake.write_entries(tx, words)
        now = self._around.clock()
        if piece.last:
            intake.write_harvest(tx, self._around.who, now)
            row.fingerprint = writing.item.fingerprint
        row.captured_at, row.error, row.gone_at, row.excluded = now, None, None, False
        row.source_bytes += size
        save_log(tx, row)
        writing.lines = row.lines
        self._report.lines += row.lines - lines
        self._report.source_bytes += size
        return size

    def _fresh(self) -> Parser:
        return self._source.parser(self._log, None)

    def _keep_out(self, tx: Tx, item: DocumentItem) -> None:
        row = self._row(tx, item)
        row.fingerprint, row.excluded, self.kept_some_out = self._kept_out(item), True, True
        save_log(tx, row)
        self._report.excluded += 1

    def _row(self, tx: Tx, item: DocumentItem) -> LogRow:
        source, path = self._source, self._log.path
        row = load_log(tx, self._reader, path, item.item)
        if row is None:
            session_id = item.item or self._log.session_id
            row = LogRow(self._reader, source.harness, path, item.item, session_id=session_id)
            save_log(tx, row)
        return row

    def _archive(self, tx: Tx, row: LogRow, intake: Intake, records: Sequence[_Record]) -> int:
        """Feed records; store those that are new or have changed, and give their bytes."""
        known = {key: (name, line) for key, name, line in tx.all("known_records", {"log": row.id})}
        writer = LineWriter(tx, row.id)
        is_forgotten = kept_out(tx)
        size = 0
        noted: dict[int, Marks] = {}
        for key, line, marks in records:
            name = digest(line)
            stored = known.get(key)
            if (stored is not None and stored[0] == FORGOTTEN_RECORD) or is_forgotten(line):
                continue
            if stored is not None and stored[0] == name:
                intake.feed(tx, line, stored[1])
                continue
            number = writer.next_line
            noted[number] = marks
            writer.append(line)
            tx.run("put_record", (row.id, key, name, number))
            known[key] = (name, number)
            intake.feed(tx, line, number)
            size += len(line) + 1
        writer.finish()
        note_masks(tx, row.id, noted)
        row.lines = writer.next_line
        return size


class _Writing:
    """How far the writing of one session is."""

    def __init__(self, item: DocumentItem, parser: Parser) -> None:
        self.item = item
        self.parser = parser
        self.intake: Intake | None = None
        self.lines = 0
        self.over = False
