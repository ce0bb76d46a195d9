"""The real AI SDK, to be asked what it makes of a stream."""

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.conftest import need_tool
from tests.support.npm import installed_together

VERSIONS = {6: "6.0.326", 7: "7.0.169"}
JUDGE = Path(__file__).with_name("judge.mjs")


def installed_modules(protocol: int) -> Path:
    """Return the node_modules folder with the SDK, installing it first when it is not there."""
    return installed_together(f"ai{protocol}", {"ai": VERSIONS[protocol]})


def judge(cases: Iterable[dict[str, Any]], modules: Path, folder: Path) -> list[dict[str, Any]]:
    """Run the SDK over the cases and give its verdicts (see judge.mjs) in their order."""
    path = folder / "cases.jsonl"
    path.write_text("".join(json.dumps(case) + "\n" for case in cases))
    command = [need_tool("node"), str(JUDGE), str(modules), str(path)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.split(b"\n") if line]
