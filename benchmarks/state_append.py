"""`state-append`: one message of a session, durable when the call returns; and a turn at once.

The baseline is version 6 by hand: the same rows, the counters of the session, one full-text index.
What counts is the sum over all rounds, not the median: a full-text index pays for its merges now
and then, and a median would hide them.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from benchmarks.measure import Counters, counts_bytes, in_turn, used_by
from benchmarks.place import Place
from benchmarks.report import NOTHING, Goal, Result, Table, figure, ratio, times
from benchmarks.state_corpus import Json, Session, sessions
from benchmarks.state_files import TURN, Filled, copied, filled, memory, turns
from benchmarks.state_v6 import Plain
from threadkeep.state.hermes_state import SessionDB

_LIMIT = 1.3
_MICRO = 1e6
_COLUMNS = ("a message", "CPU µs", "to baseline", "wall µs", "bytes written")
_OURS, _PLAIN = "threadkeep append_message()", "version 6 by hand"
_OURS_TURN, _PLAIN_TURN = f"threadkeep append_messages() of {TURN}", f"version 6 by hand, {TURN}"
_BASE = {_OURS: _PLAIN, _PLAIN: _PLAIN, _OURS_TURN: _PLAIN_TURN, _PLAIN_TURN: _PLAIN_TURN}

Append = Callable[[Sequence[Json]], Any]


def run(place: Place) -> Result:
    """Append the same messages in every way: in memory and on disk, to large files and to new."""
    files = filled(place, place.either(200_000, 20_000))
    tables, goals = [], []
    for where in ("memory", "disk"):
        for large in (files, None):
            found = _measure(place, where, large)
            size = "a new file" if large is None else f"{large.messages:,} messages"
            tables.append(_table(f"state-append: {size}, {where}", found, _count(place)))
            goals.append(_goal(f"state-append: CPU to the baseline, {size}, {where}", found))
    return Result(tables, goals)


def _goal(what: str, found: Mapping[str, Counters]) -> Goal:
    return Goal(what, _LIMIT, ratio(found[_OURS].cpu, found[_PLAIN].cpu))


def _count(place: Place) -> int:
    return _batch(place) * _rounds(place)


def _batch(place: Place) -> int:
    return place.either(500, 200)


def _rounds(place: Place) -> int:
    return place.either(10, 4)


def _measure(place: Place, where: str, files: Filled | None) -> dict[str, Counters]:
    with ExitStack() as stack:
        folder = stack.enter_context(memory() if where == "memory" else place.fresh())
        ways = _ways(stack, folder, files)
        batches = cycle(_batches(_batch(place)))
        given: list[list[Json]] = [next(batches)]
        timed = {name: partial(_used, way, given) for name, way in ways.items()}
        runs: dict[str, list[Counters]] = {name: [] for name in ways}
        for _ in range(_rounds(place)):
            given[0] = next(batches)
            for name, used in in_turn(timed, 1).items():
                runs[name] += used
    return {name: _sum(used) for name, used in runs.items()}


def _used(way: Append, given: list[list[Json]]) -> Counters:
    return used_by(partial(way, given[0]))


def _batches(size: int) -> list[list[Json]]:
    messages = (message for session in sessions(4_000) for message in session.messages)
    found = [list(islice(messages, size)) for _ in range(4_000 // size)]
    return [[{**message, "timestamp": None} for message in batch] for batch in found]


def _sum(runs: Sequence[Counters]) -> Counters:
    return Counters(*(sum(values) for values in zip(*runs, strict=True)))


# ------------------------------------------------------------------ ways


def _ways(stack: ExitStack, folder: Path, files: Filled | None) -> dict[str, Append]:
    """Open four files, so that no way finds what another left behind."""
    session = next(iter(sessions(200)))._replace(id="bench")
    made: dict[str, Append] = {}
    for name, whole in ((_OURS, False), (_OURS_TURN, True)):
        store = stack.enter_context(SessionDB(_file(folder / name[-4:], files and files.ours)))
        made[name] = _by_store(store, session, whole=whole)
    for name, whole in ((_PLAIN, False), (_PLAIN_TURN, True)):
        path = _file(folder / name[-4:], files and files.plain)
        plain = stack.enter_context(closing(Plain(path) if files else Plain.create(path)))
        made[name] = _by_hand(plain, session, whole=whole)
    return made


def _file(folder: Path, source: Path | None) -> Path:
    folder.mkdir()
    return folder / "state.db" if source is None else copied(source, folder)


def _by_store(store: SessionDB, session: Session, *, whole: bool) -> Append:
    store.create_session(session.id, "cli", system_prompt=session.system_prompt)
    if whole:
        return lambda batch: [store.append_messages(session.id, turn) for turn in turns(batch)]
    return lambda batch: [store.append_message(session.id, **message) for message in batch]


def _by_hand(plain: Plain, session: Session, *, whole: bool) -> Append:
    plain.begin_session(session)
    if whole:
        return lambda batch: [plain.append_all(session.id, turn) for turn in turns(batch)]
    return lambda batch: [plain.append(session.id, message) for message in batch]


# ------------------------------------------------------------------ the table


def _table(title: str, found: Mapping[str, Counters], count: int) -> Table:
    rows = [_row(name, cost, found[_BASE[name]], count) for name, cost in found.items()]
    return Table(title, _COLUMNS, rows)


def _row(name: str, cost: Counters, base: Counters, count: int) -> tuple[str, ...]:
    return (
        name,
        figure(cost.cpu / count * _MICRO, 0),
        times(ratio(cost.cpu, base.cpu)),
        figure(cost.wall / count * _MICRO, 0),
        figure(cost.written / count, 0) if counts_bytes() else NOTHING,
    )
