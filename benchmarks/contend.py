"""`contend`: eight processes write to one file as fast as they can, and how long each waits."""

import multiprocessing
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.contend_ways import WAYS, Waits, write_for
from benchmarks.measure import in_turn, percentile
from benchmarks.place import Place
from benchmarks.report import Goal, Result, Table, figure, ratio

PROCESSES = 8
_MILLI = 1e3
_COLUMNS = ("8 processes", "ops/s", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "fairness", "refused")


class Contest(NamedTuple):
    """What eight processes got done, and how long they waited (milliseconds)."""

    rate: float
    p50: float
    p99: float
    p999: float
    longest: float
    fairness: float  # writes of the unluckiest process to those of the luckiest
    refused: float


def run(place: Place) -> Result:
    """Let the processes contend in every way, in turn."""
    seconds = place.either(5, 1)
    ways = {name: partial(_contest, place, name, seconds) for name in WAYS}
    runs = in_turn(ways, place.either(2, 1))
    found = {name: _median(contests) for name, contests in runs.items()}
    rows = [_row(name, contest) for name, contest in found.items()]
    title = f"contend: {PROCESSES} processes saturating one file, {seconds} s each"
    goals = [
        Goal(f"contend: writes refused, {name}", 0, contest.refused, "")
        for name, contest in found.items()
        if "threadkeep" in name
    ]
    return Result([Table(title, _COLUMNS, rows)], goals)


def _contest(place: Place, name: str, seconds: float) -> Contest:
    with place.fresh() as folder:
        return _summary(_let_contend(folder / "shared.db", name, seconds), seconds)


def _let_contend(path: Path, name: str, seconds: float) -> list[Waits]:
    """Start the processes, wait until each has written once, then let them all go at once."""
    server = multiprocessing.get_context("forkserver")  # which has imported everything already
    pipes = [server.Pipe() for _ in range(PROCESSES)]
    workers = [
        server.Process(target=_work, args=(theirs, path, name, number, seconds))
        for number, (_, theirs) in enumerate(pipes)
    ]
    for worker, (_, theirs) in zip(workers, pipes, strict=True):
        worker.start()
        theirs.close()  # the worker has its own: if it dies, `recv` says so
    for ours, _ in pipes:
        ours.recv()
    for ours, _ in pipes:
        ours.send("go")
    found: list[Waits] = [ours.recv() for ours, _ in pipes]
    for worker in workers:
        worker.join()
    return found


def _work(pipe: "Connection[Any, Any]", path: Path, name: str, number: int, seconds: float) -> None:
    with WAYS[name](path, number) as step:
        step()
        pipe.send("ready")
        pipe.recv()
        waits = write_for(seconds, step)
    pipe.send(waits)


def _summary(found: list[Waits], seconds: float) -> Contest:
    ordered = sorted(wait * _MILLI for waits in found for wait in waits.seconds)
    counts = [len(waits.seconds) - waits.refused for waits in found]
    return Contest(
        sum(counts) / seconds,
        percentile(ordered, 0.5),
        percentile(ordered, 0.99),
        percentile(ordered, 0.999),
        ordered[-1],
        ratio(min(counts), max(counts)),
        sum(waits.refused for waits in found),
    )


def _median(contests: list[Contest]) -> Contest:
    return Contest(*(median(values) for values in zip(*contests, strict=True)))


def _row(name: str, contest: Contest) -> tuple[str, ...]:
    return (
        name,
        figure(contest.rate, 0),
        figure(contest.p50, 2),
        figure(contest.p99, 1),
        figure(contest.p999, 1),
        figure(contest.longest, 0),
        figure(contest.fairness, 2),
        figure(contest.refused, 0),
    )
