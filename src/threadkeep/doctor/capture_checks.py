"""Checks of capture: hooks, sources, coverage, what waits, what was dropped, alarms."""

import re
from collections.abc import Iterator
from shlex import quote
from typing import Final

from threadkeep.doctor.facts import CaptureFacts, CleanupFacts, DoctorFacts, HookFacts, SourceFacts
from threadkeep.doctor.findings import Finding, Level, all_kept, ok
from threadkeep.doctor.invariants import INVARIANTS, invariant_of
from threadkeep.doctor.store_checks import DAY_MS
from threadkeep.knowledge.alarms import Key, Violation
from threadkeep.knowledge.health import health_name

_GROUP: Final = "capture"
_CAPTURE_DOC: Final = "docs/capture.md"
_OBSERVE_DOC: Final = "docs/observe.md"
_CLAUDE_DAYS: Final = 30  # what Claude Code takes if nothing is set
_DRIFT_DAYS: Final = 14
_MUCH_DRIFT: Final = 20
_LOCKED: Final = "is locked by another program"
# Capture names the kind of an error that neither the system nor a rule of ours explains.
_MISTAKE: Final = re.compile(r"\w+Error: ")
_FIXES: Final = {
    "I-1": "exec $SHELL",
    "I-3": "threadkeep capture",
    "I-4": "threadkeep browser install firefox",
    "I-5": "threadkeep status",
    "I-6": "threadkeep status",
    "I-7": "threadkeep serve",
    "I-8": "threadkeep probe",
    "I-9": "threadkeep capture",
    "I-12": "threadkeep enrich",
    "I-14": "threadkeep embed",
    "I-16": "threadkeep doctor --repair",
}
_CAUSES: Final = {
    "I-1": "the shell was started before the hook was installed, or its start-up file lost it",
    "I-3": "the transcripts were read by a program that did not understand them",
    "I-4": "the extension was removed, or the browser forgot it when it was started anew",
    "I-5": "neither the store nor the spool took them, or their files could not be read",
    "I-6": "a program that reports speaks another version; the spool keeps what it said",
    "I-7": "the part of `threadkeep serve` that checks is gone; capture itself may go on",
    "I-8": "a part of the way from the report to the store is broken",
    "I-9": "nobody collects: no program runs that does, and no command did lately",
    "I-12": "the server does not run, or has no such model",
    "I-14": "vectors are made in the background, and that stopped",
    "I-16": "the same work was made into knowledge more than once",
}


def check_capture(facts: DoctorFacts) -> Iterator[Finding]:
    """Judge capture as a whole."""
    yield from _hooks(facts.hooks)
    capture = facts.capture
    if facts.capture_trouble:
        said = f"it cannot be judged: {facts.capture_trouble}"
        cause = "the file is of an older version, or another program works on it just now"
        fix = "threadkeep knowledge migrate"
        yield Finding(_GROUP, "capture", "warn", said, cause, fix, _CAPTURE_DOC)
    if capture is None:
        return
    yield from _sources(capture)
    yield from _violations(capture)
    yield from _alarms(capture)
    yield from _spool(capture)
    yield from _drops(capture)
    yield from _drift(capture, facts.now)
    if capture.cleanup is not None:
        yield _cleanup(capture.cleanup, capture)


# ---------------------------------------------------------------------- hooks


def _hooks(hooks: tuple[HookFacts, ...]) -> Iterator[Finding]:
    if not hooks:
        said = "no shell has the hook: commands are not kept"
        cause = "the hook was not installed; that is fine if you do not want it"
        yield Finding(_GROUP, "hooks", "info", said, cause, "threadkeep shell-init zsh")
    for hook in hooks:
        yield _hook(hook)


def _hook(hook: HookFacts) -> Finding:
    fix = f"threadkeep shell-init {hook.shell}"
    if hook.state == "broken":
        said = f"the hook of {hook.shell} is not loaded in {hook.start_up}"
        cause = "only a part of the installation is there: new shells do not report anything"
        return Finding(_GROUP, "hooks", "fail", said, cause, fix, _OBSERVE_DOC)
    if hook.state == "old":
        said = f"the hook of {hook.shell} is of another version"
        cause = "it was written by another version of this program, and still works"
        return Finding(_GROUP, "hooks", "warn", said, cause, fix, _OBSERVE_DOC)
    return ok(_GROUP, "hooks", f"{hook.shell} has the hook")


