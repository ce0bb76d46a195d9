"""Putting a snapshot together: what the store says about itself, beside what the disk says."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from threadkeep.base.tx import Tx
from threadkeep.doctor.evidence import browser_runs, hooked_shells, typed_since, waiting_in
from threadkeep.doctor.ground import LogScan, look_at_logs
from threadkeep.doctor.memory import (
    DoctorState,
    SeenHistory,
    awake_since,
    lost_lately,
    sample_drops,
    unclear_lately,
)
from threadkeep.doctor.snapshot import (
    Browsing,
    Memories,
    MissingCommands,
    PendingReports,
    Preflight,
    Probe,
    Snapshot,
    ToolCalls,
)
from threadkeep.knowledge.health import Drop, Health
from threadkeep.knowledge.layout import names
from threadkeep.knowledge.memory_documents import memory_health
from threadkeep.knowledge.memory_names import SOURCE_KIND
from threadkeep.knowledge.service_state import the_service
from threadkeep.sources.records import Source, UserHome
from threadkeep.sources.shell_history import find_histories

WATCHER: Final = "claude-session-watcher"
WATCHDOG: Final = "watchdog"
_PREFLIGHT: Final = "brain-preflight"
_FRESH_MS: Final = 90_000
_TOOL_WINDOW_MS: Final = 3_600_000
_TOOL_REST_MS: Final = 60_000
_VECTORS_EVERY_MS: Final = 300_000
_VECTORS_OLD_MS: Final = 900_000
_COUNTED: Final = frozenset({"shell", "claude-tool", "browser"})


class DoctorScope(msgspec.Struct, frozen=True):
    """What is looked at: whose logs, which folders, and what the user has switched on."""

    user: UserHome
    sources: Mapping[str, Source]
    hooks: Path
    spool: Path
    fallbacks: tuple[Path, ...]
    excluded_commands: tuple[str, ...] = ()
    browser: bool = True
    model: bool = False
    embeddings: bool = True
    watchdog: bool = True
    memories: bool = False  # Claude's notes are captured


class CheckTime(msgspec.Struct, frozen=True):
    """When it is looked: by the clock, by the machine's own counter, and since when we run."""

    now: int
    monotonic_ms: int
    up_since: int | None = None  # None: whoever looks does not capture itself


class DoctorObservation(msgspec.Struct, frozen=True):
    """A snapshot, what to remember of it, and the logs it was made from."""

    snapshot: Snapshot
    memory: DoctorState
    ground: LogScan


def observe(
    tx: Tx, place: DoctorScope, moment: CheckTime, before: DoctorState
) -> DoctorObservation:
    """Look at the disk and at the store, and change nothing."""
    now, tables = moment.now, names(tx, "table")
    up_since = _up_since(tx, moment)
    health = _health(tx, tables)
    drops = [Drop(*row) for row in tx.all("drops")] if "tk_drops" in tables else []
    captured = "tk_logs" in tables
    sources = place.sources if captured else {}
    ground = look_at_logs(tx, sources, place.user, before.logs, now)
    typed, histories = _typed(tx, place, before)
    nodes = _duplicates(tx, before, tables)
    vectors = _vectors(tx, place, before, tables, now)
    running = before.browser_since or now if place.browser and browser_runs() else None
    memory = DoctorState(
        at=now,
        monotonic_ms=moment.monotonic_ms,
        awake_since=_awake_since(before, moment, up_since),
        logs=ground.seen,
        histories=histories,
        drops=sample_drops(before, drops, now),
        browser_since=running,
        nodes=nodes,
        vectors=vectors,
    )
    looked_at = _heartbeat(health, WATCHER)
    snapshot = Snapshot(
        now=now,
        awake_since=memory.awake_since,
        resident=up_since is not None or _is_fresh(looked_at, now),
        looked_at=looked_at,
        captured_at=tx.value("last_captured") if captured else None,
        behind=ground.behind,
        typed=typed,
        calls=_calls(tx, tables, now),
        browsing=_browsing(health, running),
        lost=lost_lately(before, drops, now),
        unclear=unclear_lately(before, drops, _stored_lately(health), now),
        watchdog_at=_heartbeat(health, WATCHDOG) if place.watchdog else None,
        probes=_probes(health, place),
        waiting=_waiting(place),
        preflight=_preflight(health) if place.model else None,
        vectors_missing=vectors[1],
        duplicates=nodes[2],
        memories=_memories(tx, health, now) if place.memories else None,
        typed_at=tx.value("last_typed"),
    )
    return DoctorObservation(snapshot, memory, ground)


def _health(tx: Tx, tables: set[str]) -> dict[str, Health]:
    rows = tx.all("all_health") if "source_health" in tables else []
    return {one.source: one for one in (Health(*row) for row in rows)}


