"""The rules about capture, I-1 to I-20, judged by what is on the disk and in the store.

Silence alone breaks no rule: a machine that is idle, asleep, or does not use a source has nothing
to report. Every rule needs evidence that something happened which the store does not have. Times
count from the moment at which the machine woke up.
"""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from threadkeep.knowledge.health import Key, Violation
from threadkeep.knowledge.memory_documents import SOURCE_KIND, WATCHER

# ------------------------------------------------------------------------------
# Everything that the rules about capture are judged by, as plain values.


class LogBacklog(msgspec.Struct, frozen=True):
    """Logs of one source that are on the disk and not, or not wholly, in the store."""

    source: str  # as `source_health` names it
    agent: str
    since: int  # the oldest moment from which something of them is missing
    logs: int
    example: str
    why: str = ""  # what the last attempt said, if there was one
    polled: bool = False  # it is only looked at twice a minute
    closed: bool = False  # the example is a place that cannot be read
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


SECOND: Final = 1000
MINUTE: Final = 60 * SECOND

# A watched log is in the store after a second. The watchdog looks twice a minute: with half a
# minute of patience it tells within a minute.
LOG_PATIENCE: Final = 30 * SECOND
POLLED_PATIENCE: Final = 75 * SECOND
# All logs are looked at every half a minute. One look that takes longer is no standstill as long
# as it stores something.
_LOOKS_EVERY: Final = 31 * SECOND
_STILL_STORING: Final = 25 * SECOND
TYPED_PATIENCE: Final = 2 * MINUTE
FEWEST_TYPED: Final = 3  # one may have been kept out on purpose
TOOL_PATIENCE: Final = MINUTE
# The extension speaks every five minutes.
BROWSER_PATIENCE: Final = 30 * MINUTE
WATCHDOG_PATIENCE: Final = 2 * MINUTE
PROBE_PATIENCE: Final = 15 * MINUTE
SPOOL_PATIENCE: Final = 5 * MINUTE
UNATTENDED_PATIENCE: Final = 24 * 60 * MINUTE
DROP_RATE: Final = 0.001
FEWEST_UNCLEAR: Final = 3
PREFLIGHT_FAILURES: Final = 3
MEMORY_FAILURES: Final = 3
MEMORY_PATIENCE: Final = 15 * MINUTE
MEMORY_ACTIVE: Final = 60 * MINUTE
# A machine at which nobody types may well be asleep, probes and all; but not for days.
TYPING: Final = 10 * MINUTE
LONGEST_SILENCE: Final = 24 * 60 * MINUTE
VECTORS_MISSING: Final = 25

_OF_AGENT: Final = {"opencode": "I-11", "codex": "I-13", "cursor": "I-15"}

INVARIANTS: Final = {
    "I-1": "commands typed in a shell with the hook are in the store",
    "I-2": "every log of an agent that changed is in the store within a minute",
    "I-3": "every tool call in Claude's transcripts is an event",
    "I-4": "the extension of a running browser reports",
    "I-5": "no report is lost",
    "I-6": "of a thousand reports at most one is not understood",
    "I-7": "the watchdog is running",
    "I-8": "probes arrive",
    "I-9": "reports are collected promptly",
    "I-10": "enrichment problems do not affect capture",  # by the shape of this module
    "I-11": "every session of OpenCode that changed is in the store within a minute",
    "I-12": "the configured model answers",
    "I-13": "every session of Codex that changed is in the store within a minute",
    "I-14": "every node has a vector, where vectors are in use",
    "I-15": "every session of Cursor that changed is in the store within a minute",
    "I-16": "no node is there twice",
    "I-17": "Claude's notes are watched while they change",
    "I-18": "Claude's notes can be read",
    "I-19": "what changed in Claude's notes is learned within half an hour",
    "I-20": "every part of a published note has its node",
}

Rule = Callable[[Snapshot], Iterator[Violation]]


def check(seen: Snapshot) -> list[Violation]:
    """Return the rules that are broken, each source for itself; no two have the same key."""
    found: dict[Key, Violation] = {}
    for rule in _RULES:
        for violation in rule(seen):
            found.setdefault(violation.key, violation)
    return list(found.values())


def invariant_of(agent: str) -> str:
    """Name the rule about the logs of an agent; those without one of their own share I-2."""
    return _OF_AGENT.get(agent, "I-2")


def age(seen: Snapshot, since: int) -> int:
    """Return for how long something continues, counted from when the machine woke up."""
    return seen.now - max(since, seen.awake_since)


# ---------------------------------------------------------------------- capture


def _shell(seen: Snapshot) -> Iterator[Violation]:
    typed = seen.typed
    if typed is None or typed.commands < FEWEST_TYPED or age(seen, typed.since) < TYPED_PATIENCE:
        return
    said = f"{typed.commands} commands in {typed.history} are not in the store"
    yield Violation("I-1", "shell", typed.since, said)


def _logs(seen: Snapshot) -> Iterator[Violation]:
    busy = is_busy(seen)
    for one in seen.behind:
        patience = POLLED_PATIENCE if one.polled else LOG_PATIENCE
        # No look, however long, gets behind a closed door.
        if one.closed or (not busy and age(seen, one.since) >= patience):
            yield Violation(invariant_of(one.agent), one.source, one.since, _told(one))


def is_busy(seen: Snapshot) -> bool:
    """Tell whether one long look at the logs is under way, and gets on."""
    storing = seen.captured_at is not None and 0 <= seen.now - seen.captured_at < _STILL_STORING
    return storing and (seen.looked_at is None or seen.now - seen.looked_at > _LOOKS_EVERY)


