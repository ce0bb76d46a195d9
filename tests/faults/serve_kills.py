"""Killing `serve` again and again while agents and shells go on working beside it."""

import json
import random
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from tests.faults.collect_world import end
from tests.support.serving import serving
from tests.support.user_homes import archived, assert_sound, lines_of
from threadkeep.base.processes import is_running
from threadkeep.home.home import Home
from threadkeep.knowledge.queues import QUEUES
from threadkeep.service.learn import enrich

# Whoever is killed later than this has got through all that it begins with.
LONGEST = 2.0
DUPLICATES = """
SELECT count(*) FROM (
  SELECT l.agentic_session_id FROM knowledge_node_agentic_sessions l
  JOIN knowledge_nodes n ON n.id = l.knowledge_node_id
  GROUP BY l.agentic_session_id, n.content, n.embed_text, n.node_type HAVING count(*) > 1)
"""


class Working:
    """An agent that writes transcripts, and a shell that leaves its commands in the spool."""

    def __init__(self, home: Path, user: Path, rng: random.Random) -> None:
        self._projects = user / ".claude" / "projects"
        self._spool = home / "spool"
        self._spool.mkdir(parents=True, mode=0o700)
        self._rng = rng
        self._said = 0
        self.commands: list[str] = []

    def go_on(self) -> None:
        """Write some lines of some sessions, and some commands."""
        for _ in range(self._rng.randrange(1, 30)):
            self._said += 1
            session = f"5e5500{self._rng.randrange(12):02}-0000-4000-8000-000000000000"
            log = self._projects / "-u-app" / f"{session}.jsonl"
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("ab") as file:
                file.write(self._line(session))
        for _ in range(self._rng.randrange(1, 10)):
            self.commands.append(f"make target{len(self.commands)}")
            seq = len(self.commands)
            with (self._spool / f"zsh-{seq % 3}-1.tk").open("ab") as file:
                file.write(end(seq, self.commands[-1], pid=seq % 3 + 1))

    def _line(self, session: str) -> bytes:
        number = self._said
        when = f"2026-05-{1 + number // 3600:02}T10:{number // 60 % 60:02}:{number % 60:02}Z"
        about = {"sessionId": session, "cwd": "/u/app", "timestamp": when, "uuid": f"u{number}"}
        if number % 3:
            says = [{"type": "text", "text": f"I changed src/file{number}.py as you asked."}]
            message = {"role": "assistant", "model": "m", "content": says}
            return json.dumps({"type": "assistant", **about, "message": message}).encode() + b"\n"
        message = {"role": "user", "content": f"please repair the test number {number} in src/a.py"}
        return json.dumps({"type": "user", **about, "message": message}).encode() + b"\n"

    def logs(self) -> dict[str, list[bytes]]:
        """Return the lines of all transcripts, by path."""
        return {str(path): lines_of(path) for path in sorted(self._projects.rglob("*.jsonl"))}


def serve_under_kills(folder: Path, kills: int, seed: int) -> dict[str, int]:
    """Kill `serve` so often at random under load, then look whether everything is right."""
    rng = random.Random(seed)
    home, user = folder / "home", folder / "user"
    working = Working(home, user, rng)
    for _ in range(kills):
        with serving(home, user) as child:
            until = time.monotonic() + rng.uniform(0.2, LONGEST)  # whichever moment it is
            while time.monotonic() < until:
                working.go_on()
                time.sleep(rng.uniform(0, 0.2))
            helpers = children_of(child.pid)
            child.kill()
        while any(map(is_running, helpers)):  # they end by themselves
            time.sleep(0.01)
    return _check(home, user, working)


def children_of(pid: int) -> list[int]:
    """Return the processes that a process started."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(word) for word in task.read_text().split()]
    return found


def _check(home: Path, user: Path, working: Working) -> dict[str, int]:
    database = home / "knowledge.db"
    with serving(home, user) as child:
        child.wait_for("serves")
        _wait_until_captured(child.pid, database, working)
        assert child.ask_to_end() == 0
    assert_sound(database)
    store = archived(database)
    assert {path: store[path, ""] for path in working.logs()} == working.logs()
    with Home(home, environ={"HOME": str(user)}).history(user_home=user) as history:
        left = enrich(Home(home, environ={}), history, at_once=True, tell=lambda _: None)
        assert left.errors == []
    with closing(sqlite3.connect(database)) as connection:
        asked = connection.execute
        commands = asked("SELECT command FROM events WHERE probe_tag IS NULL AND shell = 'zsh'")
        assert sorted(row[0] for row in commands) == sorted(working.commands)
        present = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
        for table in (one for one in QUEUES.values() if one.name in present):
            stuck = f"SELECT count(*) FROM {table.name} WHERE status NOT IN ('done', 'skipped')"
            assert asked(stuck).fetchone() == (0,), table.name
        assert asked(DUPLICATES).fetchone() == (0,)
        nodes = asked("SELECT count(*), count(DISTINCT uuid) FROM knowledge_nodes").fetchone()
    assert nodes[0] == nodes[1] > 0
    lines = sum(map(len, working.logs().values()))
    return {"lines": lines, "commands": len(working.commands), "nodes": nodes[0]}


def _wait_until_captured(pid: int, database: Path, working: Working) -> None:
    wanted = sum(map(len, working.logs().values()))
    while True:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
            lines = connection.execute("SELECT sum(lines) FROM tk_logs").fetchone()[0]
            commands = connection.execute(
                "SELECT count(*) FROM events WHERE probe_tag IS NULL AND shell = 'zsh'"
            ).fetchone()[0]
        if (lines, commands) == (wanted, len(working.commands)):
            return
        assert is_running(pid), "it ended by itself"
        time.sleep(0.05)