def _heartbeat(health: Mapping[str, Health], source: str) -> int | None:
    return health[source].last_heartbeat_ts if source in health else None


def _is_fresh(at: int | None, now: int) -> bool:
    return at is not None and now - at < _FRESH_MS


def _stored_lately(health: Mapping[str, Health]) -> int:
    return sum(one.events_last_1h for one in health.values() if one.source in _COUNTED)


def _typed(
    tx: Tx, place: DoctorScope, before: DoctorState
) -> tuple[MissingCommands | None, dict[str, SeenHistory]]:
    hooks = hooked_shells(place.hooks)
    if not hooks:
        return None, {}
    last = tx.value("last_typed")
    found = find_histories(place.user.home, place.user.env)
    return typed_since(found, hooks, last, place.excluded_commands, before.histories)


def _calls(tx: Tx, tables: set[str], now: int) -> ToolCalls | None:
    """Compare the tool calls of the last hour with the events that they became."""
    if "tk_entries" not in tables:
        return None
    window = {"since": now - _TOOL_WINDOW_MS, "until": now - _TOOL_REST_MS}
    called = tx.value("last_tool_call", window)
    if called is None:
        return None
    return ToolCalls(called, tx.value("last_tool_event", {"since": called}))


def _browsing(health: Mapping[str, Health], running: int | None) -> Browsing | None:
    heard = _heartbeat(health, "browser")
    return None if heard is None or running is None else Browsing(running, heard)


def _probes(health: Mapping[str, Health], place: DoctorScope) -> tuple[Probe, ...]:
    return tuple(
        Probe(one.source, bool(one.probe_ok), one.probe_last_run_ts, one.probe_last_run_ts)
        for one in health.values()
        if one.probe_last_run_ts is not None
        and one.probe_ok is not None
        and (place.browser or one.source != "browser")
    )


def _waiting(place: DoctorScope) -> tuple[PendingReports, ...]:
    folders = [("spool", place.spool), *(("fallback", folder) for folder in place.fallbacks)]
    found = (waiting_in(name, folder) for name, folder in folders)
    return tuple(one for one in found if one is not None)


def _preflight(health: Mapping[str, Health]) -> Preflight | None:
    one = health.get(_PREFLIGHT)
    if one is None or not one.consecutive_failures:
        return None
    since = one.last_success_ts or one.last_error_ts or 0
    return Preflight(one.consecutive_failures, since, one.last_error_msg or "no message")


def _memories(tx: Tx, health: Mapping[str, Health], now: int) -> Memories | None:
    found, taken = memory_health(tx, now), health.get(SOURCE_KIND)
    if found is None:
        return None
    return Memories(
        watched_at=found.watcher_last_heartbeat_ms,
        taken_at=found.ingest_last_event_ms,
        failures=found.ingest_consecutive_failures,
        failed_at=None if taken is None else taken.last_error_ts,
        message=(taken.last_error_msg if taken is not None else None) or "no message",
        waiting=found.stale_projection_count,
        waiting_since=found.stale_since,
        bare=found.orphan_chunk_links,
        bare_since=found.orphans_since,
    )


def _duplicates(tx: Tx, before: DoctorState, tables: set[str]) -> tuple[int, int, int]:
    """Count the nodes that are there twice; while there are no new ones nothing is counted."""
    if not tables >= {"knowledge_nodes", "knowledge_node_agentic_sessions"}:
        return 0, 0, 0
    count, highest = tx.one("node_marks") or (0, 0)
    if (count, highest) == before.nodes[:2]:
        return before.nodes
    return count, highest, int(tx.value("duplicate_groups"))


def _vectors(
    tx: Tx, place: DoctorScope, before: DoctorState, tables: set[str], now: int
) -> tuple[int, int]:
    """Count the nodes without a vector, every few minutes: that reads all of them."""
    in_use = place.embeddings and "tk_vector_model" in tables
    if not in_use or tx.value("vectors_in_use") is None:
        return 0, 0
    if 0 <= now - before.vectors[0] < _VECTORS_EVERY_MS:
        return before.vectors
    old = {"before": now - _VECTORS_OLD_MS}
    return now, int(tx.value("count_nodes_without_vector", old))


def _awake_since(before: DoctorState, moment: CheckTime, up_since: int | None) -> int:
    resident = moment.up_since is not None
    return awake_since(before, moment.now, moment.monotonic_ms, up_since, resident=resident)


def _up_since(tx: Tx, moment: CheckTime) -> int | None:
    """Tell since when somebody captures: whoever looks, or the service of this file."""
    if moment.up_since is not None:
        return moment.up_since
    service = the_service(tx)
    return service.started_at if service is not None and service.is_running else None
