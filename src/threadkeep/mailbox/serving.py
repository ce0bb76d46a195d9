"""The regular work of a mailroom: all sessions side by side, none held up by another."""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar

import msgspec

from threadkeep.mailbox.delivery import DeliveryReport
from threadkeep.mailbox.index_records import MailboxSession
from threadkeep.mailbox.sweep import SweepReport

if TYPE_CHECKING:
    from threadkeep.mailbox.mailroom import Mailroom

log = logging.getLogger(__name__)
R = TypeVar("R")
Timer = Callable[[], float]
_REST: Final = 10
SIDE_BY_SIDE: Final = 32
_DRAIN, _SWEEP = "drain", "sweep"


class ServeReport(msgspec.Struct, frozen=True):
    """What one turn of `serve` did, by session; `errors` are what stopped it there.

    `busy` are the sessions that took longer; a later turn tells what became of them.
    """

    delivered: dict[str, DeliveryReport]
    swept: dict[str, SweepReport]
    errors: dict[str, str]
    busy: tuple[str, ...] = ()


class Rest(NamedTuple):
    """Until when a session is left alone, and what for.

    An agent can lock its files, and each look at them then waits for seconds: without a rest one
    session would take all the time there is.
    """

    until: float
    trouble: str


class LookResult(NamedTuple):
    """What became of one look at a session: a result, or what stopped it and for how long."""

    result: Any = None
    rest: Rest | None = None


def serve(
    room: "Mailroom",
    stop: threading.Event,
    *,
    every: float = 1.0,
    sweep_every: float = 60.0,
    side_by_side: int = SIDE_BY_SIDE,
    patience: float = 1.0,
    on_report: Callable[[ServeReport], None] | None = None,
) -> None:
    """Deliver and sweep, each at its pace in seconds, until `stop` is set.

    Up to `side_by_side` sessions are served at once, each by one thread for its deliveries and one
    for its sweeps; with 1 there is one for all. A turn waits `patience` seconds for them: a channel
    that takes longer delays nobody else. Trouble with a session is logged when it begins and when
    it changes. A session that took its time to fail rests ten times as long.

    After `stop` every channel ends the message it has at hand, and begins no other.
    """
    known: dict[str, str] = {}
    next_sweep = time.monotonic()

    def tell(report: ServeReport) -> None:
        for session_id, trouble in report.errors.items():
            if known.get(session_id) != trouble:
                log.error("session %s: %s", session_id, trouble)
        known.clear()
        known.update(report.errors)
        if on_report is not None:
            on_report(report)

    with _Crew(room, side_by_side) as crew:
        while not stop.is_set():
            is_due = time.monotonic() >= next_sweep
            if is_due:
                next_sweep = time.monotonic() + sweep_every
            tell(crew.turn(sweeping=is_due, patience=patience))
            stop.wait(every)
        last = crew.finish()
    if last.delivered or last.swept or last.errors:
        tell(last)


def turn(
    room: "Mailroom",
    *,
    sweeping: bool,
    resting: dict[str, Rest] | None = None,
    timer: Timer = time.monotonic,
) -> ServeReport:
    """Serve every active session once, but for those that are `resting`."""
    with _Crew(room, SIDE_BY_SIDE, resting, timer) as crew:
        return crew.turn(sweeping=sweeping, patience=None)


class _Crew:
    """The threads that serve; the same is never done twice at once for one session."""

    def __init__(
        self,
        room: "Mailroom",
        side_by_side: int,
        resting: dict[str, Rest] | None = None,
        timer: Timer = time.monotonic,
    ) -> None:
        self._room = room
        self._timer = timer
        self._resting = {} if resting is None else resting
        self._over = threading.Event()
        self._running: dict[tuple[str, str], Future[LookResult]] = {}
        self._threads = ThreadPoolExecutor(side_by_side, thread_name_prefix="threadkeep-mail")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._threads.shutdown()

    def turn(self, *, sweeping: bool, patience: float | None) -> ServeReport:
        """Begin to serve who is not being served; tell what is done when patience ends."""
        sessions = self._room.index.sessions(status="active")
        resting = self._who_rests(sessions)
        begun = [
            future
            for verb in ((_SWEEP, _DRAIN) if sweeping else (_DRAIN,))
            for session in sessions
            if session.id not in resting and (future := self._begin(verb, session)) is not None
        ]
        wait(begun, patience)
        return self._collect(resting)

    def finish(self) -> ServeReport:
        """Wait for what is at hand, and tell what became of it."""
        self._over.set()
        self._threads.shutdown()
        return self._collect({})

    def _who_rests(self, sessions: Iterable[MailboxSession]) -> dict[str, str]:
        now = self._timer()
        rests = {one.id: rest for one in sessions if (rest := self._resting.get(one.id))}
        return {one: rest.trouble for one, rest in rests.items() if now < rest.until}

    def _begin(self, verb: str, session: MailboxSession) -> Future[LookResult] | None:
        key = (verb, session.id)
        if key in self._running:
            return None
        job = self._room.sweep_one if verb == _SWEEP else self._drain
        future = self._running[key] = self._threads.submit(attempt, job, session, self._timer)
        return future

    def _drain(self, session: MailboxSession) -> DeliveryReport:
        return self._room.drain(session, self._over.is_set)

    def _collect(self, errors: dict[str, str]) -> ServeReport:
        done: dict[str, dict[str, Any]] = {_DRAIN: {}, _SWEEP: {}}
        for key, future in list(self._running.items()):
            if not future.done():
                continue
            del self._running[key]
            verb, session_id = key
            found = future.result()
            if found.rest is None:
                done[verb][session_id] = found.result
            else:
                self._resting[session_id] = found.rest
                errors[session_id] = found.rest.trouble
        busy = tuple(dict.fromkeys(session_id for _, session_id in self._running))
        return ServeReport(done[_DRAIN], done[_SWEEP], errors, busy)


def attempt(
    verb: Callable[[MailboxSession], R], session: MailboxSession, timer: Timer
) -> LookResult:
    """Do something for a session; what fails is told, with how long the session shall rest."""
    began = timer()
    try:
        return LookResult(verb(session))
    except Exception as error:  # noqa: BLE001  (one session must not stop the others)
        now = timer()
        return LookResult(
            rest=Rest(now + (now - began) * _REST, f"{type(error).__name__}: {error}")
        )


def for_each(room: "Mailroom", verb: Callable[[MailboxSession], R]) -> dict[str, R]:
    """Do something for every active session in turn; what fails is logged and the others go on."""
    done: dict[str, R] = {}
    for session in room.index.sessions(status="active"):
        found = attempt(verb, session, time.monotonic)
        if found.rest is None:
            done[session.id] = found.result
        else:
            log.error("session %s: %s", session.id, found.rest.trouble)
    return done
