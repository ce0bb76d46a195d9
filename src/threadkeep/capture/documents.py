"""Documents: databases and files that are rewritten whole, archived record by record.

A session is read first, outside of any transaction, and then written; a large one in pieces.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, islice
from typing import NamedTuple

import msgspec

from threadkeep.base.tx import Tx
from threadkeep.capture.intake import (
    MOST_BYTES,
    Backlog,
    Batches,
    CaptureContext,
    Intake,
    Mask,
    Write,
    mask_of,
    masked_lines,
)
from threadkeep.capture.records import (
    ENOUGH_LINES,
    TROUBLES,
    AgentReport,
    has_vanished,
    kept_out,
    tell,
)
from threadkeep.knowledge.archive import (
    LineWriter,
    LogRow,
    digest,
    load_log,
    put_record,
    records_of,
    save_log,
)
from threadkeep.knowledge.forget import FORGOTTEN_RECORD, Marks, is_forgotten, note_masks
from threadkeep.sources.records import (
    CursorSource,
    DocumentItem,
    Log,
    Parser,
    SessionExcerpt,
    Source,
)

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


class _Position(msgspec.Struct, array_like=True):
    """How far a session was read: the cursor, and the state its parser had there."""

    cursor: str
    parser: bytes


@contextmanager
def _excerpt(source: Source, log: Log, item: str, cursor: str) -> Iterator[SessionExcerpt]:
    """Open a session behind a cursor where its source knows of such; all others are read whole."""
    if isinstance(source, CursorSource):
        with source.excerpt(log, item, cursor) as excerpt:
            yield excerpt
    else:
        yield SessionExcerpt(source.records(log, item))


class DocumentCapture:
    """Captures the sessions of one document that have changed."""

    def __init__(
        self,
        around: CaptureContext,
        reader: str,
        source: Source,
        log: Log,
        report: AgentReport,
        *,
        live: bool = False,
    ) -> None:
        self._around = around
        self._reader = reader
        self._source = source
        self._log = log
        self._report = report
        self._live = live
        self._rules = around.exclusion.name()
        self.kept_some_out = False
        self.failure: str | None = None

    def run(self, backlog: Backlog) -> None:
        """Read every session whose fingerprint is new; what goes wrong with one is kept."""
        known = self._around.store.archive.fingerprints(self._reader, self._log.path)
        for item in self._source.items(self._log):
            mark = known.get(item.item)
            self.kept_some_out |= mark == self._kept_out(item)
            if mark not in {item.fingerprint, self._kept_out(item)}:
                self._try(backlog, item)

    def _kept_out(self, item: DocumentItem) -> str:
        """Return the fingerprint of a session that these rules keep out, as it is now."""
        return f"{self._rules} {item.fingerprint}"

    def _try(self, backlog: Backlog, item: DocumentItem) -> None:
        """Read one session, piece by piece; what is wrong with it does not stop the others."""
        row = self._around.store.archive.log(self._reader, self._log.path, item.item)
        last = _last_position(row)
        try:
            with _excerpt(self._source, self._log, item.item, last.cursor) as excerpt:
                state = last.parser if excerpt.resumed else None
                writing = _Writing(item, excerpt, self._source.parser(self._log, state))
                records = iter(excerpt.records)
                first = list(islice(records, ENOUGH_LINES))
                if self._is_unwanted(row, excerpt, first):
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

    def _is_unwanted(self, row: LogRow | None, excerpt: SessionExcerpt, first: Records) -> bool:
        if row is not None and row.lines >= ENOUGH_LINES:
            if not self._around.exclusion.patterns:
                return False
            if excerpt.resumed:
                first = first[:1]  # where it works; how it began was judged before
        parser = self._source.parser(self._log, None)
        return self._around.exclusion.of_beginning(b"\n".join(line for _, line in first), parser)

    def _mask(self, item: DocumentItem) -> Mask:
        session_id = item.item or self._log.session_id
        with self._around.store.read() as tx:
            return mask_of(tx, self._around, self._source.agent, session_id)

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
                size = self._write(batches.tx(), writing, piece, batches)
            except TROUBLES as error:
                batches.take_back(error)
                writing.over = True
                self._fail(writing.item, error)
                return
            if batches.spend(size):
                batches.commit()

        return write

    def _write(self, tx: Tx, writing: "_Writing", piece: _Piece, batches: Batches) -> int:
        row = self._row(tx, writing.item)
        if is_forgotten(tx, row.harness, row.session_id):
            self._keep_out(tx, writing.item)
            writing.over = True
            return 0
        if writing.intake is None:
            writing.intake = Intake(
                self._source.agent, row, writing.parser, self._report, self._fresh
            )
            if not writing.excerpt.resumed:
                row.bad_lines = 0  # every record is fed again
        elif row.lines != writing.lines:
            writing.over = True  # another process captures it at the same time, and ends it
            return 0
        intake, lines = writing.intake, row.lines
        intake.go_on(row)
        size = self._archive(tx, row, writing, intake, piece.records)
        intake.write_entries(tx, batches.words, batches.recent)
        now = self._around.clock()
        if piece.last:
            intake.write_harvest(tx, batches.folders, self._around.who, now)
            row.fingerprint = writing.item.fingerprint
        row.parser = writing.position() if piece.last else None
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
        row.parser = None
        save_log(tx, row)
        self._report.excluded += 1

    def _row(self, tx: Tx, item: DocumentItem) -> LogRow:
        source, path = self._source, self._log.path
        row = load_log(tx, self._reader, path, item.item)
        if row is None:
            session_id = item.item or self._log.session_id
            row = LogRow(self._reader, source.agent, path, item.item, session_id=session_id)
            save_log(tx, row)
        return row

    def _archive(
        self, tx: Tx, row: LogRow, writing: "_Writing", intake: Intake, records: Sequence[_Record]
    ) -> int:
        """Feed records; store those that are new or have changed, and give their bytes."""
        known = records_of(tx, row.id, [record.key for record in records])
        writer = LineWriter(tx, row.id, live=self._live and writing.excerpt.resumed)
        is_out = kept_out(tx)
        size = 0
        noted: dict[int, Marks] = {}
        for key, line, marks in records:
            if key == writing.excerpt.start:
                writing.state = intake.state()
            name = digest(line)
            stored = known.get(key)
            if (stored is not None and stored[0] == FORGOTTEN_RECORD) or is_out(line):
                continue
            if stored is not None and stored[0] == name:
                intake.feed(tx, line, stored[1])
                continue
            number = writer.next_line
            noted[number] = marks
            writer.append(line)
            put_record(tx, row.id, key, name, number)
            known[key] = (name, number)
            intake.feed(tx, line, number)
            size += len(line) + 1
        writer.finish()
        note_masks(tx, row.id, noted)
        row.lines = writer.next_line
        return size


class _Writing:
    """How far the writing of one session is."""

    def __init__(self, item: DocumentItem, excerpt: SessionExcerpt, parser: Parser) -> None:
        self.item = item
        self.excerpt = excerpt
        self.parser = parser
        self.intake: Intake | None = None
        self.lines = 0
        self.over = False
        self.state: bytes | None = None  # of the parser, where the next excerpt is to begin

    def position(self) -> bytes | None:
        """Return where to read on the next time; None: from the beginning."""
        if self.state is None:
            return None
        return msgspec.msgpack.encode(_Position(self.excerpt.cursor, self.state))


def _last_position(row: LogRow | None) -> _Position:
    with suppress(msgspec.MsgspecError):  # what nobody can read means: from the beginning
        if row is not None and row.parser is not None:
            return msgspec.msgpack.decode(row.parser, type=_Position)
    return _Position("", b"")
