"""What the socket server does with requests: the store behind it, and the spool beside it."""

import socket
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from threadkeep.base.json import decode
from threadkeep.capture.observed.envelopes import cut, read_line
from threadkeep.capture.observed.intake import report_all, store_all
from threadkeep.capture.observed.observed import Observations
from threadkeep.capture.observed.protocol import (
    CollectorStatus,
    EntityInfo,
    EventInfo,
    QueryHit,
    SessionInfo,
)
from threadkeep.errors import Invalid, SchemaMismatch, ThreadkeepError
from threadkeep.knowledge.health import count_drop
from threadkeep.knowledge.records import Command, Heartbeat, Visit, Watch
from threadkeep.knowledge.schema import WRITTEN

# ------------------------------------------------------------------------------
# The handshake: a brain of Hippo that runs beside us must expect the schema that we write.
#
# Hippo's programs share one database file. A brain built for another version fails with every
# query once the file has moved on, so we ask before we write: its port tells at `/health`.

CONNECT_SECONDS: Final = 0.5
TOTAL_SECONDS: Final = 1.5
_HOST: Final = "127.0.0.1"
_LARGEST: Final = 256 << 10  # bytes of an answer
_CHUNK: Final = 16 << 10
_FIELD: Final = "expected_schema_version"


def check_brain(
    port: int,
    ours: int,
    *,
    connect_seconds: float = CONNECT_SECONDS,
    total_seconds: float = TOTAL_SECONDS,
) -> str | None:
    """Ask the brain at a port which schema it expects; give a warning if it did not really say.

    No brain is as good as one that agrees: None. One that expects another version raises
    SchemaMismatch.
    """
    try:
        answer = _ask(port, connect_seconds, total_seconds)
    except ConnectionRefusedError:
        return None
    except TimeoutError:
        return _unsure(port, "it did not answer in time")
    except OSError as error:
        return _unsure(port, error.strerror or type(error).__name__)
    try:
        expected = expected_version(answer)
    except Invalid as error:
        return _unsure(port, error.message)
    if expected != ours:
        up = ours < expected and expected in WRITTEN
        way = (
            f"bring the store up with `threadkeep knowledge migrate --to {expected}`"
            if up
            else "update it to a release with this version"
        )
        raise SchemaMismatch(
            f"the brain at port {port} expects schema version {expected}, the store has {ours}",
            hint=f"stop Hippo's brain, or {way}, then try again",
        )
    return None


def brain_answers(port: int | None, *, seconds: float = CONNECT_SECONDS) -> bool:
    """Tell whether anybody listens where a brain would."""
    if port is None:
        return False
    try:
        with socket.create_connection((_HOST, port), seconds):
            return True
    except OSError:
        return False


def expected_version(answer: bytes) -> int:
    """Read the version out of a whole HTTP answer; Invalid says what is odd about it."""
    head, found, body = answer.partition(b"\r\n\r\n")
    words = head.split(b"\r\n", 1)[0].split()
    if not found or not words[:1] or not words[0].startswith(b"HTTP/"):
        raise Invalid("it does not speak HTTP", hint="check the port")
    if not words[1:2] or not words[1].startswith(b"2"):
        said = b" ".join(words[1:]).decode("ascii", "replace")[:40]
        raise Invalid(f"it answered {said!r}", hint="check the brain's log")
    health: Any = decode(body)
    expected = health.get(_FIELD) if isinstance(health, dict) else None
    if not isinstance(expected, int) or isinstance(expected, bool):
        raise Invalid("it names no schema version", hint="it may be too old to report one")
    return expected


def _ask(port: int, connect_seconds: float, total_seconds: float) -> bytes:
    """Send one request and read to the end of the answer, within the time there is."""
    deadline = time.monotonic() + total_seconds
    with socket.create_connection((_HOST, port), connect_seconds) as link:
        link.settimeout(_left(deadline))
        link.sendall(f"GET /health HTTP/1.0\r\nHost: {_HOST}:{port}\r\n\r\n".encode())
        answer = bytearray()
        while len(answer) < _LARGEST:
            link.settimeout(_left(deadline))
            data = link.recv(_CHUNK)
            if not data:
                break
            answer += data
    return bytes(answer)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _unsure(port: int, why: str) -> str:
    return f"cannot tell which schema version the brain at port {port} expects: {why}"


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
            with around.store.write() as tx:
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
        file = observations.store.file
        return CollectorStatus(
            version=self._version,
            uptime_secs=max(0, now - self._began) // 1000,
            events_today=today.events,
            sessions_today=today.sessions,
            queue_depth=today.queue_depth,
            queue_failed=today.queue_failed,
            drop_count=today.drops + sum(self._uncounted.values()),
            brain_reachable=brain_answers(self._brain_port),
            db_size_bytes=0 if file is None else file.stat().st_size,
            fallback_files_pending=observations.undelivered(),
        )

    def sessions(self, since_ms: int | None, limit: int) -> list[SessionInfo]:
        """List sessions, the latest first."""
        found = self._observations.store.list_shell_sessions(since=since_ms, limit=limit)
        return [
            SessionInfo(s.id, s.start_time, s.end_time, s.hostname, s.shell, s.commands, s.summary)
            for s in found
        ]

    def events(
        self, session_id: int | None, since_ms: int | None, project: str | None, limit: int
    ) -> list[EventInfo]:
        """List commands, the latest first."""
        found = self._observations.store.evidence.contract_events(
            session=session_id, since=since_ms, folder=project, limit=limit
        )
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
            for e in found
        ]

    def entities(self, entity_type: str | None) -> list[EntityInfo]:
        """List what captured work mentions."""
        return [
            EntityInfo(e.id, e.type, e.name, e.canonical, e.first_seen, e.last_seen)
            for e in self._observations.store.list_entities(kind=entity_type)
        ]

    def query(self, text: str) -> list[QueryHit]:
        """Find commands that contain a text."""
        found = self._observations.store.evidence.contract_events(text=text, limit=_HITS)
        return [
            QueryHit(e.id, cut(e.command, _SHOWN), e.cwd, e.timestamp, "keyword") for e in found
        ]

    def watch(self, watch: Watch) -> None:
        """Wait for the CI runs of a commit."""
        store_all(self._observations.around, [watch])

    def heartbeat(self, beat: Heartbeat) -> None:
        """Note a producer's heartbeat."""
        store_all(self._observations.around, [beat])
