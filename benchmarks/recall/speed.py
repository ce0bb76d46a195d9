"""How long recall takes: a set of questions over a large made-up history."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Final, NamedTuple

from benchmarks.recall.corpus import NOW, Words, make_store
from threadkeep.capture.capture import History
from threadkeep.knowledge.query import Query
from threadkeep.memory.memory import Memory
from threadkeep.memory.records import Meaning

_EACH: Final = 12
_ROUNDS: Final = 3
QUESTIONS: Final = 9 * _EACH  # of one set
_COMMON: Final = 60  # ranks of the vocabulary: words of most messages
_MID: Final = (400, 3_000)
_RARE: Final = (20_000, 60_000)


class Asked(NamedTuple):
    """A question, and what it is an example of."""

    group: str
    text: str
    within: Query = Query()


class Timed(NamedTuple):
    """What the questions of one group took, in milliseconds."""

    group: str
    questions: int
    p50: float
    p95: float


def query_set(seed: int = 11) -> list[Asked]:
    """Give the questions: rare, middling and frequent words, sentences, names of code, Chinese."""
    return list(_queries(Words(seed)))


def _queries(words: Words) -> Iterator[Asked]:
    draw, known = words.random, words.all
    for number in range(_EACH):
        rare, mid = known[draw.randrange(*_RARE)], known[draw.randrange(*_MID)]
        other, common = known[draw.randrange(*_MID)], known[draw.randrange(_COMMON)]
        yield Asked("rare", rare)
        yield Asked("rare and more", f"{rare} {mid}")
        yield Asked("middling", f"{mid} {other}")
        yield Asked("frequent", f"{common} {known[draw.randrange(_COMMON)]}")
        yield Asked("question", f"how did I use {mid} and {other} with the {common} server?")
        yield Asked("long question", f"why did {words.text(12)} fail in the {common} of {rare}?")
        yield Asked("name of code", f"{mid}_{common} src/{other}.py E{number * 7:04}")
        yield Asked("chinese", "数据库锁定"[number % 3 :] + "修复")
        yield Asked("in a project", f"{mid} {common}", Query(project=(f"project{number}",)))


def time_all(memory: Memory, clock: Callable[[], float] = time.perf_counter) -> list[Timed]:
    """Ask some sets of questions, each question once; the first set warms up.

    Nothing is asked twice: what is kept of the last answer helps who asks for nearly the same
    while typing, and would help every second question here.
    """
    spent: dict[str, list[float]] = {}
    for number in range(_ROUNDS + 1):
        for query in query_set(11 + number):
            started = clock()
            memory.recall(query.text, query.within)
            if number:
                spent.setdefault(query.group, []).append((clock() - started) * 1000)
    rows = [timed(group, times) for group, times in spent.items()]
    return [*rows, timed("all", [one for times in spent.values() for one in times])]


def timed(group: str, times: Sequence[float]) -> Timed:
    """Sum up the times of a group."""
    return Timed(group, len(times), median(times), quantiles(times, n=20, method="inclusive")[-1])


def measure(
    folder: Path,
    messages: int,
    nodes: int,
    meaning_of: Callable[[History], Meaning | None],
    url: str | None = None,
) -> tuple[list[Timed], list[Timed]]:
    """Make a history of a size, and time all questions over it: by words, and with vectors too."""
    home = make_store(folder, messages, nodes, url)
    with home.history(user_home=folder / "user") as history:
        memory = Memory(history.store, history.sources, clock=lambda: NOW)
        memory.index()
        by_words = time_all(memory)
        memory.meaning = meaning_of(history)
        return by_words, time_all(memory) if memory.meaning else []
