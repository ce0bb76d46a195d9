"""Alarms: recorded violations of rules about capture, one for each rule and source at a time.

An alarm stands until its violation was looked for in vain twice. While it stands it is not raised
again, and tells how its violation shows now, and since when it first did. One that comes back soon
after it went away is the same alarm and is opened again.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from threadkeep.base.json import decode, encode
from threadkeep.base.tx import Tx
from threadkeep.errors import Invalid, NotFound
from threadkeep.knowledge.context import KnowledgeContext
from threadkeep.knowledge.layout import names

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
        """Whether it goes on and nobody has seen it yet."""
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


def list_alarms(
    _: KnowledgeContext, tx: Tx, *, active: bool = True, limit: int = 1000
) -> list[Alarm]:
    """List alarms, the latest first: those that go on unseen, or all."""
    if "capture_alarms" not in names(tx, "table"):
        return []
    return _alarms(tx, "active_alarms" if active else "all_alarms", limit=limit)


def ack_alarm(ctx: KnowledgeContext, tx: Tx, number: int, note: str | None = None) -> Alarm:
    """Note that a person has seen an alarm; done again, the first note stays."""
    if number < 1:
        raise Invalid(f"{number} is no number of an alarm", hint="`threadkeep alarms list` has it")
    tx.run("ack_alarm", {"id": number, "now": ctx.clock(), "note": note})
    return _alarm(tx, number)


def prune_alarms(ctx: KnowledgeContext, tx: Tx) -> int:
    """Put away the alarms that went away by themselves; give how many."""
    return tx.run("prune_alarms", {"now": ctx.clock(), "note": PRUNED_NOTE})


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
