"""Counts work instead of time: the same on every machine, busy or idle."""

import gc
import sqlite3
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any
from unittest.mock import patch


def calls_made(action: Callable[[], object]) -> int:
    """Count the function calls, Python's and C's, that an action makes."""
    made = 0

    def count(_frame: FrameType, event: str, _arg: Any) -> None:
        nonlocal made
        made += event in {"call", "c_call"}

    gc.disable()  # what others left behind must not be cleaned up, and counted, in here
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(None)
        gc.enable()
    return made


_STEPS = 100


@contextmanager
def steps_taken() -> Iterator[Callable[[], int]]:
    """Count the steps, by hundreds, that SQLite takes on connections opened in this block."""
    taken, connect = 0, sqlite3.connect

    def count() -> None:
        nonlocal taken
        taken += 1

    def counting(*args: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **options)
        connection.set_progress_handler(count, _STEPS)
        return connection

    with patch("sqlite3.connect", counting):
        yield lambda: taken


@contextmanager
def tracked_memory() -> Iterator[Callable[[Callable[[], object]], int]]:
    """Return a function that says how many bytes an action had in use beyond what was there."""
    tracemalloc.start()

    def peak_of(action: Callable[[], object]) -> int:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        action()
        return tracemalloc.get_traced_memory()[1] - before

    try:
        yield peak_of
    finally:
        tracemalloc.stop()
