"""Keeping a home current beside its agents' logs: spool, socket and CI, each in a thread."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from threadkeep.base.clock import iso
from threadkeep.base.presence import is_held
from threadkeep.base.processes import describe_process
from threadkeep.base.sqlite import Database
from threadkeep.collect.backend import StoreBackend
from threadkeep.collect.handshake import check_brain
from threadkeep.collect.observing import Observations
from threadkeep.collect.server import CollectorServer
from threadkeep.collect.storing import BatchReport
from threadkeep.errors import Conflict, ThreadkeepError
from threadkeep.github.polling import PollReport
from threadkeep.home.ci import make_ci
from threadkeep.home.waiting import socket_path
from threadkeep.knowledge.layout import read_version
from threadkeep.knowledge.service_state import the_service
from threadkeep.knowledge.versions import target_of

if TYPE_CHECKING:
    from threadkeep.home.facade import Home

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
    database = observations.store.context.db
    if is_held(serve_lock(database.file)):
        raise served_already(database)
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
    """Refuse to go on beside a brain of Hippo that expects another schema; before a store opens."""
    port = home.config.socket.brain_port
    warning = check_brain(port, schema_to_be(home, path)) if port else None
    if warning:
        tell(warning)


def schema_to_be(home: "Home", path: str | Path | None = None) -> int:
    """Give the version that a store will have once it is open for writing."""
    file = home.knowledge_path(path)
    found: int | None = None
    if file.exists():
        with Database(file, {}, read_only=True) as database, database.read() as tx:
            found = read_version(tx)
    return target_of(found, home.config.stores.knowledge_schema)


def serve_lock(database: Path) -> Path:
    """Give the file that is locked for as long as somebody serves a store."""
    return database.with_name(f"{database.name}.serve.lock")


def served_already(database: Database) -> Conflict:
    """Say who serves a store: its process, since when, in which version."""
    with database.read() as tx:
        found = the_service(tx)
    who = "another process"
    if found is not None and found.is_running:
        since = iso(found.started_at)
        who = f"{describe_process(found.pid)}, version {found.version}, since {since},"
    msg = f"{who} serves {database.path} already"
    return Conflict(msg, hint="end it first (`threadkeep service status`), or leave it to it")


def _listen(
    path: Path, backend: StoreBackend, stop: threading.Event, tell: Tell, stack: ExitStack
) -> None:
    server = CollectorServer(path, backend)
    try:
        server.start()
    except ThreadkeepError as error:
        tell(f"{error.message}; nothing is heard from its clients here")
        return
    stack.callback(server.stop)
    tell(f"listening on {server.path}")

    def end_together() -> None:
        server.wait()
        if server.asked:  # a client wants the end
            stop.set()
        elif server.failure is not None:
            tell(f"nobody is heard at {server.path} any more: {server.failure}")

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
    """Say what went wrong, and go on: the next look may go better."""
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
