"""The health of capture, one row for each source: what came last, and what went wrong last."""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from threadkeep.base.json import decode, encode
from threadkeep.base.processes import is_alive, is_stopped
from threadkeep.base.tx import Tx
from threadkeep.errors import Invalid, NotFound
from threadkeep.knowledge.copies import copies_by_harness

# The names that the contract seeds; other harnesses follow the same form.
_NAMES = {"claude-code": "agentic-session-claude"}
_LONGEST_MESSAGE = 512


class Health(msgspec.Struct, frozen=True):
    """How the capture of one source is."""

    source: str
    last_event_ts: int | None
    last_success_ts: int | None
    last_error_ts: int | None
    last_error_msg: str | None
    consecutive_failures: int
    events_last_1h: int
    events_last_24h: int
    probe_ok: int | None
    probe_lag_ms: int | None
    probe_last_run_ts: int | None
    last_heartbeat_ts: int | None


class Drop(msgspec.Struct, frozen=True):
    """How much of a source did not become a row, and why."""

    source: str
    reason: str
    count: int
    last_at: int


def health_name(harness: str) -> str:
    """Name the row of an agent in `source_health`."""
    return _NAMES.get(harness, f"agentic-session-{harness}")


def note_success(tx: Tx, source: str, *, last_event: int | None, count: int, now: int) -> None:
    """Write down that a source was read, and what it gave."""
    tx.run("health_success", {"source": source, "at": last_event, "count": count, "now": now})


def note_failure(tx: Tx, source: str, message: str, now: int) -> None:
    """Write down that a source could not be read."""
    values = {"source": source, "message": message[:_LONGEST_MESSAGE], "now": now}
    tx.run("health_failure", values)


def heartbeat(tx: Tx, source: str, now: int) -> None:
    """Write down that somebody watches a source."""
    tx.run("health_heartbeat", {"source": source, "now": now})


def heard(tx: Tx, source: str, at: int, now: int, error: str | None = None) -> None:
    """Write down a producer's own heartbeat, and what it says is wrong: nothing, if None."""
    told = None if error is None else error[:_LONGEST_MESSAGE]
    tx.run("heartbeat_at", {"source": source, "at": at, "error": told, "now": now})


def note_probe(tx: Tx, source: str, *, lag_ms: int | None, now: int) -> None:
    """Write down how long a synthetic event took from end to end; None: it did not arrive."""
    tx.run(
        "note_probe", {"source": source, "ok": int(lag_ms is not None), "lag": lag_ms, "now": now}
    )


def count_drop(tx: Tx, source: str, reason: str, count: int, now: int) -> None:
    """Count what did not become a row; these counters are never set back."""
    tx.run("count_drop", {"source": source, "reason": reason, "count": count, "now": now})


def recount(tx: Tx, now: int) -> None:
    """Recount the events of the last hour and day; probes are no events."""
    for kind in ("shell", "claude-tool"):
        tx.run("recount_events", {"kind": kind, "now": now})
    tx.run("recount_visits", {"now": now})


def all_health(tx: Tx) -> list[Health]:
    """Return the health of every source; none in a file that does not keep it."""
    rows = tx.all("all_health") if "source_health" in tx.tables() else []
    return [Health(*row) for row in rows]


def all_drops(tx: Tx) -> list[Drop]:
    """Return what was dropped, by source and reason; none in a file that does not count it."""
    rows = tx.all("drops") if "tk_drops" in tx.tables() else []
    return [Drop(*row) for row in rows]


class UnknownRecord(msgspec.Struct):
    """A record type that this version does not know."""

    agent: str
    kind: str
    count: int
    last_seen: int
    path: str | None


def unknown_records(tx: Tx) -> list[UnknownRecord]:
    """Return the record types that were met and are not known."""
    rows = tx.all("unknown_records") if "tk_unknown" in tx.tables() else []
    return [UnknownRecord(*row) for row in rows]


class CoverageCounts(msgspec.Struct):
    """What the store holds of one agent."""

    logs: int
    lines: int
    bad_lines: int
    source_bytes: int
    gone: int
    excluded: int
    failed: int
    captured_at: int | None
    sessions: int = 0
    entries: int = 0


def count_stored(tx: Tx) -> dict[str, CoverageCounts]:
    """Count logs, lines, sessions and entries of each harness."""
    copies = copies_by_harness(tx)
    sessions: dict[str, tuple[int, ...]] = {
        harness: (count, entries - copies.get(harness, 0))
        for harness, count, entries in tx.all("session_totals")
    }
    return {
        harness: CoverageCounts(*counts, *sessions.get(harness, (0, 0)))
        for harness, *counts in tx.all("source_totals")
    }


# ------------------------------------------------------------------------------
# What a look at the store tells the watchdog, and what that remembers of the look before.


class LastSeen(msgspec.Struct, frozen=True):
    """When something last came of what is compared with the disk; None if it never did."""

    captured: int | None  # a log
    typed: int | None  # a command that a person typed, when it began


def last_seen(tx: Tx) -> LastSeen:
    """Tell when a log was last captured, and a command last typed."""
    captured = tx.value("last_captured") if "tk_logs" in tx.tables() else None
    return LastSeen(captured, tx.value("last_typed"))


