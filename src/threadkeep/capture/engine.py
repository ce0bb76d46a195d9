"""One run of capture: look at every log, read what is new, keep it.

A log that looks as it did last time costs one look and is not opened. What was read is committed
together with how far it was read, so a run that is killed continues where it stopped, and comes to
the same result as one that was not.
"""

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from threadkeep.base.tx import Tx
from threadkeep.capture import records
from threadkeep.capture.documents import DocumentCapture
from threadkeep.capture.intake import BATCH_BYTES, Backlog, Batches, CaptureContext, Learn
from threadkeep.capture.logs import (
    CHECKED_AT_ONCE,
    LineCapture,
    is_due,
    note_stamp,
)
from threadkeep.errors import ThreadkeepError
from threadkeep.knowledge import archive
from threadkeep.knowledge.copies import settle
from threadkeep.knowledge.forget import is_forgotten, is_forgotten_memory
from threadkeep.knowledge.health import health_name, note_failure, note_success
from threadkeep.knowledge.memory_documents import SOURCE_KIND, document_uuid, hash_of
from threadkeep.knowledge.memory_intake import (
    KEPT,
    Absent,
    Retention,
    SeenMemory,
    miss_memory,
    put_memory,
)
from threadkeep.knowledge.repair import harness_is_allowed, widen_harness
from threadkeep.sources.claude.memory import ClaudeMemory
from threadkeep.sources.claude.paths import readable
from threadkeep.sources.files import LogFile
from threadkeep.sources.format import Documents
from threadkeep.sources.records import Log, Source

# ------------------------------------------------------------------------------
# Memories: files of notes that are taken whole, and missed when they are gone.

# A file that was written a moment ago may be half of itself: it is taken at the next look.
_SETTLED_NS: Final = 250_000_000
_NOT_UTF8: Final = "\N{REPLACEMENT CHARACTER}"


def retention_of(source: Source) -> Retention:
    """Tell how long a source's memories are kept."""
    return source.keep if isinstance(source, ClaudeMemory) else KEPT


def read_memory(around: CaptureContext, log: Log) -> SeenMemory | None:
    """Read a file and mask its secrets; None while somebody writes it."""
    with LogFile(log.path, log.root) as file:
        data = file.whole()
        if os.stat(log.path).st_mtime_ns != file.stamp.mtime_ns:
            return None
        stamp = file.stamp
    plain = data.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n")
    plain = plain.replace("\0", " ")
    masked = around.mask(plain.encode(), b"", b"").data.decode("utf-8", "replace")
    return SeenMemory(
        repository=log.project_dir,
        logical_path=log.session_id,
        source_path=_place(log.path),
        text=masked,
        mtime_ms=stamp.mtime_ns // 1_000_000,
        size=stamp.size,
        source_hash=hash_of(plain),
    )


def _place(path: str) -> str:
    """Return where a file really lies, as a text: names need not be UTF-8."""
    return readable(os.path.realpath(path))


def _may_be_there(place: str) -> bool:
    """Tell whether a file is still there; one whose name is no UTF-8 cannot be asked for."""
    return _NOT_UTF8 in place or Path(place).is_file()


def is_settled(log: Log, now: int) -> bool:
    """Tell whether nobody has written a file just now."""
    return now * 1_000_000 - log.stamp.mtime_ns >= _SETTLED_NS


def store_memory(
    tx: Tx, seen: SeenMemory, now: int, report: records.AgentReport, keep: Retention
) -> None:
    """Store a file; one that was forgotten, or was in these very words, stays out."""
    if is_forgotten_memory(tx, document_uuid(seen.repository, seen.logical_path), [seen.text]):
        report.excluded += 1
        return
    put = put_memory(tx, seen, now=now, is_there=_may_be_there, keep=keep)
    if put.is_new:
        report.memories += 1
        report.source_bytes += seen.size
    note_success(tx, SOURCE_KIND, last_event=now, count=int(put.is_new), now=now)


