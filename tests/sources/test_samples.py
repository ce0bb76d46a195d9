"""Sessions that real programs wrote, captured and counted: what others counted must come out."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.sources.sample_support import Counts, counts_of, look, put_sample
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

UNNAMED = "New session - "  # what Kilo calls a session that has no title yet

# Programs whose documents consist of line logs as well.
REWRITTEN = {"grok-build", "vscode-copilot", "mistral-vibe"}


@pytest.fixture
def data(shared_data: Path) -> Path:
    folder = shared_data / "data" / "harness2"
    if not folder.is_dir():
        pytest.skip("needs sessions of real programs in the optional test data (data/harness2)")
    return folder


def expected(data: Path, sample: str) -> dict[str, dict[str, Any]]:
    everything = json.loads((data / "expected.json").read_text())["sessions"]
    sessions: dict[str, dict[str, Any]] = everything[sample]
    for session, told in sessions.items():
        told["session"] = session
        if sample in CONVERSIONS:
            CONVERSIONS[sample](data, told)
    return sessions


# ------------------------------------------------------------------------------
# Where the expectations count something else than this store does. Each rule counts the difference
# in the program's own file, so it holds for other sessions of the program as well.

Told = dict[str, Any]


def of_gemini(data: Path, told: Told) -> None:
    """Take off entries of the user that only carry results: those stand in the calls as well.

    What the model thought is output, which the program counts beside it.
    """
    records = map(json.loads, (data / told["file"]).read_text().splitlines())
    entries = {one["id"]: one for one in records if "id" in one}.values()
    asked = [one["content"] for one in entries if one["type"] == "user"]
    told["prompts"] -= sum(all("functionResponse" in part for part in parts) for parts in asked)
    calls = [call for one in entries for call in one.get("toolCalls", ())]
    told["results"] = sum("result" in call for call in calls)
    told["output"] += sum(one.get("tokens", {}).get("thoughts", 0) for one in entries)


def of_kilo(data: Path, told: Told) -> None:
    """Add the thoughts to the output, and a command that failed, which it keeps as completed."""
    told["output"] += told["reasoning"]
    for (part,) in asked_of(data / told["file"], "SELECT data FROM part", told):
        state = json.loads(part).get("state", {})
        told["errors"] += state.get("metadata", {}).get("exit", 0) != 0


def of_goose(data: Path, told: Told) -> None:
    """Take off the thoughts that each further call of one answer repeats."""
    before = ""
    sql = "SELECT role, content_json FROM messages"
    for role, stored in asked_of(data / told["file"], sql, told):
        blocks = json.loads(stored)
        if role == "assistant":
            thought = next((one["thinking"] for one in blocks if "thinking" in one), "")
            told["thinking"] -= bool(thought) and thought == before
            before = thought or before
        elif not any(one["type"] == "toolResponse" for one in blocks):
            before = ""


def of_cline(data: Path, told: Told) -> None:
    """Add the failures: each says `success: false` inside of its result, and nothing else."""
    messages = json.loads((data / told["file"]).read_text())["messages"]
    blocks = [block for one in messages for block in one["content"]]
    results = [block["content"] for block in blocks if block["type"] == "tool_result"]
    told["errors"] += sum(any(not one["success"] for one in answers) for answers in results)


def of_kimi(data: Path, told: Told) -> None:
    """Count what a fork copied once, in the session that spent it."""
    if told["forked_from"]:
        own = (data / told["file"]).read_text().splitlines()
        other = (data / told["file"].replace(told["session"], told["forked_from"])).read_text()
        names = ("inputOther", "output", "inputCacheRead", "inputCacheCreation")
        for record in map(json.loads, set(own) & set(other.splitlines())):
            if record["type"] == "usage.record":
                for counted, name in zip(SPENT, names, strict=True):
                    told[counted] -= record["usage"][name]


def of_vibe(_: Path, told: Told) -> None:
    """Read the same counts under the program's own names; its input is with the cache."""
    spent = told["tokenUsage"]
    told["input"] = spent["inputTokens"] - spent["cachedInputTokens"]
    told.update(output=spent["outputTokens"], cache_read=spent["cachedInputTokens"])


def of_tasks(_: Path, told: Told) -> None:
    """Take the last call as the answer that it holds."""
    told["calls"] = told["calls_without_attempt_completion"]


CONVERSIONS: dict[str, Callable[[Path, Told], None]] = {
    "gemini-0.61.0": of_gemini,
    "kilo": of_kilo,
    "goose": of_goose,
    "cline": of_cline,
    "kimi-code": of_kimi,
    "mistral-vibe": of_vibe,
    "cline-tasks-handmade": of_tasks,
}


def asked_of(path: Path, sql: str, told: Told) -> list[tuple[Any, ...]]:
    """Ask a program's database about one session."""
    with closing(sqlite3.connect(f"file:{path}?immutable=1", uri=True)) as connection:
        found = connection.execute(f"{sql} WHERE session_id = ? ORDER BY id", (told["session"],))
        return found.fetchall()


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
    if told.get("title") and not told["title"].startswith(UNNAMED):
        assert session.title == told["title"]
    if told.get("model"):
        assert session.model == told["model"]
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


@pytest.mark.parametrize("sample", ["iflow", "cline-repo-fixture"])
def test_a_sample_that_nobody_counted_has_no_loose_end(
    data: Path, tmp_path: Path, sample: str
) -> None:
    (seen,) = look(put_sample(data, sample, tmp_path / "user"), tmp_path / "home").values()
    assert seen.unknown == {}
    assert sorted(seen.answered) == sorted(own for own, _ in seen.calls)
    assert {"prompt", "text", "tool_call"} <= {kind for kind, _ in seen.said}


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
    """Return what documents say, without the places at which it is archived."""
    entries = [(*row[:5], *row[7:]) for row in told["entries"]]
    return {"entries": entries, "usage": told["usage"], "segments": told["segments"]}


# Documents and databases alone: one that changed is read whole.
WHOLE = {
    *("openclaw", "kilo", "cline", "cline-tasks-handmade", "continue", "goose", "llm", "crush"),
    *("vscode-copilot", "openhands", "amp-handmade", "zed-handmade"),
}


@pytest.mark.parametrize("sample", sorted(SAMPLES.keys() - WHOLE))
def test_a_sample_that_grows_gives_what_it_gives_at_once(
    data: Path, tmp_path: Path, sample: str
) -> None:
    whole = put_sample(data, sample, tmp_path / "whole")
    grown = tmp_path / "grown"
    shutil.copytree(whole, grown)
    logs = sorted(grown.rglob("*.jsonl"))
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
