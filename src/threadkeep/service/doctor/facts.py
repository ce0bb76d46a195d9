"""What the doctor judges, gathered before anything is judged."""

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from threadkeep.base.sqlite.pragmas import Engine
from threadkeep.knowledge.checks import DeepCheck
from threadkeep.knowledge.health import Alarm, Drop, Hindrance, Service, ServicePartState, Violation
from threadkeep.service.doctor.invariants import PendingReports

Trouble = Literal["", "damaged", "locked", "newer", "foreign", "closed"]

HookState = Literal["whole", "old", "broken"]


class OpenMode(msgspec.Struct, frozen=True):
    """A file or folder that others than its owner may read, and the mode it should have."""

    path: str
    mode: int
    wanted: int


class StoreFacts(msgspec.Struct, frozen=True):
    """What one store's file is like; `trouble` says why it cannot be used as it is."""

    name: str
    path: str
    exists: bool
    bytes: int = 0
    wal_bytes: int = 0
    version: int | None = None
    older: bool = False  # an older version, which can be brought up
    trouble: Trouble = ""
    said: str = ""  # what the trouble is, in words
    problems: tuple[str, ...] = ()  # what SQLite's own quick checks found
    unindexed: int = 0  # rows that the full-text index does not have
    whole: bool = True  # False: too large for a quick look at every page
    journal: str = ""
    open_modes: tuple[OpenMode, ...] = ()
    writer: str = ""  # the process that holds the write lock and does not release it
    reader: str = ""  # the process that keeps the log from being emptied
    users: tuple[str, ...] = ()  # the processes that have it open
    last_backup: int | None = None
    deep: DeepCheck | None = None


class DiskFacts(msgspec.Struct, frozen=True):
    """The file system under the data folder."""

    path: str
    free: int | None = None  # bytes; None: the system does not tell
    kind: str = ""
    wal_allowed: bool = True


class HookFacts(msgspec.Struct, frozen=True):
    """How far the hook of one shell is installed."""

    shell: str
    state: HookState
    start_up: str


class SourceFacts(msgspec.Struct, frozen=True):
    """How much of one agent is in the store."""

    agent: str
    found: int
    missed: int
    example: str = ""
    why: str = ""  # what the last attempt to read the example said
    closed: bool = False  # we may not read the example
    unseen: bool = False  # the example is a place that cannot be read
    fix: str = ""  # what lets us look into it


class DriftFacts(msgspec.Struct, frozen=True):
    """A record type that this version does not know."""

    agent: str
    kind: str
    count: int
    last_seen: int


class QueueFacts(msgspec.Struct, frozen=True):
    """The tickets of one queue of enrichment."""

    name: str
    pending: int = 0
    failed: int = 0
    held: int = 0  # in the hands of a worker
    lost: int = 0  # of those: the worker is dead, or had them for too long


class ModelFacts(msgspec.Struct, frozen=True):
    """The configured model, asked just now; `said` is empty if it answers."""

    url: str
    said: str = ""


class VectorFacts(msgspec.Struct, frozen=True):
    """Vectors that are in use: whose they are, and how many are missing."""

    model: str
    wanted: str  # the model that the configuration names; empty: any
    missing: int


class CleanupFacts(msgspec.Struct, frozen=True):
    """How long Claude Code keeps its transcripts; None: it is not set, or cannot be read."""

    path: str
    days: int | None
    said: str = ""


class CaptureFacts(msgspec.Struct, frozen=True):
    """How capture is, judged by the ground."""

    sources: tuple[SourceFacts, ...] = ()
    disabled: tuple[str, ...] = ()
    violations: tuple[Violation, ...] = ()
    resident: bool = False
    alarms: tuple[Alarm, ...] = ()
    resolved: int = 0  # alarms that went away and were not put away
    waiting: tuple[PendingReports, ...] = ()
    refused: int = 0  # reports that were set aside
    spool: str = ""  # its folder
    spool_trouble: str = ""
    spool_blocked: bool = False  # something that is no folder stands in its place
    drops: tuple[Drop, ...] = ()
    drift: tuple[DriftFacts, ...] = ()
    cleanup: CleanupFacts | None = None


class DoctorFacts(msgspec.Struct, frozen=True):
    """Everything."""

    now: int
    version: str
    engine: Engine
    home: str
    config_trouble: str = ""
    disk: DiskFacts | None = None
    stores: tuple[StoreFacts, ...] = ()
    hooks: tuple[HookFacts, ...] = ()
    capture: CaptureFacts | None = None  # None: there is no knowledge store that can be read
    capture_trouble: str = ""  # why a store that can be read does not tell
    queues: tuple[QueueFacts, ...] = ()
    enriches: bool = True
    retained_at: int | None = None  # as of when what is too old was taken out, where it is to be
    retention_mark: str = ""  # the file that says it
    model: ModelFacts | None = None
    vectors: VectorFacts | None = None
    service: Service | None = None
    service_runs: bool = False
    service_hindrance: Hindrance = ""
    service_installed: bool = False  # the system starts it; else somebody did by hand
    parts: tuple[ServicePartState, ...] = ()
    listener: str | None = None  # the version of whoever listens at the socket
    listener_trouble: str = ""


# ------------------------------------------------------------------------------
# Findings: what a check says about one thing, why that is so, and the one command that helps.

Level = Literal["ok", "info", "warn", "fail"]
LEVELS: Final[tuple[Level, ...]] = ("ok", "info", "warn", "fail")


class Finding(msgspec.Struct, frozen=True):
    """What one check found. `cause` and `fix` are empty where there is nothing to do."""

    group: str
    check: str
    level: Level
    what: str
    cause: str = ""
    fix: str = ""  # one command, or one thing to do
    doc: str = ""  # where more is written


def worst(findings: Iterable[Finding]) -> Level:
    """Return the gravest level among findings."""
    return max((one.level for one in findings), key=LEVELS.index, default="ok")


def ok(group: str, check: str, what: str) -> Finding:
    """Say that something is as it should be."""
    return Finding(group, check, "ok", what)


def all_kept(good: int, total: int, finding: Finding) -> Finding:
    """Return a finding about some of many: whatever its level is, it is ok where all are good."""
    return finding if good < total else ok(finding.group, finding.check, finding.what)
