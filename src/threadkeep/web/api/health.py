"""Health: what the stores are like, how capture is, alarms, and what the doctor says."""

import msgspec

from threadkeep import __version__
from threadkeep.base.page import Cursor, Limit, Page, page_of
from threadkeep.base.verb_table import Given
from threadkeep.base.verbs import RowId
from threadkeep.home.status import Status
from threadkeep.home.stores import Stores
from threadkeep.knowledge.health import Alarm
from threadkeep.service.doctor.doctor import diagnose
from threadkeep.service.doctor.facts import Finding, Level
from threadkeep.service.health import ObservedStatus, observed_status
from threadkeep.web.api.verb import ApiVerb, Empty, Words, verb


class AlarmList(Given, frozen=True):
    """Which alarms: with `all` also those that were seen or went away."""

    all: bool = False
    limit: Limit = 50
    cursor: Cursor = ""


class OneAlarm(Given, frozen=True):
    """An alarm, by its number."""

    alarm: RowId


class AlarmNote(Given, frozen=True):
    """What to remember about an alarm."""

    note: Words | None = None


class AlarmRow(msgspec.Struct, frozen=True):
    """A recorded violation of a rule about capture."""

    id: int
    invariant: str
    source: str | None
    raised_at: int
    since: int | None
    details: str
    acked_at: int | None
    ack_note: str | None
    resolved_at: int | None
    active: bool


class Diagnosis(msgspec.Struct, frozen=True):
    """What the doctor says."""

    level: Level
    took_ms: int
    findings: tuple[Finding, ...]


def status(stores: Stores, _: Empty) -> Status:
    """Look at the home and its stores."""
    return stores.home.status(knowledge_path=stores.db)


def sources(stores: Stores, _: Empty) -> ObservedStatus:
    """Tell how the capture of shells, browsers and CI is."""
    return observed_status(stores.home, stores.db)


def doctor(stores: Stores, _: Empty) -> Diagnosis:
    """Say what is wrong, why, and what helps."""
    found = diagnose(stores.home, stores.db, version=__version__)
    return Diagnosis(found.level, found.took_ms, found.findings)


def alarms(stores: Stores, asked: AlarmList) -> Page[AlarmRow]:
    """List recorded gaps in capture, the latest first."""
    found = [_row(one) for one in stores.browse().store.alarms(active=not asked.all)]
    return page_of(
        found, lambda one: (one.raised_at, one.id), asked.limit, asked.cursor, newest_first=True
    )


def ack(stores: Stores, asked: OneAlarm, body: AlarmNote) -> AlarmRow:
    """Say that somebody has seen an alarm; done again, it changes nothing."""
    return _row(stores.history("change").store.acknowledge(asked.alarm, body.note))


def _row(alarm: Alarm) -> AlarmRow:
    return AlarmRow(
        alarm.id,
        alarm.invariant,
        alarm.source,
        alarm.raised_at,
        alarm.since_ms,
        alarm.details,
        alarm.acked_at,
        alarm.ack_note,
        alarm.resolved_at,
        alarm.active,
    )


VERBS: tuple[ApiVerb, ...] = (
    verb("GET", "/health/status", status),
    verb("GET", "/health/sources", sources),
    verb("GET", "/health/doctor", doctor),
    verb("GET", "/health/alarms", alarms),
    verb("POST", "/health/alarms/{alarm}/ack", ack),
)
