"""The real AI SDK, to be asked what it makes of a stream."""

import fcntl
import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.conftest import IN_CI, REPO, cannot_run, need_tool

VERSION = "6.0.326"
FOLDER = REPO / ".cache" / "ai-sdk"
JUDGE = Path(__file__).with_name("judge.mjs")


def installed_modules() -> Path:
    """Give the node_modules folder with the SDK, installing it first when it is not there."""
    need_tool("node")
    npm = need_tool("npm")
    modules = FOLDER / "node_modules"
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test processes run side by side
        if _installed_version(modules) != VERSION:
            _install(npm)
    return modules


def _installed_version(modules: Path) -> str | None:
    package = modules / "ai" / "package.json"
    return str(json.loads(package.read_text())["version"]) if package.exists() else None


def _install(npm: str) -> None:
    options = ("--no-save", "--no-audit", "--no-fund")
    command = [npm, "install", "--prefix", str(FOLDER), f"ai@{VERSION}", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    reason = f"needs the npm package ai@{VERSION}, and `npm install` failed (is there a network?)"
    cannot_run(f"{reason}\n{done.stderr}" if IN_CI else reason)


def judge(cases: Iterable[dict[str, Any]], modules: Path, folder: Path) -> list[dict[str, Any]]:
    """Run the SDK over the cases and give its verdicts (see judge.mjs) in their order."""
    path = folder / "cases.jsonl"
    path.write_text("".join(json.dumps(case) + "\n" for case in cases))
    command = [need_tool("node"), str(JUDGE), str(modules), str(path)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.split(b"\n") if line]
