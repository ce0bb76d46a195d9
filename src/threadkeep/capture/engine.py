"""One run of capture: look at every log, read what is new, keep it.

A log that looks as it did last time costs one look and is not opened. What was read is committed
together with how far it was read, so a run that is killed goes on where it stopped, and comes to
the same result as one that was not.
"""

import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from threadkeep.base.sqlite import Tx
from threadkeep.capture.batches import Batches
from threadkeep.capture.context import Surroundings
from threadkeep.capture.documents import DocumentCapture
from threadkeep.capture.line_logs import LineCapture
from threadkeep.capture.report import Progress, Report, Watcher, silent
from threadkeep.errors import ThreadkeepError
from threadkeep.knowledge.archive import digest
from threadkeep.knowledge.health import health_name, note_failure
from threadkeep.knowledge.logs import LogRow, Looks, all_looks, load_log, load_log_by_id, save_log
from threadkeep.knowledge.rebuilding import harness_is_allowed, widen_harness
from threadkeep.sources.files import LogFile
from threadkeep.sources.records import Log, Source

log = logging.getLogger(__name__)


class Wanted(msgspec.Struct, frozen=True):
    """Which logs to look at: all, or only some harnesses, or only those touched lately."""

    harnesses: frozenset[str] = frozenset()
    since: int | None = None  # epoch milliseconds

    def covers(self, harness: str) -> bool:
        """Tell whether a harness is wanted."""
        return not self.harnesses or harness in self.harnesses


class _Work(NamedTuple):
    reader: str
    source: Source
    log: Log
    renamed_from: int | None  # the number of the log that this one was


def capture(
    around: Surroundings,
    sources: Mapping[str, Source],
    wanted: Wanted = Wanted(),  # noqa: B008  (a constant)
    *,
    dry_run: bool = False,
    show: Watcher = silent,
) -> Report:
    """Bring everything that is new in the logs of these sources, given by name, into the store."""
    started = time.monotonic()
    report = Report(dry_run=dry_run)
    work: list[_Work] = []
    gone: list[int] = []
    for reader, source in sources.items():
        if wanted.covers(source.harness):
            found, missing = _look(around, (reader, source), wanted, report)
            work += found
            gone += missing
    if not dry_run:
        _read(around, work, gone, report, show)
    report.seconds = time.monotonic() - started
    return report


# ---------------------------------------------------------------------- looking


def _look(
    around: Surroundings, named: tuple[str, Source], wanted: Wanted, report: Report
) -> tuple[list[_Work], list[int]]:
    """Find the logs of a source that changed, and the numbers of those that are gone."""
    reader, source = named
    with around.db.read() as tx:
        known = all_looks(tx, reader)
    part = report.of(source.harness)
    found = {log.path: log for log in source.find(around.user)}
    part.found += len(found)
    rules = around.exclusion.name()
    changed = [log for log in found.values() if _differs(known.get(log.path), log, wanted, rules)]
    part.changed += len(changed)
    roots = [str(root) for root in source.roots(around.user) if root.exists()]
    missing = {
        path: looks for path, looks in known.items() if path not in found and _below(path, roots)
    }
    work = [_Work(reader, source, log, _renamed(log, known, missing)) for log in changed]
    moved = {one.renamed_from for one in work}
    gone = [looks.id for looks in missing.values() if not looks.gone and looks.id not in moved]
    return work, gone


def _differs(looks: Looks | None, log: Log, wanted: Wanted, rules: str) -> bool:
    if wanted.since is not None and log.stamp.mtime_ns // 1_000_000 < wanted.since:
        return False
    if looks is None or looks.stamp != log.stamp or looks.gone or looks.failed:
        return True
    return looks.excluded_by is not None and looks.excluded_by != rules


def _below(path: str, roots: Iterable[str]) -> bool:
    return any(path == root or path.startswith(root + os.sep) for root in roots)


def _renamed(log: Log, known: dict[str, Looks], missing: dict[str, Looks]) -> int | None:
    """Find the log that this one was before it was moved: same inode or name, same first bytes."""
    if log.path in known or not missing:
        return None
    name = _plain_name(log.path)
    for path, looks in missing.items():
        if looks.head is None:
            continue
        same_file = looks.stamp[2:] == log.stamp[2:]
        if (same_file or _plain_name(path) == name) and _begins_like(log.path, looks):
            return looks.id
    return None


