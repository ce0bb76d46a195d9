"""`mail-poll`: one look at a mailbox with 100 and with 50,000 exchanges behind it.

Everything behind is answered for and delivered. In memory, so that a commit costs its CPU and no
waiting for a disk; all sizes and NanoClaw's statements in turn.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import count
from statistics import median
from typing import Final, NamedTuple

from benchmarks.mail_folder import CHANNELS, QUESTION, REPLY, Sides, folder_with_history, plain_copy
from benchmarks.mail_nanoclaw import NanoClaw
from benchmarks.measure import in_turn, used_by
from benchmarks.place import Place
from benchmarks.report import Goal, Result, Table, figure, ratio, times
from benchmarks.state_files import memory
from threadkeep.mailbox.host.sweep import sweep_session, sync

_SIZES: Final = (100, 1_000, 10_000, 50_000)
_LIMIT = 1.5
_MILLI = 1e3
_DUE = 10
_CALLS = 5  # in one sample, where a call takes about a millisecond
_LARGE = 10_000  # here NanoClaw's statements take long enough by themselves
_OURS, _THEIRS = "threadkeep", "NanoClaw's statements"

Seconds = Callable[[], float]
Way = tuple[str, str, int]  # who, what, size of the history


class Pair(NamedTuple):
    """Two folders with the same history: ours, and one of NanoClaw's."""

    size: int
    ours: Sides
    theirs: NanoClaw


def run(place: Place) -> Result:
    """Look at folders of every size: with nothing to do, with one thing new, with ten due."""
    sizes = _SIZES[: place.either(4, 3)]
    rounds = place.either(21, 7)
    costs: dict[Way, float] = {}
    with _pairs(sizes) as pairs:
        for ways_of in (_idle_ways, _new_ways, _due_ways):
            ways = {way: look for pair in pairs for way, look in ways_of(pair).items()}
            costs |= {way: median(cpu) for way, cpu in in_turn(ways, rounds).items()}
    return Result([_table(costs, sizes)], _goals(costs, sizes))


@contextmanager
def _pairs(sizes: Sequence[int]) -> Iterator[list[Pair]]:
    with memory() as folder, ExitStack() as stack:
        pairs = []
        for size in sizes:
            ours, plain = folder / f"ours-{size}", folder / f"plain-{size}"
            sides = stack.enter_context(folder_with_history(ours, size))
            plain_copy(ours, plain)
            pairs.append(Pair(size, sides, stack.enter_context(closing(NanoClaw(plain)))))
        yield pairs


def _table(costs: Mapping[Way, float], sizes: Sequence[int]) -> Table:
    columns = ("CPU ms, history of", *(f"{size:,}" for size in sizes), "largest : smallest")
    names = dict.fromkeys((what, who) for who, what, _ in costs)
    rows = [_row(costs, who, what, sizes) for what, who in names]
    return Table("mail-poll: exchanges behind, all answered for and delivered", columns, rows)


def _row(costs: Mapping[Way, float], who: str, what: str, sizes: Sequence[int]) -> tuple[str, ...]:
    found = [costs[who, what, size] for size in sizes]
    grown = times(ratio(found[-1], found[0]))
    return (f"{what}: {who}", *(figure(cost * _MILLI, 2) for cost in found), grown)


def _goals(costs: Mapping[Way, float], sizes: Sequence[int]) -> list[Goal]:
    least, most = sizes[0], sizes[-1]
    return [
        Goal(
            f"mail-poll: {what}, {most:,} to {least:,}",
            _LIMIT,
            ratio(costs[_OURS, what, most], costs[_OURS, what, least]),
        )
        for who, what, size in costs
        if (who, size) == (_OURS, least)
    ]


# ------------------------------------------------------------------ ways


def _idle_ways(pair: Pair) -> dict[Way, Seconds]:
    """Looks that find nothing: a mailbox at rest, looked at each second."""
    (host, container), theirs = pair.ours, pair.theirs
    container.poll()  # the first poll asks for more than the others
    poll, drain = "container poll, nothing due", "host drain, nothing new"
    settle, sweep = "host sync of answers, none new", "host sweep, nothing to do"
    looks: dict[tuple[str, str], Callable[[], object]] = {
        (_OURS, poll): container.poll,
        (_THEIRS, poll): theirs.poll,
        (_OURS, drain): partial(host.drain, CHANNELS),
        (_THEIRS, drain): theirs.drain,
        (_OURS, settle): partial(sync, host.context),
        (_THEIRS, settle): theirs.sync,
        (_OURS, sweep): partial(sweep_session, host.context, None),
    }
    return {
        (*name, pair.size): partial(_each, _calls(name[0], pair.size), look)
        for name, look in looks.items()
    }


def _new_ways(pair: Pair) -> dict[Way, Seconds]:
    """Looks that find one thing new, which is made before the clock starts."""
    (host, container), theirs = pair.ours, pair.theirs
    ids = (f"new-{number}" for number in count())

    def answered() -> None:
        mail = host.send(QUESTION)
        container.claim([mail])
        container.complete([mail])

    def their_answered() -> None:
        message_id = next(ids)
        theirs.say(message_id)
        theirs.complete(message_id)

    drain, settle = "host drain, 1 new", "host sync of answers, 1 new"
    made: dict[tuple[str, str], tuple[Callable[[], object], Callable[[], object]]] = {
        (_OURS, drain): (partial(container.send, REPLY), partial(host.drain, CHANNELS)),
        (_THEIRS, drain): (lambda: theirs.send(next(ids)), theirs.drain),
        (_OURS, settle): (answered, partial(sync, host.context)),
        (_THEIRS, settle): (their_answered, theirs.sync),
    }
    return {(*name, pair.size): partial(_after, *both) for name, both in made.items()}


def _due_ways(pair: Pair) -> dict[Way, Seconds]:
    """Polls that find ten messages, which stay due."""
    for number in range(_DUE):
        pair.ours.host.send(QUESTION)
        pair.theirs.say(f"due-{number}")
    what = f"container poll, {_DUE} due"
    return {
        (_OURS, what, pair.size): partial(
            _each, _calls(_OURS, pair.size), pair.ours.container.poll
        ),
        (_THEIRS, what, pair.size): partial(_each, _calls(_THEIRS, pair.size), pair.theirs.poll),
    }


def _calls(who: str, size: int) -> int:
    return 1 if who == _THEIRS and size >= _LARGE else _CALLS


def _each(calls: int, look: Callable[[], object]) -> float:
    return used_by(lambda: [look() for _ in range(calls)]).cpu / calls


def _after(prepare: Callable[[], object], look: Callable[[], object]) -> float:
    prepare()
    return used_by(look).cpu
