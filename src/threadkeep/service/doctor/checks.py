"""The doctor: every check over the facts, in the order in which a person reads them."""

import re
import shlex
from collections.abc import Iterator
from shlex import quote
from typing import Final

from threadkeep.knowledge.health import Key, Service, Violation, health_name
from threadkeep.service.doctor.facts import (
    CaptureFacts,
    CleanupFacts,
    DoctorFacts,
    Finding,
    HookFacts,
    Level,
    QueueFacts,
    SourceFacts,
    VectorFacts,
    all_kept,
    ok,
)
from threadkeep.service.doctor.invariants import INVARIANTS, invariant_of
from threadkeep.service.doctor.store_checks import DAY_MS, check_machine, check_store

# ------------------------------------------------------------------------------
# Checks of capture: hooks, sources, coverage, what waits, what was dropped, alarms.

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
    "I-3": "the transcripts were read by a version that did not understand them",
    "I-4": "the extension was removed, or was lost when the browser restarted",
    "I-5": "neither the store nor the spool accepted them, or their files could not be read",
    "I-6": "a reporting program uses another version; its reports stay in the spool",
    "I-7": "the checking part of `threadkeep serve` has stopped; capture itself may still run",
    "I-8": "a step between the report and the store is broken",
    "I-9": "nothing collects reports: no service runs, and no command did it lately",
    "I-12": "the server does not run, or has no such model",
    "I-14": "the background job that makes vectors has stopped",
    "I-16": "the same work was summarized more than once",
}


def check_capture(facts: DoctorFacts) -> Iterator[Finding]:
    """Judge capture as a whole."""
    yield from _hooks(facts.hooks)
    capture = facts.capture
    if facts.capture_trouble:
        said = f"capture cannot be checked: {facts.capture_trouble}"
        cause = "the file has an older version, or another program is using it"
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
        said = "no shell hook installed: commands are not recorded"
        cause = "optional: install it to record shell commands"
        yield Finding(_GROUP, "hooks", "info", said, cause, "threadkeep shell-init zsh")
    for hook in hooks:
        yield _hook(hook)


def _hook(hook: HookFacts) -> Finding:
    fix = f"threadkeep shell-init {hook.shell}"
    if hook.state == "broken":
        said = f"the hook of {hook.shell} is not loaded in {hook.start_up}"
        cause = "the installation is incomplete: new shells report nothing"
        return Finding(_GROUP, "hooks", "fail", said, cause, fix, _OBSERVE_DOC)
    if hook.state == "old":
        said = f"the {hook.shell} hook is from another version"
        cause = "another version of threadkeep wrote it; it still works"
        return Finding(_GROUP, "hooks", "warn", said, cause, fix, _OBSERVE_DOC)
    return ok(_GROUP, "hooks", f"{hook.shell} has the hook")


# ---------------------------------------------------------------------- sources


def _sources(capture: CaptureFacts) -> Iterator[Finding]:
    if not capture.sources:
        said = "nothing was captured into this store yet"
        cause = "another program created the store, or capture never ran"
        yield Finding(_GROUP, "coverage", "info", said, cause, "threadkeep capture", _CAPTURE_DOC)
    broken = {one.key for one in capture.violations}
    for source in capture.sources:
        if source.found or source.missed:
            yield _coverage(source, capture, broken)
    unused = [one.agent for one in capture.sources if not one.found and not one.missed]
    if unused:
        yield Finding(_GROUP, "unused", "info", "not found on this machine: " + ", ".join(unused))
    if capture.disabled:
        said = "switched off in the configuration: " + ", ".join(capture.disabled)
        yield Finding(_GROUP, "disabled", "info", said)


def _coverage(source: SourceFacts, capture: CaptureFacts, broken: set[Key]) -> Finding:
    check = f"coverage {source.agent}"
    if not source.missed:
        return ok(_GROUP, check, f"in the store: all of {source.found:,}")
    if source.unseen:
        said = f"{source.example} cannot be read, and may hold logs of {source.agent}"
        return Finding(_GROUP, check, "fail", said, source.why, source.fix, _CAPTURE_DOC)
    total = max(source.found, source.missed)
    said = f"{source.missed:,} of {total:,} logs of {source.agent} are not in the store"
    overdue = (invariant_of(source.agent), health_name(source.agent)) in broken
    unread = source.why or source.closed
    level: Level = "fail" if unread or (overdue and capture.resident) else "warn"
    cause = f"nothing has been captured since they changed, such as {source.example}"
    if source.closed:
        cause = f"the permissions of {source.example} prevent reading it"
    elif source.why:
        cause = f"{source.example} could not be read: {source.why}"
    elif capture.resident:
        cause = f"capture runs but missed them, such as {source.example}"
    return Finding(_GROUP, check, level, said, cause, _reading(source), _CAPTURE_DOC)