def _told(one: LogBacklog) -> str:
    if one.closed:
        return f"{one.example} cannot be read: {one.why}; {one.fix}"
    more = f" and {one.logs - 1} more" if one.logs > 1 else ""
    why = f" ({one.why})" if one.why else ""
    return f"{one.example}{more} changed on disk but has not been captured{why}"


def _tools(seen: Snapshot) -> Iterator[Violation]:
    calls = seen.calls
    if calls is None or age(seen, calls.called_at) < TOOL_PATIENCE:
        return
    if calls.stored_at is None or calls.stored_at < calls.called_at:
        said = "tool calls of Claude's transcripts are archived but are no events"
        yield Violation("I-3", "claude-tool", calls.called_at, said)


def _browser(seen: Snapshot) -> Iterator[Violation]:
    browsing = seen.browsing
    if browsing is None:
        return
    since = max(browsing.heard_at, browsing.running_since)
    if age(seen, since) >= BROWSER_PATIENCE:
        said = "a browser is running and its extension no longer reports"
        yield Violation("I-4", "browser", browsing.heard_at, said)


def _drops(seen: Snapshot) -> Iterator[Violation]:
    for lost in seen.lost:
        said = f"{lost.count} reports were lost: {lost.reason}"
        yield Violation("I-5", lost.source, lost.last_at, said)


def _drop_rate(seen: Snapshot) -> Iterator[Violation]:
    unclear = seen.unclear
    if unclear is None or unclear.refused < FEWEST_UNCLEAR:
        return
    total = unclear.refused + unclear.stored
    if unclear.refused > DROP_RATE * total:
        said = f"{unclear.refused} of {total} reports of the last hour were not understood"
        yield Violation("I-6", "spool", unclear.last_at, said)


def _waiting(seen: Snapshot) -> Iterator[Violation]:
    patience = SPOOL_PATIENCE if seen.resident else UNATTENDED_PATIENCE
    for one in seen.waiting:
        if one.files and age(seen, one.oldest) >= patience:
            said = f"{one.files} files are waiting in the {one.place} and nothing collects them"
            yield Violation("I-9", one.place, one.oldest, said)


# ---------------------------------------------------------------------- the monitor itself


def _watchdog(seen: Snapshot) -> Iterator[Violation]:
    at = seen.watchdog_at
    if seen.resident and at is not None and age(seen, at) >= WATCHDOG_PATIENCE:
        yield Violation("I-7", "watchdog", at, "capture is running and nothing checks it any more")


def _probes(seen: Snapshot) -> Iterator[Violation]:
    for probe in seen.probes:
        if not probe.ok:
            said = "the last test event did not arrive"
            yield Violation("I-8", probe.source, probe.since, said)
        elif seen.resident and age(seen, probe.ran_at) >= PROBE_PATIENCE:
            if probe.source == "shell" and _is_idle(seen, probe.ran_at):
                continue
            said = "no test event was sent for 15 minutes"
            yield Violation("I-8", probe.source, probe.ran_at, said)


def _is_idle(seen: Snapshot, since: int) -> bool:
    """Tell whether nobody was at a shell lately, and the silence is none of days."""
    typing = seen.typed_at is not None and seen.now - seen.typed_at < TYPING
    return not typing and seen.now - since < LONGEST_SILENCE


# ---------------------------------------------------------------------- Claude's notes


def _memories(seen: Snapshot) -> Iterator[Violation]:
    found = seen.memories
    if found is None:
        return
    active = found.taken_at is not None and seen.now - found.taken_at <= MEMORY_ACTIVE
    if active and found.watched_at is not None and age(seen, found.watched_at) > MEMORY_PATIENCE:
        said = "Claude's notes change and nothing watches them any more"
        yield Violation("I-17", WATCHER, found.watched_at, said)
    if found.failures > MEMORY_FAILURES:
        said = f"Claude's notes could not be read {found.failures} times in a row: {found.message}"
        yield Violation("I-18", SOURCE_KIND, found.failed_at or seen.now, said)


# ---------------------------------------------------------------------- enrichment


def _unlearned(seen: Snapshot) -> Iterator[Violation]:
    found = seen.memories
    if found is not None and found.waiting:
        said = f"{found.waiting} of Claude's notes have been queued for half an hour"
        yield Violation("I-19", SOURCE_KIND, found.waiting_since or seen.now, said)
    if found is not None and found.bare:
        said = f"{found.bare} parts of Claude's notes are published without a node"
        yield Violation("I-20", SOURCE_KIND, found.bare_since or seen.now, said)


def _model(seen: Snapshot) -> Iterator[Violation]:
    asked = seen.preflight
    if asked is not None and asked.failures > PREFLIGHT_FAILURES:
        said = f"the model did not answer {asked.failures} times in a row: {asked.message}"
        yield Violation("I-12", "brain-preflight", asked.since, said)


def _vectors(seen: Snapshot) -> Iterator[Violation]:
    if seen.vectors_missing > VECTORS_MISSING:
        said = f"{seen.vectors_missing} nodes have no vector"
        yield Violation("I-14", "vectors", seen.now, said)


def _duplicates(seen: Snapshot) -> Iterator[Violation]:
    if seen.duplicates:
        said = f"{seen.duplicates} nodes are there more than once"
        yield Violation("I-16", "nodes", seen.now, said)


# None of the rules about capture reads what those about enrichment read, and the other way round:
# that is I-10.
CAPTURE_RULES: Final[tuple[Rule, ...]] = (
    *(_shell, _logs, _tools, _browser, _drops, _drop_rate, _waiting, _watchdog, _probes),
    _memories,
)
_RULES: Final[tuple[Rule, ...]] = (*CAPTURE_RULES, _model, _vectors, _duplicates, _unlearned)