def note_trouble(tx: Tx, path: str, said: str, now: int) -> None:
    """Count a file that could not be read as a failure of the capture of memories."""
    note_failure(tx, SOURCE_KIND, readable(f"{path}: {said}"), now)


def is_excluded(exclusion: records.Exclusion, log: Log) -> bool:
    """Tell whether a memory belongs to a project that the user keeps out.

    Claude names the folder of a project after its path, in a way that cannot be undone: patterns of
    folders are named in the same way.
    """
    if exclusion.of_log(log):
        return True
    slug = Path(log.path).parent.parent.name
    folders = (one.rstrip("/") for one in exclusion.patterns if one.startswith("/"))
    return any(slug == name or slug.startswith(f"{name}-") for name in map(_slug, folders))


def _slug(folder: str) -> str:
    return "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in folder)


def absent_from(
    around: CaptureContext, source: Source, sight: records.SourceLogs
) -> list[tuple[Absent, Retention]]:
    """Return the documents whose file a look should have found and did not."""
    found = {_place(log.path) for log in sight.logs}
    roots = {place for root in sight.roots for place in (root, os.path.realpath(root))}

    def is_missing(path: str) -> bool:
        return path not in found and records.is_below(path, roots) and not sight.hides(path)

    keep = retention_of(source)
    now = around.clock()
    missing = around.store.archive.absent_memories(is_missing, now=now, keep=keep)
    return [(one, keep) for one in missing]


class CaptureFilter(msgspec.Struct, frozen=True):
    """Which logs to look at: all, or only some agents', or only those touched lately."""

    agents: frozenset[str] = frozenset()
    since: int | None = None  # epoch milliseconds
    again: bool = True  # also logs that could not be read the last time and look the same
    most: int | None = None  # bytes: the logs written last, and no more of them than that

    def covers(self, agent: str) -> bool:
        """Tell whether an agent is wanted."""
        return not self.agents or agent in self.agents


class _Work(NamedTuple):
    reader: str
    source: Source
    log: Log
    renamed_from: int | None  # the number of the log that this one was
    live: bool  # somebody watches it


def capture(
    around: CaptureContext,
    sources: Mapping[str, Source],
    wanted: CaptureFilter = CaptureFilter(),  # noqa: B008  (a constant)
    *,
    dry_run: bool = False,
    show: records.Watcher = records.silent,
    learn: Learn | None = None,
) -> records.CaptureReport:
    """Bring everything that is new in the logs of these sources, given by name, into the store.

    `learn` is given what was stored, now and then and at the end.
    """
    started = time.monotonic()
    report = records.CaptureReport(dry_run=dry_run)
    work: list[_Work] = []
    gone: list[int] = []
    absent: list[tuple[Absent, Retention]] = []
    for reader, source in sources.items():
        if not wanted.covers(source.agent):
            continue
        known = around.store.archive.looks(reader)
        try:
            found, missing, sight = _look(around, (reader, source), known, wanted, report)
        except records.TROUBLES as error:
            records.tell(f"source {reader}", error, report.of(source.agent))
        else:
            work += found
            gone += missing
            if source.kind == "memory":
                absent += absent_from(around, source, sight)
    if wanted.most is not None:
        work = _written_last(work, wanted.most)
    if not dry_run:
        with Batches(around.store, learn) as batches:
            _read(around, work, (gone, absent), batches, report, show)
    report.seconds = time.monotonic() - started
    return report


def _written_last(work: list[_Work], most: int) -> list[_Work]:
    """Choose the logs written last, up to so many bytes; one that is larger only if all are."""
    chosen, size = [], 0
    for one in sorted(work, key=lambda one: one.log.stamp.mtime_ns, reverse=True):
        if size + one.log.stamp.size <= most:
            chosen.append(one)
            size += one.log.stamp.size
    return chosen or sorted(work, key=lambda one: one.log.stamp.size)[:1]


# ---------------------------------------------------------------------- looking


