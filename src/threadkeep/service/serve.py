"""Serving a home: one small process that captures, collects, listens, learns and looks after it.

One process for each store; a second one is told who is there. Everything that it does can also be
done on demand, without it.
"""

import ctypes
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from threadkeep.base.clock import Clock, now_ms
from threadkeep.base.database import Database
from threadkeep.base.files import make_private_dir
from threadkeep.base.local_socket import LONGEST_PATH
from threadkeep.base.presence import ExclusiveLock, is_held
from threadkeep.base.processes import my_mark
from threadkeep.base.sqlite.upkeep import sqlite_file
from threadkeep.capture.observed.observed import Observations
from threadkeep.capture.observed.visits import rules_of
from threadkeep.errors import Conflict, NotFound, SchemaMismatch, ThreadkeepError
from threadkeep.home.capture import open_observations
from threadkeep.home.home import FALLBACK, fallback_folders, socket_path
from threadkeep.knowledge import health
from threadkeep.knowledge.opening import refuse_write
from threadkeep.knowledge.schema import NEWEST, user_version
from threadkeep.service.learn import reap_tickets, release_claims
from threadkeep.service.parts import (
    ServiceContext,
    all_parts,
    serve_lock,
    served_already,
    served_file,
    shake_hands,
)
from threadkeep.service.supervisor import Bell, Books, ServicePart, Tell, slept_for, start_all

if TYPE_CHECKING:
    from threadkeep.capture.capture import History
    from threadkeep.home.home import Home


# ------------------------------------------------------------------------------
# Memory that is not needed any more goes back to the system: a process that idles is small.
#
# Only where the C library is glibc; elsewhere this does nothing.

_ARENA_MAX: Final = -8  # mallopt's name for it


def share_one_arena() -> None:
    """Let all threads allocate from one place.

    By default each thread has its own and keeps what it freed: after a capture of 70 MB a
    process with fifteen threads stayed at 89 MB, with one arena and `give_back` at 59 MB.
    """
    if (mallopt := _function("mallopt")) is not None:
        mallopt(_ARENA_MAX, 1)


def give_back() -> None:
    """Give back what was freed; it takes some milliseconds."""
    if (trim := _function("malloc_trim")) is not None:
        trim(0)


def _function(name: str) -> Callable[..., int] | None:
    try:
        found: Callable[..., int] | None = getattr(ctypes.CDLL(None), name, None)
    except OSError:
        return None
    return found


_LOOK_SECONDS: Final = 5.0
_MAIN_SECONDS: Final = 0.5
_BEAT_SECONDS: Final = 60.0
_SLEEP_SECONDS: Final = 30.0  # a shorter gap may be a clock that was set
_LEAVE_SECONDS: Final = 1.0  # for parts that are in the middle of something
_BEAT_PATIENCE: Final = 0.5
_LAST_PATIENCE: Final = 8.0  # as a rule a few milliseconds; more if a part is late with its writing
_HIPPO_SOCKET: Final = "daemon.sock"
_HIPPO_SHORT: Final = "hippo-daemon.sock"


class ServiceStatus(msgspec.Struct, frozen=True):
    """Who serves a store now, or did last, and how its parts fare."""

    running: bool
    service: health.Service | None
    parts: tuple[health.ServicePartState, ...] = ()
    hindrance: health.Hindrance = ""  # what keeps a process that runs from working


def serve(
    home: "Home",
    stop: threading.Event,
    tell: Tell,
    *,
    version: str,
    path: str | Path | None = None,
    user_home: str | Path | None = None,
    roots: Iterable[str | Path] = (),
    hippo_dir: Path | None = None,
    socket: bool = True,
    more: tuple[ServicePart, ...] = (),
    clock: Clock = now_ms,
) -> None:
    """Keep a home current until `stop` is set, or a client on the socket asks for the end.

    With `hippo_dir` it also listens where Hippo's own programs expect their daemon, and takes
    what they could not deliver from there. `more` are parts of a surface that run beside ours.
    """
    shake_hands(home, tell, path)
    share_one_arena()
    with ExitStack() as stack:
        file = served_file(home, path)
        stack.enter_context(_only_one(home, file))
        history = stack.enter_context(home.history(path, user_home=user_home, roots=roots))
        refuse_write(history.store.access)
        observations = _observations(home, hippo_dir, history)
        sockets = _sockets(home, hippo_dir) if socket else ()
        around = ServiceContext(
            home, history, observations, version, sockets, tell, path, user_home, more
        )
        _run(around, stop, clock)


def _run(around: ServiceContext, stop: threading.Event, clock: Clock) -> None:
    database, bell = around.database, Bell(stop)
    with _announced(database, around.version, clock):
        reap_tickets(around.history.store, clock())  # what a process held that was killed
        books = Books(database, clock, around.tell)
        pulse = Pulse(database, bell, books, around.tell, clock)
        threads = start_all(all_parts(around), bell, books)
        around.tell(f"threadkeep {around.version} serves {database.name}")
        # The main thread waits for a thread, never for `stop` itself: a signal handler that sets
        # it would wait for the lock that the main thread holds in that very moment.
        beating = threading.Thread(target=pulse.run, name="threadkeep-pulse", daemon=True)
        beating.start()
        # Now and then it looks itself: a signal that comes right after SIGCONT may be given to
        # another thread, and Python runs no handler before the main thread moves.
        while beating.is_alive():
            beating.join(_MAIN_SECONDS)
        _leave(threads)
        if pulse.trouble is not None:
            raise pulse.trouble
        with suppress(ThreadkeepError):
            release_claims(around.history.store, budget=_LAST_PATIENCE)
        with suppress(ThreadkeepError):
            books.save()


