"""Observations: what shells, browsers and other programs report, handed in, collected, listed."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from threadkeep.base.spool import Spool
from threadkeep.collect.collector import collect, copy_fallback, replay_fallback, waiting_in
from threadkeep.collect.importing import Imported, Progress, import_past, no_progress
from threadkeep.collect.probing import ProbeResult, probe
from threadkeep.collect.reporting import report
from threadkeep.collect.storing import BatchReport, Store, note_trouble
from threadkeep.collect.visits import VisitRules
from threadkeep.errors import ThreadkeepError
from threadkeep.knowledge.events import (
    ANY,
    CommandFilter,
    CommandRow,
    Entity,
    ShellSession,
    StoredVisit,
)
from threadkeep.knowledge.health import Drop, Health, recount
from threadkeep.knowledge.observed import Observed
from threadkeep.knowledge.opening import refuse_write
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.sources.shell_history import HistoryFile


class Observations:
    """The reports of one home: its spool, and the store that they go to."""

    def __init__(
        self,
        store: KnowledgeStore,
        around: Store,
        spool: Spool,
        visits: VisitRules,
        fallbacks: tuple[Path, ...] = (),
    ) -> None:
        self.store = store
        self.around = around
        self.spool = spool
        self._visits = visits
        self._fallbacks = fallbacks
        self._trouble = ""  # why the last look failed, as long as the store does not know it

    def report(self, thing: Observed) -> bool:
        """Leave a report in the spool, its secrets masked; False if the user keeps it out."""
        return report(self.spool, self.around.rules, thing)

    def collect(self) -> BatchReport:
        """Store what lies in the spool, and what Hippo left beside the store when it could not."""
        refuse_write(self.store.access)
        try:
            self._tell_trouble()
            total = collect(self.around, self.spool)
            for folder in self._fallbacks:
                total.add(replay_fallback(self.around, folder))
        except ThreadkeepError as error:
            self._trouble = error.message
            with suppress(ThreadkeepError):  # a store that takes nothing hears it next time
                self._tell_trouble()
            raise
        return total

    def _tell_trouble(self) -> None:
        if self._trouble:
            note_trouble(self.around, self._trouble)
            self._trouble = ""

    def waiting(self) -> int:
        """Count the files that lie in the spool and in Hippo's fallback folder."""
        return len(self.spool.waiting()) + self.undelivered()

    def undelivered(self) -> int:
        """Count the files that lie in Hippo's fallback folders."""
        return sum(map(waiting_in, self._fallbacks))

    def copy(self, folder: Path) -> BatchReport:
        """Store what lies in the fallback folder of a Hippo that is still in use."""
        refuse_write(self.store.access)
        return copy_fallback(self.around, folder)

    def import_history(
        self, files: Iterable[HistoryFile], *, dry_run: bool = False, show: Progress = no_progress
    ) -> Imported:
        """Bring in commands from the histories that shells keep."""
        refuse_write(self.store.access)
        return import_past(self.around, files, dry_run=dry_run, show=show)

    def probe(self, source: str) -> ProbeResult:
        """Send a synthetic event the whole way; nobody but the health of its source sees it."""
        refuse_write(self.store.access)
        return probe(self.around, self.spool, source, self._visits)

    def recount(self) -> None:
        """Count the events of the last hour and day anew."""
        with self.store.context.db.write() as tx:
            recount(tx, self.store.context.clock())

    def events(self, wanted: CommandFilter = ANY, **page: Any) -> list[CommandRow]:
        """List commands, the latest first."""
        return self.store.list_events(wanted, **page)

    def visits(self, **wanted: Any) -> list[StoredVisit]:
        """List visits to pages, the latest first (see `KnowledgeStore.list_visits`)."""
        return self.store.list_visits(**wanted)

    def shell_sessions(self, **wanted: Any) -> list[ShellSession]:
        """List sessions of shells, the latest first."""
        return self.store.list_shell_sessions(**wanted)

    def entities(self, **wanted: Any) -> list[Entity]:
        """List what captured work mentions."""
        return self.store.list_entities(**wanted)

    def health(self) -> list[Health]:
        """Give the health of every source."""
        return self.store.health()

    def drops(self) -> list[Drop]:
        """Give what was dropped, by source and reason."""
        return self.store.drops()

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