def _look(
    around: CaptureContext,
    named: tuple[str, Source],
    known: dict[str, archive.LogState],
    wanted: CaptureFilter,
    report: records.CaptureReport,
) -> tuple[list[_Work], list[int], records.SourceLogs]:
    """Find the logs of a source that changed, and those that are gone; give all there is, too."""
    reader, source = named
    part = report.of(source.agent)
    seen = records.see(source, around.user)
    found = {log.path: log for log in seen.logs}
    part.found += len(found)
    records.tell_unseen(seen.unseen, part)
    changed = _changed(around, found.values(), known, wanted)
    part.changed += len(changed)
    part.changed_bytes += sum(log.stamp.size for log in changed)
    changed = [records.rooted(log, seen.roots) for log in changed]
    missing = {
        path: looks
        for path, looks in known.items()
        if path not in found and records.is_below(path, seen.roots) and not seen.hides(path)
    }
    moved = _renamed(changed, known, missing)
    live = not wanted.again
    work = [_Work(reader, source, log, moved.get(log.path), live) for log in changed]
    lost = {looks.id for looks in missing.values() if not looks.gone}
    gone = sorted(lost.difference(moved.values()))
    return work, gone, seen


def _changed(
    around: CaptureContext,
    found: Iterable[Log],
    known: dict[str, archive.LogState],
    wanted: CaptureFilter,
) -> list[Log]:
    """Choose the logs to read: those that look different, and a few whose check is due."""
    rules, now = around.exclusion.name(), around.clock()
    left = CHECKED_AT_ONCE if wanted.again and wanted.since is None else 0
    changed = []
    for log in found:
        looks = known.get(log.path)
        if _differs(looks, log, wanted, rules):
            changed.append(log)
        elif looks is not None and left > 0 and is_due(looks, now):
            left -= looks.read_to
            changed.append(log)
    return changed


def _differs(looks: archive.LogState | None, log: Log, wanted: CaptureFilter, rules: str) -> bool:
    if wanted.since is not None and log.stamp.mtime_ns // 1_000_000 < wanted.since:
        return False
    if looks is None or not looks.is_untouched(log.stamp) or looks.gone:
        return True
    if looks.failed:
        return wanted.again
    return looks.excluded_by is not None and looks.excluded_by != rules


def _renamed(
    changed: list[Log], known: dict[str, archive.LogState], missing: dict[str, archive.LogState]
) -> dict[str, int]:
    """Find new logs that are missing ones in another place: same inode or name, same bytes.

    Gives the number that each had, by its path; no two have been the same.
    """
    alike: dict[object, list[archive.LogState]] = defaultdict(list)
    for path, looks in missing.items():
        if looks.head is not None:
            alike[looks.stamp[2:4]].append(looks)
            alike[_plain_name(path)].append(looks)
    moved: dict[int, str] = {}
    for log in changed:
        perhaps = [*alike.get(log.stamp[2:4], ()), *alike.get(_plain_name(log.path), ())]
        free = [looks for looks in perhaps if looks.id not in moved]
        if free and log.path not in known:
            number = _holding(log, free)
            if number is not None:
                moved[number] = log.path
    return {path: number for number, path in moved.items()}


def _plain_name(path: str) -> str:
    return path.rpartition(os.sep)[2].removesuffix(".zst")


def _holding(log: Log, perhaps: list[archive.LogState]) -> int | None:
    """Return the number of the log that a file holds as far as it was read.

    Inodes are used again and sessions begin alike, so the last bytes read must be there too.
    """
    try:
        with LogFile(log.path, log.root) as file:
            head = file.between(0, max(looks.head_size for looks in perhaps))
            for looks in perhaps:
                if archive.digest(head[: looks.head_size]) == looks.head:
                    last = file.between(max(0, looks.read_to - archive.TAIL_BYTES), looks.read_to)
                    if archive.digest(last) == looks.tail:
                        return looks.id
    except (OSError, ThreadkeepError):
        pass  # what is wrong with it shows when it is read
    return None


# ---------------------------------------------------------------------- reading


