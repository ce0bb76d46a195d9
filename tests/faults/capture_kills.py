"""Killing a capture again and again: in the end the store must be as if nobody had been killed."""

import os
import random
import select
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.support.user_homes import (
    archived,
    assert_sound,
    content,
    lines_of,
    open_history,
)

HERE = Path(__file__).resolve().parent
SMALL_BATCH = 64 * 1024
# Only a test that is broken ever waits this long.
PATIENCE = 120.0
DATABASE = "knowledge.db"
_LEARNED = {
    "nodes": "SELECT node_type, outcome, content FROM knowledge_nodes",
    "lessons": "SELECT repo, tool, rule_id, path_prefix, occurrences FROM lessons",
    "counted once": "SELECT repo, tool, rule_id, path_prefix, count FROM lesson_pending",
    "tickets": "SELECT status, count(*) FROM agentic_enrichment_queue GROUP BY status",
}


class Worker:
    """A child that captures or watches, and what it says."""

    def __init__(self, role: str, home: Path, user: Path, batch: int) -> None:
        command = [sys.executable, str(HERE / "capture_child.py"), role, str(home), str(user)]
        self.process = subprocess.Popen([*command, str(batch)], stdout=subprocess.PIPE)
        self._held = b""

    def hear(self) -> str:
        """Wait for the next line of the child; empty when it has ended."""
        assert self.process.stdout is not None
        while b"\n" not in self._held:
            ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
            assert ready, "the child says nothing"
            data = os.read(self.process.stdout.fileno(), 65536)
            if not data:
                return ""
            self._held += data
        line, _, self._held = self._held.partition(b"\n")
        return line.decode()

    def wait_for(self, wanted: str) -> None:
        """Listen until the child says something."""
        while (line := self.hear()) != wanted:
            assert line, f"the child ended without saying {wanted!r}"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)


@contextmanager
def working(role: str, home: Path, user: Path, batch: int = SMALL_BATCH) -> Iterator[Worker]:
    """Start a child; it is killed at the end of the block."""
    worker = Worker(role, home, user, batch)
    try:
        yield worker
    finally:
        worker.kill()
        assert worker.process.stdout is not None
        worker.process.stdout.close()


def capture_under_kills(
    home: Path, user: Path, kills: int, seed: int, role: str = "capture"
) -> tuple[int, int]:
    """Capture until it is done, killed so often at random; tell the kills and the fresh starts.

    A child that got through is followed by one on an empty store: kills must hit work. With
    `learn` as its role the child makes nodes and lessons, too.
    """
    rng, same = random.Random(seed), compare if role == "capture" else compare_learned
    done, rounds, steps = 0, 1, 0
    while done < kills:
        with working(role, home, user) as worker:
            finished = _let_work(worker, rng)
            worker.kill()
        done += not finished
        steps += 1
        if finished and done < kills:
            same(home, user)
            _remove(home)
            rounds += 1
        assert steps < 10 * kills + 10, "it is never killed in its work"
    with working(role, home, user) as worker:
        worker.wait_for("done 0")
    same(home, user)
    return done, rounds


def _let_work(worker: Worker, rng: random.Random) -> bool:
    """Let a child go some steps, or less than one; tell whether it came to its end."""
    for _ in range(int(2 ** rng.uniform(0, 7))):
        line = worker.hear()
        if line.startswith("done"):
            return True
        assert line, "the child ended by itself"
    time.sleep(rng.uniform(0, 0.02))  # into a step: whichever moment it is, the result must hold
    return False


def _remove(home: Path) -> None:
    for path in home.glob(f"{DATABASE}*"):
        path.unlink()


def compare(home: Path, user: Path) -> None:
    """Compare a store with what an undisturbed run makes of the same logs."""
    assert_sound(home / DATABASE)
    calm = home.parent / "calm"
    if not calm.exists():
        with open_history(calm, user) as history:
            assert history.capture().errors == 0
    expected, found = content(calm / DATABASE), content(home / DATABASE)
    for name, rows in expected.items():
        assert found[name] == rows, f"{name}: {first_difference(found[name], rows)}"
    assert archived(home / DATABASE) == archived(calm / DATABASE)


def compare_learned(home: Path, user: Path) -> None:
    """Compare the nodes and lessons of a store with those of an undisturbed run."""
    assert_sound(home / DATABASE)
    calm = home.parent / "calm-learned"
    if not calm.exists():
        with working("learn", calm, user) as worker:
            worker.wait_for("done 0")
    expected = _learned(calm / DATABASE)
    assert expected["nodes"]
    assert _learned(home / DATABASE) == expected
    assert archived(home / DATABASE) == archived(calm / DATABASE)


def _learned(database: Path) -> dict[str, list[tuple[object, ...]]]:
    with closing(sqlite3.connect(database)) as connection:
        return {name: sorted(connection.execute(sql)) for name, sql in _LEARNED.items()}


def first_difference(found: list[tuple[object, ...]], wanted: list[tuple[object, ...]]) -> str:
    """Say how two lists of rows differ."""
    extra = [row for row in found if row not in wanted][:1]
    missing = [row for row in wanted if row not in found][:1]
    return f"{len(found)} rows for {len(wanted)}; too many: {extra}; missing: {missing}"[:2000]


def lines_below(user: Path) -> dict[str, list[bytes]]:
    """Return the lines of all line logs below a folder, by path."""
    return {str(path): lines_of(path) for path in sorted(user.rglob("*.jsonl"))}
