"""Observations: what shells, browsers and other programs report, handed in, collected, listed."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Final, Self
from uuid import uuid4

import msgspec

from threadkeep.base.frames import encode_frame
from threadkeep.base.json import encode
from threadkeep.base.spool import Spool
from threadkeep.capture.observed.collector import (
    collect,
    copy_fallback,
    replay_fallback,
    waiting_in,
)
from threadkeep.capture.observed.intake import BatchReport, ObservedContext, note_trouble, report
from threadkeep.capture.observed.shell_history import (
    HistoryFile,
    Imported,
    Progress,
    import_past,
    no_progress,
)
from threadkeep.capture.observed.visits import PROBE_DOMAIN, VisitRules, serve
from threadkeep.capture.records import index_behind
from threadkeep.errors import NotFound, ThreadkeepError
from threadkeep.knowledge.command_list import (
    CommandRow,
    StoredVisit,
)
from threadkeep.knowledge.commands import drop_old_probes, probe_arrived
from threadkeep.knowledge.health import Drop, Health, note_probe
from threadkeep.knowledge.opening import refuse_write
from threadkeep.knowledge.query import EVERYTHING, Query
from threadkeep.knowledge.records import Command, Observed

# ------------------------------------------------------------------------------
# Probes: synthetic events that go the whole way, so that a broken part of it shows.
#
# A probe carries a tag. Nothing that a user looks at shows it, and it gets no ticket.

# The names that the contract's own probes have.
_COMMANDS: Final = {"shell": "__hippo_probe__", "claude-tool": "__hippo_probe_claude_tool__"}
_SESSION: Final = "7a1f3c52-5d0e-5b7e-9a53-0c7d5a0f3f6e"  # all probes are of one session
_KEPT_MS: Final = 86_400_000


class ProbeResult(msgspec.Struct, frozen=True):
    """What became of a probe; `lag_ms` is None if it did not arrive."""

    source: str
    lag_ms: int | None


def probe(around: ObservedContext, spool: Spool, source: str, rules: VisitRules) -> ProbeResult:
    """Send a synthetic event of a source the whole way into the store, and note how it went."""
    senders: dict[str, Callable[[str, int], None]] = {
        "shell": lambda tag, at: _send_command(around, spool, "shell", tag, at),
        "claude-tool": lambda tag, at: _send_command(around, spool, "claude-tool", tag, at),
        "browser": lambda tag, at: _send_visit(around, spool, rules, tag, at),
    }
    if source not in senders:
        raise NotFound(f"there is no probe of {source!r}", hint=f"known: {', '.join(senders)}")
    tag, began = str(uuid4()), around.clock()
    senders[source](tag, began)
    collect(around, spool)
    with around.store.write() as tx:
        arrived = probe_arrived(tx, tag)
        lag = None if arrived is None else max(0, arrived - began)
        note_probe(tx, source, lag_ms=lag, now=around.clock())
        drop_old_probes(tx, began - _KEPT_MS)
    return ProbeResult(source, lag)


def _send_command(around: ObservedContext, spool: Spool, source: str, tag: str, at: int) -> None:
    command = Command(  # noqa: S604  (the name of a shell, not a way to start one)
        envelope_id=str(uuid4()),
        session=_SESSION,
        at=at,
        command=_COMMANDS[source],
        cwd="/",
        exit_code=0,
        shell="probe",
        tool_name="Bash" if source == "claude-tool" else None,
        probe_tag=tag,
    )
    report(spool, around.rules, command)


def _send_visit(
    around: ObservedContext, spool: Spool, rules: VisitRules, tag: str, at: int
) -> None:
    """Say it to the native-messaging host as a browser would."""
    message = {
        "url": f"https://{PROBE_DOMAIN}/synthetic",
        "title": "probe",
        "domain": PROBE_DOMAIN,
        "dwell_ms": 60_000,
        "scroll_depth": 1.0,
        "timestamp": at,
        "probe_tag": tag,
    }
    stdin = BytesIO(encode_frame(encode(message).encode(), order="native"))
    serve(stdin, BytesIO(), rules, lambda thing: report(spool, around.rules, thing), around.clock)


class Observations:
    """The reports of one home: its spool, and the store that they go to."""

    def __init__(
        self,
        around: ObservedContext,
        spool: Spool,
        visits: VisitRules,
        fallbacks: tuple[Path, ...] = (),
    ) -> None:
        self.store = around.store
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
            index_behind(self.store)
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
        """Recount the events of the last hour and day."""
        self.store.upkeep.recount(self.store.clock())

    def events(self, query: Query = EVERYTHING, *, limit: int = 50) -> list[CommandRow]:
        """List commands, the latest first."""
        return self.store.list_events(query, limit=limit)

    def visits(self, query: Query = EVERYTHING, *, limit: int = 50) -> list[StoredVisit]:
        """List visits to pages, the latest first."""
        return self.store.list_visits(query, limit=limit)

    def health(self) -> list[Health]:
        """Return the health of every source."""
        return self.store.health()

    def drops(self) -> list[Drop]:
        """Return what was dropped, by source and reason."""
        return self.store.drops()

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