# ---------------------------------------------------------------------- sources


def _sources(capture: CaptureFacts) -> Iterator[Finding]:
    if not capture.sources:
        said = "nothing was captured into this store yet"
        cause = "another program made it, or capture never ran"
        yield Finding(_GROUP, "coverage", "info", said, cause, "threadkeep capture", _CAPTURE_DOC)
    broken = {one.key for one in capture.violations}
    for source in capture.sources:
        if source.found or source.missed:
            yield _coverage(source, capture, broken)
    unused = [one.harness for one in capture.sources if not one.found and not one.missed]
    if unused:
        yield Finding(_GROUP, "unused", "info", "nothing on this machine of: " + ", ".join(unused))
    if capture.disabled:
        said = "switched off in the configuration: " + ", ".join(capture.disabled)
        yield Finding(_GROUP, "disabled", "info", said)


def _coverage(source: SourceFacts, capture: CaptureFacts, broken: set[Key]) -> Finding:
    check = f"coverage {source.harness}"
    if not source.missed:
        return ok(_GROUP, check, f"in the store: all of {source.found:,}")
    if source.unseen:
        said = f"{source.example} cannot be looked into, and may hold logs of {source.harness}"
        return Finding(_GROUP, check, "fail", said, source.why, source.fix, _CAPTURE_DOC)
    total = max(source.found, source.missed)
    said = f"{source.missed:,} of {total:,} logs of {source.harness} are not in the store"
    overdue = (invariant_of(source.harness), health_name(source.harness)) in broken
    unread = source.why or source.closed
    level: Level = "fail" if unread or (overdue and capture.resident) else "warn"
    cause = f"nobody captured since they changed, as {source.example}"
    if source.closed:
        cause = f"the permissions of {source.example} keep us from reading it"
    elif source.why:
        cause = f"{source.example} could not be read: {source.why}"
    elif capture.resident:
        cause = f"capture runs and missed them, as {source.example}"
    return Finding(_GROUP, check, level, said, cause, _reading(source), _CAPTURE_DOC)


def _reading(source: SourceFacts) -> str:
    """Give the command that lets a log be read: some things no further try mends."""
    if source.closed:
        return f"chmod u+rX {quote(source.example)}"
    if _LOCKED in source.why:
        return f"fuser -v {quote(source.example)}"
    return "threadkeep doctor --repair" if _MISTAKE.match(source.why) else "threadkeep capture"


def _violations(capture: CaptureFacts) -> Iterator[Finding]:
    others = [one for one in capture.violations if one.invariant in _FIXES]
    for one in others:
        yield _violation(one, capture)
    broken = sorted({one.invariant for one in capture.violations}, key=list(INVARIANTS).index)
    kept = len(INVARIANTS) - len(broken)
    said = f"{kept} of {len(INVARIANTS)} rules are kept" + "".join(f", not {one}" for one in broken)
    cause = "; ".join(f"{one}: {INVARIANTS[one]}" for one in broken)
    finding = Finding(_GROUP, "invariants", _grave(capture), said, cause, "threadkeep capture")
    yield all_kept(kept, len(INVARIANTS), finding)


def _violation(one: Violation, capture: CaptureFacts) -> Finding:
    level: Level = "fail" if one.invariant == "I-8" else _grave(capture)
    said = f"{one.source}: {one.details} ({one.invariant}: {INVARIANTS[one.invariant]})"
    cause, fix = _CAUSES[one.invariant], _FIXES[one.invariant]
    return Finding(_GROUP, one.invariant, level, said, cause, fix, _OBSERVE_DOC)


def _grave(capture: CaptureFacts) -> Level:
    """How grave it is that a rule is broken: where capture runs, nobody else will see to it."""
    return "fail" if capture.resident else "warn"


