"""`state-search`: twenty hits by threadkeep, by version 6's statement, and by a scan.

Version 6 ranks every match and cuts a snippet from each hit; for Chinese and Japanese, which its
index does not split into words, it scans all messages.
"""

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from typing import Any, Final, NamedTuple

from benchmarks.measure import Counters, in_turn, median_of, used_by
from benchmarks.place import Place
from benchmarks.report import NOTHING, Goal, Result, Table, figure, ratio, times
from benchmarks.state_corpus import CHINESE_PHRASE, COMMON, KOREAN_WORD, NEEDLES
from benchmarks.state_files import copied, filled, memory
from benchmarks.state_v6 import scan, search
from threadkeep.state.hermes_state import SessionDB
from threadkeep.state.search.search import search_messages

_HITS = 20
_MILLI = 1e3
_COLUMNS = (
    "asked for",
    "hits",
    "threadkeep ms",
    "version 6 ms",
    "to version 6",
    "hits of version 6",
)


class Question(NamedTuple):
    """What is typed, and what version 6 makes of it: an expression, or a text to scan for."""

    name: str
    typed: str
    expression: str = ""
    text: str = ""
    limit: float | None = None  # the most that threadkeep may take of version 6's time


QUESTIONS: Final = (
    Question("common word", COMMON, COMMON, limit=1 / 5),
    Question("two words", f"{COMMON} deployment", f"{COMMON} deployment"),
    Question("three terms", f"{COMMON} error timeout", f"{COMMON} error timeout", limit=1),
    Question("phrase", f'"{COMMON} the"', f'"{COMMON} the"', limit=1),
    Question("OR", f"{COMMON} OR kubernetes", f"{COMMON} OR kubernetes"),
    Question("three terms, fewer matches", "python gateway session", "python gateway session"),
    Question("NOT", "python NOT java", "python NOT java", limit=1),
    Question("prefix", "deploy*", "deploy*"),
    Question("hyphen", "chat-send", '"chat-send"'),
    Question("rare word", NEEDLES[3], NEEDLES[3]),
    Question("no match", "nowhereatall", "nowhereatall"),
    Question("path", "gateway/run.py", '"gateway run py"'),
    Question("with a colon", "error: timeout", "error timeout"),
    Question("Chinese, 2 characters", CHINESE_PHRASE[:2], text=CHINESE_PHRASE[:2], limit=1 / 20),
    Question("Chinese, 4 characters", CHINESE_PHRASE, text=CHINESE_PHRASE),
    Question("Korean", KOREAN_WORD, KOREAN_WORD),
    Question("mixed", f"{COMMON} {CHINESE_PHRASE}", text=CHINESE_PHRASE),
)
_NOTE = """
Version 6 itself finds nothing for the path and the colon, which it takes for syntax: it was asked
for the same words in a form that it understands. Mixed: it scans for the whole text, in one piece.
""".strip()


def run(place: Place) -> Result:
    """Ask both files the same questions, in turn."""
    files = filled(place, place.either(200_000, 50_000))
    with (
        memory() as folder,
        SessionDB(copied(files.ours, folder)) as store,
        closing(sqlite3.connect(copied(files.plain, folder))) as plain,
    ):
        first = used_by(partial(search_messages, store.context, "nowhere"))
        ways = _ways(store, plain)
        hits = {name: len(way()) for name, way in ways.items()}
        timed = {name: partial(used_by, way) for name, way in ways.items()}
        runs = in_turn(timed, place.either(15, 5))
    costs = {name: median_of(found) for name, found in runs.items()}
    title = f"state-search: {_HITS} hits in {files.messages:,} messages, CPU"
    rows = [_row(question, costs, hits) for question in QUESTIONS]
    facts = [f"state-search: the first search after opening takes {first.wall * _MILLI:.1f} ms"]
    return Result([Table(title, _COLUMNS, rows, _NOTE)], _goals(costs), facts)


Ways = dict[tuple[str, str], Callable[[], list[Any]]]


def _ways(store: SessionDB, plain: sqlite3.Connection) -> Ways:
    ways: Ways = {}
    for name, typed, expression, text, _ in QUESTIONS:
        ways[name, "ours"] = partial(search_messages, store.context, typed, limit=_HITS)
        if expression:
            ways[name, "v6"] = partial(search, plain, expression, _HITS)
        else:
            ways[name, "v6"] = partial(scan, plain, text, _HITS)
    return ways


def _row(
    question: Question,
    costs: Mapping[tuple[str, str], Counters],
    hits: Mapping[tuple[str, str], int],
) -> tuple[str, ...]:
    ours, plain = costs[question.name, "ours"].cpu, costs[question.name, "v6"].cpu
    return (
        question.name,
        str(hits[question.name, "ours"]),
        figure(ours * _MILLI, 2),
        figure(plain * _MILLI, 2) if plain else NOTHING,
        times(ratio(ours, plain)),
        str(hits[question.name, "v6"]),
    )


def _goals(costs: Mapping[tuple[str, str], Counters]) -> list[Goal]:
    return [
        Goal(
            f"state-search: CPU to version 6, {question.name}",
            question.limit,
            ratio(costs[question.name, "ours"].cpu, costs[question.name, "v6"].cpu),
        )
        for question in QUESTIONS
        if question.limit is not None
    ]