def last_tool_call(tx: Tx, since: int, until: int) -> tuple[int, int | None] | None:
    """Return the last tool call of some time, and the last event since that came of one."""
    if "tk_entries" not in tx.tables():
        return None
    called = tx.value("last_tool_call", {"since": since, "until": until})
    return None if called is None else (called, tx.value("last_tool_event", {"since": called}))


def watchdog_memory(tx: Tx) -> str | None:
    """Return what the watchdog noted at its last look."""
    return tx.value("watchdog_memory") if "tk_watchdog" in tx.tables() else None


def note_watchdog(tx: Tx, memory: str, now: int) -> None:
    """Keep what the watchdog notes for its next look."""
    tx.run("put_watchdog_memory", {"memory": memory, "now": now})


# ------------------------------------------------------------------------------
# Alarms: recorded violations of rules about capture, one for each rule and source at a time.
#
# An alarm stands until its violation was looked for in vain twice. While it stands it is not raised
# again, and tells how its violation shows now, and since when it first did. One that comes back
# soon
# after it went away is the same alarm and is opened again.

CLEAN_TICKS: Final = 2
PRUNED_NOTE: Final = "auto-resolved"

Key = tuple[str, str]  # the rule, and the source that breaks it


class Violation(msgspec.Struct, frozen=True):
    """A rule about capture that is broken now: by which source, since when, and how it shows."""

    invariant: str
    source: str
    since_ms: int
    details: str

    @property
    def key(self) -> Key:
        """What makes two violations the same one."""
        return self.invariant, self.source


class Alarm(msgspec.Struct, frozen=True):
    """A recorded violation."""

    id: int
    invariant: str
    raised_at: int
    details_json: str
    acked_at: int | None
    ack_note: str | None
    resolved_at: int | None
    clean_ticks: int

    @property
    def active(self) -> bool:
        """Whether it continues and nobody has seen it yet."""
        return self.acked_at is None and self.resolved_at is None

    @property
    def source(self) -> str | None:
        """The source it is about; None if its details do not tell."""
        found = _details(self.details_json).get("source")
        return found if isinstance(found, str) else None

    @property
    def key(self) -> Key | None:
        """What it is about; None if nobody can tell, so that it is left alone."""
        return None if self.source is None else (self.invariant, self.source)

    @property
    def since_ms(self) -> int | None:
        """Since when the rule is broken, as far as its details tell."""
        found = _details(self.details_json).get("since_ms")
        return found if isinstance(found, int) else None

    @property
    def details(self) -> str:
        """How it shows, in words."""
        found = _details(self.details_json).get("details", self.details_json)
        return found if isinstance(found, str) else encode(found)


class Changes(msgspec.Struct, frozen=True):
    """What a look at the violations did to the alarms."""

    raised: tuple[Alarm, ...] = ()
    reopened: tuple[Alarm, ...] = ()
    resolved: tuple[Alarm, ...] = ()


def details_of(violation: Violation) -> str:
    """Write what is kept about a violation, in the contract's form."""
    return encode(
        {
            "source": violation.source,
            "since_ms": violation.since_ms,
            "details": violation.details,
        }
    )


def settle_alarms(
    tx: Tx, violations: Mapping[Key, Violation], *, now: int, interval_ms: int
) -> Changes:
    """Raise what is new, count what was looked for in vain, resolve what stays away.

    A violation that comes back within `interval_ms` after its alarm was raised opens that alarm
    again: no row is added more often than that.
    """
    standing = {alarm.key: alarm for alarm in _alarms(tx, "unresolved_alarms")}
    recent = {
        alarm.key: alarm for alarm in _alarms(tx, "alarms_resolved_after", after=now - interval_ms)
    }
    raised, reopened = [], []
    for key, violation in violations.items():
        details = details_of(violation)
        if key in standing:
            _count_ticks(tx, standing[key], 0)
            _refresh(tx, standing[key], violation)
        elif key in recent and recent[key].raised_at > now - interval_ms:
            values = {"id": recent[key].id, "details": details, "pruned": PRUNED_NOTE}
            tx.run("reopen_alarm", values)
            reopened.append(_alarm(tx, recent[key].id))
        else:
            values = {"invariant": key[0], "now": now, "details": details}
            raised.append(_alarm(tx, tx.insert("raise_alarm", values)))
    clean = [alarm for key, alarm in standing.items() if key is not None and key not in violations]
    resolved = [one for one in (_tick(tx, alarm, now) for alarm in clean) if one is not None]
    return Changes(tuple(raised), tuple(reopened), tuple(resolved))


def list_alarms(tx: Tx, *, active: bool = True, limit: int = 1000) -> list[Alarm]:
    """List alarms, latest first: those that are active and not acknowledged, or all."""
    if "capture_alarms" not in tx.tables():
        return []
    return _alarms(tx, "active_alarms" if active else "all_alarms", limit=limit)


