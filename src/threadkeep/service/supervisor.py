"""Parts that run side by side in one process: each in a thread, none takes another one down.

A part that raises is reported, kept in the store's own books, and started again after a pause that
grows. A lock that is held or a full disk is no crash: it is waited out.
"""

import threading
import time
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from threadkeep.base.clock import Clock, is_due
from threadkeep.base.database import Database
from threadkeep.errors import Busy, Closed, Conflict, StorageFull, ThreadkeepError
from threadkeep.knowledge.health import ERROR_LENGTH, ServicePartState, note_part, part_states

Tell = Callable[[str], None]

# A part that ran so long before it failed is not failing again and again.
_STEADY_SECONDS: Final = 600.0
_MOST_DOUBLINGS: Final = 16
_WRITE_SECONDS: Final = 1.0
_SETTLED_MS: Final = 60_000  # longer than anybody waits for a lock
_PASSING: Final = (Busy, StorageFull, Conflict)


class Bell:
    """What parts wait with: it rings at the end, and when all has to be looked at at once."""

    def __init__(self, stop: threading.Event) -> None:
        self.stop = stop
        self._condition = threading.Condition()
        self._rung = 0

    def ring(self) -> None:
        """Wake everybody who waits."""
        with self._condition:
            self._rung += 1
            self._condition.notify_all()

    def wait(self, seconds: float | None) -> bool:
        """Wait so long, or until it rings; False when it is the end."""
        rung = self._rung
        self.wait_for(lambda: self._rung != rung, seconds)
        return not self.stop.is_set()

    def wait_for(self, done: Callable[[], bool], seconds: float | None = None) -> None:
        """Wait until something is done, looked at whenever it rings, or it is the end."""
        with self._condition:
            self._condition.wait_for(lambda: done() or self.stop.is_set(), seconds)


class ServicePart(msgspec.Struct, frozen=True):
    """Something that runs until the end; if it fails it is run again after a pause."""

    name: str
    run: Callable[[Bell], None]
    first_pause: float = 1.0
    longest_pause: float = 300.0


def regularly(seconds: float, work: Callable[[], object]) -> Callable[[Bell], None]:
    """Make a part of something that is done at once, and again every so many seconds."""

    def run(bell: Bell) -> None:
        while not bell.stop.is_set():
            work()
            bell.wait(seconds)

    return run


def pause_after(failures: int, first: float, longest: float) -> float:
    """Return how long to wait after so many failures in a row: twice as long each time."""
    return min(first * 2.0 ** min(max(failures, 1) - 1, _MOST_DOUBLINGS), longest)


def slept_for(wall_seconds: float, monotonic_seconds: float) -> float:
    """Return how long the machine slept between two looks at both clocks.

    The monotonic clock stands still meanwhile. A wall clock that was set back is no sleep.
    """
    return max(0.0, wall_seconds - monotonic_seconds)


class Books:
    """What happened to the parts: told at once, and kept in the store as soon as it takes it."""

    def __init__(self, database: Database, clock: Clock, tell: Tell) -> None:
        self._database = database
        self._clock = clock
        self._tell = tell
        self._guard = threading.Lock()
        with database.read() as tx:
            self._states = {state.part: state for state in part_states(tx)}
        self._unsaved: set[str] = set()
        self._running: set[str] = set()

    def starts(self, part: str, restarts: int) -> None:
        """Note that a part begins to run."""
        self._running.add(part)
        known = self._states.get(part, ServicePartState(part, 0))
        self._put(msgspec.structs.replace(known, started_at=self._clock(), restarts=restarts))

    def crashed(self, part: str, error: BaseException) -> None:
        """Note that a part raised."""
        self._running.discard(part)
        said = _said(error)
        self._tell(f"{part}: {said}")
        known = self._states[part]
        self._put(
            msgspec.structs.replace(
                known,
                crashes=known.crashes + 1,
                last_error=said,
                last_crash_at=self._clock(),
                waits_for=None,
            )
        )

    def waits(self, part: str, error: ThreadkeepError) -> None:
        """Note what keeps a part from working; it is told when it begins or changes."""
        self._running.discard(part)
        said = _said(error)
        known = self._states[part]
        if known.waits_for != said:
            self._tell(f"{part} waits: {said}")
            self._put(msgspec.structs.replace(known, waits_for=said))

    def settle(self) -> None:
        """Forget what kept parts from working, once they have run for a while without it."""
        for state in list(self._states.values()):
            waited = state.waits_for is not None and state.part in self._running
            if waited and is_due(state.started_at + _SETTLED_MS + 1, self._clock(), _SETTLED_MS):
                self._put(msgspec.structs.replace(state, waits_for=None))

    def save(self) -> None:
        """Write down what the store does not know yet."""
        with self._guard:
            if not self._unsaved:
                return
            states = [self._states[part] for part in sorted(self._unsaved)]
            with self._database.write(durable=False, budget=_WRITE_SECONDS) as tx:
                for state in states:
                    note_part(tx, state)
            self._unsaved.clear()

    def _put(self, state: ServicePartState) -> None:
        with self._guard:
            self._states[state.part] = state
            self._unsaved.add(state.part)


def supervise(
    part: ServicePart, bell: Bell, books: Books, *, monotonic: Callable[[], float] = time.monotonic
) -> None:
    """Run a part until the end, again and again if it fails."""
    failures, restarts = 0, 0
    while not bell.stop.is_set():
        began = monotonic()
        books.starts(part.name, restarts)
        try:
            _run(part, bell)
        except Exception as error:  # noqa: BLE001  (whatever it is, the other parts continue)
            if bell.stop.is_set() and isinstance(error, Closed):
                return  # the store was closed under a part that was late
            failures = 1 if monotonic() - began >= _STEADY_SECONDS else failures + 1
            _note(books, part.name, error)
        restarts += 1
        pause = pause_after(failures, part.first_pause, part.longest_pause)
        _rest(bell, pause, monotonic)


def _run(part: ServicePart, bell: Bell) -> None:
    part.run(bell)
    if not bell.stop.is_set():
        raise ThreadkeepError("it stopped unexpectedly")


def _rest(bell: Bell, seconds: float, monotonic: Callable[[], float]) -> None:
    """Wait the whole time: a bell that rings for another reason does not make a crash loop."""
    until = monotonic() + seconds
    while (left := until - monotonic()) > 0 and bell.wait(left):
        pass


def _note(books: Books, part: str, error: Exception) -> None:
    if isinstance(error, _PASSING):
        books.waits(part, error)
    else:
        books.crashed(part, error)


def _said(error: BaseException) -> str:
    """Say what went wrong in one line; an error that is not ours with its kind."""
    text = str(error) if isinstance(error, ThreadkeepError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:ERROR_LENGTH]


def start_all(parts: Iterable[ServicePart], bell: Bell, books: Books) -> list[threading.Thread]:
    """Start a thread for each part."""
    threads = [
        threading.Thread(
            target=supervise, args=(part, bell, books), name=f"threadkeep-{part.name}", daemon=True
        )
        for part in parts
    ]
    for thread in threads:
        thread.start()
    return threads
