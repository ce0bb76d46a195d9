"""Thousands of commands typed into real shells while the collector is killed again and again."""

import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.capture.observed.terminals import World, make_world
from tests.lengths import at_length
from threadkeep import Home
from threadkeep.base.spool import Spool
from threadkeep.base.tx import Sql

pytestmark = [pytest.mark.faults, pytest.mark.slow]

CHILD = Path(__file__).resolve().parent / "collect_child.py"
COMMANDS = at_length(10_000, 2_500)
KILLS = 3
TYPED_AHEAD = 50


class Killer(threading.Thread):
    """Starts collectors, and kills each after a few of its steps."""

    def __init__(self, home: Path, seed: int) -> None:
        super().__init__(daemon=True)
        self._command = [sys.executable, str(CHILD), str(home)]
        self._rng = random.Random(seed)
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._over = False
        self.kills = 0
        self.ended: list[int] = []

    def run(self) -> None:
        while child := self._begin():
            assert child.stdout is not None
            for _ in range(self._rng.randrange(1, at_length(120, 20))):
                if not child.stdout.readline():
                    break
            child.kill()
            child.wait()
            child.stdout.close()
            self.kills += 1
            if child.returncode != -signal.SIGKILL:
                self.ended.append(child.returncode)

    def _begin(self) -> subprocess.Popen[bytes] | None:
        with self._lock:
            if not self._over:
                self._child = subprocess.Popen(self._command, stdout=subprocess.PIPE)
                return self._child
        return None

    def stop(self) -> None:
        """Kill the last one, and wait for the end."""
        with self._lock:
            self._over = True
            if self._child:
                self._child.kill()
        self.join()


def type_until(world: World, shell: str, enough: Callable[[int], bool]) -> int:
    """Type numbered commands, some ahead of the prompt and some that fail; give how many."""
    typed = 0
    with world.shell(shell) as terminal:
        while not enough(typed):
            numbers = range(typed, typed + TYPED_AHEAD)
            terminal.type("".join(f": n{number}; (( {number} % 3 ))\r" for number in numbers))
            for _ in numbers:
                terminal.prompt()
            typed += TYPED_AHEAD
        terminal.run(": last")
    return typed


@pytest.mark.parametrize("shell", ["zsh", "bash"])
def test_every_command_is_stored_once_whoever_is_killed(tmp_path: Path, shell: str) -> None:
    (tmp_path / "user").mkdir()
    world = make_world(tmp_path / "user")
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "spool").symlink_to(world.spool)
    killer = Killer(home, seed=601)
    killer.start()
    typed = type_until(world, shell, lambda count: count >= COMMANDS and killer.kills >= KILLS)
    killer.stop()
    with Home(home, environ={}).observations() as observations:
        observations.collect()
        with observations.store.context.db.read() as tx:
            rows = tx.all(Sql("SELECT command, exit_code FROM events"))
            tickets = tx.one(Sql("SELECT count(*) FROM enrichment_queue"))
    assert killer.ended == [], "a collector ended by itself"
    assert killer.kills >= KILLS
    stored = Counter(command for command, _ in rows)
    wanted = [f": n{number}; (( {number} % 3 ))" for number in range(typed)]
    assert stored == Counter([*wanted, ": last"])
    codes: dict[str, int] = dict(rows)
    assert all(codes[text] == int(n % 3 == 0) for n, text in enumerate(wanted))
    assert tickets == (typed + 1,)
    assert not [path for path in Spool(world.spool).waiting() if path.name.endswith(".jsonl")]
