"""Programs as a user would start them, each in a fresh process: CPU, time and memory of it all."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from benchmarks import capture_launch

REPO: Final = Path(__file__).parent.parent
MEGA: Final = 1e6
# What `ru_maxrss` counts in: kilobytes, but for macOS.
_RSS_UNIT: Final = 1 if sys.platform == "darwin" else 1024


class Used(NamedTuple):
    """What one process used, with all those that it started and waited for."""

    cpu: float  # seconds, its own and the kernel's on its behalf
    wall: float  # seconds
    peak: int  # bytes of memory, of the largest process
    output: str


class Failed(Exception):
    """A program that ended with an error."""


def launch(command: Sequence[str], env: Mapping[str, str], cwd: Path = REPO) -> Used:
    """Run a program to its end, with nothing of our environment but the path."""
    with tempfile.TemporaryDirectory() as folder:
        launcher = [sys.executable, "-I", "-S", capture_launch.__file__, folder, *command]
        whole = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", **env}
        found = subprocess.run(
            launcher, env=whole, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        if found.returncode:
            raise Failed(f"{command[0]} could not be started")
        cpu, wall, peak, code = json.loads(found.stdout)
        output = Path(folder, "stdout").read_text("utf-8", "replace")
        if code:
            trouble = Path(folder, "stderr").read_text("utf-8", "replace").strip()
            raise Failed(f"{command[0]}: exit code {code}: {(trouble or output)[-300:]}")
    return Used(cpu, wall, peak * _RSS_UNIT, output)


def ours(order: str, *arguments: str | Path, cache: Path) -> Used:
    """Run one order of `capture_worker`; compiled modules are kept in a folder of the run."""
    command = [sys.executable, "-m", "benchmarks.capture_worker", order, *map(str, arguments)]
    return launch(command, {"HOME": str(cache), "PYTHONPYCACHEPREFIX": str(cache)})


def answer(used: Used) -> Any:
    """Read the line of JSON that one of our workers ends with."""
    return json.loads(used.output.splitlines()[-1])


def middle(runs: Sequence[Used]) -> Used:
    """Take the median of each figure by itself, and the output of the last run."""
    return Used(
        median(run.cpu for run in runs),
        median(run.wall for run in runs),
        int(median(run.peak for run in runs)),
        runs[-1].output,
    )