def _leave(threads: list[threading.Thread]) -> None:
    """Let parts come to their end; one that takes longer finds its store closed."""
    until = time.monotonic() + _LEAVE_SECONDS
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))


class Pulse:
    """Looks every few seconds: gives heartbeat, sees whether the machine slept."""

    def __init__(
        self,
        database: Database,
        bell: Bell,
        books: Books,
        tell: Tell,
        clock: Clock,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.trouble: ThreadkeepError | None = None
        self._database = database
        with database.read() as tx:
            self._schema = user_version(tx)
        self._bell = bell
        self._books = books
        self._tell = tell
        self._clock, self._monotonic = clock, monotonic
        self._wall, self._steady = clock(), monotonic()
        self._beat_at = self._steady - _BEAT_SECONDS + 2 * _LOOK_SECONDS  # the first one soon

    def run(self) -> None:
        """Look until the end, then wake everybody."""
        try:
            self.look()
            while not self._bell.stop.wait(_LOOK_SECONDS):
                self.look()
        finally:
            self._bell.stop.set()
            self._bell.ring()

    def look(self) -> None:
        """Look once."""
        self.trouble = _lost(self._database) or _outgrown(self._database, self._schema)
        if self.trouble is not None:
            self._bell.stop.set()
            return
        wall, steady = self._clock(), self._monotonic()
        slept = slept_for((wall - self._wall) / 1000, steady - self._steady)
        self._wall, self._steady = wall, steady
        if slept >= _SLEEP_SECONDS:
            self._tell(f"the machine slept for {slept / 60:.0f} min; checking everything now")
            self._bell.ring()
        with suppress(ThreadkeepError):  # the next look may go better
            self._books.settle()
            self._books.save()
            if slept >= _SLEEP_SECONDS or steady - self._beat_at >= _BEAT_SECONDS:
                give_back()
                with self._database.write(durable=False, budget=_BEAT_PATIENCE) as tx:
                    health.note_beat(tx, my_mark(), wall)
                self._beat_at = steady


def _lost(database: Database) -> ThreadkeepError | None:
    """Whatever is written now would go nowhere; only a new process opens the new file."""
    if database.engine != "sqlite":
        return None
    try:
        file = sqlite_file(database)
        file.wal.refuse_lost()
        file.check_current()
    except ThreadkeepError as error:
        return error
    return None


def _outgrown(database: Database, opened: int) -> ThreadkeepError | None:
    """Somebody brought the file up while this process has it open: it must not write on."""
    with suppress(ThreadkeepError), database.read() as tx:
        version = user_version(tx)
        if version > opened:
            told = f"another program brought {database.name} to schema version {version}"
            msg = f"{told}; this process has opened it at {opened}"
            newer = "pip install --upgrade threadkeep, then " if version > NEWEST else ""
            return SchemaMismatch(msg, hint=f"{newer}restart it")
    return None


# ---------------------------------------------------------------------- one process for each store


@contextmanager
def _only_one(home: "Home", file: Path) -> Iterator[None]:
    make_private_dir(file.parent)
    try:
        lock = ExclusiveLock(serve_lock(file), "another `threadkeep serve`")
    except Conflict as error:
        with suppress(NotFound), home.knowledge(file, read_only=True) as store:
            raise served_already(store.database) from None
        raise error from None
    with lock:
        yield


@contextmanager
def _announced(database: Database, version: str, clock: Clock) -> Iterator[None]:
    """Say in the store who serves it, for as long as that is so."""
    mark, now = my_mark(), clock()
    with database.write() as tx:
        health.note_start(
            tx, health.Service(os.getpid(), mark, version, user_version(tx), now, now)
        )
    try:
        yield
    finally:
        with suppress(ThreadkeepError), database.write(budget=_LAST_PATIENCE) as tx:
            health.note_end(tx, mark, clock())


def who_serves(home: "Home", path: str | Path | None = None) -> ServiceStatus:
    """Tell who serves a store, without changing anything."""
    file = served_file(home, path)
    held = is_held(serve_lock(file))
    with (
        suppress(ThreadkeepError),
        home.knowledge(path, read_only=True) as store,
        store.read() as tx,
    ):
        service = health.the_service(tx)
        since = 0 if service is None else service.started_at
        parts = tuple(one for one in health.part_states(tx) if one.started_at >= since)
        hindrance = "" if service is None else service.hindrance(now_ms())
        return ServiceStatus(held, service, parts, hindrance)
    return ServiceStatus(held, None)


# ---------------------------------------------------------------------- Hippo's place


def hippo_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder in which Hippo keeps its data by default."""
    named = environ.get("XDG_DATA_HOME", "")
    data = Path(named) if named.startswith("/") else Path(environ["HOME"]) / ".local" / "share"
    return data / "hippo"


def hippo_socket(folder: Path, temporary: Path) -> Path:
    """Return where Hippo's programs look for their daemon: a path that is too long has another."""
    wanted = folder / _HIPPO_SOCKET
    return wanted if len(os.fsencode(wanted)) <= LONGEST_PATH else temporary / _HIPPO_SHORT


def _sockets(home: "Home", hippo_dir: Path | None) -> tuple[Path, ...]:
    own = socket_path(home)
    if hippo_dir is None:
        return (own,)
    theirs = hippo_socket(hippo_dir, Path(tempfile.gettempdir()))
    return tuple(dict.fromkeys((own, theirs)))


def _observations(home: "Home", hippo_dir: Path | None, history: "History") -> Observations:
    """Open what is reported, with the store that is open already."""
    found = open_observations(home, history.store)
    if hippo_dir is None:
        return found
    folders = fallback_folders(home, history.store.file)
    all_folders = tuple(dict.fromkeys((*folders, hippo_dir / FALLBACK)))
    rules = rules_of(home.config.browser)
    return Observations(found.around, found.spool, rules, all_folders)
