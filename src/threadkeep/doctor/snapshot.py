"""Everything that the rules about capture are judged by, as plain values."""

import msgspec


class LogBacklog(msgspec.Struct, frozen=True):
    """Logs of one source that are on the disk and not, or not wholly, in the store."""

    source: str  # as `source_health` names it
    harness: str
    since: int  # the oldest moment from which something of them is missing
    logs: int
    example: str
    why: str = ""  # what the last attempt said, if there was one
    polled: bool = False  # it is only looked at twice a minute
    closed: bool = False  # the example is a place that cannot be looked into
    fix: str = ""  # what lets us look into it


class MissingCommands(msgspec.Struct, frozen=True):
    """Commands that a shell's own history has and the store has not."""

    since: int
    commands: int
    history: str


class PendingReports(msgspec.Struct, frozen=True):
    """Reports that lie in a folder and nobody has collected."""

    place: str  # spool or fallback
    files: int
    oldest: int


class Probe(msgspec.Struct, frozen=True):
    """How the last synthetic event of a source fared."""

    source: str
    ok: bool
    ran_at: int
    since: int  # the last time one arrived, or when this one ran


class LostReports(msgspec.Struct, frozen=True):
    """Reports of a source that became no row lately."""

    source: str
    reason: str
    count: int
    last_at: int


class RefusedReports(msgspec.Struct, frozen=True):
    """How many of the reports of the last hour nobody could understand."""

    refused: int
    stored: int
    last_at: int


class Browsing(msgspec.Struct, frozen=True):
    """A browser that runs, whose extension spoke once and when it spoke last."""

    running_since: int
    heard_at: int


class ToolCalls(msgspec.Struct, frozen=True):
    """The newest tool call in Claude's transcripts, and the newest that became an event."""

    called_at: int
    stored_at: int | None


class Memories(msgspec.Struct, frozen=True):
    """How the capture of Claude's notes fares, where it is in use."""

    watched_at: int | None  # when somebody last said that they are watched
    taken_at: int | None  # when one was last taken in
    failures: int = 0  # in a row
    failed_at: int | None = None
    message: str = ""
    waiting: int = 0  # documents that wait for their node too long
    waiting_since: int | None = None
    bare: int = 0  # published sections without a node
    bare_since: int | None = None


class Preflight(msgspec.Struct, frozen=True):
    """How the configured model answered, when it was last asked."""

    failures: int
    since: int
    message: str


class Snapshot(msgspec.Struct, frozen=True):
    """What was observed at one moment. What is None or empty is not in use, or all is well."""

    now: int
    awake_since: int = 0  # before that the machine slept, or nobody could have captured anything
    resident: bool = False  # somebody is there whose work it is to capture and to probe
    looked_at: int | None = None  # when the last look at all logs began
    captured_at: int | None = None  # when something of any log was last stored
    behind: tuple[LogBacklog, ...] = ()
    typed: MissingCommands | None = None
    calls: ToolCalls | None = None
    browsing: Browsing | None = None
    lost: tuple[LostReports, ...] = ()
    unclear: RefusedReports | None = None
    watchdog_at: int | None = None  # None: it never ran, or it is the one who asks
    probes: tuple[Probe, ...] = ()
    waiting: tuple[PendingReports, ...] = ()
    preflight: Preflight | None = None
    vectors_missing: int = 0
    duplicates: int = 0
    memories: Memories | None = None
    typed_at: int | None = None  # when the last command of a person was stored
