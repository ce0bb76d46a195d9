"""Documents: databases and files that are rewritten whole, archived record by record."""

from itertools import islice

from threadkeep.base.sqlite import Tx
from threadkeep.capture.batches import Batches
from threadkeep.capture.context import Surroundings
from threadkeep.capture.exclusion import ENOUGH_LINES, kept_out
from threadkeep.capture.harvesting import Intake
from threadkeep.capture.report import HarnessReport
from threadkeep.capture.troubles import TROUBLES, has_vanished, tell
from threadkeep.knowledge.archive import LineWriter, digest
from threadkeep.knowledge.entries import Words
from threadkeep.knowledge.forgetting import FORGOTTEN_RECORD
from threadkeep.knowledge.logs import LogRow, fingerprints, load_log, save_log
from threadkeep.sources.records import Item, Log, Source

_MASKED_TOGETHER = 256


class DocumentCapture:
    """Captures the sessions of one document that have changed."""

    def __init__(
        self, around: Surroundings, reader: str, source: Source, log: Log, report: HarnessReport
    ) -> None:
        self._around = around
        self._reader = reader
        self._source = source
        self._log = log
        self._report = report
        self._rules = around.exclusion.name()
        self.kept_some_out = False

    def run(self, batches: Batches) -> str | None:
        """Read every session whose fingerprint is new; give what went wrong with one of them."""
        source, log = self._source, self._log
        known = fingerprints(batches.tx(), self._reader, log.path)
        failure = None
        for item in source.items(log):
            mark = known.get(item.item)
            self.kept_some_out |= mark == self._kept_out(item)
            if mark in {item.fingerprint, self._kept_out(item)}:
                continue
            failure = self._try(batches, item) or failure
        return failure

    def _kept_out(self, item: Item) -> str:
        """Give the fingerprint of a session that these rules keep out, as it is now."""
        return f"{self._rules} {item.fingerprint}"

    def _try(self, batches: Batches, item: Item) -> str | None:
        """Capture one session; what is wrong with it does not stop the others."""
        batches.next_log()
        try:
            size = self._capture(batches.tx(), item, batches.words)
        except TROUBLES as error:
            if has_vanished(self._log.path, error):
                raise
            batches.take_back()
            return tell(f"{self._log.path} ({item.item})", error, self._report)
        if batches.spend(size):
            batches.commit()
        return None

    def _capture(self, tx: Tx, item: Item, words: Words) -> int:
        row = self._row(tx, item)
        if self._is_unwanted(tx, row):
            row.fingerprint, row.excluded, self.kept_some_out = self._kept_out(item), True, True
            save_log(tx, row)
            self._report.excluded += 1
            return 0
        parser = self._source.parser(self._log, None)
        intake = Intake(self._source.harness, row, parser, self._report)
        lines = row.lines
        size = self._archive(tx, row, intake, item)
        intake.write_entries(tx, words)
        now = self._around.clock()
        intake.write_harvest(tx, self._around.who, now)
        row.fingerprint, row.captured_at, row.error, row.gone_at = item.fingerprint, now, None, None
        row.excluded = False
        row.source_bytes += size
        save_log(tx, row)
        self._report.lines += row.lines - lines
        self._report.source_bytes += size
        return size

    def _row(self, tx: Tx, item: Item) -> LogRow:
        source, path = self._source, self._log.path
        row = load_log(tx, self._reader, path, item.item)
        if row is None:
            session_id = item.item or self._log.session_id
            row = LogRow(self._reader, source.harness, path, item.item, session_id=session_id)
            save_log(tx, row)
        return row

    def _is_unwanted(self, tx: Tx, row: LogRow) -> bool:
        forgotten = {"harness": row.harness, "session_id": row.session_id}
        if tx.value("is_forgotten", forgotten) is not None:
            return True
        if row.lines >= ENOUGH_LINES and not self._around.exclusion.patterns:
            return False
        first = islice(self._source.records(self._log, row.item), ENOUGH_LINES)
        parser = self._source.parser(self._log, None)
        return self._around.exclusion.of_beginning(b"\n".join(line for _, line in first), parser)

    def _archive(self, tx: Tx, row: LogRow, intake: Intake, item: Item) -> int:
        """Feed every record; store those that are new or have changed, and give their bytes."""
        known = {key: (name, line) for key, name, line in tx.all("known_records", {"log": row.id})}
        writer = LineWriter(tx, row.id)
        is_forgotten = kept_out(tx)
        size = 0
        row.bad_lines = 0  # every record is fed again
        for key, line in self._masked(item.item):
            name = digest(line)
            stored = known.get(key)
            if (stored is not None and stored[0] == FORGOTTEN_RECORD) or is_forgotten(line):
                continue
            if stored is not None and stored[0] == name:
                intake.feed(line, stored[1])
                continue
            number = writer.next_line
            writer.append(line)
            tx.run("put_record", (row.id, key, name, number))
            known[key] = (name, number)
            intake.feed(line, number)
            size += len(line) + 1
        writer.finish()
        row.lines = writer.next_line
        return size

    def _masked(self, item: str) -> "list[tuple[str, bytes]]":
        found = list(self._source.records(self._log, item))
        masked: list[tuple[str, bytes]] = []
        for at in range(0, len(found), _MASKED_TOGETHER):
            some = found[at : at + _MASKED_TOGETHER]
            before = b"".join([line + b"\n" for _, line in some])
            after = self._around.mask(before)
            lines = after.split(b"\n")
            if after is not before:
                changed = [a != b for (_, a), b in zip(some, lines, strict=False)]
                self._report.masked_lines += sum(changed)
            masked += [(key, line) for (key, _), line in zip(some, lines, strict=False)]
        return masked
