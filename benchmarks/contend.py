"""`contend`: eight processes write to one file as fast as they can, and how long each waits."""

from functools import partial
from statistics import median

from benchmarks.contend_ways import WAYS
from benchmarks.contest import Contest, contest
from benchmarks.measure import in_turn
from benchmarks.place import Place
from benchmarks.report import Goal, Result, Table, figure

PROCESSES = 8
WAYS_IN = "benchmarks.contend_ways"
_COLUMNS = ("8 processes", "ops/s", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "fairness", "refused")


def run(place: Place) -> Result:
    """Let the processes contend in every way, in turn."""
    seconds = place.either(5, 1)
    ways = {name: partial(_contest, place, name, seconds) for name in WAYS}
    runs = in_turn(ways, place.either(2, 1))
    found = {name: _median(contests) for name, contests in runs.items()}
    rows = [_row(name, each) for name, each in found.items()]
    title = f"contend: {PROCESSES} processes saturating one file, {seconds} s each"
    goals = [
        Goal(f"contend: writes refused, {name}", 0, each.refused, "")
        for name, each in found.items()
        if "threadkeep" in name
    ]
    return Result([Table(title, _COLUMNS, rows)], goals)


def _contest(place: Place, name: str, seconds: float) -> Contest:
    with place.fresh() as folder:
        return contest(folder / "shared.db", (WAYS_IN, name), PROCESSES, seconds)


def _median(contests: list[Contest]) -> Contest:
    return Contest(*(median(values) for values in zip(*contests, strict=True)))


def _row(name: str, found: Contest) -> tuple[str, ...]:
    return (
        name,
        figure(found.rate, 0),
        figure(found.p50, 2),
        figure(found.p99, 1),
        figure(found.p999, 1),
        figure(found.longest, 0),
        figure(found.fairness, 2),
        figure(found.refused, 0),
    )
