"""Processes that write to one file as fast as they can, and how long each waits."""

import multiprocessing
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.contend_ways import Waits, Way, write_for
from benchmarks.measure import percentile
from benchmarks.report import ratio

_MILLI = 1e3


class Contest(NamedTuple):
    """What the processes got done, and how long they waited (milliseconds)."""

    rate: float
    p50: float
    p99: float
    p999: float
    longest: float
    fairness: float  # writes of the unluckiest process to those of the luckiest
    refused: float


def contest(path: Path | str, way: tuple[str, str], processes: int, seconds: float) -> Contest:
    """Start the processes, wait until each has written once, then let them all go at once.

    `way` names a module with WAYS, and one of them: a function in a function has no way there.
    """
    server = multiprocessing.get_context("forkserver")  # which has imported everything already
    pipes = [server.Pipe() for _ in range(processes)]
    workers = [
        server.Process(target=_work, args=(theirs, path, way, number, seconds))
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
    return _summary(found, seconds)


def _work(
    pipe: "Connection[Any, Any]",
    path: Path | str,
    way: tuple[str, str],
    number: int,
    seconds: float,
) -> None:
    module, name = way
    open_file: Way = import_module(module).WAYS[name]
    with open_file(path, number) as step:
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