def _reading(source: SourceFacts) -> str:
    """Return the command that lets a log be read: some things no further try mends."""
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
    said = f"{kept} of {len(INVARIANTS)} checks pass" + "".join(f", not {one}" for one in broken)
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
        said = f"{len(over)} are still active although their checks pass again"
        cause = "two runs of the watchdog resolve them; `threadkeep serve` runs it automatically"
        yield Finding(_GROUP, "ended alarms", "info", said, cause, "threadkeep watchdog run")
    if active:
        first, now = active[0], {one.key: one.details for one in capture.violations}
        details = first.details if first.key is None else now.get(first.key, first.details)
        said = f"{len(active)} active; the latest is {first.invariant}: {details}"
        cause = "the watchdog saw these checks fail, and they have not passed since"
        yield Finding(_GROUP, "alarms", "fail", said, cause, "threadkeep alarms list", _OBSERVE_DOC)
    else:
        yield ok(_GROUP, "alarms", "none is active")
    if capture.resolved:
        said = f"{capture.resolved} resolved on their own"
        cause = "they stay listed until acknowledged"
        yield Finding(_GROUP, "old alarms", "info", said, cause, "threadkeep alarms prune")


# ---------------------------------------------------------------------- reports


def _spool(capture: CaptureFacts) -> Iterator[Finding]:
    if capture.spool_trouble:
        cause = "reports from shells and browsers can be neither collected nor left there"
        place = quote(capture.spool)
        fix = f"mv {place} {place}.other" if capture.spool_blocked else f"chmod 700 {place}"
        said = capture.spool_trouble
        yield Finding(_GROUP, "spool", "fail", said, cause, fix, _OBSERVE_DOC)
    for one in capture.waiting:
        said = f"{one.files} files are waiting in the {one.place}"
        cause = "they are collected by the next command, or while `threadkeep serve` runs"
        yield Finding(_GROUP, one.place, "info", said, cause, "threadkeep capture")
    if not capture.waiting and not capture.spool_trouble:
        yield ok(_GROUP, "spool", "nothing waits")
    if capture.refused:
        said = f"{capture.refused} reports were not understood; the spool keeps them in `refused`"
        cause = "they were damaged, or sent by another version"
        yield Finding(_GROUP, "refused", "info", said, cause, "threadkeep status", _OBSERVE_DOC)


def _drops(capture: CaptureFacts) -> Iterator[Finding]:
    told = [f"{one.source} {one.reason} {one.count:,}" for one in capture.drops]
    if told:
        cause = "“excluded” means by your settings; the rest could not be stored"
        said = "since the store was created: " + ", ".join(told)
        yield Finding(_GROUP, "drops", "info", said, cause, "threadkeep status")


def _drift(capture: CaptureFacts, now: int) -> Iterator[Finding]:
    recent = [one for one in capture.drift if now - one.last_seen < _DRIFT_DAYS * DAY_MS]
    by_agent: dict[str, int] = {}
    for one in recent:
        by_agent[one.agent] = by_agent.get(one.agent, 0) + one.count
    for agent, count in by_agent.items():
        kinds = ", ".join(one.kind for one in recent if one.agent == agent)
        level: Level = "warn" if count >= _MUCH_DRIFT else "info"
        said = f"{count:,} {agent} records have types that this version does not know: {kinds}"
        cause = "{agent} was updated; its lines are archived whole, for a later version to read"
        fix = "pip install --upgrade threadkeep"
        yield Finding(_GROUP, f"drift {agent}", level, said, cause, fix, _CAPTURE_DOC)


def _cleanup(cleanup: CleanupFacts, capture: CaptureFacts) -> Finding:
    check = "cleanupPeriodDays"
    if cleanup.said:
        said = f"{cleanup.path} cannot be read: {cleanup.said}"
        return Finding(_GROUP, check, "info", said)
    days = _CLAUDE_DAYS if cleanup.days is None else cleanup.days
    said = f"Claude Code deletes transcripts after {days} days"
    claude = next((one for one in capture.sources if one.agent == "claude-code"), None)
    safe = claude is not None and not claude.missed
    if days > _CLAUDE_DAYS or safe:
        return ok(_GROUP, check, said + ("; all of them are in the store" if safe else ""))
    cause = "transcripts not captured by then are lost"
    fix = f'put "cleanupPeriodDays": 3650 into {cleanup.path}'
    return Finding(_GROUP, check, "warn", said, cause, fix, _CAPTURE_DOC)


