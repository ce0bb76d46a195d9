"""What the socket server does with requests: the store behind it, and the spool beside it."""

import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from threadkeep.collect.envelopes import cut, read_line
from threadkeep.collect.handshake import brain_answers
from threadkeep.collect.observing import Observations
from threadkeep.collect.protocol import (
    CollectorStatus,
    EntityInfo,
    EventInfo,
    QueryHit,
    SessionInfo,
)
from threadkeep.collect.reporting import report_all
from threadkeep.collect.storing import store_all
from threadkeep.errors import ThreadkeepError
from threadkeep.knowledge.events import CommandFilter
from threadkeep.knowledge.health import count_drop
from threadkeep.knowledge.observed import Command, Heartbeat, Visit, Watch

_DAY_MS: Final = 86_400_000
_HITS: Final = 20
_SHOWN: Final = 64 << 10  # bytes of a command: fifty of them fit into one answer


class StoreBackend:
    """Answers requests from the store of a home."""

    def __init__(
        self, observations: Observations, version: str, *, brain_port: int | None = None
    ) -> None:
        self._observations = observations
        self._version = version
        self._brain_port = brain_port
        self._began = observations.around.clock()
        self._lock = threading.Lock()
        self._uncounted: Counter[str] = Counter()

    def store(self, things: Sequence[Command | Visit]) -> None:
        """Store events in one transaction."""
        store_all(self._observations.around, things)
        self._count_dropped()

    def keep(self, lines: Sequence[bytes]) -> None:
        """Leave events in the spool, because the store cannot take them now."""
        things = [read_line(line, "socket") for line in lines]  # the server understood them before
        report_all(self._observations.spool, self._observations.around.rules, things)

    def dropped(self, reason: str, count: int) -> None:
        """Count events that are lost; the count is stored as soon as the store takes it."""
        with self._lock:
            self._uncounted[reason] += count
        with suppress(ThreadkeepError):
            self._count_dropped()

    def _count_dropped(self) -> None:
        with self._lock:
            lost, self._uncounted = self._uncounted, Counter()
        if not lost:
            return
        around = self._observations.around
        try:
            with around.db.write() as tx:
                for reason, count in lost.items():
                    count_drop(tx, "socket", reason, count, around.clock())
        except ThreadkeepError:
            with self._lock:
                self._uncounted.update(lost)
            raise

    def status(self) -> CollectorStatus:
        """Tell how it is going."""
        observations = self._observations
        now = observations.around.clock()
        today = observations.store.count_today(now - now % _DAY_MS)
        file = observations.store.context.db.file
        return CollectorStatus(
            version=self._version,
            uptime_secs=max(0, now - self._began) // 1000,
            events_today=today.events,
            sessions_today=today.sessions,
            queue_depth=today.queue_depth,
            queue_failed=today.queue_failed,
            drop_count=today.drops + sum(self._uncounted.values()),
            brain_reachable=brain_answers(self._brain_port),
            db_size_bytes=file.stat().st_size,
            fallback_files_pending=observations.undelivered(),
        )

    def sessions(self, since_ms: int | None, limit: int) -> list[SessionInfo]:
        """List sessions, the latest first."""
        found = self._observations.shell_sessions(since=since_ms, limit=limit)
        return [
            SessionInfo(s.id, s.start_time, s.end_time, s.hostname, s.shell, s.commands, s.summary)
            for s in found
        ]

    def events(
        self, session_id: int | None, since_ms: int | None, project: str | None, limit: int
    ) -> list[EventInfo]:
        """List commands, the latest first."""
        wanted = CommandFilter(session=session_id, since=since_ms, project=project)
        return [
            EventInfo(
                *(
                    e.id,
                    e.session_id,
                    e.timestamp,
                    cut(e.command, _SHOWN),
                    e.exit_code,
                    e.duration_ms,
                    e.cwd,
                ),
                *(e.git_branch, e.enriched),
            )
            for e in self._observations.events(wanted, limit=limit)
        ]

    def entities(self, entity_type: str | None) -> list[EntityInfo]:
        """List what captured work mentions."""
        return [
            EntityInfo(e.id, e.type, e.name, e.canonical, e.first_seen, e.last_seen)
            for e in self._observations.entities(kind=entity_type)
        ]

    def query(self, text: str) -> list[QueryHit]:
        """Find commands that contain a text."""
        return [
            QueryHit(e.id, cut(e.command, _SHOWN), e.cwd, e.timestamp, "keyword")
            for e in self._observations.events(CommandFilter(text=text), limit=_HITS)
        ]

    def watch(self, watch: Watch) -> None:
        """Wait for the CI runs of a commit."""
        store_all(self._observations.around, [watch])

    def heartbeat(self, beat: Heartbeat) -> None:
        """Note a producer's sign of life."""
        store_all(self._observations.around, [beat])
