"""History: everything captured, in one place: brought in, listed, shown, searched, counted."""

from collections.abc import Iterator, Mapping
from datetime import UTC, tzinfo
from typing import Any, Self

from threadkeep.capture.choosing import Forget
from threadkeep.capture.context import CaptureContext
from threadkeep.capture.coverage import Coverage, cover
from threadkeep.capture.engine import CaptureFilter, capture
from threadkeep.capture.forgetting import finish, forget
from threadkeep.capture.noted_sessions import note_sessions
from threadkeep.capture.planning import ForgetReport
from threadkeep.capture.reindexing import reindex
from threadkeep.capture.report import CaptureReport, Watcher, silent
from threadkeep.capture.rescanning import RescanReport, rescan
from threadkeep.capture.transcripts import (
    EntryHit,
    TranscriptEntry,
    ends_open,
    raw_lines,
    search,
    transcript,
)
from threadkeep.capture.undo import UnmaskReport, undo
from threadkeep.capture.watching import Stop, Tell, watch
from threadkeep.knowledge.copies import Links
from threadkeep.knowledge.opening import refuse_write
from threadkeep.knowledge.reading import CapturedSession, CapturedSessionFilter
from threadkeep.knowledge.spending import UsageTotals
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.sources.hippo_notes import READER as NOTES
from threadkeep.sources.records import Source

ANY = CapturedSessionFilter()
ALL = CaptureFilter()


class History:
    """The captured history of one store, and the sources it comes from."""

    def __init__(
        self, store: KnowledgeStore, around: CaptureContext, sources: Mapping[str, Source]
    ) -> None:
        self.store = store
        self.around = around
        self._sources = sources

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
    ) -> CaptureReport:
        """Bring in what is new on this machine; with `dry_run` only tell what would be read."""
        if not dry_run:
            refuse_write(self.store.access)
        report = capture(self.around, self._sources, wanted, dry_run=dry_run, show=show)
        if not dry_run:
            finish(self.around, self._sources)
            if NOTES in self._sources:  # else what was noted could not be read again
                note_sessions(self.around)
        return report

    def note_sessions(self, *, everything: bool = True) -> int:
        """Make sessions of slices, all or new ones, whose log is not here; give how many."""
        refuse_write(self.store.access)
        return note_sessions(self.around, everything=everything)

    def watch(self, stop: Stop, show: Tell, *, poll_seconds: float = 2.0) -> None:
        """Capture, and go on capturing what changes, until `stop` says so."""
        refuse_write(self.store.access)
        finish(self.around, self._sources)
        watch(self.around, self._sources, stop, show, poll_seconds=poll_seconds)

    def coverage(self) -> Coverage:
        """Compare what is on the disk with what is in the store."""
        return cover(self.around, self._sources)

    def sessions(self, among: CapturedSessionFilter = ANY, **page: Any) -> list[CapturedSession]:
        """List captured sessions, the latest first (see `KnowledgeStore.list_sessions`)."""
        return self.store.list_sessions(among, **page)

    def find(self, name: str, harness: str | None = None) -> CapturedSession:
        """Find a session by its id, or by a beginning of it that only one has."""
        return self.store.find_session(name, harness)

    def children(self, session: CapturedSession) -> list[CapturedSession]:
        """Give the sessions that a session started."""
        return self.store.children_of(session)

    def links(self, sessions: list[CapturedSession]) -> dict[int, Links]:
        """Give what sessions continue and are continued in, where there is any."""
        return self.store.links_of(sessions)

    def transcript(self, session: CapturedSession) -> Iterator[TranscriptEntry]:
        """Yield everything said and done in a session."""
        context = self.store.context
        with context.db.read() as tx:
            yield from transcript(context, tx, self._sources, session)

    def raw(self, session: CapturedSession) -> Iterator[bytes]:
        """Yield the lines of a session as its program wrote them, but for masked secrets."""
        context = self.store.context
        with context.db.read() as tx:
            yield from raw_lines(context, tx, session)

    def ends_open(self, session: CapturedSession) -> bool:
        """Tell whether the last raw line of a session has no line feed in its log."""
        with self.store.context.db.read() as tx:
            return ends_open(tx, session)

    def search(
        self, text: str, among: CapturedSessionFilter = ANY, **options: Any
    ) -> list[EntryHit]:
        """Find what was said and done by words (see `transcripts.search`)."""
        context = self.store.context
        with context.db.read() as tx:
            return search(context, tx, self._sources, text, among, **options)

    def usage(self, among: CapturedSessionFilter = ANY, *, zone: tzinfo = UTC) -> UsageTotals:
        """Sum up tokens by program, model, project and day."""
        return self.store.spending(among, zone=zone)

    def forget(
        self, what: Forget, *, dry_run: bool = False, show: Watcher = silent
    ) -> ForgetReport:
        """Take out what was captured, for good; with `dry_run` only count what would go."""
        if not dry_run:
            refuse_write(self.store.access)
        context = self.store.context
        return forget(context, self.around, self._sources, what, dry_run=dry_run, show=show)

    def rescan(self, *, dry_run: bool = False, show: Watcher = silent) -> RescanReport:
        """Mask what the rules of today find in what was stored before."""
        if not dry_run:
            refuse_write(self.store.access)
        return rescan(self.around, self._sources, dry_run=dry_run, show=show)

    def undo_masks(
        self, name: str, *, dry_run: bool = False, show: Watcher = silent
    ) -> UnmaskReport:
        """Put back what a rule masked, or what is masked in a session, where its log still is."""
        if not dry_run:
            refuse_write(self.store.access)
        context = self.store.context
        return undo(context, self.around, self._sources, name, dry_run=dry_run, show=show)

    def reindex(self, show: Watcher = silent) -> int:
        """Make the index of all words anew, and give free space back; tell how many entries."""
        refuse_write(self.store.access)
        return reindex(self.around, self._sources, show)

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
