"""Runners: what starts and ends the agent of a session."""

import contextlib
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import which
from typing import Final, Protocol, Self

from threadkeep.errors import Invalid

log = logging.getLogger(__name__)

GRACE: Final = 1.0  # seconds between asking a process to end and ending it


class Runner(Protocol):
    """Whatever runs agents: containers, virtual machines, processes."""

    def is_running(self, session: str) -> bool:
        """Tell whether the agent of a session runs."""

    def start(self, session: str, folder: Path) -> bool:
        """Start the agent of a session in its folder; False if it could not be."""

    def stop(self, session: str, reason: str) -> None:
        """End the agent of a session, whatever it does."""


class ProcessRunner:
    """Runs each agent as a process that finds its folder in THREADKEEP_MAIL.

    Where the system has `setpriv`, the processes end when this one dies.
    """

    def __init__(self, command: Sequence[str], environ: Mapping[str, str] | None = None) -> None:
        """Prepare to run a command, with an environment of its own if one is given."""
        if not command:
            raise Invalid("there is no command to run", hint="give the program and its arguments")
        self._command = list(command)
        self._environ = dict(os.environ if environ is None else environ)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._guard = threading.Lock()
        # The system ends the children of a thread that ends, so all are of one that stays.
        self._spawner = ThreadPoolExecutor(1, thread_name_prefix="threadkeep-runner")

    def is_running(self, session: str) -> bool:
        """Tell whether the process of a session runs."""
        process = self._processes.get(session)
        return process is not None and process.poll() is None

    def start(self, session: str, folder: Path) -> bool:
        """Start the process of a session unless it runs; False if no such program."""
        with self._guard:
            if self.is_running(session):
                return True
            if which(self._command[0]) is None:
                log.warning("the agent of %s did not start: no %s", session, self._command[0])
                return False
            self._processes[session] = self._spawner.submit(self._spawn, folder).result()
            return True

    def _spawn(self, folder: Path) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603  (the command is the caller's own)
            [*_tied_to_us(), *self._command],
            env={**self._environ, "THREADKEEP_MAIL": str(folder)},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

    def stop(self, session: str, reason: str) -> None:
        """Ask the process to end, with all it started; after a second, end it."""
        self._stop([session], reason)

    def _stop(self, sessions: Sequence[str], reason: str) -> None:
        """End processes: all are asked at once, and have one second together."""
        with self._guard:
            known = [(name, self._processes.pop(name, None)) for name in sessions]
        ending = [(name, process) for name, process in known if process is not None]
        for name, process in ending:
            log.info("the agent of %s is ended: %s", name, reason)
            _signal_group(process, signal.SIGTERM)
        until = time.monotonic() + GRACE
        for name, process in ending:
            try:
                process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                log.warning("the agent of %s did not end when asked to", name)
            _signal_group(process, signal.SIGKILL)
            process.wait()

    def close(self) -> None:
        """End all processes."""
        self._stop(list(self._processes), "the host ends")
        self._spawner.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _tied_to_us() -> list[str]:
    found = which("setpriv")
    return [] if found is None else [found, "--pdeathsig", "KILL", "--"]


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Signal a process and all it started, which its session holds together."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
