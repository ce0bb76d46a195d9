"""`mail-throughput`: messages all the way there and back, and several writers in one sandbox.

Both on disk, where a durable commit waits. The limit is the same number of commits of one row each
by plain sqlite3: on a connection that stays open, which a shared folder does not allow, and on one
that is opened each time.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from benchmarks.contend_ways import Step, Way
from benchmarks.contest import Contest, contest
from benchmarks.mail_folder import (
    CHANNELS,
    QUESTION,
    REPLY,
    Sides,
    exchange,
    new_folder,
    plain_copy,
)
from benchmarks.mail_nanoclaw import NanoClaw
from benchmarks.measure import Counters, in_turn, median_of, used_by
from benchmarks.place import Place
from benchmarks.report import Goal, Result, Table, figure, ratio, times
from threadkeep.mailbox.container.container import Container
from threadkeep.mailbox.host.sweep import sync

PROCESSES = 4
_PATIENCE_MS = 5000  # after so long NanoClaw's own writers give up
_MILLI = 1e3
_BATCH = 10
_CHANGES = slice(24, 28)  # of the first page: how often the file was committed to
_TABLE = "CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, text TEXT)"
_INSERT = "INSERT INTO rows(text) VALUES (?)"
_EXCHANGE_COLUMNS = (
    "there and back, on disk",
    *("messages/s", "commits each", "ms each", "CPU ms", "to plain commits", "to reopened ones"),
)
_WRITER_COLUMNS = (
    f"{PROCESSES} processes, on disk",
    *("messages/s", "p50 ms", "p99 ms", "max ms", "fairness", "refused"),
)


def run(place: Place) -> Result:
    """Measure exchanges in one process, then writers in several."""
    writers, goals = _writers(place)
    return Result([_exchanges(place), writers], goals)


# ------------------------------------------------------------------ there and back


class Run(NamedTuple):
    """What one run of exchanges used, and as many plain commits."""

    commits: int
    used: Counters
    plain: Counters
    reopened: Counters


def _exchanges(place: Place) -> Table:
    """Ten messages, then their commits plainly, again and again: a busy disk is so for all."""
    with ExitStack() as stack:
        timed = {}
        for name, way in _WAYS_BACK.items():
            folder = stack.enter_context(place.fresh())
            sides = stack.enter_context(new_folder(folder / "session"))
            timed[name] = partial(_run, folder, partial(way, sides))
        runs = in_turn(timed, place.either(31, 7))
    rows = [_exchange_row(name, found) for name, found in runs.items()]
    return Table("mail-throughput: one process is both sides", _EXCHANGE_COLUMNS, rows)


def _run(folder: Path, way: Callable[[], None]) -> Run:
    before = _commits(folder / "session")
    used = used_by(way)
    commits = _commits(folder / "session") - before
    plain = used_by(partial(_commit_plainly, folder / "plain.db", commits))
    reopened = used_by(partial(_commit_reopened, folder / "plain.db", commits))
    return Run(commits, used, plain, reopened)


def _one_by_one(sides: Sides) -> None:
    for _ in range(_BATCH):
        exchange(sides)


def _in_one_go(sides: Sides) -> None:
    """A prompt of ten: each is sent and answered by itself, and dealt with together."""
    host, container = sides
    for _ in range(_BATCH):
        host.send(QUESTION)
    mails = container.poll()
    container.claim(mails)
    for mail in mails:
        container.send(REPLY, in_reply_to=mail.id)
    container.complete(mails)
    host.drain(CHANNELS)
    sync(host.context)


_WAYS_BACK: Final[Mapping[str, Callable[[Sides], None]]] = {
    "one at a time": _one_by_one,
    f"{_BATCH} at a time": _in_one_go,
}


def _commits(folder: Path) -> int:
    """Count the commits to both files, which nobody has open now."""
    pages = [(folder / name).read_bytes()[_CHANGES] for name in ("inbound.db", "outbound.db")]
    return sum(int.from_bytes(changes, "big") for changes in pages)


def _commit_plainly(path: Path, commits: int) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute(_TABLE)
        for _ in range(commits):
            connection.execute(_INSERT, (QUESTION,))


def _commit_reopened(path: Path, commits: int) -> None:
    for _ in range(commits):
        _commit_plainly(path, 1)


def _exchange_row(name: str, runs: Sequence[Run]) -> tuple[str, ...]:
    used = median_of([run.used for run in runs])
    return (
        name,
        figure(_BATCH / used.wall, 0),
        figure(median(run.commits for run in runs) / _BATCH, 1),
        figure(used.wall / _BATCH * _MILLI, 2),
        figure(used.cpu / _BATCH * _MILLI, 2),
        times(median(ratio(run.used.wall, run.plain.wall) for run in runs)),
        times(median(ratio(run.used.wall, run.reopened.wall) for run in runs)),
    )


# ------------------------------------------------------------------ several writers


@contextmanager
def by_container(path: Path, number: int) -> Iterator[Step]:
    """Each process has a container of its own, as tools beside the agent do."""
    container = Container(path / "ours")
    text = f"{REPLY} {number}"
    yield lambda: container.send(text)


@contextmanager
def by_hand(path: Path, number: int) -> Iterator[Step]:
    """NanoClaw's way: look for the highest number, then write the next one."""
    numbers = count()
    with closing(NanoClaw(path / "plain")) as plain:

        def step() -> None:
            try:
                plain.send(f"msg-{number}-{next(numbers)}")
            except sqlite3.IntegrityError as error:  # two took the same number
                raise sqlite3.OperationalError(str(error)) from error

        yield step


WAYS: Final[Mapping[str, Way]] = {
    "NanoClaw's statements": by_hand,
    "threadkeep container.send()": by_container,
}
_OURS = "threadkeep container.send()"


def _writers(place: Place) -> tuple[Table, list[Goal]]:
    seconds = place.either(5, 2)
    ways = {name: partial(_contest, place, name, seconds) for name in WAYS}
    runs = in_turn(ways, place.either(3, 1))
    found = {name: _together(contests) for name, contests in runs.items()}
    rows = [_writer_row(name, each) for name, each in found.items()]
    ours = found[_OURS]
    goals = [
        Goal("mail-throughput: writes refused", 0, ours.refused, ""),
        Goal("mail-throughput: longest wait", _PATIENCE_MS, ours.longest, " ms"),
    ]
    title = f"mail-throughput: {PROCESSES} writers of one outbound.db, {seconds} s each"
    return Table(title, _WRITER_COLUMNS, rows), goals


def _contest(place: Place, name: str, seconds: float) -> Contest:
    with place.fresh() as folder:
        new_folder(folder / "ours").container.stop()
        plain_copy(folder / "ours", folder / "plain")
        return contest(folder, (__name__, name), PROCESSES, seconds)


def _together(contests: list[Contest]) -> Contest:
    middle = Contest(*(median(values) for values in zip(*contests, strict=True)))
    return middle._replace(
        longest=max(each.longest for each in contests),
        refused=sum(each.refused for each in contests),
    )


def _writer_row(name: str, found: Contest) -> tuple[str, ...]:
    return (
        name,
        figure(found.rate, 0),
        figure(found.p50, 2),
        figure(found.p99, 1),
        figure(found.longest, 0),
        figure(found.fairness, 2),
        figure(found.refused, 0),
    )