def _read(
    around: CaptureContext,
    work: list[_Work],
    lost: tuple[list[int], list[tuple[Absent, Retention]]],
    batches: Batches,
    report: records.CaptureReport,
    show: records.Watcher,
) -> None:
    """Read the logs that changed; `lost` are the numbers of logs and of memories that are gone."""
    gone, absent = lost
    if not work and not gone and not absent and not report.errors:
        return
    _make_room(around, {one.source.agent for one in work})
    progress = records.Progress(
        logs_total=len(work), bytes_total=sum(one.log.stamp.size for one in work)
    )

    def advance(one: _Work, read: Callable[[], None]) -> None:
        progress.path = one.log.path
        show(progress)
        before = progress.bytes_done
        read()
        progress.bytes_done = before + one.log.stamp.size
        progress.logs_done += 1
        progress.errors = report.errors

    for number in gone:
        archive.mark_gone(batches.tx(), number, around.clock())
    backlog = Backlog(batches)
    # What only names sessions comes first: a fork's lines are its parent's as well.
    for one in filter(_names_sessions, work):
        advance(one, partial(_read_document, around, one, backlog, report))
    backlog.settle()
    for one in (one for one in work if one.source.kind == "lines"):
        reading = (around, one, batches, report, progress, show)
        advance(one, partial(_read_lines, *reading))
        batches.hand_over(BATCH_BYTES // 2)
    for one in (one for one in work if one.source.kind == "memory"):
        advance(one, partial(_read_memory, around, one, batches, report))
    for missing, keep in absent:  # after those that came: one may be a file that moved
        miss_memory(batches.tx(), missing, now=around.clock(), keep=keep)
    # Documents last: they may be large, and hold what line logs hold better.
    documents = (one for one in work if one.source.kind == "document")
    for one in (one for one in documents if not _names_sessions(one)):
        advance(one, partial(_read_document, around, one, backlog, report))
    backlog.settle()
    settle(batches.tx())
    _note_health(around, batches, report)
    batches.hand_over()
    show(progress)


def _names_sessions(one: _Work) -> bool:
    return isinstance(one.source, Documents) and one.source.names


def _make_room(around: CaptureContext, harnesses: set[str]) -> None:
    """Let a file that knows only some programs take the others that are found here."""
    with around.store.read() as tx:
        narrow = not all(harness_is_allowed(tx, harness) for harness in harnesses)
    if narrow:
        with around.store.write(foreign_keys=False) as tx:
            widen_harness(tx, harnesses)


def _read_lines(
    around: CaptureContext,
    one: _Work,
    batches: Batches,
    report: records.CaptureReport,
    progress: records.Progress,
    show: records.Watcher,
) -> None:
    batches.next_log()
    try:
        row = _row(batches.tx(), one)
        if _is_unwanted(around, batches.tx(), one, row):
            _keep_out(around, batches.tx(), one, report)
            return
        row.excluded, row.fingerprint = False, ""
        part = report.of(one.source.agent)
        lines = LineCapture(around, one.source, one.log, row, part, live=one.live)
        with LogFile(one.log.path, one.log.root) as file:
            lines.run(file, batches, progress, show)
    except records.TROUBLES as error:
        batches.take_back(error)
        _note_trouble(around, batches, one, error, report)()


def _read_memory(
    around: CaptureContext, one: _Work, batches: Batches, report: records.CaptureReport
) -> None:
    batches.next_log()
    part, now = report.of(one.source.agent), around.clock()
    if is_excluded(around.exclusion, one.log):
        _keep_out(around, batches.tx(), one, report)
        return
    try:
        seen = read_memory(around, one.log) if is_settled(one.log, now) or not one.live else None
        if seen is None:
            return  # somebody writes it: it is taken at the next look
        store_memory(batches.tx(), seen, now, part, retention_of(one.source))
        row = _row(batches.tx(), one)
        row.error, row.excluded, row.fingerprint, row.captured_at = None, False, "", now
        _note_looks(batches.tx(), one, row)
    except records.TROUBLES as error:
        batches.take_back(error)
        note_trouble(batches.tx(), one.log.path, str(error), now)
        _note_trouble(around, batches, one, error, report)()


def _read_document(
    around: CaptureContext, one: _Work, backlog: Backlog, report: records.CaptureReport
) -> None:
    """Read a document outside of any transaction; what there is to write is added to the rest."""
    batches, part = backlog.batches, report.of(one.source.agent)
    if around.exclusion.of_log(one.log):
        backlog.add(lambda: _keep_out(around, batches.tx(), one, report))
        return
    document = DocumentCapture(around, one.reader, one.source, one.log, part, live=one.live)
    try:
        document.run(backlog)
    except records.TROUBLES as error:
        backlog.add(_note_trouble(around, batches, one, error, report))
    else:
        backlog.add(lambda: _note_document(around, batches.tx(), one, document))


def _note_document(around: CaptureContext, tx: Tx, one: _Work, document: DocumentCapture) -> None:
    row = _row(tx, one)  # another process may have noted the document meanwhile
    row.error, row.excluded = document.failure, False
    row.fingerprint = around.exclusion.name() if document.kept_some_out else ""
    _note_looks(tx, one, row)


def _keep_out(around: CaptureContext, tx: Tx, one: _Work, report: records.CaptureReport) -> None:
    row = _row(tx, one)
    row.excluded, row.error, row.fingerprint = True, None, around.exclusion.name()
    report.of(one.source.agent).excluded += 1
    _note_looks(tx, one, row)


def _note_looks(tx: Tx, one: _Work, row: archive.LogRow) -> None:
    note_stamp(row, one.log.stamp)
    row.gone_at = None
    archive.save_log(tx, row)


def _row(tx: Tx, one: _Work) -> archive.LogRow:
    found = one.log
    row = archive.load_log(tx, one.reader, found.path)
    if row is None and one.renamed_from is not None:
        row = archive.load_log_by_id(tx, one.renamed_from)
        if row is not None:
            row.path = found.path
    if row is None:
        session_id = found.session_id or Path(found.path).stem
        row = archive.LogRow(one.reader, one.source.agent, found.path, session_id=session_id)
    return archive.load_marks(tx, row)


def _is_unwanted(around: CaptureContext, tx: Tx, one: _Work, row: archive.LogRow) -> bool:
    """Tell whether a log is to stay out.

    It is judged again whenever it has grown: where it works may stand behind its first lines.
    """
    if around.exclusion.of_log(one.log):
        return True
    if is_forgotten(tx, row.harness, row.session_id):
        return True
    if row.lines >= records.ENOUGH_LINES and not around.exclusion.patterns:
        return False
    with LogFile(one.log.path, one.log.root) as file:
        piece = next(file.pieces(0), None)
    beginning = b"" if piece is None else piece.data
    return around.exclusion.of_beginning(beginning, one.source.parser(one.log, None))


def _note_vanished(around: CaptureContext, tx: Tx, one: _Work) -> None:
    """Note that a log was deleted after it was found; one that was never read leaves no trace."""
    row = archive.load_log(tx, one.reader, one.log.path)
    if row is not None:
        archive.mark_gone(tx, row.id, around.clock())


def _note_trouble(
    around: CaptureContext,
    batches: Batches,
    one: _Work,
    error: Exception,
    report: records.CaptureReport,
) -> Callable[[], None]:
    """Tell at once what went wrong with a log; give what notes it in the store."""
    if records.has_vanished(one.log.path, error):
        return lambda: _note_vanished(around, batches.tx(), one)
    said = records.tell(one.log.path, error, report.of(one.source.agent))

    def note() -> None:
        row = _row(batches.tx(), one)
        row.error = said
        note_stamp(row, one.log.stamp)
        archive.save_log(batches.tx(), row)

    return note


def _note_health(around: CaptureContext, batches: Batches, report: records.CaptureReport) -> None:
    """Count the run as a failure of every program of which something could not be read.

    At the end: the logs that could be read do not hide the one that could not.
    """
    for harness, part in report.agents.items():
        if part.errors:
            path, said = next(iter(part.errors.items()))
            note_failure(batches.tx(), health_name(harness), f"{path}: {said}", around.clock())
