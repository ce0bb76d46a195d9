"""Two shapes of a home that cost more than their bytes: one very long log, very many short ones."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.capture_corpus import many_short_logs, one_long_log
from benchmarks.capture_run import MEGA, Used, answer, middle, ours
from benchmarks.place import Place
from benchmarks.report import Goal, Table, figure, ratio

_MOST_MEMORY: Final = 200.0  # MB
_MOST_GROWTH: Final = 1.10
_SECONDS: Final = 0.5
_MICRO: Final = 1e6
_LONG_COLUMNS: Final = ("one log of", "CPU s", "MB per CPU-second", "peak MB", "store MB")
_MANY_COLUMNS: Final = ("run over", "logs", "read", "CPU s", "seconds", "µs of CPU per log")


def long_logs(place: Place, cache: Path) -> tuple[Table, list[Goal]]:
    """Capture one log of each size: its memory must not depend on the size."""
    wanted = [50, 200] if place.quick else [50, 200, 700]
    peaks, rows = [], []
    for size in wanted:
        with place.fresh() as folder:
            corpus = one_long_log(folder / "user", int(size * MEGA))
            used = ours("capture", folder / "store", corpus.home, cache=cache)
            stored = (folder / "store" / "knowledge.db").stat().st_size
        peaks.append(used.peak / MEGA)
        rate = ratio(corpus.size / MEGA, used.cpu)
        cells = (figure(used.cpu, 2), figure(rate), figure(peaks[-1]), figure(stored / MEGA))
        rows.append((f"{corpus.size / MEGA:,.0f} MB", *cells))
    goals = [
        Goal("capture: peak memory, one long log", _MOST_MEMORY, max(peaks), " MB"),
        Goal("capture: peak memory, longest log to shortest", _MOST_GROWTH, peaks[-1] / peaks[0]),
    ]
    return Table("capture: memory and the size of a log", _LONG_COLUMNS, rows), goals


def many_logs(place: Place, cache: Path) -> Table:
    """Capture many short logs, then look at them again when nothing has changed."""
    with place.fresh() as folder:
        corpus = many_short_logs(folder / "user", place.either(5_000, 1_000))
        first = ours("capture", folder / "store", corpus.home, cache=cache)
        again = [ours("capture", folder / "store", corpus.home, cache=cache) for _ in range(3)]
        start = middle([ours("nothing", cache=cache) for _ in range(3)])
        walk = [_walk(corpus.home) for _ in range(3)]
    rows = [_row("all of it new", first), _row("nothing changed", middle(again))]
    look = median(walk) / answer(first)["logs"] * _MICRO
    note = f"The start alone: {start.cpu:.2f} s of CPU. A bare walk and look: {look:.0f} µs a log."
    return Table("capture: many short logs", _MANY_COLUMNS, rows, note)


def again_row(runs: Sequence[Used]) -> tuple[tuple[str, ...], Goal]:
    """Show runs over the transcripts after which nothing had changed."""
    used = middle(runs)
    goal = Goal("capture: second run over the transcripts", _SECONDS, used.wall, " s")
    return _row("nothing changed", used), goal


def _row(name: str, used: Used) -> tuple[str, ...]:
    told = answer(used)
    per_log = ratio(used.cpu, told["logs"]) * _MICRO
    counts = (figure(told["logs"], 0), figure(told["changed"], 0))
    return (name, *counts, figure(used.cpu, 2), figure(used.wall, 2), figure(per_log, 0))


def _walk(home: Path) -> float:
    started = time.process_time()
    for folder, _, names in os.walk(home):
        for name in names:
            os.stat(os.path.join(folder, name))  # noqa: PTH118  (the least it can cost)
    return time.process_time() - started
