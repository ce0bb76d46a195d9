"""Logs that were damaged on the disk: nothing crashes, and what can be kept is kept."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.lengths import at_length
from tests.support.mutation import flip_bits, replace_bytes
from tests.support.user_homes import (
    archived,
    assert_sound,
    lines_of,
    made_up_home,
    open_history,
    real_sample,
    settle,
)
from threadkeep.base.json import decode_line
from threadkeep.capture.records import CaptureReport
from threadkeep.errors import Invalid

pytestmark = pytest.mark.slow

RATIOS = (0.001, 0.004, 0.01, 0.05)
Mutate = Callable[[bytes, float, int], bytes]
MUTATIONS: dict[str, Mutate] = {"bits": flip_bits, "bytes": replace_bytes}


def damage(user: Path, mutate: Mutate, seed: int, ratio: float | None = None) -> list[Path]:
    """Damage every file below a folder, each at one of the ratios."""
    rng = random.Random(seed)
    files = sorted(path for path in user.rglob("*") if path.is_file())
    for number, path in enumerate(files):
        share = rng.choice(RATIOS) if ratio is None else ratio
        path.write_bytes(mutate(path.read_bytes(), share, seed + number))
    settle(user)
    return files


def captured(home: Path, user: Path) -> CaptureReport:
    """Capture twice, read everything back, and give the first report."""
    with open_history(home, user) as history:
        report = history.capture()
        again = history.capture()
        assert sum(part.lines for part in again.agents.values()) == 0
        for session in history.sessions(everything=True, limit=100_000):
            list(history.transcript(session))
            list(history.raw(session))
        history.search("the")
        history.usage()
        assert history.coverage().sources
    assert_sound(home / "knowledge.db")
    return report


def is_bad(line: bytes) -> bool:
    try:
        decode_line(line)
    except Invalid:
        return True
    return False


def assert_kept(home: Path, user: Path, report: CaptureReport) -> int:
    """Compare the archive with the line logs, byte for byte but for masked lines; count the bad."""
    store = archived(home / "knowledge.db")
    bad = differing = 0
    for path in user.rglob("*.jsonl*"):
        stored = store.get((str(path), ""))
        if stored is None:  # no log of a program: a list of prompts, a note
            continue
        given = lines_of(path)
        assert len(stored) == len(given), path
        bad += sum(map(is_bad, stored))
        changed = [new for old, new in zip(given, stored, strict=True) if old != new]
        assert all(b"[REDACTED" in new for new in changed), path
        differing += len(changed)
    counted = sum(part.bad_lines for part in report.agents.values())
    assert counted == bad
    assert differing <= sum(part.masked_lines for part in report.agents.values())
    return bad


@pytest.mark.parametrize("mutate", MUTATIONS.values(), ids=list(MUTATIONS))
@pytest.mark.parametrize("ratio", RATIOS)
def test_made_up_logs_of_every_program(tmp_path: Path, mutate: Mutate, ratio: float) -> None:
    user = made_up_home(tmp_path / "user")
    damage(user, mutate, 601, ratio)
    report = captured(tmp_path / "home", user)
    bad = assert_kept(tmp_path / "home", user, report)
    assert bad > 0
    assert sum(part.lines for part in report.agents.values()) > 100


@pytest.mark.slow
def test_real_transcripts_each_damaged_once(shared_data: Path, tmp_path: Path) -> None:
    user = real_sample(shared_data, tmp_path / "user", most=at_length(10**9, 250_000))
    damage(user, MUTATIONS["bits"], 602)
    report = captured(tmp_path / "home", user)
    bad = assert_kept(tmp_path / "home", user, report)
    assert bad > at_length(1000, 100)
    assert report.of("claude-code").errors == {}
    assert report.of("codex").errors == {}


def test_a_broken_database_is_an_error_that_is_written_down(tmp_path: Path) -> None:
    user = made_up_home(tmp_path / "user")
    database = user / ".local" / "share" / "opencode" / "opencode.db"
    whole = database.read_bytes()
    with open_history(tmp_path / "home", user) as history:
        assert history.capture().errors == 0
        for number in range(at_length(60, 15)):
            seed = 700 + number
            mutate = random.Random(seed).choice(list(MUTATIONS.values()))
            database.write_bytes(mutate(whole, random.Random(seed).choice(RATIOS), seed))
            report = history.capture()
            errors = report.of("opencode").errors
            assert all(name.startswith(str(database)) for name in errors)
            covered = {one.name: one for one in history.coverage().sources}["opencode"]
            assert covered.behind == ([str(database)] if errors else [])
            history.search("basket")
        database.write_bytes(whole)
        assert history.capture().errors == 0
        session = history.find("ses_0a")
        assert "Sort the basket by price" in {one.entry.text for one in history.transcript(session)}
    assert_sound(tmp_path / "home" / "knowledge.db")


@pytest.mark.parametrize("cut", [0, 1, 99, 512, 4096, 5000])
def test_a_database_that_was_cut_leaves_what_was_captured(tmp_path: Path, cut: int) -> None:
    user = made_up_home(tmp_path / "user")
    database = user / ".local" / "share" / "opencode" / "opencode.db"
    with open_history(tmp_path / "home", user) as history:
        assert history.capture().errors == 0
        before = list(history.raw(history.find("ses_0a")))
        database.write_bytes(database.read_bytes()[:cut])
        history.capture()
        assert list(history.raw(history.find("ses_0a"))) == before


@given(data=st.binary(max_size=400), ratio=st.floats(0, 0.5), seed=st.integers(0, 2**32))
def test_damage_is_the_same_for_the_same_seed(data: bytes, ratio: float, seed: int) -> None:
    for mutate in MUTATIONS.values():
        first = mutate(data, ratio, seed)
        assert first == mutate(data, ratio, seed)
        assert len(first) == len(data)
