"""A process that serves a home, and what it says."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conftest import REPO

CHILD = REPO / "tests" / "service" / "serve_child.py"
# Only a test that is broken ever waits this long.
PATIENCE = 60.0


class ServeProcess:
    """A child that serves; killed at the end of its block."""

    def __init__(self, home: Path, user: Path, *more: Path) -> None:
        words = [sys.executable, str(CHILD), str(home), str(user), *map(str, more)]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._held = b""
        self.said: list[str] = []

    @property
    def pid(self) -> int:
        return self.process.pid

    def hear(self) -> str:
        """Wait for the next line; empty when it has ended."""
        assert self.process.stdout is not None
        while b"\n" not in self._held:
            ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
            assert ready, f"it says nothing after {self.said}"
            data = os.read(self.process.stdout.fileno(), 65536)
            if not data:
                return ""
            self._held += data
        line, _, self._held = self._held.partition(b"\n")
        self.said.append(line.decode())
        return self.said[-1]

    def wait_for(self, *wanted: str) -> str:
        """Listen until it has said lines with each of these words; give the last line."""
        missing, line = set(wanted), ""
        while missing:
            line = self.hear()
            assert line, f"it ended without saying {missing}: {self.said} {self.errors()}"
            missing -= {word for word in missing if word in line}
        return line

    def errors(self) -> str:
        """Return what it said on stderr, once it has ended."""
        assert self.process.stderr is not None
        self.process.wait(PATIENCE)
        return self.process.stderr.read().decode()

    def ask_to_end(self) -> int:
        """Ask it to end as a system does; give its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)


@contextmanager
def serving(home: Path, user: Path, *more: Path) -> Iterator[ServeProcess]:
    """Start a process that serves a home; it is killed at the end of the block."""
    child = ServeProcess(home, user, *more)
    try:
        yield child
    finally:
        child.kill()
        for stream in (child.process.stdout, child.process.stderr):
            assert stream is not None
            stream.close()
