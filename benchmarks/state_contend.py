"""`state-contend`: four processes append to one file as fast as they can; how long each waits."""

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.contend_ways import Step, Way
from benchmarks.contest import Contest, contest
from benchmarks.measure import in_turn
from benchmarks.place import Place
from benchmarks.report import Goal, Result, Table, figure, ratio
from benchmarks.state_corpus import Session, sessions
from benchmarks.state_files import turns
from benchmarks.state_v6 import Plain, with_retries
from threadkeep.state.hermes_state import SessionDB

PROCESSES = 4
_TAIL, _LONGEST_MS = 40, 1000
_COLUMNS = (
    f"{PROCESSES} processes, on disk",
    *("calls/s", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "p99.9 : p50", "fairness", "refused"),
)


def run(place: Place) -> Result:
    """Let the processes contend in every way, in turn."""
    seconds = place.either(10, 2)
    ways = {name: partial(_contest, place, name, seconds) for name in WAYS}
    runs = in_turn(ways, place.either(3, 1))
    found = {name: _together(contests) for name, contests in runs.items()}
    rows = [_row(name, each) for name, each in found.items()]
    title = f"state-contend: {PROCESSES} processes saturating one file, {seconds} s each"
    return Result([Table(title, _COLUMNS, rows)], _goals(found))


def _goals(found: Mapping[str, Contest]) -> list[Goal]:
    goals = []
    for name, each in found.items():
        if "threadkeep" in name:
            tail = ratio(each.p999, each.p50)
            goals += [
                Goal(f"state-contend: p99.9 to the median, {name}", _TAIL, tail),
                Goal(f"state-contend: longest wait, {name}", _LONGEST_MS, each.longest, " ms"),
                Goal(f"state-contend: writes refused, {name}", 0, each.refused, ""),
            ]
    return goals


# ------------------------------------------------------------------ ways


def _own_session(number: int) -> Session:
    return next(iter(sessions(300)))._replace(id=f"session-{number}")


@contextmanager
def by_store(path: Path, number: int) -> Iterator[Step]:
    """Each process appends to a session of its own."""
    session = _own_session(number)
    with SessionDB(path) as store:
        store.create_session(session.id, "cli", system_prompt=session.system_prompt)
        yield _over(session, lambda turn: store.append_message(session.id, **turn[0]), 1)


@contextmanager
def turns_by_store(path: Path, number: int) -> Iterator[Step]:
    """The same, a turn of five messages in one call."""
    session = _own_session(number)
    with SessionDB(path) as store:
        store.create_session(session.id, "cli", system_prompt=session.system_prompt)
        yield _over(session, lambda turn: store.append_messages(session.id, turn), 5)


@contextmanager
def by_hand(path: Path, number: int) -> Iterator[Step]:
    """Version 6's way: a second of patience, fifteen tries, a random pause between them."""
    session, chance = _own_session(number), random.Random(number)
    with closing(Plain(path)) as plain:
        with_retries(lambda: plain.begin_session(session), chance)

        def append(turn: Any) -> None:
            with_retries(lambda: plain.append(session.id, turn[0]), chance)

        yield _over(session, append, 1)


def _over(session: Session, append: Callable[[Any], object], size: int) -> Step:
    """Return a function that appends the next messages of the session, again and again."""
    messages = [{**message, "timestamp": None} for message in session.messages]
    cut = [[message] for message in messages] if size == 1 else list(turns(messages))
    place = 0

    def step() -> None:
        nonlocal place
        append(cut[place % len(cut)])
        place += 1

    return step


WAYS: Final[Mapping[str, Way]] = {
    "version 6's way": by_hand,
    "threadkeep append_message()": by_store,
    "threadkeep append_messages() of 5": turns_by_store,
}


# ------------------------------------------------------------------ the contest


def _contest(place: Place, name: str, seconds: float) -> Contest:
    with place.fresh() as folder:
        path = folder / "shared.db"
        if name.startswith("threadkeep"):
            SessionDB(path).close()
        else:
            Plain.create(path).close()
        return contest(path, (__name__, name), PROCESSES, seconds)


def _together(contests: list[Contest]) -> Contest:
    """Take medians, but the longest wait of all: a goal speaks about it."""
    middle = Contest(*(median(values) for values in zip(*contests, strict=True)))
    return middle._replace(
        longest=max(each.longest for each in contests),
        refused=sum(each.refused for each in contests),
    )


def _row(name: str, found: Contest) -> tuple[str, ...]:
    return (
        name,
        figure(found.rate, 0),
        figure(found.p50, 2),
        figure(found.p99, 1),
        figure(found.p999, 1),
        figure(found.longest, 0),
        figure(ratio(found.p999, found.p50), 0),
        figure(found.fairness, 2),
        figure(found.refused, 0),
    )
