"""Checks of the work behind: queues of enrichment, the model, vectors, the running service."""

import shlex
from collections.abc import Iterator
from typing import Final

from threadkeep.doctor.facts import DoctorFacts, QueueFacts, VectorFacts
from threadkeep.doctor.findings import Finding, ok
from threadkeep.doctor.store_checks import DAY_MS
from threadkeep.knowledge.service_state import Service

_GROUP: Final = "work"
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
        yield ok(_GROUP, "queues", f"{pending:,} wait, {in_hand}none failed")
    yield from _model(facts)
    if facts.vectors is not None:
        yield _vectors(facts.vectors)
    yield from _service(facts)
    yield from _retention(facts)
    yield from _parts(facts)


def _queue(queue: QueueFacts, *, enriches: bool) -> Iterator[Finding]:
    check = f"queue {queue.name}"
    if queue.lost:
        said = f"{queue.lost:,} tickets are held by a worker that never came back"
        cause = "a worker was killed; the next one takes its tickets back"
        yield Finding(_GROUP, check, "warn", said, cause, "threadkeep enrich", _DOC)
    if queue.failed:
        said = f"{queue.failed:,} tickets failed as often as they may"
        cause = "each of them says why in its row; the others go on"
        yield Finding(_GROUP, check, "warn", said, cause, "threadkeep doctor --repair", _DOC)
    if enriches and queue.pending > _MANY_WAITING:
        said = f"{queue.pending:,} tickets wait"
        cause = "what was captured was not made into knowledge yet; messages are found all the same"
        yield Finding(_GROUP, check, "info", said, cause, "threadkeep enrich", _DOC)


def _model(facts: DoctorFacts) -> Iterator[Finding]:
    model = facts.model
    if model is None:
        yield Finding(_GROUP, "model", "info", "none is configured, and none is needed")
    elif model.said:
        cause = f"the server at {model.url} does not run, or has no such model"
        fix = f"curl -s {model.url.rstrip('/')}/models"
        yield Finding(_GROUP, "model", "warn", model.said, cause, fix, _DOC)
    else:
        yield ok(_GROUP, "model", f"{model.url} answers")


def _vectors(vectors: VectorFacts) -> Finding:
    if vectors.wanted and vectors.wanted != vectors.model:
        said = f"vectors are of {vectors.model}, the configuration names {vectors.wanted}"
        cause = "vectors of two models cannot be compared: they have to be made anew"
        return Finding(_GROUP, "vectors", "warn", said, cause, "threadkeep embed", _DOC)
    if vectors.missing:
        said = f"{vectors.missing:,} nodes have no vector of {vectors.model}"
        cause = "vectors are made in the background; these were not made yet"
        return Finding(_GROUP, "vectors", "info", said, cause, "threadkeep embed", _DOC)
    return ok(_GROUP, "vectors", f"every node has one of {vectors.model}")


def _retention(facts: DoctorFacts) -> Iterator[Finding]:
    behind = facts.now - facts.retained_at if facts.retained_at is not None else 0
    if behind > _BEHIND_MS:
        said = f"what is too old was last taken out as of {behind // DAY_MS:,} days ago"
        cause = (
            "no `threadkeep serve` ran, or the clock was put ahead: such a gap is made up for by"
            " two days at a time; whoever knows that the clock is right says so with this"
        )
        fix = f"touch {shlex.quote(facts.retention_mark)}"
        yield Finding(_GROUP, "retention", "warn", said, cause, fix, _HEALTH_DOC)


# ---------------------------------------------------------------------- the service