def _plain_name(path: str) -> str:
    return Path(path).name.removesuffix(".zst")


def _begins_like(path: str, looks: Looks) -> bool:
    try:
        with LogFile(path) as file:
            return digest(file.between(0, looks.head_size)) == looks.head
    except (OSError, ThreadkeepError):
        return False


# ---------------------------------------------------------------------- reading


def _read(
    around: Surroundings, work: list[_Work], gone: list[int], report: Report, show: Watcher
) -> None:
    if not work and not gone:
        return
    _make_room(around, {one.source.harness for one in work})
    progress = Progress(logs_total=len(work), bytes_total=sum(one.log.stamp.size for one in work))
    with Batches(around.db) as batches:
        for number in gone:
            batches.tx().run("log_is_gone", {"id": number, "now": around.clock()})
        for one in _in_order(work):
            progress.path = one.log.path
            show(progress)
            before = progress.bytes_done
            batches.next_log()
            try:
                _read_one(around, one, batches, report, progress, show)
            except (OSError, ThreadkeepError) as error:
                batches.take_back()
                _note_error(around, batches.tx(), one, error, report)
            progress.bytes_done = before + one.log.stamp.size
            progress.logs_done += 1
            progress.errors = report.errors
        show(progress)


def _make_room(around: Surroundings, harnesses: set[str]) -> None:
    """Let a file that knows the contract's four harnesses take others too."""
    with around.db.read() as tx:
        narrow = not all(harness_is_allowed(tx, harness) for harness in harnesses)
    if narrow:
        with around.db.write(foreign_keys=False) as tx:
            widen_harness(tx)


def _in_order(work: list[_Work]) -> Iterator[_Work]:
    """Documents last: they may be large, and hold what line logs hold better."""
    yield from (one for one in work if one.source.kind == "lines")
    yield from (one for one in work if one.source.kind == "document")


def _read_one(
    around: Surroundings,
    one: _Work,
    batches: Batches,
    report: Report,
    progress: Progress,
    show: Watcher,
) -> None:
    source, found = one.source, one.log
    part = report.of(source.harness)
    tx = batches.tx()
    row = _row(tx, one)
    row.excluded = _is_unwanted(around, tx, one, row)
    if row.excluded:
        row.fingerprint = around.exclusion.name()
        part.excluded += 1
    elif source.kind == "lines":
        with LogFile(found.path) as file:
            LineCapture(around, source, found, row, part).run(file, batches, progress, show)
        return
    else:
        DocumentCapture(around, one.reader, source, found, part).run(batches)
    row.size, row.mtime_ns, row.device, row.inode = found.stamp
    row.gone_at, row.error = None, None
    save_log(batches.tx(), row)


def _row(tx: Tx, one: _Work) -> LogRow:
    found = one.log
    row = load_log(tx, one.reader, found.path)
    if row is None and one.renamed_from is not None:
        row = load_log_by_id(tx, one.renamed_from)
        if row is not None:
            row.path = found.path
    if row is None:
        session_id = found.session_id or Path(found.path).stem
        row = LogRow(one.reader, one.source.harness, found.path, session_id=session_id)
    return row


def _is_unwanted(around: Surroundings, tx: Tx, one: _Work, row: LogRow) -> bool:
    """Tell whether a log is to stay out; what was captured before is judged no more."""
    if around.exclusion.of_log(one.log):
        return True
    if one.source.kind == "document":
        return False  # each session in it is judged by itself
    forgotten = {"harness": row.harness, "session_id": row.session_id}
    if tx.value("is_forgotten", forgotten) is not None:
        return True
    if row.lines:
        return False
    with LogFile(one.log.path) as file:
        beginning = file.between(0, 64 * 1024).split(b"\n")
    return around.exclusion.of_beginning(beginning, one.source.parser(one.log, None))


def _note_error(around: Surroundings, tx: Tx, one: _Work, error: Exception, report: Report) -> None:
    message = f"{one.log.path}: {error}"
    log.warning("%s", message)
    report.of(one.source.harness).errors[one.log.path] = str(error)
    note_failure(tx, health_name(one.source.harness), message, around.clock())
    row = _row(tx, one)
    row.error = str(error)
    save_log(tx, row)
