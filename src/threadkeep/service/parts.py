"""The parts of `threadkeep serve`: what runs beside what, and how often.

Each is a few lines that call what commands call as well. Parts that need much memory (a model,
vectors, a backup) leave it to a process of their own.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from threadkeep.base.clock import iso
from threadkeep.base.database import Database
from threadkeep.base.presence import is_held
from threadkeep.base.processes import describe_process
from threadkeep.base.sqlite.database import SqliteDatabase
from threadkeep.capture.capture import History
from threadkeep.capture.github.poll import PollReport
from threadkeep.capture.observed.backend import StoreBackend, check_brain
from threadkeep.capture.observed.intake import BatchReport
from threadkeep.capture.observed.observed import Observations
from threadkeep.capture.observed.server import CollectorLimits, CollectorServer
from threadkeep.capture.records import CaptureReport
from threadkeep.errors import Conflict, ThreadkeepError
from threadkeep.home.capture import make_ci
from threadkeep.home.home import socket_path
from threadkeep.knowledge.checks import tidy
from threadkeep.knowledge.health import the_service
from threadkeep.knowledge.schema import NEWEST, read_version, target_of
from threadkeep.service import learn
from threadkeep.service.maintenance import MaintenanceTask, carry_out, due_backups, order_for
from threadkeep.service.supervisor import Bell, ServicePart, Tell as Tell_of_supervisor, regularly
from threadkeep.service.watchdog import run_watchdog

if TYPE_CHECKING:
    from threadkeep.home.home import Home


# ------------------------------------------------------------------------------
# Keeping a home current beside its agents' logs: spool, socket and CI, each in a thread.

Tell = Callable[[str], None]

_LOOK_SECONDS: Final = 0.5
_RECOUNT_SECONDS: Final = 300.0


@contextmanager
def keeping(
    home: "Home",
    observations: Observations,
    stop: threading.Event,
    tell: Tell,
    *,
    version: str,
    socket: bool = True,
) -> Iterator[None]:
    """Collect, listen and poll until the block ends; `stop` is set when somebody asks for it.

    Where `serve` does all that already, it is refused.
    """
    store = observations.store
    if is_held(serve_lock(store.file or _on_a_server(home))):
        raise served_already(store.database)
    with ExitStack() as stack:
        if socket:
            port = home.config.socket.brain_port
            backend = StoreBackend(observations, version, brain_port=port)
            _listen(socket_path(home), backend, stop, tell, stack)
        work = [lambda: _collect_on(observations, stop, tell)]
        if home.config.github.enabled:
            work.append(lambda: _follow(home, observations, stop, tell))
        threads = [threading.Thread(target=one, daemon=True) for one in work]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join()
            _collect_now(observations, tell)


def shake_hands(home: "Home", tell: Tell, path: str | Path | None = None) -> None:
    """Refuse to run beside a brain of Hippo that expects another schema; before a store opens."""
    port = home.config.socket.brain_port
    warning = check_brain(port, schema_to_be(home, path)) if port else None
    if warning:
        tell(warning)


def schema_to_be(home: "Home", path: str | Path | None = None) -> int:
    """Return the version that a store will have once it is open for writing."""
    file = home.file("knowledge", path)
    if file is None:
        return NEWEST
    found: int | None = None
    if file.exists():
        with SqliteDatabase(file, {}, read_only=True) as database, database.read() as tx:
            found = read_version(tx)
    return target_of(found, home.config.stores.knowledge_schema)


def served_file(home: "Home", path: str | Path | None = None) -> Path:
    """Return the file that a store is known by on this machine, also if it is on a server."""
    file = home.file("knowledge", path)
    return _on_a_server(home) if file is None else Path(os.path.realpath(file))


def _on_a_server(home: "Home") -> Path:
    return home.paths().data / "server"


def serve_lock(database: Path) -> Path:
    """Return the file that is locked for as long as somebody serves a store."""
    return database.with_name(f"{database.name}.serve.lock")


def served_already(database: Database) -> Conflict:
    """Say who serves a store: its process, since when, in which version."""
    with database.read() as tx:
        found = the_service(tx)
    who = "another process"
    if found is not None and found.is_running:
        since = iso(found.started_at)
        who = f"{describe_process(found.pid)}, version {found.version}, since {since},"
    msg = f"{who} serves {database.name} already"
    return Conflict(msg, hint="stop it first (`threadkeep service status`), or let it do the work")


def _listen(
    path: Path, backend: StoreBackend, stop: threading.Event, tell: Tell, stack: ExitStack
) -> None:
    server = CollectorServer(path, backend)
    try:
        server.start()
    except ThreadkeepError as error:
        tell(f"{error.message}; events from its clients are not received")
        return
    stack.callback(server.stop)
    tell(f"listening on {server.path}")

    def end_together() -> None:
        server.wait()
        if server.asked:  # a client wants the end
            stop.set()
        elif server.failure is not None:
            tell(f"no longer listening at {server.path}: {server.failure}")

    threading.Thread(target=end_together, daemon=True).start()


def _collect_on(observations: Observations, stop: threading.Event, tell: Tell) -> None:
    counted = 0.0
    while not stop.wait(_LOOK_SECONDS):
        _collect_now(observations, tell)
        if time.monotonic() - counted > _RECOUNT_SECONDS:
            counted = time.monotonic()
            with _told(tell, "count"):
                observations.recount()


def _collect_now(observations: Observations, tell: Tell) -> None:
    """Collect what waits; what cannot be stored now stays in the spool."""
    with _told(tell, "collect"):
        if observations.waiting():
            tell_new(observations.collect(), tell)


@contextmanager
def _told(tell: Tell, what: str) -> Iterator[None]:
    """Say what went wrong, and continue: the next look may go better."""
    try:
        yield
    except ThreadkeepError as error:
        tell(f"could not {what}: {error.message}")


def tell_new(stored: BatchReport, tell: Tell) -> None:
    """Say what came out of the spool."""
    if stored.new:
        tell(f"{stored.new} new from shells and browsers")
    if stored.refused:
        tell(f"{stored.refused} reports could not be understood; they were counted and set aside")


def _follow(home: "Home", observations: Observations, stop: threading.Event, tell: Tell) -> None:
    try:
        ci = make_ci(home, observations.store)
        ci.follow(stop, lambda report: tell_runs(report, tell))
    except ThreadkeepError as error:
        tell(f"CI is not followed: {error.message}")


def tell_runs(report: PollReport, tell: Tell) -> None:
    """Say what CI did."""
    if report.runs:
        tell(f"CI: {report.runs} new or changed")
    for trouble in report.errors:
        tell(f"{trouble.repo or 'CI'}: {trouble.message}")


Stop = Callable[[], bool]

_PROBED: Final = ("shell", "claude-tool", "browser")
_MANY_LOGS: Final = 50
_LARGE_LOGS: Final = 8_000_000
_COLLECT_SECONDS: Final = 1.0
_PROBE_SECONDS: Final = 300.0
_UPKEEP_SECONDS: Final = 3600.0
_FIRST_UPKEEP_SECONDS: Final = 60.0
_DAY_SECONDS: Final = 86_400.0
_POLL_SECONDS: Final = 2.0  # where the system does not tell what changes
_DERIVE_SECONDS: Final = 5.0
_ANYWAY_SECONDS: Final = 60.0
_EMBED_SECONDS: Final = 60.0
_WATCH_SECONDS: Final = 30.0
# What clients have sent is in the kernel already; the rest of two seconds is for the other parts.
_LIMITS: Final = CollectorLimits(drain_seconds=0.5)


class ServiceContext(msgspec.Struct, frozen=True):
    """What all parts work on: one store, opened once."""

    home: "Home"
    history: History
    observations: Observations
    version: str
    sockets: tuple[Path, ...]
    tell: Tell_of_supervisor
    db: str | Path | None = None
    user_home: str | Path | None = None
    more: tuple[ServicePart, ...] = ()  # what a surface brings: the web server
    caught_up: threading.Event = msgspec.field(default_factory=threading.Event)

    @property
    def database(self) -> Database:
        """The database of the store."""
        return self.history.store.database


def all_parts(around: ServiceContext) -> list[ServicePart]:
    """Return the parts that the configuration of a home wants."""
    config = around.home.config
    wanted = config.serve
    parts = [
        ServicePart("capture", partial(_capture, around)),
        ServicePart("collect", partial(_collect, around)),
        *(
            ServicePart(_named(path), partial(_parts_listen, around, path))
            for path in around.sockets
        ),
        ServicePart("probes", regularly(_PROBE_SECONDS, partial(_probe, around))),
    ]
    if config.github.enabled:
        parts.append(ServicePart("ci", partial(_follow_ci, around)))
    if config.enrich.enabled and wanted.enrich:
        parts.append(ServicePart("enrich", when_changed(around.database, partial(_enrich, around))))
    parts += _knowing(around)
    if wanted.watchdog:
        parts.append(ServicePart("watchdog", regularly(_WATCH_SECONDS, partial(_look, around))))
    if wanted.maintenance:
        parts.append(ServicePart("maintenance", partial(_maintain, around), 600.0, 6 * 3600.0))
    return [*parts, *around.more]


def _knowing(around: ServiceContext) -> list[ServicePart]:
    """Return the parts that make things found: by words, by meaning, by what went wrong before."""
    database, store = around.database, around.history.store
    parts = [
        ServicePart(
            "index", when_changed(database, lambda stop: store.index(stop=stop, lazily=True))
        ),
        ServicePart("lessons", when_changed(database, partial(_learn, around))),
    ]
    choice = learn.embedder_in_child(around.home)
    if choice.embedder is not None:
        choice.embedder.close()  # the process that makes vectors opens its own
        parts.append(ServicePart("vectors", partial(_embed, around), 60.0, 3600.0))
    return parts


def when_changed(
    database: Database,
    work: Callable[[Stop], object],
    *,
    seconds: float = _DERIVE_SECONDS,
    anyway: float = _ANYWAY_SECONDS,
    monotonic: Callable[[], float] = time.monotonic,
) -> Callable[[Bell], None]:
    """Make a part of something that is done when somebody wrote to the store.

    Some of it comes due with time alone, so now and then it is done without a write.
    """

    def run(bell: Bell) -> None:
        seen, last = -1, float("-inf")
        while not bell.stop.is_set():
            now, changes = monotonic(), database.changes()
            if changes != seen or now - last >= anyway:
                seen, last = changes, now
                work(bell.stop.is_set)
            bell.wait(seconds)

    return run


# ---------------------------------------------------------------------- capture


def _capture(around: ServiceContext, bell: Bell) -> None:
    """Capture as logs grow; a long way behind, another process goes most of it first.

    What 70 MB of logs need leaves holes in the memory of a process: 10 MB for good.
    """
    try:
        look = around.history.capture(dry_run=True).agents.values()
        many = sum(part.changed for part in look) >= _MANY_LOGS
        if many or sum(part.changed_bytes for part in look) >= _LARGE_LOGS:
            order = order_for(around.home, around.db, around.user_home, catch_up=True)
            _have_done(around, order, bell)
    finally:
        around.caught_up.set()
    if not bell.stop.is_set():
        _watch(around, bell)


def _watch(around: ServiceContext, bell: Bell) -> None:
    told: set[tuple[str, str]] = set()

    def show(report: CaptureReport) -> None:
        for agent, part in report.agents.items():
            if part.lines:
                around.tell(f"{agent} +{part.entries} messages")
        found = {pair for part in report.agents.values() for pair in part.errors.items()}
        for path, problem in sorted(found - told):
            around.tell(problem if path in problem else f"{path}: {problem}")
        told.clear()
        told.update(found)

    around.history.watch(bell.stop.is_set, show, poll_seconds=_POLL_SECONDS)


def _collect(around: ServiceContext, bell: Bell) -> None:
    """Store what shells and browsers left; now and then recount the hour and the day."""
    observations, counted = around.observations, float("-inf")
    while not bell.stop.is_set():
        if observations.waiting():
            tell_new(observations.collect(), around.tell)
        if time.monotonic() - counted >= _PROBE_SECONDS:
            counted = time.monotonic()
            observations.recount()
        bell.wait(_COLLECT_SECONDS)
    if observations.waiting():
        observations.collect()


def _named(path: Path) -> str:
    return f"socket {path}"


def _parts_listen(around: ServiceContext, path: Path, bell: Bell) -> None:
    """Listen at a socket until the end, which a client may ask for."""
    port = around.home.config.socket.brain_port
    server = CollectorServer(
        path, StoreBackend(around.observations, around.version, brain_port=port), limits=_LIMITS
    )
    server.start()
    around.tell(f"listening on {server.path}")

    def wake() -> None:
        server.wait()
        bell.ring()

    threading.Thread(target=wake, name="threadkeep-listens", daemon=True).start()
    try:
        bell.wait_for(lambda: server.wait(0))
    finally:
        server.stop()
    if server.asked:
        bell.stop.set()
    elif server.failure is not None:
        msg = f"no longer listening at {server.path}: {server.failure}"
        raise ThreadkeepError(msg) from server.failure


def _follow_ci(around: ServiceContext, bell: Bell) -> None:
    ci = make_ci(around.home, around.history.store)
    ci.follow(bell.stop, lambda report: tell_runs(report, around.tell))


# ---------------------------------------------------------------------- knowledge


def _enrich(around: ServiceContext, stop: Stop) -> None:
    store = around.history.store
    if not around.caught_up.is_set():
        return
    if store.queues.tickets_wait() or learn.reap_tickets(store, store.clock()):
        report = learn.enrich(around.home, around.history, stop=stop, tell=around.tell)
        if report.nodes:
            around.tell(f"knowledge: {report.nodes} new")
        for problem in report.errors:
            around.tell(f"enrich: {problem}")


def _learn(around: ServiceContext, stop: Stop) -> None:
    learn.learn_all(around.home, around.history, stop)


def _embed(around: ServiceContext, bell: Bell) -> None:
    """Have another process make vectors while some are missing; it ends with its work."""
    while bell.wait(_EMBED_SECONDS):
        lacking = around.history.store.indexes.missing_vectors(1)
        if lacking.nodes or lacking.messages:
            order = order_for(around.home, around.db, around.user_home, embed=True)
            _have_done(around, order, bell)


# ---------------------------------------------------------------------- health and upkeep


def _look(around: ServiceContext) -> None:
    now = around.history.store.clock()
    report = run_watchdog(around.home, around.history, now=now, monotonic=time.monotonic())
    for alarm in (*report.raised, *report.reopened):
        around.tell(f"alarm {alarm.invariant} {alarm.source}: {alarm.details}")


def _probe(around: ServiceContext) -> None:
    for source in _PROBED:
        around.observations.probe(source)


def _maintain(around: ServiceContext, bell: Bell) -> None:
    """Tidy every hour; once a day take out what is too old, and make backups."""
    clock, retained = around.history.store.clock, float("-inf")
    bell.wait(_FIRST_UPKEEP_SECONDS)  # at the beginning there is enough to do
    while not bell.stop.is_set():
        tidy(around.database)
        backups = due_backups(around.home, around.db, clock())
        retain = time.monotonic() - retained >= _DAY_SECONDS
        order = order_for(around.home, around.db, around.user_home, backups, retain=retain)
        retained = time.monotonic() if retain else retained
        _have_done(around, order, bell)
        bell.wait(_UPKEEP_SECONDS)


def _have_done(around: ServiceContext, order: MaintenanceTask, bell: Bell) -> None:
    wanted = order.backups or order.retain or order.embed or order.catch_up
    done = carry_out(order, bell) if wanted else None
    if done is None:
        return
    for words in done.did:
        around.tell(words)
    if done.waits:
        raise Conflict(done.waits)
    if done.failed:
        raise ThreadkeepError("; ".join(done.failed))
