"""Counters, medians, and runs in turn: A B C A B C, so that a busy moment hits everybody alike."""

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple, TypeVar

K = TypeVar("K")
T = TypeVar("T")

_IO = Path("/proc/self/io")


class Counters(NamedTuple):
    """What this process has used so far, or between two moments."""

    cpu: float  # seconds of CPU time, ours and the kernel's on our behalf
    wall: float  # seconds
    written: int  # bytes handed to write(2)

    def since(self, earlier: "Counters") -> "Counters":
        """Return what was used after `earlier`."""
        return Counters(
            self.cpu - earlier.cpu, self.wall - earlier.wall, self.written - earlier.written
        )


def counters() -> Counters:
    """Read the counters of this process."""
    return Counters(time.process_time(), time.perf_counter(), bytes_written())


def bytes_written() -> int:
    """Count the bytes this process passed to write(2): log frames and checkpoints alike.

    `wchar` is exact to the byte. `write_bytes` beside it counts whole pages when the kernel dirties
    them, so it differs from run to run. Always 0 where the system does not tell.
    """
    try:
        first_lines = _IO.read_text(encoding="ascii").split()
    except OSError:
        return 0
    return int(first_lines[first_lines.index("wchar:") + 1])


def counts_bytes() -> bool:
    """Tell whether this system counts what a process writes."""
    return _IO.exists()


def used_by(work: Callable[[], object]) -> Counters:
    """Run something and give what it used."""
    gc.collect()
    before = counters()
    work()
    return counters().since(before)


def in_turn(ways: Mapping[K, Callable[[], T]], rounds: int) -> dict[K, list[T]]:
    """Run every way once per round, always in the same order, and collect what each gives."""
    found: dict[K, list[T]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            gc.collect()
            found[name].append(way())
    return found


def median_of(runs: Sequence[Counters]) -> Counters:
    """Take the median of each counter by itself."""
    return Counters(
        median(run.cpu for run in runs),
        median(run.wall for run in runs),
        int(median(run.written for run in runs)),
    )


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which `share` of an ordered list lies; 0 of an empty one."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0