def _service(facts: DoctorFacts) -> Iterator[Finding]:
    service = facts.service
    if facts.listener_trouble:
        said = f"somebody listens at the socket and does not answer: {facts.listener_trouble}"
        cause = "the process hangs, or is of another kind"
        yield Finding(_GROUP, "socket", "warn", said, cause, _renewal(facts))
    if service is not None and facts.service_runs:
        agreed = _handshake(facts)
        if facts.service_hindrance:
            yield _hindered(service, facts)
        if not facts.service_hindrance or agreed.level != "ok":
            yield agreed
    elif service is not None and service.stopped_at is None:
        said = f"process {service.pid} served this home and ended without a word"
        cause = "it was killed, or the machine went off; nothing that was acknowledged is lost"
        yield _absent(facts, said, cause)
    elif facts.listener is None:
        said = "no service runs; everything works on demand"
        yield _absent(facts, said, "`threadkeep serve` keeps the store current by itself")
    else:
        yield _listener(facts)


def _absent(facts: DoctorFacts, said: str, cause: str) -> Finding:
    """Say that no service runs: a fault only where the system was told to keep one running."""
    if facts.service_installed:
        said, cause = f"{said}; it is installed", "the system starts it at log-in and did not, here"
        return Finding(_GROUP, "service", "warn", said, cause, _RESTART)
    return Finding(_GROUP, "service", "info", said, cause, "threadkeep serve")


def _hindered(service: Service, facts: DoctorFacts) -> Finding:
    if facts.service_hindrance == "stopped":
        said = f"process {service.pid} is stopped: nothing is captured"
        cause = "somebody sent it SIGSTOP or Ctrl-Z, or a debugger holds it"
        return Finding(_GROUP, "service", "warn", said, cause, f"kill -CONT {service.pid}")
    minutes = (facts.now - service.heartbeat) // 60_000
    said = f"process {service.pid} runs, but gave no sign of life for {minutes:,} minutes"
    cause = "it hangs, or has no time on this machine"
    return Finding(_GROUP, "service", "warn", said, cause, _renewal(facts))


def _handshake(facts: DoctorFacts) -> Finding:
    service = facts.service
    assert service is not None  # noqa: S101  (its caller has looked)
    knowledge = next((one for one in facts.stores if one.name == "knowledge"), None)
    version = None if knowledge is None else knowledge.version
    if version is not None and version > service.schema:
        said = f"the file has schema version {version}, the running service knows {service.schema}"
        cause = "a newer program brought the file up while the service was running"
        return Finding(_GROUP, "handshake", "fail", said, cause, _renewal(facts), _DOC)
    if service.version != facts.version:
        said = f"the running service is version {service.version}, this program {facts.version}"
        cause = "the program was updated after the service was started"
        return Finding(_GROUP, "handshake", "warn", said, cause, _renewal(facts), _DOC)
    return ok(_GROUP, "service", f"process {service.pid} runs, version {service.version}")


def _renewal(facts: DoctorFacts) -> str:
    """Give the command that ends an old service; who started it by hand starts it anew."""
    if facts.service_installed or facts.service is None or not facts.service_runs:
        return _RESTART
    return f"kill {facts.service.pid}"


def _listener(facts: DoctorFacts) -> Finding:
    if facts.listener == facts.version:
        return ok(_GROUP, "service", f"somebody listens at the socket, version {facts.listener}")
    said = f"version {facts.listener} listens at the socket, this program is {facts.version}"
    cause = "the program was updated after it was started, or it is Hippo's daemon"
    return Finding(_GROUP, "handshake", "warn", said, cause, _RESTART, _DOC)


def _parts(facts: DoctorFacts) -> Iterator[Finding]:
    for part in facts.parts:
        crashed = part.last_crash_at is not None and facts.now - part.last_crash_at < DAY_MS
        if crashed:
            said = f"the part {part.part} crashed {part.crashes} times, last: {part.last_error}"
            cause = "it was started again; the other parts went on"
            yield Finding(
                _GROUP, f"part {part.part}", "warn", said, cause, "threadkeep service status"
            )
        if part.waits_for and facts.service_runs:
            said = f"the part {part.part} waits: {part.waits_for}"
            cause = "it goes on by itself as soon as it can"
            yield Finding(_GROUP, f"part {part.part}", "warn", said, cause, "threadkeep doctor")