# ------------------------------------------------------------------------------
# Checks of the work behind: queues of enrichment, the model, vectors, the running service.

_WORK_CHECKS_GROUP: Final = "work"
_DOC: Final = "docs/knowledge.md"
_RESTART: Final = "threadkeep service install"
_HEALTH_DOC: Final = "docs/health.md"
_MANY_WAITING: Final = 1000
_BEHIND_MS: Final = 3 * DAY_MS


def check_work(facts: DoctorFacts) -> Iterator[Finding]:
    """Judge enrichment and the service."""
    for queue in facts.queues:
        yield from _queue(queue, enriches=facts.enriches)
    if facts.queues and not any(one.failed or one.lost for one in facts.queues):
        pending = sum(one.pending for one in facts.queues)
        held = sum(one.held for one in facts.queues)
        in_hand = f"{held:,} in hand, " if held else ""
        yield ok(_WORK_CHECKS_GROUP, "queues", f"{pending:,} queued, {in_hand}none failed")
    yield from _model(facts)
    if facts.vectors is not None:
        yield _vectors(facts.vectors)
    yield from _service(facts)
    yield from _retention(facts)
    yield from _parts(facts)


def _queue(queue: QueueFacts, *, enriches: bool) -> Iterator[Finding]:
    check = f"queue {queue.name}"
    if queue.lost:
        said = f"{queue.lost:,} tickets are held by a worker that died"
        cause = "a worker was killed; the next one takes over its tickets"
        yield Finding(_WORK_CHECKS_GROUP, check, "warn", said, cause, "threadkeep enrich", _DOC)
    if queue.failed:
        said = f"{queue.failed:,} tickets failed after all retries"
        cause = "each row has the reason; the others continue"
        yield Finding(
            _WORK_CHECKS_GROUP, check, "warn", said, cause, "threadkeep doctor --repair", _DOC
        )
    if enriches and queue.pending > _MANY_WAITING:
        said = f"{queue.pending:,} tickets are queued"
        cause = "what was captured is not summarized yet; messages can be searched already"
        yield Finding(_WORK_CHECKS_GROUP, check, "info", said, cause, "threadkeep enrich", _DOC)


def _model(facts: DoctorFacts) -> Iterator[Finding]:
    model = facts.model
    if model is None:
        yield Finding(_WORK_CHECKS_GROUP, "model", "info", "none configured; none is required")
    elif model.said:
        cause = f"the server at {model.url} does not run, or has no such model"
        fix = f"curl -s {model.url.rstrip('/')}/models"
        yield Finding(_WORK_CHECKS_GROUP, "model", "warn", model.said, cause, fix, _DOC)
    else:
        yield ok(_WORK_CHECKS_GROUP, "model", f"{model.url} answers")


def _vectors(vectors: VectorFacts) -> Finding:
    if vectors.wanted and vectors.wanted != vectors.model:
        said = f"vectors are of {vectors.model}, the configuration names {vectors.wanted}"
        cause = "vectors of two models cannot be compared: they have to be rebuilt"
        return Finding(_WORK_CHECKS_GROUP, "vectors", "warn", said, cause, "threadkeep embed", _DOC)
    if vectors.missing:
        said = f"{vectors.missing:,} nodes have no vector of {vectors.model}"
        cause = "vectors are made in the background; these are still queued"
        return Finding(_WORK_CHECKS_GROUP, "vectors", "info", said, cause, "threadkeep embed", _DOC)
    return ok(_WORK_CHECKS_GROUP, "vectors", f"every node has a vector of {vectors.model}")


def _retention(facts: DoctorFacts) -> Iterator[Finding]:
    behind = facts.now - facts.retained_at if facts.retained_at is not None else 0
    if behind > _BEHIND_MS:
        said = f"retention last ran {behind // DAY_MS:,} days ago"
        cause = (
            "no `threadkeep serve` ran, or the clock was put ahead: such a gap is made up for by"
            " two days at a time; whoever knows that the clock is right says so with this"
        )
        fix = f"touch {shlex.quote(facts.retention_mark)}"
        yield Finding(_WORK_CHECKS_GROUP, "retention", "warn", said, cause, fix, _HEALTH_DOC)


# ---------------------------------------------------------------------- the service


