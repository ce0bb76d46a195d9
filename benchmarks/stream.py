"""`stream`: recording one growing part; what a delta costs in a short text and in a long one."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from statistics import median
from typing import NamedTuple

from benchmarks.corpus import KINDS, Stream, stream
from benchmarks.measure import Counters, counters, counts_bytes, in_turn
from benchmarks.place import Place
from benchmarks.report import NOTHING, Goal, Result, Table, figure, ratio, times
from benchmarks.stream_ways import (
    LIMIT,
    MORE_WAYS,
    NAIVE,
    QUICK_WAYS,
    SAME,
    SLOW_WAYS,
    THREADKEEP,
    Way,
    rewritten,
)

SHORT, LONG = 2_000, 20_000
_GROWTH = 1.3
_SAME_ROW = 2.0
_MICRO = 1e6
_COLUMNS = ("way", "deltas", "CPU µs/delta", "first 10%", "last 10%", "growth", "bytes/delta")


class Cost(NamedTuple):
    """What a delta costs: on average with the end of the stream, and at both ends of it."""

    cpu: float
    first: float
    last: float
    written: float


class Case(NamedTuple):
    """One way at one length."""

    way: str
    deltas: int


def run(place: Place) -> Result:
    """Measure text with every way, reasoning and tool input with the main ones."""
    results = [_measure_kind(place, kind) for kind in KINDS]
    return Result(
        [table for result in results for table in result.tables],
        [goal for result in results for goal in result.goals],
        [fact for result in results for fact in result.facts],
    )


def _measure_kind(place: Place, kind: str) -> Result:
    costs = _costs(place, kind)
    return Result(
        [_table(kind, costs)],
        _goals(kind, costs),
        _facts(kind, costs),
    )


def _costs(place: Place, kind: str) -> dict[Case, Cost]:
    """The quick ways run in turn several times, those that take half a minute once."""
    repeated = dict(QUICK_WAYS)
    once: dict[str, Way] = {}
    if kind == "text":
        repeated |= {} if place.quick else MORE_WAYS
        once = {NAIVE: rewritten, **({} if place.quick else SLOW_WAYS)}
    elif not place.quick:
        once = {NAIVE: rewritten}
    streams = {count: stream(kind, count) for count in (SHORT, LONG)}
    measured = {
        **in_turn(_runs(place, repeated, streams), place.either(3, 1)),
        **in_turn(_runs(place, once, streams), 1),
    }
    return {case: _median(runs) for case, runs in measured.items()}


def _runs(
    place: Place, ways: Mapping[str, Way], streams: Mapping[int, Stream]
) -> dict[Case, Callable[[], Cost]]:
    def measured(way: Way, given: Stream) -> Callable[[], Cost]:
        return lambda: _measure(place, way, given)

    return {
        Case(name, count): measured(way, given)
        for name, way in ways.items()
        for count, given in streams.items()
    }


def _measure(place: Place, way: Way, given: Stream) -> Cost:
    """Count from the first delta to the closed file: what is put off until the end counts too."""
    tenth = len(given.deltas) // 10
    with place.fresh() as folder, ExitStack() as stack:
        feed = stack.enter_context(way(folder, given))
        marks = [counters()]
        for start in range(0, len(given.deltas), tenth):
            for chunk in given.deltas[start : start + tenth]:
                feed(chunk)
            marks.append(counters())
        stack.close()
        whole = counters().since(marks[0])
    return _cost(whole, marks, len(given.deltas), tenth)


def _cost(whole: Counters, marks: list[Counters], deltas: int, tenth: int) -> Cost:
    first, last = marks[1].since(marks[0]), marks[-1].since(marks[-2])
    return Cost(
        whole.cpu / deltas * _MICRO,
        first.cpu / tenth * _MICRO,
        last.cpu / tenth * _MICRO,
        whole.written / deltas,
    )


def _median(runs: list[Cost]) -> Cost:
    return Cost(*(median(values) for values in zip(*runs, strict=True)))


# ------------------------------------------------------------------ what is shown


def _table(kind: str, costs: Mapping[Case, Cost]) -> Table:
    rows = [_row(case, cost) for case, cost in costs.items()]
    return Table(f"stream: one {kind} part that grows by 10 characters a delta", _COLUMNS, rows)


def _row(case: Case, cost: Cost) -> tuple[str, ...]:
    return (
        case.way,
        f"{case.deltas:,}",
        figure(cost.cpu),
        figure(cost.first),
        figure(cost.last),
        times(ratio(cost.last, cost.first)),
        figure(cost.written, 0) if counts_bytes() else NOTHING,
    )


def _goals(kind: str, costs: Mapping[Case, Cost]) -> list[Goal]:
    short, long = costs[Case(THREADKEEP, SHORT)], costs[Case(THREADKEEP, LONG)]
    what = f"stream, {kind}: a delta into 200 KB to one into 20 KB"
    goals = [Goal(f"{what}, CPU", _GROWTH, ratio(long.cpu, short.cpu))]
    if counts_bytes():
        goals.append(Goal(f"{what}, bytes", _GROWTH, ratio(long.written, short.written)))
    same = costs[Case(SAME, LONG)]
    what = f"stream, {kind}: CPU of feed() to a raw insert of the same row"
    return [*goals, Goal(what, _SAME_ROW, ratio(long.cpu, same.cpu))]


def _facts(kind: str, costs: Mapping[Case, Cost]) -> list[str]:
    """Say how far the recorder is from the limit, and how far the naive way is from it."""
    ours, naive = costs[Case(THREADKEEP, LONG)], costs.get(Case(NAIVE, LONG))
    facts = [_compared(kind, THREADKEEP, ours, LIMIT, costs[Case(LIMIT, LONG)])]
    if naive is not None:
        facts.append(_compared(kind, NAIVE, naive, THREADKEEP, ours))
    return facts


def _compared(kind: str, name: str, cost: Cost, other: str, base: Cost) -> str:
    cpu, written = times(ratio(cost.cpu, base.cpu)), times(ratio(cost.written, base.written))
    return f"stream, {kind}, 200 KB: {name} uses {cpu} the CPU and {written} the bytes of {other}"
