"""What the store and the logs say about capture and the work behind it, gathered for the doctor."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from threadkeep.base.config import Config, read_settings
from threadkeep.base.json import decode
from threadkeep.base.spool import Spool
from threadkeep.base.tx import Tx
from threadkeep.doctor.facts import (
    CaptureFacts,
    CleanupFacts,
    DriftFacts,
    QueueFacts,
    SourceFacts,
    VectorFacts,
)
from threadkeep.doctor.invariants import check
from threadkeep.doctor.observing import DoctorObservation, DoctorScope
from threadkeep.errors import NotFound, ThreadkeepError
from threadkeep.knowledge.alarms import Alarm
from threadkeep.knowledge.health import Drop
from threadkeep.knowledge.layout import names
from threadkeep.knowledge.service_state import part_states, the_service
from threadkeep.knowledge.tickets import QUEUES, depths, locks
from threadkeep.sources.claude_paths import project_folders
from threadkeep.sources.records import UserHome

_ALARMS: Final = 1000


def look_at_capture(
    tx: Tx, seen: DoctorObservation, place: DoctorScope, settings: Config
) -> dict[str, Any]:
    """Gather the facts that only a readable knowledge store can tell, by the names of `Facts`."""
    tables, now = names(tx, "table"), seen.snapshot.now
    service = the_service(tx)
    return {
        "capture": _capture(tx, seen, place, settings, tables),
        "queues": tuple(_queues(tx, now)),
        "vectors": _vectors(tx, settings, tables, now),
        "service": service,
        "service_runs": service is not None and service.is_running,
        "service_hindrance": "" if service is None else service.hindrance(now),
        "parts": tuple(part_states(tx)),
    }


def _capture(
    tx: Tx, seen: DoctorObservation, place: DoctorScope, settings: Config, tables: set[str]
) -> CaptureFacts:
    alarms = _alarms(tx, tables)
    waiting, trouble = seen.snapshot.waiting, _spool_trouble(place.spool)
    return CaptureFacts(
        sources=tuple(_sources(seen)),
        disabled=settings.capture.disable,
        violations=tuple(check(seen.snapshot)),
        resident=seen.snapshot.resident,
        alarms=tuple(one for one in alarms if one.active),
        resolved=sum(one.resolved_at is not None and one.acked_at is None for one in alarms),
        waiting=waiting,
        refused=_count_files(place.spool / "refused"),
        spool=str(place.spool),
        spool_trouble=trouble,
        spool_blocked=place.spool.exists() and not place.spool.is_dir(),
        drops=tuple(Drop(*row) for row in tx.all("drops")) if "tk_drops" in tables else (),
        drift=tuple(_drift(tx, tables)),
        cleanup=_cleanup(place.user),
    )


def _alarms(tx: Tx, tables: set[str]) -> list[Alarm]:
    if "capture_alarms" not in tables:
        return []
    return [Alarm(*row) for row in tx.all("all_alarms", {"limit": _ALARMS})]


def _sources(seen: DoctorObservation) -> Iterator[SourceFacts]:
    behind = {one.harness: one for one in seen.snapshot.behind}
    for harness, found in sorted(seen.ground.found.items()):
        missed = seen.ground.missed.get(harness, 0)
        one = behind.get(harness)
        example, why = (one.example, one.why) if one is not None else ("", "")
        unseen, fix = (one.closed, one.fix) if one is not None else (False, "")
        told = SourceFacts(harness, found, missed, example, why, unseen=unseen, fix=fix)
        closed = not unseen and _is_closed(example)
        yield msgspec.structs.replace(told, closed=closed)


def _drift(tx: Tx, tables: set[str]) -> Iterator[DriftFacts]:
    if "tk_unknown" in tables:
        for harness, kind, count, last_seen, _ in tx.all("unknown_records"):
            yield DriftFacts(harness, kind, count, last_seen)


def _queues(tx: Tx, now: int) -> Iterator[QueueFacts]:
    counts, found = depths(tx), locks(tx, now)
    for name in sorted(counts.keys() & QUEUES.keys()):  # not of the family that is frozen
        waiting, failed = counts[name].get("pending", 0), counts[name].get("failed", 0)
        yield QueueFacts(name, waiting, failed, found[name].held, found[name].lost)


def _vectors(tx: Tx, settings: Config, tables: set[str], now: int) -> VectorFacts | None:
    if settings.embeddings.provider == "off" or "tk_vector_model" not in tables:
        return None
    model = tx.value("vectors_in_use")
    if model is None:
        return None
    wanted = settings.embeddings.name if settings.embeddings.provider == "url" else None
    missing = int(tx.value("count_nodes_without_vector", {"before": now}))
    return VectorFacts(str(model), wanted or "", missing)


# ---------------------------------------------------------------------- files of others


def _is_closed(path: str) -> bool:
    return os.path.exists(path) and not os.access(path, os.R_OK)  # noqa: PTH110  (also of bytes)


def _spool_trouble(folder: Path) -> str:
    try:
        Spool(folder).waiting()
    except ThreadkeepError as error:
        return error.message
    return ""


def _count_files(folder: Path) -> int:
    try:
        return len(os.listdir(folder))  # noqa: PTH208  (only how many)
    except OSError:
        return 0


def _cleanup(user: UserHome) -> CleanupFacts | None:
    """Read how long Claude Code keeps transcripts; None if it was never used here."""
    folder = next((one.parent for one in project_folders(user) if one.is_dir()), None)
    if folder is None:
        return None
    path = folder / "settings.json"
    try:
        found = decode(read_settings(path))
    except NotFound:
        return CleanupFacts(str(path), None)
    except ThreadkeepError as error:
        return CleanupFacts(str(path), None, error.message)
    days = found.get("cleanupPeriodDays") if isinstance(found, dict) else None
    return CleanupFacts(str(path), days if isinstance(days, int) else None)