def _service(facts: DoctorFacts) -> Iterator[Finding]:
    service = facts.service
    if facts.listener_trouble:
        said = f"a process is listening at the socket but does not answer: {facts.listener_trouble}"
        cause = "the process hangs, or is a different program"
        yield Finding(_WORK_CHECKS_GROUP, "socket", "warn", said, cause, _renewal(facts))
    if service is not None and facts.service_runs:
        agreed = _handshake(facts)
        if facts.service_hindrance:
            yield _hindered(service, facts)
        if not facts.service_hindrance or agreed.level != "ok":
            yield agreed
    elif service is not None and service.stopped_at is None:
        said = f"process {service.pid} served this home and died"
        cause = "it was killed, or the machine went off; nothing that was acknowledged is lost"
        yield _absent(facts, said, cause)
    elif facts.listener is None:
        said = "no service is running; everything works on demand"
        yield _absent(facts, said, "`threadkeep serve` keeps the store up to date")
    else:
        yield _listener(facts)


def _absent(facts: DoctorFacts, said: str, cause: str) -> Finding:
    """Say that no service runs: a fault only where the system was told to keep one running."""
    if facts.service_installed:
        said, cause = f"{said}; it is installed", "the system should start it at login and did not"
        return Finding(_WORK_CHECKS_GROUP, "service", "warn", said, cause, _RESTART)
    return Finding(_WORK_CHECKS_GROUP, "service", "info", said, cause, "threadkeep serve")


def _hindered(service: Service, facts: DoctorFacts) -> Finding:
    if facts.service_hindrance == "stopped":
        said = f"process {service.pid} is stopped: nothing is captured"
        cause = "somebody sent it SIGSTOP or Ctrl-Z, or a debugger holds it"
        return Finding(
            _WORK_CHECKS_GROUP, "service", "warn", said, cause, f"kill -CONT {service.pid}"
        )
    minutes = (facts.now - service.heartbeat) // 60_000
    said = f"process {service.pid} is running, but gave no heartbeat for {minutes:,} minutes"
    cause = "it hangs, or gets no CPU time"
    return Finding(_WORK_CHECKS_GROUP, "service", "warn", said, cause, _renewal(facts))


def _handshake(facts: DoctorFacts) -> Finding:
    service = facts.service
    assert service is not None  # noqa: S101  (its caller has looked)
    knowledge = next((one for one in facts.stores if one.name == "knowledge"), None)
    version = None if knowledge is None else knowledge.version
    if version is not None and version > service.schema:
        said = f"the file has schema version {version}, the running service knows {service.schema}"
        cause = "a newer version upgraded the file while the service was running"
        return Finding(_WORK_CHECKS_GROUP, "handshake", "fail", said, cause, _renewal(facts), _DOC)
    if service.version != facts.version:
        said = f"the running service is version {service.version}, this program {facts.version}"
        cause = "the program was updated after the service was started"
        return Finding(_WORK_CHECKS_GROUP, "handshake", "warn", said, cause, _renewal(facts), _DOC)
    return ok(
        _WORK_CHECKS_GROUP, "service", f"process {service.pid} runs, version {service.version}"
    )


def _renewal(facts: DoctorFacts) -> str:
    """Return the command that ends an old service; who started it by hand starts it again."""
    if facts.service_installed or facts.service is None or not facts.service_runs:
        return _RESTART
    return f"kill {facts.service.pid}"


def _listener(facts: DoctorFacts) -> Finding:
    if facts.listener == facts.version:
        return ok(
            _WORK_CHECKS_GROUP,
            "service",
            f"a process is listening at the socket, version {facts.listener}",
        )
    said = f"version {facts.listener} listens at the socket, this program is {facts.version}"
    cause = "the program was updated after it was started, or it is Hippo's daemon"
    return Finding(_WORK_CHECKS_GROUP, "handshake", "warn", said, cause, _RESTART, _DOC)


def _parts(facts: DoctorFacts) -> Iterator[Finding]:
    for part in facts.parts:
        crashed = part.last_crash_at is not None and facts.now - part.last_crash_at < DAY_MS
        if crashed:
            said = f"the part {part.part} crashed {part.crashes} times, last: {part.last_error}"
            cause = "it was restarted; the other parts kept running"
            yield Finding(
                _WORK_CHECKS_GROUP,
                f"part {part.part}",
                "warn",
                said,
                cause,
                "threadkeep service status",
            )
        if part.waits_for and facts.service_runs:
            said = f"the part {part.part} is waiting: {part.waits_for}"
            cause = "it resumes automatically"
            yield Finding(
                _WORK_CHECKS_GROUP, f"part {part.part}", "warn", said, cause, "threadkeep doctor"
            )


def examine(facts: DoctorFacts) -> list[Finding]:
    """Judge everything that was gathered; the same facts give the same findings."""
    return list(_all(facts))


def _all(facts: DoctorFacts) -> Iterator[Finding]:
    yield from check_machine(facts)
    for store in facts.stores:
        yield from check_store(store, facts)
    yield from check_capture(facts)
    yield from check_work(facts)
