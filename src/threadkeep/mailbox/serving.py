"""The regular work of a mailroom: all sessions, again and again, none held up by another."""

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import msgspec

from threadkeep.mailbox.delivery import Drained
from threadkeep.mailbox.index_records import Session
from threadkeep.mailbox.sweep import Swept

if TYPE_CHECKING:
    from threadkeep.mailbox.mailroom import Mailroom

log = logging.getLogger(__name__)
R = TypeVar("R")
_REST: Final = 10


class Report(msgspec.Struct, frozen=True):
    """What one turn of `serve` did, by session; `errors` are what stopped it there."""

    delivered: dict[str, Drained]
    swept: dict[str, Swept]
    errors: dict[str, str]


class Rest(NamedTuple):
    """Until when a session is left alone, and what for.

    An agent can lock its files, and each look at them then waits for seconds: without a rest one
    session would take all the time there is.
    """

    until: float
    trouble: str


def serve(
    room: "Mailroom",
    stop: threading.Event,
    *,
    every: float = 1.0,
    sweep_every: float = 60.0,
    on_report: Callable[[Report], None] | None = None,
) -> None:
    """Deliver and sweep, each at its pace in seconds, until `stop` is set.

    Trouble with one session does not keep the others from being served; it is logged when it
    begins and when it changes. A session that took its time to fail rests ten times as long.
    """
    known: dict[str, str] = {}
    resting: dict[str, Rest] = {}
    next_sweep = time.monotonic()
    while not stop.is_set():
        is_due = time.monotonic() >= next_sweep
        if is_due:
            next_sweep = time.monotonic() + sweep_every
        report = turn(room, sweeping=is_due, resting=resting)
        for session_id, trouble in report.errors.items():
            if known.get(session_id) != trouble:
                log.error("session %s: %s", session_id, trouble)
        known = report.errors
        if on_report is not None:
            on_report(report)
        stop.wait(every)


def turn(
    room: "Mailroom",
    *,
    sweeping: bool,
    resting: dict[str, Rest] | None = None,
    timer: Callable[[], float] = time.monotonic,
) -> Report:
    """Serve every active session once, but for those that are `resting`."""
    errors: dict[str, str] = {}
    rests = {} if resting is None else resting
    swept = _for_each(room, room.sweep_one, errors, rests, timer) if sweeping else {}
    return Report(_for_each(room, room.drain, errors, rests, timer), swept, errors)


def for_each(room: "Mailroom", verb: Callable[[Session], R]) -> dict[str, R]:
    """Do something for every active session; what fails is logged and the others go on."""
    errors: dict[str, str] = {}
    done = _for_each(room, verb, errors, {}, time.monotonic)
    for session_id, trouble in errors.items():
        log.error("session %s: %s", session_id, trouble)
    return done


def _for_each(
    room: "Mailroom",
    verb: Callable[[Session], R],
    errors: dict[str, str],
    resting: dict[str, Rest],
    timer: Callable[[], float],
) -> dict[str, R]:
    done: dict[str, R] = {}
    for session in room.index.sessions(status="active"):
        began = timer()
        rest = resting.get(session.id)
        if rest is not None and began < rest.until:
            errors[session.id] = rest.trouble
            continue
        try:
            done[session.id] = verb(session)
        except Exception as error:  # noqa: BLE001  (one session must not stop the others)
            trouble = errors[session.id] = f"{type(error).__name__}: {error}"
            now = timer()
            resting[session.id] = Rest(now + (now - began) * _REST, trouble)
    return done