def ack_alarm(tx: Tx, number: int, now: int, note: str | None = None) -> Alarm:
    """Note that a person has seen an alarm; done again, the first note stays."""
    if number < 1:
        raise Invalid(
            f"{number} is not an alarm number", hint="`threadkeep alarms list` shows the numbers"
        )
    tx.run("ack_alarm", {"id": number, "now": now, "note": note})
    return _alarm(tx, number)


def prune_alarms(tx: Tx, now: int) -> int:
    """Remove the alarms that resolved on their own; give how many."""
    return tx.count("prune_alarms", {"now": now, "note": PRUNED_NOTE})


# ---------------------------------------------------------------------- rows


def _alarms(tx: Tx, query: str, **params: int) -> list[Alarm]:
    return [Alarm(*row) for row in tx.all(query, params)]


def _alarm(tx: Tx, number: int) -> Alarm:
    row = tx.one("alarm_by_id", {"id": number})
    if row is None:
        msg = f"there is no alarm {number}"
        raise NotFound(msg, hint="`threadkeep alarms list --all` shows their numbers")
    return Alarm(*row)


def _tick(tx: Tx, alarm: Alarm, now: int) -> Alarm | None:
    """Count one look in vain; give the alarm if that resolved it."""
    ticks = alarm.clean_ticks + 1
    if ticks < CLEAN_TICKS:
        _count_ticks(tx, alarm, ticks)
        return None
    tx.run("resolve_alarm", {"id": alarm.id, "ticks": ticks, "now": now})
    return _alarm(tx, alarm.id)


def _count_ticks(tx: Tx, alarm: Alarm, ticks: int) -> None:
    if alarm.clean_ticks != ticks:
        tx.run("set_clean_ticks", {"id": alarm.id, "ticks": ticks})


def _refresh(tx: Tx, alarm: Alarm, violation: Violation) -> None:
    """Let a standing alarm tell what is wrong now: the file that it named may be in order since.

    What another program keeps about its own alarms is no text, and is left to it.
    """
    before = _details(alarm.details_json)
    if not isinstance(before.get("details"), str):
        return
    first = (
        violation.since_ms if alarm.since_ms is None else min(alarm.since_ms, violation.since_ms)
    )
    now = msgspec.structs.replace(violation, since_ms=first)
    details = encode(before | _details(details_of(now)))
    if details != alarm.details_json:
        tx.run("refresh_alarm", {"id": alarm.id, "details": details})


def _details(text: object) -> dict[str, object]:
    """Read what is kept about an alarm; another program may have written anything."""
    try:
        found = decode(text) if isinstance(text, str) else None
    except Invalid:
        return {}
    return found if isinstance(found, dict) else {}


# ------------------------------------------------------------------------------
# Who keeps a file current, in which version, and how its parts fare; told by the file itself.
#
# So that a second process can say who runs already, and a check can compare a running program with
# the file that it works on.

ERROR_LENGTH: Final = 500
# It gives a heartbeat every minute, but not while it has a hundred thousand logs to read.
SILENT_MS: Final = 600_000

Hindrance = Literal["", "stopped", "silent"]


class Service(msgspec.Struct, frozen=True):
    """The process that serves a file, or the last one that did."""

    pid: int
    mark: str
    version: str
    schema: int
    started_at: int
    heartbeat: int
    stopped_at: int | None = None

    @property
    def is_running(self) -> bool:
        """Tell whether that very process still runs and has not said that it ended."""
        return self.stopped_at is None and is_alive(self.mark)

    def hindrance(self, now: int) -> Hindrance:
        """Tell what keeps a process that runs from working: it was stopped, or it hangs."""
        if not self.is_running:
            return ""
        if is_stopped(self.pid):
            return "stopped"
        return "silent" if now - self.heartbeat >= SILENT_MS else ""


class ServicePartState(msgspec.Struct, frozen=True):
    """How one part of it fares; `waits_for` says what keeps it from working now."""

    part: str
    started_at: int
    restarts: int = 0
    crashes: int = 0
    last_error: str | None = None
    last_crash_at: int | None = None
    waits_for: str | None = None


def note_start(tx: Tx, service: Service) -> None:
    """Write down who serves the file from now on."""
    tx.run("put_service", msgspec.structs.asdict(service))


def note_beat(tx: Tx, mark: str, now: int) -> None:
    """Note a heartbeat."""
    tx.run("beat_service", {"mark": mark, "now": now})


def note_end(tx: Tx, mark: str, now: int) -> None:
    """Write down that it ended in good order."""
    tx.run("end_service", {"mark": mark, "now": now})


def note_part(tx: Tx, state: ServicePartState) -> None:
    """Write down how a part fares."""
    tx.run("put_service_part", msgspec.structs.asdict(state))


def the_service(tx: Tx) -> Service | None:
    """Give who serves the file, or did last; None if nobody ever has."""
    if "tk_service" not in tx.tables():
        return None
    row = tx.one("the_service")
    return None if row is None else Service(*row)


def part_states(tx: Tx) -> list[ServicePartState]:
    """Return how each part fares, or fared last."""
    if "tk_service_parts" not in tx.tables():
        return []
    return [ServicePartState(*row) for row in tx.all("all_service_parts")]
