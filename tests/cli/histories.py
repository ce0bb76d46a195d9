"""Logs of agents to capture: the bundled demo, and small ones made on the spot."""

import atexit
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from tests.cli.conftest import Run
from tests.conftest import REPO

CLAUDE = "5f0c2a7e-41d3-4c1b-9a52-0c6d1be2a901"
CODEX = "019caf10-5a20-7c31-8b40-6e1f0a9d2c01"
HARNESSES = [
    *("aider", "claude-code", "codex", "copilot-cli"),
    *("cursor", "gemini-cli", "opencode", "pi"),
]
LONG_AGO = 1_760_000_000


def _small_demo() -> Path:
    """Copy one session of each agent from the bundled demo: few enough to be counted by hand."""
    folder = Path(tempfile.mkdtemp(prefix="demo-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)

    def others(place: str, names: list[str]) -> list[str]:
        kept = {CLAUDE, f"{CLAUDE}.jsonl"}
        if Path(place).parent.name != "projects" or ".claude" not in place:
            return [n for n in names if n.startswith("-home-demo-") and not n.endswith("-harbor")]
        return [name for name in names if name not in kept]

    whole = REPO / "src" / "threadkeep" / "demo" / "history"
    return shutil.copytree(whole, folder / "home", ignore=others)


DEMO = _small_demo()


def captured(run: Run) -> Run:
    """Return a home into which the demo was captured: a copy of one that is made once."""
    made = DEMO.parent / "captured"
    if not made.exists():
        run("--home", str(made), "capture", "--quiet", "--user-home", str(DEMO))
    shutil.copytree(made, os.environ["THREADKEEP_HOME"], dirs_exist_ok=True)
    return run


def said(role: str, content: Any, number: int = 1) -> dict[str, Any]:
    """Make a record of Claude Code."""
    return {
        "type": role,
        "uuid": f"u-{number}",
        "timestamp": f"2026-03-01T10:00:{number:02}.000Z",
        "cwd": "/home/demo/code/quay",
        "message": {"role": role, "content": content},
    }


def claude_log(user: Path, *records: Any, name: str = "made-up-1") -> Path:
    """Write a session of Claude Code below a user's home; a text is a line as it is."""
    path = user / ".claude" / "projects" / "-home-demo-code-quay" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [one if isinstance(one, str) else json.dumps(one) for one in records]
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    os.utime(path, (LONG_AGO, LONG_AGO))
    return path
