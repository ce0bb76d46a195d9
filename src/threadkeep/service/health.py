"""How a home fares, quickly told for a page: sources, alarms, who serves it, its files.

Nothing is compared or read through here: that is the doctor's work.
"""

from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Final

import msgspec

from threadkeep.base.clock import now_ms
from threadkeep.capture.observed.client import CollectorClient
from threadkeep.capture.observed.protocol import CollectorStatus, GetStatus
from threadkeep.errors import NotFound, ThreadkeepError
from threadkeep.home.home import reports_waiting, socket_path, spool_folder
from threadkeep.home.status import KnowledgeStatus, MailStatus, StateStatus, Status, StoreStatus
from threadkeep.knowledge.health import Alarm, Drop, Health
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.service.doctor.invariants import INVARIANTS
from threadkeep.service.serve import ServiceStatus, who_serves

if TYPE_CHECKING:
    from threadkeep.home.home import Home


_ALARMS = 100
_HOUR_MS = 3_600_000


class AlarmView(msgspec.Struct, frozen=True):
    """An alarm, and the rule that was broken in words."""

    id: int
    rule: str
    means: str
    source: str
    raised_at: int
    since: int | None
    details: str
    state: str  # active, seen, resolved
    acked_at: int | None = None
    note: str = ""
    resolved_at: int | None = None


class SourceRow(msgspec.Struct, frozen=True):
    """How the capture of one source is."""

    source: str
    state: str  # ok, failing, quiet, never
    last_event: int | None
    last_success: int | None
    last_error: int | None
    error: str
    failures: int
    last_hour: int
    last_day: int
    probe_ok: bool | None
    probe_lag_ms: int | None
    probe_at: int | None
    heartbeat: int | None


class StoreRow(msgspec.Struct, frozen=True):
    """One store of a home."""

    name: str
    path: str  # of one on a server its URL, without the password
    exists: bool
    bytes: int
    wal_bytes: int
    version: int | None
    holds: str
    backups: int
    last_backup: str | None
    problem: str


class HomeHealth(msgspec.Struct, frozen=True):
    """How a home fares."""

    serving: ServiceStatus
    sources: tuple[SourceRow, ...]
    drops: tuple[Drop, ...]
    alarms: tuple[AlarmView, ...]
    stores: tuple[StoreRow, ...]
    waiting: int  # tickets of all queues
    failed: int
    trouble: str = ""  # why the knowledge store cannot be read


def health_of(
    home: "Home", path: str | Path | None = None, status: Status | None = None
) -> HomeHealth:
    """Look at a home without changing anything; a store that cannot be opened is said so."""
    status = status or home.status(knowledge_path=path)
    sources: tuple[SourceRow, ...] = ()
    drops: tuple[Drop, ...] = ()
    alarms: tuple[AlarmView, ...] = ()
    trouble = "" if status.knowledge.exists else "nothing captured yet"
    try:
        with home.knowledge(path, read_only=True) as store:
            sources, drops = _sources(store)
            alarms = tuple(map(alarm_row, store.alarms(active=False)[:_ALARMS]))
    except ThreadkeepError as error:
        trouble = trouble or error.message
    return HomeHealth(
        serving=who_serves(home, path),
        sources=sources,
        drops=drops,
        alarms=alarms,
        stores=stores_of(status),
        waiting=status.knowledge.learned.waiting,
        failed=status.knowledge.learned.failed,
        trouble=trouble,
    )


def active_alarms(home: "Home", path: str | Path | None = None) -> tuple[AlarmView, ...]:
    """Return the active alarms that nobody has seen; none if the store cannot be read."""
    with suppress(ThreadkeepError), home.knowledge(path, read_only=True) as store:
        return tuple(map(alarm_row, store.alarms()))
    return ()


def ack(store: KnowledgeStore, number: int, note: str = "") -> AlarmView:
    """Note that a person has seen an alarm."""
    return alarm_row(store.acknowledge(number, note or None))


def alarm_row(alarm: Alarm) -> AlarmView:
    """Put an alarm in words."""
    acked = "active" if alarm.acked_at is None else "seen"
    return AlarmView(
        id=alarm.id,
        rule=alarm.invariant,
        means=INVARIANTS.get(alarm.invariant, ""),
        source=alarm.source or "",
        raised_at=alarm.raised_at,
        since=alarm.since_ms,
        details=alarm.details,
        state=acked if alarm.resolved_at is None else "resolved",
        acked_at=alarm.acked_at,
        note=alarm.ack_note or "",
        resolved_at=alarm.resolved_at,
    )


# ---------------------------------------------------------------------- inside


def _sources(store: KnowledgeStore) -> tuple[tuple[SourceRow, ...], tuple[Drop, ...]]:
    rows = [_source(one, now_ms()) for one in store.health()]
    order = {"failing": 0, "ok": 1, "quiet": 2, "never": 3}
    return tuple(sorted(rows, key=lambda row: (order[row.state], row.source))), tuple(store.drops())


