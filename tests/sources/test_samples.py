"""Sessions that real programs wrote, captured and counted: what others counted must come out."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.sources.sample_support import Counts, counts_of, put_sample
from tests.support.user_homes import archived, content, lines_of, open_history
from threadkeep.capture.capture import History
from threadkeep.knowledge.records import CapturedSession

# Sample -> the agent under which its sessions are stored.
SAMPLES = {
    "pi-0.87.1": "pi",
    "copilot-1.0.102": "copilot-cli",
    "gemini-0.61.0": "gemini-cli",
    "openclaw": "pi",
    "kilo": "kilo",
    "qwen-code": "qwen-code",
    "qwen-code-0.15": "qwen-code",
    "kimi-code": "kimi-code",
    "cline": "cline",
    "cline-tasks-handmade": "roo-code",
    "continue": "continue",
    "gptme": "gptme",
    "grok": "grok-build",
    "goose": "goose",
    "llm": "llm",
    "crush": "crush",
    "vscode-copilot": "vscode-copilot",
    "vscode-copilot-oplog": "vscode-copilot",
    "openhands": "openhands",
    "mistral-vibe": "mistral-vibe",
    "amp-handmade": "amp",
    "droid-handmade": "droid",
    "zed-handmade": "zed",
}
SPENT = ("input", "output", "cache_read", "cache_write")
COUNTED = (
    *("prompts", "texts", "thinking", "calls", "results", "errors"),
    *SPENT,
)


# Programs whose documents consist of line logs as well.
REWRITTEN = {"grok-build", "vscode-copilot", "mistral-vibe"}


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
    """Put what was counted as it is stored into the words of this store, by the program's rules."""
    told = {**told}
    if sample == "kilo":
        # Output is with reasoning here. In each turn one call is refused, which was counted, and
        # one command ends with 1, which the program keeps as "completed".
        told["output"] += told["reasoning"]
        told["errors"] *= 2
    if sample == "gemini-0.61.0":
        # Two of the three entries of the user only carry results, which stand inside of the calls
        # as well; what the program calls the total counts thoughts beside the output.
        told.update(prompts=1, results=3, output=180)
    if sample == "goose":  # a thought that further calls of one answer repeat is shown once
        told["thinking"] = told["prompts"] * 3
    if sample == "cline":  # a failure says `success: false` inside of the result, and no more
        told["errors"] = told["prompts"]
    if sample == "mistral-vibe":  # the same counts under the program's own names
        spent = told["tokenUsage"]
        told["input"] = spent["inputTokens"] - spent["cachedInputTokens"]
        told.update(output=spent["outputTokens"], cache_read=spent["cachedInputTokens"])
    if sample == "cline-tasks-handmade":  # the last call is the answer itself
        told["calls"] = told["calls_without_attempt_completion"]
    if told.get("forked_from"):  # all of it was copied: it was spent once, by the other session
        told.update(dict.fromkeys(SPENT, 0))
    return told


def family(sample: str, found: dict[str, CapturedSession]) -> dict[str, CapturedSession]:
    """Name sessions as the expectations do."""
    if sample == "goose":  # the day's number is unique in one database alone
        return {name.partition("@")[0]: session for name, session in found.items()}
    if sample == "vscode-copilot":
        return {f"{name}.json": session for name, session in found.items()}
    return found


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
    if told.get("forked_from") or told.get("parent"):
        assert session.parent_session_id == (told.get("forked_from") or told["parent"])


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_sample_gives_what_others_counted(data: Path, tmp_path: Path, sample: str) -> None:
    user = put_sample(data, sample, tmp_path / "user")
    with open_history(tmp_path / "home", user) as history:
        found = family(sample, captured(history, SAMPLES[sample]))
        wanted = expected(data, sample)
        assert sorted(found) == sorted(wanted)
        for name, told in wanted.items():
            compare(told, found[name], counts_of(history, found[name]))
            assert list(history.raw(found[name]))
        again = history.capture()
        assert [part.lines for part in again.agents.values() if part.lines] == []


LINES = ("qwen-code", "qwen-code-0.15", "kimi-code", "gptme", "droid-handmade", "pi-0.87.1")


@pytest.mark.parametrize("sample", LINES)
def test_every_line_of_a_sample_is_given_back(data: Path, tmp_path: Path, sample: str) -> None:
    user = put_sample(data, sample, tmp_path / "user")
    with open_history(tmp_path / "home", user) as history:
        captured(history, SAMPLES[sample])
    kept = archived(tmp_path / "home" / "knowledge.db")
    logs = {path: lines for (path, item), lines in kept.items() if not item and lines}
    assert len(logs) == len(expected(data, sample))
    for path, lines in logs.items():
        assert lines == lines_of(Path(path)), path


def said(told: dict[str, Any]) -> dict[str, Any]:
    """Give what documents say, without the places at which it is archived."""
    entries = [(*row[:5], *row[7:]) for row in told["entries"]]
    return {"entries": entries, "usage": told["usage"], "segments": told["segments"]}


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
    if SAMPLES[sample] in REWRITTEN:  # each writing of a record is kept; what it says is the same
        one, two = said(one), said(two)
    assert one == two
    assert archived(tmp_path / "one" / "knowledge.db")
