"""Packages from npm, of one pinned version each, for tests that ask another program's opinion."""

import fcntl
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.conftest import IN_CI, REPO, cannot_run, need_tool


def installed(package: str, version: str) -> Path:
    """Return the node_modules folder that holds the package, installing it when it is not there."""
    return installed_together(package, {package: version})


def installed_together(name: str, versions: Mapping[str, str]) -> Path:
    """Return the node_modules folder that holds several packages, under a name of its own."""
    need_tool("node")
    npm = need_tool("npm")
    folder = REPO / ".cache" / name
    folder.mkdir(parents=True, exist_ok=True)
    modules = folder / "node_modules"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test processes run side by side
        if any(_version(modules / package) != version for package, version in versions.items()):
            _install(npm, folder, [f"{package}@{version}" for package, version in versions.items()])
    return modules


def _version(package: Path) -> str | None:
    described = package / "package.json"
    return str(json.loads(described.read_text())["version"]) if described.exists() else None


def _install(npm: str, folder: Path, wanted: list[str]) -> None:
    options = ("--no-save", "--no-audit", "--no-fund")
    command = [npm, "install", "--prefix", str(folder), *wanted, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    reason = f"needs {', '.join(wanted)} from npm, and `npm install` failed (is there a network?)"
    cannot_run(f"{reason}\n{done.stderr}" if IN_CI else reason)
