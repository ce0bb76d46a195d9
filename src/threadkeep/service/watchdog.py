"""The watchdog of a home: looks at what is on the disk, and raises alarms about what is missing."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from threadkeep.base.clock import now_ms
from threadkeep.base.processes import my_mark
from threadkeep.capture.capture import History
from threadkeep.home.home import fallback_folders, spool_folder
from threadkeep.knowledge import health
from threadkeep.knowledge.opening import refuse_write
from threadkeep.service.doctor.invariants import check
from threadkeep.service.doctor.observations import (
    WATCHDOG,
    CheckTime,
    DoctorObservation,
    DoctorScope,
    observe,
)
from threadkeep.service.doctor.watchdog_memory import read_memory, write_memory

if TYPE_CHECKING:
    from threadkeep.home.home import Home


_MINUTE_MS: Final = 60_000


class WatchdogReport(msgspec.Struct, frozen=True):
    """What a look found, and what it did to the alarms."""

    violations: tuple[health.Violation, ...]
    raised: tuple[health.Alarm, ...]
    reopened: tuple[health.Alarm, ...]
    resolved: tuple[health.Alarm, ...]
    took_ms: int


def run_watchdog(
    home: "Home",
    history: History,
    *,
    now: int,
    monotonic: float,
    up_since: int | None = None,
) -> WatchdogReport:
    """Look once, write down that somebody looked, and raise or resolve alarms.

    `now` is epoch milliseconds, `monotonic` the seconds of the machine's own counter: where the
    two differ the machine slept. A process that captures says since when (`up_since`), unless the
    file itself names it as its service: before that, nobody could have.
    """
    refuse_write(history.store.access)
    began = time.perf_counter()
    since = _served_since(history) if up_since is None else up_since
    seen = look_once(home, history, now=now, monotonic=monotonic, up_since=since)
    # It is the watchdog itself that looks: its own silence is for the doctor to notice.
    snapshot = msgspec.structs.replace(seen.snapshot, watchdog_at=None)
    violations = {one.key: one for one in check(snapshot)}
    interval = home.config.health.alarm_interval_minutes * _MINUTE_MS
    # An alarm that a power cut takes away is raised again at the next look.
    with history.store.write(durable=False) as tx:
        changes = health.settle_alarms(tx, violations, now=now, interval_ms=interval)
        health.heartbeat(tx, WATCHDOG, now)
        health.note_watchdog(tx, write_memory(seen.memory), now)
    took = round((time.perf_counter() - began) * 1000)
    return _report(violations.values(), changes, took)


def watchdog_once(home: "Home", path: str | Path | None = None) -> WatchdogReport:
    """Open the store of a home, look once, and close it."""
    with home.history(path, must_exist=True) as history:
        return run_watchdog(home, history, now=now_ms(), monotonic=time.monotonic())


def look_once(
    home: "Home",
    history: History,
    *,
    now: int,
    monotonic: float,
    up_since: int | None = None,
) -> DoctorObservation:
    """Look at the disk and the store of a home, and change nothing."""
    moment = CheckTime(now, round(monotonic * 1000), up_since)
    with history.store.read() as tx:
        before = read_memory(health.watchdog_memory(tx), now)
        return observe(tx, place_of(home, history), moment, before)


def place_of(home: "Home", history: History) -> DoctorScope:
    """Name what there is to look at in a home."""
    config, data = home.config, home.paths().data
    around = history.around
    return DoctorScope(
        user=around.user,
        sources=history.sources,
        hooks=data / "hooks",
        spool=spool_folder(home),
        fallbacks=fallback_folders(home, around.store.file),
        excluded_commands=config.shell.exclude,
        browser=config.browser.enabled,
        model=config.model.url is not None,
        embeddings=config.embeddings.provider != "off",
        watchdog=config.serve.watchdog,
        memories=any(source.kind == "memory" for source in history.sources.values()),
    )


def _served_since(history: History) -> int | None:
    """Tell since when this very process serves the file; None if it does not."""
    service = history.store.upkeep.service()
    return service.started_at if service is not None and service.mark == my_mark() else None


def _report(
    violations: Iterable[health.Violation], changes: health.Changes, took: int
) -> WatchdogReport:
    return WatchdogReport(
        tuple(violations), changes.raised, changes.reopened, changes.resolved, took
    )
