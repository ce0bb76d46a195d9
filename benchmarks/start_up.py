"""`start`: CPU of short commands, each in a fresh process, to that of Python with what they need.

`bare` is Python with click and sqlite3, as far as any command line on a database gets. All run in
turn, bytecode cached. What modules cost by themselves is told by `-X importtime`.
"""

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import median
from typing import Final

from benchmarks.capture_corpus import build
from benchmarks.capture_run import REPO, Used, launch
from benchmarks.measure import in_turn
from benchmarks.place import Place
from benchmarks.report import Goal, Result, Table, figure, ratio, times

_BARE: Final = "bare"
_CAPTURE: Final = "capture, nothing new"
_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "--help": ("--help",),
    "sessions": ("sessions",),
    "search": ("search", "harbor"),
    "usage statusline": ("usage", "statusline"),
    _CAPTURE: ("capture", "--quiet"),
}
_MCP: Final = "mcp, initialize answered"
# The goals were set where bare Python took 55 ms; those of one log count a whole corpus.
_GOALS: Final = {
    "--help": 60 / 55,
    "sessions": 120 / 55,
    "search": 120 / 55,
    "usage statusline": 100 / 55,
}
_SECONDS: Final = {_CAPTURE: 0.25, _MCP: 0.3}
_SHOWN: Final = 12  # modules of each command
_HELLO: Final = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-03-26",
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    },
}
# Asks the server for its first answer, and ends it: what is counted is its CPU until then.
_ASK: Final = """
import os, subprocess, sys
server = subprocess.Popen(
    [sys.executable, "-m", "threadkeep", "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
server.stdin.write(sys.argv[1].encode() + b"\\n")
server.stdin.flush()
assert server.stdout.readline()
server.kill()
server.wait()
"""


def run(place: Place) -> Result:
    """Capture a corpus once, then start every command in turn."""
    with place.fresh() as folder:
        corpus = build(folder / "user", place.either(8, 1))
        logs = sum(1 for _ in corpus.home.rglob("*.jsonl"))
        env = {
            "HOME": str(corpus.home),
            "THREADKEEP_HOME": str(folder / "home"),
            "PYTHONPATH": str(REPO / "src"),
            "PYTHONPYCACHEPREFIX": str(place.folder.parent / "bench-start-cache"),
        }
        ways = {
            _BARE: partial(_python, env, "-c", "import click, sqlite3"),
            **{name: partial(_typed, env, words) for name, words in _WORDS.items()},
            _MCP: partial(_python, env, "-c", _ASK, json.dumps(_HELLO)),
        }
        ways[_CAPTURE]()  # all of it
        in_turn(ways, 1)  # compiles what is not compiled yet, looks prices up
        found = in_turn(ways, place.either(15, 7))
        modules = {name: _imports(env, words) for name, words in _WORDS.items()}
    return Result([_table(found, logs), *_modules(modules)], _goals(found, logs))


def _python(env: Mapping[str, str], *words: str) -> Used:
    return launch([sys.executable, *words], env)


def _typed(env: Mapping[str, str], words: Sequence[str]) -> Used:
    return _python(env, "-m", "threadkeep", *words)


def _imports(env: Mapping[str, str], words: Sequence[str]) -> list[tuple[int, str]]:
    """Return the microseconds that each module took by itself, the least of five starts."""
    least: dict[str, int] = defaultdict(lambda: sys.maxsize)
    command = [sys.executable, "-X", "importtime", "-m", "threadkeep", *words]
    for _ in range(5):
        done = subprocess.run(command, env={**env}, cwd=REPO, capture_output=True, check=False)
        for line in done.stderr.decode("utf-8", "replace").splitlines():
            own, bar, rest = line.removeprefix("import time:").partition("|")
            if bar and own.strip().isdigit():
                name = rest.partition("|")[2].strip()
                least[name] = min(least[name], int(own))
    return sorted(((took, name) for name, took in least.items()), reverse=True)


# ------------------------------------------------------------------ what is shown


def _table(found: Mapping[str, Sequence[Used]], logs: int) -> Table:
    bare = _cpu(found[_BARE])
    rows = [
        (name, figure(_cpu(runs) * 1e3), times(ratio(_cpu(runs), bare)), figure(_wall(runs) * 1e3))
        for name, runs in found.items()
    ]
    columns = ("command", "CPU ms", "to bare", "ms")
    note = f"{logs:,} logs captured; bytecode cached; {len(found[_BARE])} starts each, in turn"
    return Table("start: commands in fresh processes", columns, rows, note)


def _modules(found: Mapping[str, Sequence[tuple[int, str]]]) -> list[Table]:
    return [
        Table(
            f"start: what {name} loads, {sum(took for took, _ in each) / 1e3:.0f} ms in all",
            ("module", "ms"),
            [(module, figure(took / 1e3, 2)) for took, module in each[:_SHOWN]],
        )
        for name, each in found.items()
    ]


def _goals(found: Mapping[str, Sequence[Used]], logs: int) -> list[Goal]:
    bare = _cpu(found[_BARE])
    goals = [
        Goal(f"start: CPU of {name} to bare", limit, ratio(_cpu(found[name]), bare))
        for name, limit in _GOALS.items()
    ]
    for name, limit in _SECONDS.items():
        what = f"{name}, {logs:,} logs" if name == _CAPTURE else name
        goals.append(Goal(f"start: CPU of {what}", limit, _cpu(found[name]), " s"))
    return goals


def _cpu(runs: Sequence[Used]) -> float:
    return median(run.cpu for run in runs)


def _wall(runs: Sequence[Used]) -> float:
    return median(run.wall for run in runs)