def _source(one: Health, now: int) -> SourceRow:
    return SourceRow(
        source=one.source,
        state=_state(one, now),
        last_event=one.last_event_ts,
        last_success=one.last_success_ts,
        last_error=one.last_error_ts,
        error=one.last_error_msg or "",
        failures=one.consecutive_failures,
        last_hour=one.events_last_1h,
        last_day=one.events_last_24h,
        probe_ok=None if one.probe_ok is None else bool(one.probe_ok),
        probe_lag_ms=one.probe_lag_ms,
        probe_at=one.probe_last_run_ts,
        heartbeat=one.last_heartbeat_ts,
    )


def _state(one: Health, now: int) -> str:
    if one.consecutive_failures or one.probe_ok == 0:
        return "failing"
    latest = max(one.last_event_ts or 0, one.last_success_ts or 0, one.last_heartbeat_ts or 0)
    if not latest:
        return "never"
    return "ok" if now - latest < 24 * _HOUR_MS else "quiet"


def stores_of(status: Status) -> tuple[StoreRow, ...]:
    """Return the files of a home with their sizes and versions."""
    mail, knowledge = status.mailbox, status.knowledge
    return (
        _store("knowledge", knowledge, f"{_said(knowledge)}, {knowledge.learned.nodes:,} nodes"),
        _store("chat", status.chat, _said(status.chat)),
        _store("state", status.state, _said(status.state)),
        _store("mailbox", mail, f"{mail.sessions:,} mailboxes, {mail.agents:,} agents"),
    )


def _said(one: StoreStatus | StateStatus | KnowledgeStatus) -> str:
    return f"{one.sessions:,} sessions, {one.messages:,} messages"


def _store(
    name: str, one: StoreStatus | StateStatus | MailStatus | KnowledgeStatus, holds: str
) -> StoreRow:
    return StoreRow(
        name=name,
        path=one.url or str(one.path),
        exists=one.exists,
        bytes=one.bytes,
        wal_bytes=one.wal_bytes,
        version=one.schema_version,
        holds=holds if one.exists and not one.problem else "",
        backups=one.backups,
        last_backup=one.last_backup.at if one.last_backup else None,
        problem=one.problem,
    )


# ------------------------------------------------------------------------------
# How the capture of shells, browsers and CI is, found out without a change.

SOURCES: Final = ("shell", "claude-tool", "browser", "github-actions")
_ANSWER_SECONDS: Final = 0.1
_LONGEST_SECONDS: Final = 0.5  # for an answer that comes in drops


class SocketStatus(msgspec.Struct, frozen=True):
    """Whether somebody listens on the socket of a home; `trouble` says why one does not answer."""

    socket: Path
    answers: bool = False
    status: CollectorStatus | None = None
    trouble: str = ""


class ObservedStatus(msgspec.Struct, frozen=True):
    """How the capture of shells, browsers and CI is."""

    sources: tuple[Health, ...]  # of those that were ever heard of
    drops: tuple[Drop, ...]
    spool: Path
    waiting: int  # files that nobody has collected yet
    listening: SocketStatus
    trouble: str = ""  # why the spool cannot be read


def observed_status(home: "Home", path: str | Path | None = None) -> ObservedStatus:
    """Look at the health of these sources, at the spool and at the socket of a home.

    A store that cannot be read says nothing here: its own status tells why.
    """
    sources, drops = _of_store(home, path)
    waiting, trouble = 0, ""
    try:
        waiting = reports_waiting(home, path)
    except ThreadkeepError as error:
        trouble = error.message
    listening = ask_listener(socket_path(home))
    return ObservedStatus(sources, drops, spool_folder(home), waiting, listening, trouble)


def _of_store(home: "Home", path: str | Path | None) -> tuple[tuple[Health, ...], tuple[Drop, ...]]:
    with suppress(ThreadkeepError), home.knowledge(path, read_only=True) as store:
        health = tuple(one for one in store.health() if one.source in SOURCES)
        return health, tuple(store.drops())
    return (), ()


def ask_listener(path: Path) -> SocketStatus:
    """Ask whoever listens at a path how it is going; half a second is all it gets."""
    try:
        with CollectorClient(path, _ANSWER_SECONDS) as client:
            ends = Timer(_LONGEST_SECONDS, client.close)
            ends.daemon = True
            ends.start()
            try:
                answer = client.ask(GetStatus())
            finally:
                ends.cancel()
    except NotFound:
        return SocketStatus(path)
    except ThreadkeepError as error:
        return SocketStatus(path, trouble=error.message)
    status = answer if isinstance(answer, CollectorStatus) else None
    return SocketStatus(path, answers=status is not None, status=status)
