"""History: everything captured, in one place: brought in, listed, shown, searched, counted."""

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from threadkeep.capture.documents import DocumentCapture
from threadkeep.capture.engine import CaptureFilter, capture
from threadkeep.capture.intake import Backlog, Batches, CaptureContext, Learn
from threadkeep.capture.records import AgentReport, CaptureReport, Watcher, index_behind, silent
from threadkeep.errors import Invalid, NotFound
from threadkeep.knowledge.opening import refuse_write
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.records import NOTES
from threadkeep.knowledge.segments import last_slice, noted_sessions
from threadkeep.knowledge.sessions import noted_so_far
from threadkeep.knowledge.transcript import SessionArchive
from threadkeep.sources.exports.archive import ExportSource
from threadkeep.sources.hippo_notes import HippoNotes
from threadkeep.sources.own import ServedStore
from threadkeep.sources.records import Log, Source, Stamp

if TYPE_CHECKING:
    from threadkeep.capture.coverage import Coverage
    from threadkeep.capture.forget import ForgetReport
    from threadkeep.capture.rescan import RescanReport, UnmaskReport
    from threadkeep.capture.watch import Stop, Tell

# ruff: noqa: PLC0415  (a capture that finds nothing new needs neither forgetting nor rescanning)

# ------------------------------------------------------------------------------
# Sessions of which only another program's notes are here: slices in a file that we took over.
#
# They become sessions like all others, so that lists, searches and pages know them. The log itself,
# should it be captured, takes their place.

_TOGETHER: Final = 200  # sessions whose slices are in memory
_MARK_EVERY: Final = 500  # slices: to write the mark at every capture would be dear


def note_sessions(around: CaptureContext, *, everything: bool = False) -> int:
    """Bring in the sessions of slices that are new, or of all; give how many sessions those are."""
    with around.store.read() as tx:
        seen, last = noted_so_far(tx), last_slice(tx)
        found = noted_sessions(tx, NOTES, 0 if everything else seen)
    for harness, ids in found.items():
        waiting = iter(ids)
        while some := list(islice(waiting, _TOGETHER)):
            _bring_in(around, harness, some)
    if last > seen and (found or last - seen >= _MARK_EVERY):
        around.store.archive.note_up_to(last)
    return sum(map(len, found.values()))


def _bring_in(around: CaptureContext, harness: str, names: Sequence[str]) -> None:
    source = HippoNotes(harness, around.store.archive.slices(harness, names))
    log = Log(f"{NOTES}:{harness}", Stamp(0, 0, 0, 0))  # a file of ours may be moved
    with Batches(around.store) as batches:
        backlog = Backlog(batches)
        DocumentCapture(around, NOTES, source, log, AgentReport()).run(backlog)
        backlog.settle()


ALL = CaptureFilter()


class History(SessionArchive):
    """The captured history of one store, and the sources it comes from."""

    def __init__(
        self,
        around: CaptureContext,
        sources: Mapping[str, Source],
        served: Sequence[ServedStore] = (),
    ) -> None:
        """Put together what captures; stores on a server are closed with it."""
        super().__init__(around.store, sources)
        self.around = around
        self._sources = sources
        self._served = served

    def close(self) -> None:
        """Close the store, and those that are read from a server."""
        for one in self._served:
            one.close()
        super().close()

    @property
    def sources(self) -> Mapping[str, Source]:
        """The sources by name."""
        return self._sources

    def capture(
        self,
        wanted: CaptureFilter = ALL,
        *,
        dry_run: bool = False,
        show: Watcher = silent,
        learn: Learn | None = None,
    ) -> CaptureReport:
        """Bring in what is new on this machine; with `dry_run` only tell what would be read.

        `learn` is given what was stored while its texts are at hand, now and then and at the end.
        """
        if not dry_run:
            refuse_write(self.store.access)
        report = capture(
            self.around, self._sources, wanted, dry_run=dry_run, show=show, learn=learn
        )
        if not dry_run:
            self._finish()
            if NOTES in self._sources:  # else what was noted could not be read again
                note_sessions(self.around)
            index_behind(self.store, live=not wanted.again)
        return report

    def import_export(
        self, service: str, path: str | Path, *, dry_run: bool = False, show: Watcher = silent
    ) -> CaptureReport:
        """Bring in a data export of chatgpt or claude-ai: a ZIP file, or its unpacked folder."""
        if not dry_run:
            refuse_write(self.store.access)
        source, file = self._sources.get(service), Path(path)
        if not isinstance(source, ExportSource):
            services = [n for n, one in self._sources.items() if isinstance(one, ExportSource)]
            msg = f"there is no export of {service!r}"
            raise Invalid(msg, hint=f"there are {', '.join(services)}")
        if not file.exists():
            raise NotFound(f"there is no file {file}", hint="give the export's ZIP file")
        report = capture(self.around, {service: source.of(file)}, dry_run=dry_run, show=show)
        if not dry_run:
            index_behind(self.store)
        return report

    def note_sessions(self, *, everything: bool = True) -> int:
        """Make sessions of slices, all or new ones, whose log is not here; give how many."""
        refuse_write(self.store.access)
        return note_sessions(self.around, everything=everything)

    def _finish(self) -> None:
        """Complete a forgetting, or a rescan, that was interrupted; as a rule there is none."""
        if self.store.forgetting.waiting() or self.store.indexes.logs_left() is not None:
            from threadkeep.capture.forget import finish

            finish(self.around, self._sources)

    def watch(self, stop: "Stop", show: "Tell", *, poll_seconds: float = 2.0) -> None:
        """Capture, and keep capturing what changes, until `stop` is set."""
        refuse_write(self.store.access)
        from threadkeep.capture.watch import watch

        self._finish()
        watch(self.around, self._sources, stop, show, poll_seconds=poll_seconds)

    def coverage(self) -> "Coverage":
        """Compare what is on the disk with what is in the store."""
        from threadkeep.capture.coverage import cover

        return cover(self.around, self._sources)

    def forget(
        self, what: Query, *, dry_run: bool = False, show: Watcher = silent
    ) -> "ForgetReport":
        """Delete what was captured, for good; with `dry_run` only count what would be deleted."""
        from threadkeep.capture.forget import forget

        if not dry_run:
            refuse_write(self.store.access)
        return forget(self.around, self._sources, what, dry_run=dry_run, show=show)

    def rescan(self, *, dry_run: bool = False, show: Watcher = silent) -> "RescanReport":
        """Mask what the rules of today find in what was stored before."""
        from threadkeep.capture.rescan import rescan

        if not dry_run:
            refuse_write(self.store.access)
        return rescan(self.around, self._sources, dry_run=dry_run, show=show)

    def undo_masks(
        self, name: str, *, dry_run: bool = False, show: Watcher = silent
    ) -> "UnmaskReport":
        """Put back what a rule masked, or what is masked in a session, where its log still is."""
        from threadkeep.capture.rescan import undo

        if not dry_run:
            refuse_write(self.store.access)
        return undo(self.around, self._sources, name, dry_run=dry_run, show=show)

    def reindex(self, show: Watcher = silent) -> int:
        """Rebuild the index of all words, and give free space back; tell how many entries."""
        from threadkeep.capture.rescan import reindex

        refuse_write(self.store.access)
        return reindex(self.around, self._sources, show)
