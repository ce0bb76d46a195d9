"""kill -9 at random while the history of a machine is captured, or watched while it grows."""

import json
import random
from pathlib import Path

import pytest

from tests.faults.capture_kills import (
    DATABASE,
    SMALL_BATCH,
    capture_under_kills,
    compare,
    lines_below,
    working,
)
from tests.support.user_homes import archived, made_up_home, multiply, real_sample, settle

pytestmark = [pytest.mark.faults, pytest.mark.slow]


def test_killed_at_random_the_store_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    user = multiply(made_up_home(tmp_path / "user"), 12)
    kills, _ = capture_under_kills(tmp_path / "home", user, 4, seed=501)
    assert kills == 4


def test_killed_while_it_learns_it_ends_with_the_same_nodes_and_lessons(tmp_path: Path) -> None:
    user = multiply(made_up_home(tmp_path / "user"), 12)
    kills, _ = capture_under_kills(tmp_path / "home", user, 4, 504, "learn")
    assert kills == 4


def test_the_same_with_real_transcripts(shared_data: Path, tmp_path: Path) -> None:
    user = real_sample(shared_data, tmp_path / "user", most=200_000)
    kills, _ = capture_under_kills(tmp_path / "home", user, 4, seed=502)
    assert kills == 4


# -- watching --------------------------------------------------------------------------------------


class Agents:
    """Programs that write logs: whole lines, lines in two parts, lines still without their end."""

    def __init__(self, user: Path, rng: random.Random) -> None:
        names = [f".claude/projects/-p{n}/5e55000{n}-0000-4000-8000-000000000000" for n in range(3)]
        names += [f".pi/agent/sessions/--p--/2026-05-20T10-00-00-000Z_{n}" for n in range(2)]
        self._logs = [user / f"{name}.jsonl" for name in names]
        self._rng = rng
        self._held: dict[Path, bytes] = {}
        self._said = 0
        for log in self._logs:
            log.parent.mkdir(parents=True, exist_ok=True)
            log.touch()

    def write(self, lines: int) -> None:
        """Append so many lines to logs at random; some stay unfinished until the next time."""
        for _ in range(lines):
            log = self._rng.choice(self._logs)
            self._append(log, self._held.pop(log, b""))
            line = self._line()
            cut = self._rng.choice(
                [len(line), len(line), len(line) - 1, self._rng.randrange(5, 40)]
            )
            self._append(log, line[:cut])
            if cut < len(line):
                self._held[log] = line[cut:]

    def finish(self) -> int:
        """Finish every line; give how many there are."""
        for log, rest in self._held.items():
            self._append(log, rest)
        self._held.clear()
        return self._said

    def _line(self) -> bytes:
        self._said += 1
        message = {"role": "user", "content": f"said {self._said} " + "word " * (self._said % 90)}
        when = (
            f"2026-05-01T{self._said // 3600:02}:{self._said // 60 % 60:02}:{self._said % 60:02}Z"
        )
        about = {"type": "user", "uuid": f"u{self._said}", "timestamp": when, "message": message}
        return json.dumps(about).encode() + b"\n"

    def _append(self, log: Path, data: bytes) -> None:
        with log.open("ab") as file:
            file.write(data)


def test_killed_while_it_watches_nothing_is_lost_and_nothing_kept_twice(tmp_path: Path) -> None:
    rng = random.Random(503)
    user, home = tmp_path / "user", tmp_path / "home"
    agents = Agents(user, rng)
    for _ in range(3):
        with working("watch", home, user, SMALL_BATCH) as worker:
            for _ in range(rng.randrange(1, 6)):
                agents.write(rng.randrange(1, 60))
                assert worker.hear().startswith("have ")
            agents.write(rng.randrange(1, 60))
            worker.kill()
    with working("watch", home, user) as worker:
        agents.write(40)
        worker.wait_for(f"have {agents.finish()}")
    store = archived(home / DATABASE)
    assert {path: store[path, ""] for path in lines_below(user)} == lines_below(user)
    settle(user)
    with working("capture", home, user) as worker:
        worker.wait_for("done 0")
    compare(home, user)
