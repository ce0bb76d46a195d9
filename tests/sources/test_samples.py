"""Sessions that real programs wrote, captured and counted: what others counted must come out."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.sources.sample_support import Counts, counts_of, put_sample
from tests.support.user_homes import archived, content, open_history
from threadkeep.capture.capture import History
from threadkeep.knowledge.records import CapturedSession

# Sample -> the agent under which its sessions are stored.
SAMPLES = {
    "pi-0.87.1": "pi",
    "copilot-1.0.102": "copilot-cli",
    "gemini-0.61.0": "gemini-cli",
    "openclaw": "pi",
    "kilo": "kilo",
}
COUNTED = (
    *("prompts", "texts", "thinking", "calls", "results"),
    *("input", "output", "cache_read", "cache_write"),
)


@pytest.fixture
def data(shared_data: Path) -> Path:
    folder = shared_data / "data" / "harness2"
    if not folder.is_dir():
        pytest.skip("needs sessions of real programs in the optional test data (data/harness2)")
    return folder


def expected(data: Path, sample: str) -> dict[str, dict[str, Any]]:
    sessions: dict[str, dict[str, Any]] = json.loads((data / "expected.json").read_text())[
        "sessions"
    ][sample]
    return {name: adapted(sample, told) for name, told in sessions.items()}


def adapted(sample: str, told: dict[str, Any]) -> dict[str, Any]:
    """Put what was counted as it is stored into the words of this store."""
    told = {**told}
    if sample == "kilo":  # output is with reasoning here
        told["output"] += told["reasoning"]
    if sample == "gemini-0.61.0":
        # Counted as stored: one of the three is a prompt, results stand inside of the calls, and
        # thoughts are no part of the output.
        told.update(prompts=1, results=3, output=180)
    return told


def captured(history: History, agent: str) -> dict[str, CapturedSession]:
    report = history.capture()
    assert report.errors == 0
    assert {name: part.unknown for name, part in report.agents.items() if part.unknown} == {}
    sessions = history.sessions(everything=True, limit=1000)
    assert {session.agent for session in sessions} == {agent}
    return {session.session_id: session for session in sessions}


def compare(told: dict[str, Any], session: CapturedSession, counts: Counts) -> None:
    wanted = {name: told[name] for name in COUNTED if name in told}
    assert {name: counts.told()[name] for name in wanted} == wanted, session.session_id
    if told.get("cwd"):
        assert session.cwd == told["cwd"]


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_sample_gives_what_others_counted(data: Path, tmp_path: Path, sample: str) -> None:
    user = put_sample(data, sample, tmp_path / "user")
    with open_history(tmp_path / "home", user) as history:
        found = captured(history, SAMPLES[sample])
        wanted = expected(data, sample)
        assert sorted(found) == sorted(wanted)
        for name, told in wanted.items():
            compare(told, found[name], counts_of(history, found[name]))
            assert list(history.raw(found[name]))
        again = history.capture()
        assert [part.lines for part in again.agents.values() if part.lines] == []


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_sample_that_grows_gives_what_it_gives_at_once(
    data: Path, tmp_path: Path, sample: str
) -> None:
    whole = put_sample(data, sample, tmp_path / "whole")
    grown = tmp_path / "grown"
    shutil.copytree(whole, grown)
    logs = sorted(grown.rglob("*.jsonl"))
    if not logs:
        pytest.skip("it keeps no line logs: a document that changed is read whole")
    for path in logs:
        path.write_bytes(b"")
    with open_history(tmp_path / "one", grown) as history:
        for step in range(1, 8):
            for path in logs:
                lines = (whole / path.relative_to(grown)).read_bytes().splitlines(keepends=True)
                path.write_bytes(b"".join(lines[: (len(lines) * step + 6) // 7]))
            assert history.capture().errors == 0
    with open_history(tmp_path / "two", grown) as history:
        history.capture()
    one, two = (content(tmp_path / name / "knowledge.db") for name in ("one", "two"))
    assert one == two
    assert archived(tmp_path / "one" / "knowledge.db")
