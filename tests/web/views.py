"""A site with something on each of its pages: sessions, one of them hostile, mail, an alarm."""

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

from tests.cli.histories import DEMO, claude_log, said
from tests.web.site import Site, captured_home

HOSTILE = """<script>alert(1)</script><img src=x onerror=alert(2)>"><svg onload=alert(3)>
>>>marked<<< {{ 7*7 }} javascript:alert(4) ]]> </title></textarea> quayside"""
NOW = 1_772_442_000_000


def make_site(folder: Path) -> Site:
    """Make a home with a little of everything, and serve it."""
    user = shutil.copytree(DEMO, folder / "user")
    claude_log(
        user,
        {
            **said("user", HOSTILE),
            "cwd": "/home/demo/<b>code</b>/<i>quay</i>",
            "gitBranch": HOSTILE,
        },
        said("assistant", [{"type": "text", "text": HOSTILE}], 2),
    )
    home = captured_home(folder / "home", user)
    site = Site(home)
    site.run("send-event", "shell", "--cmd", f"make {HOSTILE}", "--exit", "2", "--cwd", "/quay",
             "--duration-ms", "12")  # fmt: skip
    site.run("commands", "--limit", "1")  # which collects it
    site.run("mail", "new", "helper", "--channel", "cli", "--chat", "me")
    site.run("mail", "send", "last", HOSTILE, "--from", HOSTILE)
    site.run("mail", "send", "last", "Report", "--task", "--every", "0 9 * * 1-5")
    site.run("mail", "ack", "last", "2", "--failed", f"not today {HOSTILE}")
    site.run("mail", "sweep", "last")
    with sqlite3.connect(home / "knowledge.db") as db:
        details = {"source": "shell", "since_ms": NOW, "details": HOSTILE}
        db.execute(
            "INSERT INTO capture_alarms (invariant_id, raised_at, details_json) VALUES (?, ?, ?)",
            ("I-1", NOW, json.dumps(details)),
        )
        lesson = ("o/r", "ruff", "F401", "src", HOSTILE, HOSTILE, 3, NOW, NOW)
        db.execute(
            "INSERT INTO lessons (repo, tool, rule_id, path_prefix, summary, fix_hint, occurrences,"
            " first_seen_at, last_seen_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            lesson,
        )
    db.close()
    return site


def twin(site: Site, path: str) -> Any:
    """Return the data of a page."""
    before, mark, after = path.partition("?")
    answer = site.get(f"{'/index' if before == '/' else before}.json{mark}{after}")
    assert answer.status == 200, answer.text
    return answer.json