def _alarms(capture: CaptureFacts) -> Iterator[Finding]:
    broken = {one.key for one in capture.violations}
    over = [one for one in capture.alarms if one.key is not None and one.key not in broken]
    active = [one for one in capture.alarms if one not in over]
    if over:
        said = f"{len(over)} stand although their rules are kept again"
        cause = "two looks of the watchdog resolve them; `threadkeep serve` has it look by itself"
        yield Finding(_GROUP, "ended alarms", "info", said, cause, "threadkeep watchdog run")
    if active:
        first, now = active[0], {one.key: one.details for one in capture.violations}
        details = first.details if first.key is None else now.get(first.key, first.details)
        said = f"{len(active)} active; the latest is {first.invariant}: {details}"
        cause = "the watchdog saw these rules broken, and they are not kept again yet"
        yield Finding(_GROUP, "alarms", "fail", said, cause, "threadkeep alarms list", _OBSERVE_DOC)
    else:
        yield ok(_GROUP, "alarms", "none is active")
    if capture.resolved:
        said = f"{capture.resolved} went away by themselves and were not put away"
        cause = "they stay in the list until somebody has seen them"
        yield Finding(_GROUP, "old alarms", "info", said, cause, "threadkeep alarms prune")


# ---------------------------------------------------------------------- reports


def _spool(capture: CaptureFacts) -> Iterator[Finding]:
    if capture.spool_trouble:
        cause = "reports of shells and browsers cannot be collected, nor left there"
        place = quote(capture.spool)
        fix = f"mv {place} {place}.other" if capture.spool_blocked else f"chmod 700 {place}"
        said = capture.spool_trouble
        yield Finding(_GROUP, "spool", "fail", said, cause, fix, _OBSERVE_DOC)
    for one in capture.waiting:
        said = f"{one.files} files wait in the {one.place}"
        cause = "they are collected when somebody looks, or while `threadkeep serve` runs"
        yield Finding(_GROUP, one.place, "info", said, cause, "threadkeep capture")
    if not capture.waiting and not capture.spool_trouble:
        yield ok(_GROUP, "spool", "nothing waits")
    if capture.refused:
        said = f"{capture.refused} reports that nobody understood lie in the spool's folder refused"
        cause = "they were damaged, or of a program of another version"
        yield Finding(_GROUP, "refused", "info", said, cause, "threadkeep status", _OBSERVE_DOC)


def _drops(capture: CaptureFacts) -> Iterator[Finding]:
    told = [f"{one.source} {one.reason} {one.count:,}" for one in capture.drops]
    if told:
        cause = "what is excluded was kept out by your settings; the rest could not be stored"
        said = "since the store was made: " + ", ".join(told)
        yield Finding(_GROUP, "drops", "info", said, cause, "threadkeep status")


def _drift(capture: CaptureFacts, now: int) -> Iterator[Finding]:
    recent = [one for one in capture.drift if now - one.last_seen < _DRIFT_DAYS * DAY_MS]
    by_harness: dict[str, int] = {}
    for one in recent:
        by_harness[one.harness] = by_harness.get(one.harness, 0) + one.count
    for harness, count in by_harness.items():
        kinds = ", ".join(one.kind for one in recent if one.harness == harness)
        level: Level = "warn" if count >= _MUCH_DRIFT else "info"
        said = f"{count:,} records of {harness} are of types that are not known here: {kinds}"
        cause = "the program was updated; its lines are archived whole and can be read again later"
        fix = "pip install --upgrade threadkeep"
        yield Finding(_GROUP, f"drift {harness}", level, said, cause, fix, _CAPTURE_DOC)


def _cleanup(cleanup: CleanupFacts, capture: CaptureFacts) -> Finding:
    check = "cleanupPeriodDays"
    if cleanup.said:
        said = f"{cleanup.path} cannot be read: {cleanup.said}"
        return Finding(_GROUP, check, "info", said)
    days = _CLAUDE_DAYS if cleanup.days is None else cleanup.days
    said = f"Claude Code deletes transcripts after {days} days"
    claude = next((one for one in capture.sources if one.harness == "claude-code"), None)
    safe = claude is not None and not claude.missed
    if days > _CLAUDE_DAYS or safe:
        return ok(_GROUP, check, said + ("; all of them are in the store" if safe else ""))
    cause = "transcripts that are not captured by then are gone for good"
    fix = f'put "cleanupPeriodDays": 3650 into {cleanup.path}'
    return Finding(_GROUP, check, "warn", said, cause, fix, _CAPTURE_DOC)
