"""The line protocol of the fault tools, as far as it is the same for every store.

    ADAPTER write   --db P [--mode M] --iter I --w W --n N
    ADAPTER verify  --db P
    ADAPTER old     --db P --version V
    ADAPTER migrate --db P
    ADAPTER fresh   --db P --version V

A writer prints `TRY key rev sha` before a save and `ACK key rev sha microseconds` after it, or
`ERR key rev Class` when the store refused it. The verifier prints `HAVE key rev sha [session:seq]`
for every message and one `CHECK`.

Any error that is not one of threadkeep's own is a bug: it ends the program by a signal, which
every tool counts as a failure.
"""

import argparse
import contextlib
import itertools
import os
import signal
import sys
import time
import traceback
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from threadkeep.errors import ThreadkeepError

ATTEMPTS = 3
BUGS = "THREADKEEP_FAULT_BUGS"
_STAY = "THREADKEEP_FAULT_STAY"
_acknowledged = itertools.count(1)


class Adapter(NamedTuple):
    """What an adapter does by itself; `speak` does the rest."""

    store: str
    """The name of the store, for the help text."""
    modes: Sequence[str]
    """The ways to write; the first is meant when none is named."""
    write: Callable[[Namespace], None]
    """Open the store `db` and write `n` times in the way `mode`, as writer `w` of `iter`."""
    show: Callable[[str], list[str]]
    """Open the store, `tell` all it holds, and give what is wrong with it."""
    old: Callable[[Path, int], None]
    """Make a file as it was at a version."""
    migrate: Callable[[Path], None]
    """Bring such a file up."""
    fresh: Callable[[Path, int], None]
    """Make the file that one of this version must have become when it was brought up."""


class Save(NamedTuple):
    """One save as the tools know it: which message, which revision of it, what it looks like."""

    key: str
    rev: int
    sha: str


class GaveUp(Exception):
    """The store refused the same save several times."""


def tell(*words: object) -> None:
    """Print one line in one system call: a killed process has said it whole or not at all."""
    line = " ".join(map(str, words)).encode("utf-8", "backslashreplace")
    os.write(1, line.replace(b"\n", b" ") + b"\n")
    if words[0] == "ACK" and next(_acknowledged) == _enough():
        signal.pause()  # with the store open: the one who kills finds its log


def _enough() -> int:
    """Return after how many acknowledgements this process waits to be killed; 0 if never."""
    return int(os.environ.get(_STAY, "0"))


def patiently(saves: Sequence[Save], action: Callable[[], object]) -> int:
    """Try what makes these saves until the store takes it; give the microseconds it took."""
    for _ in range(ATTEMPTS):
        for save in saves:
            tell("TRY", *save)
        began = time.perf_counter()
        try:
            action()
        except ThreadkeepError as error:
            for save in saves:
                tell("ERR", save.key, save.rev, type(error).__name__, error.message[:200])
        else:
            return int((time.perf_counter() - began) * 1e6)
    raise GaveUp


def speak(adapter: Adapter) -> None:
    """Do what the command line asks of an adapter."""
    options = _parser(adapter).parse_args()
    os.environ[_STAY] = str(options.stay)
    with bugs_reported():
        try:
            _COMMANDS[options.command](adapter, options)
        except ThreadkeepError as error:
            sys.exit(f"{type(error).__name__}: {error}")


def _parser(adapter: Adapter) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=f"The {adapter.store} behind the fault tools.")
    parser.add_argument("command", choices=_COMMANDS)
    parser.add_argument("--db", required=True)
    parser.add_argument("--mode", choices=adapter.modes, default=adapter.modes[0])
    parser.add_argument("--iter", type=int, default=0)
    parser.add_argument("--w", type=int, default=0)
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--stay", type=int, default=0, help="wait open after so many are stored")
    parser.add_argument("--version", type=int, default=0)
    return parser


def _write(adapter: Adapter, options: Namespace) -> None:
    try:
        with contextlib.suppress(GaveUp):
            adapter.write(options)
    except ThreadkeepError as error:  # not even opening, or what comes between, was possible
        tell("ERR", f"end{options.iter}-{options.w}", 0, type(error).__name__, error.message)
    tell("DONE")


def _verify(adapter: Adapter, options: Namespace) -> None:
    try:
        problems = adapter.show(options.db)
    except ThreadkeepError as error:
        problems = [f"{type(error).__name__}: {error.message}"]
    if problems:
        tell("CHECK fail", len(problems), problems[0])
    else:
        tell("CHECK ok")


_COMMANDS: dict[str, Callable[[Adapter, Namespace], None]] = {
    "write": _write,
    "verify": _verify,
    "old": lambda adapter, options: adapter.old(Path(options.db), options.version),
    "migrate": lambda adapter, options: adapter.migrate(Path(options.db)),
    "fresh": lambda adapter, options: adapter.fresh(Path(options.db), options.version),
}


@contextlib.contextmanager
def bugs_reported() -> Iterator[None]:
    """End the program by a signal when an error that is not one of ours leaves the block."""
    try:
        yield
    except Exception:  # noqa: BLE001
        _report_bug(traceback.format_exc())


def _report_bug(trace: str) -> NoReturn:
    """Note the error where the test looks for it, and end."""
    place = os.environ.get(BUGS)
    if place:
        with Path(place).open("a", encoding="utf-8", errors="backslashreplace") as notes:
            notes.write(f"{' '.join(sys.argv)}\n{trace}\n")
    sys.stderr.write(trace)
    sys.stderr.flush()
    os.abort()
