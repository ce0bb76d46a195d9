"""`append`: one whole message, durable when the call returns."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack

from benchmarks.append_ways import RAW, RAW_THREE, SAY, WAYS, Append
from benchmarks.corpus import Json, messages
from benchmarks.measure import Counters, counts_bytes, in_turn, median_of, used_by
from benchmarks.place import Place
from benchmarks.report import NOTHING, Goal, Result, Table, figure, ratio, times

_LIMIT = 1.5
_MICRO = 1e6
_COLUMNS = ("way (WAL, FULL, one commit each)", "CPU µs", "to raw", "wall µs", "bytes written")


def run(place: Place) -> Result:
    """Append the same messages in every way, a batch of each in turn."""
    batch = place.either(250, 128)
    given = messages(batch)
    with ExitStack() as stack:
        appends = {
            name: stack.enter_context(way(stack.enter_context(place.fresh())))
            for name, way in WAYS.items()
        }
        ways = {name: _batch(append, given) for name, append in appends.items()}
        runs = in_turn(ways, place.either(12, 5))
    costs = {name: median_of(found) for name, found in runs.items()}
    return Result([_table(costs, batch)], _goals(costs), _facts(costs))


def _batch(append: Append, given: list[Json]) -> Callable[[], Counters]:
    def work() -> None:
        for message in given:
            append(message)

    return lambda: used_by(work)


def _table(costs: Mapping[str, Counters], batch: int) -> Table:
    rows = [_row(name, cost, costs[RAW], batch) for name, cost in costs.items()]
    return Table("append: one message of about 950 bytes", _COLUMNS, rows)


def _row(name: str, cost: Counters, raw: Counters, batch: int) -> tuple[str, ...]:
    return (
        name,
        figure(cost.cpu / batch * _MICRO, 0),
        times(ratio(cost.cpu, raw.cpu)),
        figure(cost.wall / batch * _MICRO, 0),
        figure(cost.written / batch, 0) if counts_bytes() else NOTHING,
    )


def _goals(costs: Mapping[str, Counters]) -> list[Goal]:
    what = "append: CPU of say() to a raw insert into one table"
    return [Goal(what, _LIMIT, ratio(costs[SAY].cpu, costs[RAW].cpu))]


def _facts(costs: Mapping[str, Counters]) -> list[str]:
    limit = times(ratio(costs[SAY].cpu, costs[RAW_THREE].cpu))
    return [f"append: say() uses {limit} the CPU of raw inserts into the same three tables"]
