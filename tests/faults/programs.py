"""Programs at work on a store: an adapter that writes until it is killed, a script of few lines."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.faults import tools


@contextmanager
def writing(store: tools.Store, path: Path, *words: str) -> Iterator["subprocess.Popen[str]"]:
    """Start a writer; it is killed at the end of the block."""
    command = store.command("write", "--db", str(path), *words)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def acknowledged(process: "subprocess.Popen[str]", count: int) -> set[str]:
    """Listen until so many messages were acknowledged; give their keys."""
    keys: set[str] = set()
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("ACK "):
            keys.add(line.split()[1])
        if len(keys) >= count:
            break
    return keys


def run_python(script: str, path: Path, *before: str) -> None:
    """Run a script on a file, in a process of its own."""
    done = subprocess.run(
        [*before, sys.executable, "-c", script, str(path)],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tools.REPO / "src")},
    )
    assert done.returncode == 0, done.stderr
